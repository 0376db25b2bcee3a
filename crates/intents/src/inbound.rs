//! Inbound intents: the fields of ONAP and EMCO with all their names, and the rules between fields.

use std::{ops::RangeInclusive, time::Duration};

use fairway_model::{
    Name, Secret,
    intent::{
        AccessRule, HashKey, Inbound, LoadBalancing, Protocol, ServiceAccount, ServiceMesh, SimpleBalancing, TlsMode,
        Traffic,
    },
};

use super::{
    certificates,
    common::{self, LABEL_MAX, metadata},
    fields::{Body, Field, Table},
    gslb::{self, PORTS, word_of},
    json_wire::Json,
    values::{Errors, below, invalid, list, text},
};
use fairway_config::show_duration;

/// Every field of an inbound intent.
pub(super) static TABLE: Table = Table::of(&[common::METADATA, SPEC, TRAFFIC, certificates::SERVICE, gslb::FIELDS]);

const SPEC: &[Field] = &[
    Field::named("spec.app", &["application"]),
    Field::named("spec.serviceName", &["inboundservicename"]),
    Field::plain("spec.appLabel"),
    Field::plain("spec.externalName"),
    Field::plain("spec.localDomain"),
    Field::plain("spec.publicDomain"),
    Field::plain("spec.port"),
    Field::plain("spec.protocol"),
    Field::plain("spec.headless"),
    Field::plain("spec.externalSupport"),
    // `traffic-weeight` is the spelling of the wiki's example.
    Field::named("spec.trafficWeight", &["weight", "trafficweeight"]),
    Field::plain("spec.serviceMesh"),
    Field::homed("spec.sidecarProxy", &["spec.management"], &["istioproxy", "sidecarproxy"]),
    Field::homed("spec.tlsMode", &["spec.management"], &["mutualtls", "tlstype", "tlsmode"]),
    Field::homed("spec.access.namespaces", &["spec"], &["namespaces"]),
    Field::homed("spec.access.serviceAccounts", &["spec"], &["serviceaccountaccess", "serviceaccounts"]),
];

/// Groups of traffic fields: of the first wiki page, and of the later one.
const GROUPS: &[&str] =
    &["spec.trafficmanagementinfo", "spec.trafficmanagement", "spec.istio.loadbalancing", "spec.istio.circuitbreaking"];

const TRAFFIC: &[Field] = &[
    Field::homed("spec.traffic.lbType", GROUPS, &["loadbalancingtype", "loadbalancertype", "lbtype"]),
    Field::homed("spec.traffic.lbMode", GROUPS, &["loadbalancermode", "loadbalancingmode", "lbmode"]),
    Field::homed("spec.traffic.httpCookie", GROUPS, &["httpcookie"]),
    Field::homed("spec.traffic.httpHeader", GROUPS, &["httpheader", "httpheadername"]),
    Field::homed("spec.traffic.minimumRingSize", GROUPS, &["minimumringsize"]),
    Field::homed("spec.traffic.maxConnections", GROUPS, &["maxconnections"]),
    Field::homed("spec.traffic.http2MaxRequests", GROUPS, &["concurrenthttp2requests", "http2maxrequests"]),
    Field::homed(
        "spec.traffic.maxRequestsPerConnection",
        GROUPS,
        &["httprequestperconnection", "httprequestsperconnection", "maxrequestsperconnection"],
    ),
    Field::homed("spec.traffic.consecutiveErrors", GROUPS, &["consecutiveerrors", "consecutive5xxerrors"]),
    Field::homed("spec.traffic.baseEjectionTime", GROUPS, &["baseejectiontime"]),
    Field::homed("spec.traffic.sweepInterval", GROUPS, &["intervalsweep", "sweepinterval"]),
];

/// Parses an inbound intent. `stored` is the private key of the object that it replaces.
pub(super) fn read(body: &mut Body<'_>, stored: Option<&Secret>) -> Option<Inbound> {
    let count = 0..=u64::from(u32::MAX);
    let inbound = Inbound {
        metadata: metadata(body)?,
        app: body.needed_text("spec.app", LABEL_MAX, "\"shop\""),
        service_name: body.needed_text("spec.serviceName", LABEL_MAX, "\"shop\""),
        app_label: common::label(body, "spec.appLabel"),
        external_name: domain(body, "spec.externalName"),
        local_domain: domain(body, "spec.localDomain"),
        public_domain: domain(body, "spec.publicDomain"),
        port: body.whole("spec.port", PORTS),
        protocol: body.word("spec.protocol", PROTOCOLS),
        headless: body.flag("spec.headless"),
        external_support: body.flag("spec.externalSupport"),
        traffic_weight: body.whole("spec.trafficWeight", 0..=100),
        service_mesh: body.word("spec.serviceMesh", MESHES).unwrap_or_default(),
        sidecar_proxy: body.flag("spec.sidecarProxy"),
        tls_mode: body.word("spec.tlsMode", TLS_MODES).unwrap_or_default(),
        traffic: Traffic {
            balancing: balancing(body),
            max_connections: body.whole("spec.traffic.maxConnections", count.clone()),
            http2_max_requests: body.whole("spec.traffic.http2MaxRequests", count.clone()),
            max_requests_per_connection: body.whole("spec.traffic.maxRequestsPerConnection", count),
            consecutive_errors: body.whole("spec.traffic.consecutiveErrors", 1..=10_000),
            base_ejection_time: body.duration("spec.traffic.baseEjectionTime", SPANS),
            sweep_interval: body.duration("spec.traffic.sweepInterval", SPANS),
        },
        certificates: certificates::read(body, stored),
        namespaces: body.list("spec.access.namespaces", 256, |json| text(json, LABEL_MAX)),
        service_accounts: body.read("spec.access.serviceAccounts", service_accounts).unwrap_or_default(),
        gslb: gslb::read(body),
    };
    check_rules(body, &inbound);
    Some(inbound)
}

/// Checks the rules between fields.
fn check_rules(body: &mut Body<'_>, inbound: &Inbound) {
    if inbound.traffic != Traffic::default() && !inbound.sidecar_proxy {
        body.error_at(
            "spec.sidecarProxy",
            "traffic management (load balancing, circuit breaking) needs a sidecar proxy; write \"sidecarProxy\": true, or remove it",
        );
    }
    if inbound.tls_mode == TlsMode::Mutual && inbound.certificates.ca.is_empty() {
        let detail = "MUTUAL requires a CA for the certificates of clients; add it (PEM), or write SIMPLE";
        body.error_at("spec.certificates.ca", detail);
    }
    let mutual = matches!(inbound.tls_mode, TlsMode::Mutual | TlsMode::IstioMutual);
    if inbound.protocol == Some(Protocol::Udp) && mutual {
        body.error_at("spec.tlsMode", "UDP has no TLS; write NONE, or another protocol");
    }
}

/// Parses a domain name, a label, or an address.
pub(super) fn domain(body: &mut Body<'_>, path: &'static str) -> String {
    let name = body.read(path, |json| {
        let text = text(json, 255)?;
        match text.parse::<Name>() {
            Ok(_) if !text.contains(char::is_whitespace) => Ok(text),
            Ok(_) => invalid(format!("{text:?} has spaces; write a domain name, like shop.gslb.example")),
            Err(error) => invalid(error.to_string()),
        }
    });
    name.unwrap_or_default()
}

/// Parses the load balancing between instances, and checks that type, mode and hash key agree.
fn balancing(body: &mut Body<'_>) -> Option<LoadBalancing> {
    let kind = body.word("spec.traffic.lbType", TYPES);
    let mode = body.word("spec.traffic.lbMode", LB_MODES);
    let cookie = body.text("spec.traffic.httpCookie", LABEL_MAX);
    let header = body.text("spec.traffic.httpHeader", LABEL_MAX);
    let ring = body.whole("spec.traffic.minimumRingSize", 1..=8_388_608);
    for (path, said, fits) in [
        ("spec.traffic.httpCookie", !cookie.is_empty(), mode == Some(LbMode::Cookie)),
        ("spec.traffic.httpHeader", !header.is_empty(), mode == Some(LbMode::Header)),
        ("spec.traffic.minimumRingSize", ring.is_some(), mode == Some(LbMode::Ring)),
    ] {
        let name = path.rsplit('.').next().unwrap_or_default();
        match (said, fits) {
            (true, false) => {
                body.error_at(path, format!("has an effect only if lbMode is {name}; remove it, or set lbMode"))
            }
            (false, true) => body.error_at(path, format!("is missing: lbMode {name} requires it; add it")),
            _ => {}
        }
    }
    let Some(mode) = mode else {
        if kind.is_some() {
            body.error_at(
                "spec.traffic.lbMode",
                "is missing: a type requires a mode; add one, for example \"ROUND_ROBIN\"",
            );
        }
        return None;
    };
    let hashed = !matches!(mode, LbMode::Simple(_));
    if kind.is_some_and(|consistent| consistent != hashed) {
        let (is, fits) = if hashed { ("Simple", "consistentHash") } else { ("consistentHash", "Simple") };
        body.error_at("spec.traffic.lbMode", format!("is not a mode of {is}; choose another mode, or the type {fits}"));
    }
    Some(match mode {
        LbMode::Cookie => LoadBalancing::ConsistentHash(HashKey::Cookie(cookie)),
        LbMode::Header => LoadBalancing::ConsistentHash(HashKey::Header(header)),
        LbMode::Ring => LoadBalancing::ConsistentHash(HashKey::MinimumRingSize(ring.unwrap_or(1))),
        LbMode::SourceIp => LoadBalancing::ConsistentHash(HashKey::SourceIp),
        LbMode::Simple(simple) => LoadBalancing::Simple(simple),
    })
}

/// Parses service accounts: `[{"name": …, "rules": [{"method": …, "path": …}]}]`, or the wiki's map of accounts to lists of `ACTION: URI`.
fn service_accounts(json: &Json) -> Result<Vec<ServiceAccount>, Errors> {
    if let Json::Map(entries) = json {
        return accounts_by_name(entries);
    }
    let many = list(json, 256, |json| match json {
        Json::Map(entries) if json.get("name").is_some() || json.get("rules").is_some() => {
            if let Some((key, _)) = entries.iter().find(|(key, _)| key != "name" && key != "rules") {
                return invalid(format!("unknown field {key:?}; an account has name and rules"));
            }
            let name = json.get("name").map_or_else(
                || invalid("name is missing; write the name of the account"),
                |name| text(name, LABEL_MAX),
            )?;
            let rules = json.get("rules").map(|rules| list(rules, 256, rule)).transpose();
            let rules = rules.map_err(|errors| below("/rules", errors))?.unwrap_or_default();
            Ok(vec![ServiceAccount { name, rules }])
        }
        Json::Map(entries) => accounts_by_name(entries),
        other => invalid(format!("{} is not an account; write {{\"name\": \"sa1\", \"rules\": []}}", other.what())),
    })?;
    Ok(many.into_iter().flatten().collect())
}

fn accounts_by_name(entries: &[(String, Json)]) -> Result<Vec<ServiceAccount>, Errors> {
    let account = |(name, rules): &(String, Json)| {
        let pointer = super::error::step(name);
        let rules = list(&as_list(rules), 256, |json| match json {
            Json::Map(pairs) => pairs.iter().map(|(method, path)| pair(method, path)).collect::<Result<Vec<_>, _>>(),
            other => invalid(format!("{} is not a rule; write {{\"GET\": \"/status\"}}", other.what())),
        });
        let rules = rules.map_err(|errors| below(&pointer, errors))?;
        Ok(ServiceAccount { name: name.clone(), rules: rules.into_iter().flatten().collect() })
    };
    entries.iter().map(account).collect()
}

/// Returns a list of one element for a single map of rules.
fn as_list(json: &Json) -> Json {
    if matches!(json, Json::Map(_)) { Json::List(vec![json.clone()]) } else { json.clone() }
}

fn rule(json: &Json) -> Result<AccessRule, Errors> {
    match (json, json.get("method"), json.get("path")) {
        (Json::Map(entries), Some(Json::Text(method)), Some(path)) if entries.len() == 2 => pair(method, path),
        (Json::Map(entries), None, None) if entries.len() == 1 => pair(&entries[0].0, &entries[0].1),
        _ => invalid(format!("{} is not a rule; write {{\"method\": \"GET\", \"path\": \"/status\"}}", json.what())),
    }
}

fn pair(method: &str, path: &Json) -> Result<AccessRule, Errors> {
    let path = text(path, 1_024)?;
    let plain = !method.is_empty() && method.len() <= 32 && method.bytes().all(|byte| byte.is_ascii_alphabetic());
    let method = method.to_ascii_uppercase();
    if plain {
        Ok(AccessRule { method, path })
    } else {
        invalid(format!("{method:?} is not an HTTP method; write it like GET"))
    }
}

/// Returns the canonical form of `spec`.
pub(super) fn write(inbound: &Inbound, certificates: Json) -> Json {
    let traffic = &inbound.traffic;
    let number = |number: Option<u32>| Json::from(number.map(u64::from));
    let show = |duration: Option<Duration>| Json::from(duration.map(show_duration));
    let (kind, mode, cookie, header, ring) = write_balancing(traffic.balancing.as_ref());
    let accounts = inbound.service_accounts.iter().map(|account| {
        let rules = account
            .rules
            .iter()
            .map(|rule| Json::map([("method", rule.method.as_str().into()), ("path", rule.path.as_str().into())]));
        Json::map([("name", account.name.as_str().into()), ("rules", Json::List(rules.collect()))])
    });
    Json::map([
        ("app", inbound.app.as_str().into()),
        ("serviceName", inbound.service_name.as_str().into()),
        ("appLabel", inbound.app_label.as_str().into()),
        ("externalName", inbound.external_name.as_str().into()),
        ("localDomain", inbound.local_domain.as_str().into()),
        ("publicDomain", inbound.public_domain.as_str().into()),
        ("port", inbound.port.map(u64::from).into()),
        ("protocol", word_of(PROTOCOLS, inbound.protocol)),
        ("headless", inbound.headless.into()),
        ("externalSupport", inbound.external_support.into()),
        ("trafficWeight", inbound.traffic_weight.map(u64::from).into()),
        ("serviceMesh", word_of(MESHES, Some(inbound.service_mesh))),
        ("sidecarProxy", inbound.sidecar_proxy.into()),
        ("tlsMode", word_of(TLS_MODES, Some(inbound.tls_mode))),
        (
            "traffic",
            Json::map([
                ("lbType", kind),
                ("lbMode", mode),
                ("httpCookie", cookie),
                ("httpHeader", header),
                ("minimumRingSize", ring),
                ("maxConnections", number(traffic.max_connections)),
                ("http2MaxRequests", number(traffic.http2_max_requests)),
                ("maxRequestsPerConnection", number(traffic.max_requests_per_connection)),
                ("consecutiveErrors", number(traffic.consecutive_errors)),
                ("baseEjectionTime", show(traffic.base_ejection_time)),
                ("sweepInterval", show(traffic.sweep_interval)),
            ]),
        ),
        ("certificates", certificates),
        (
            "access",
            Json::map([
                ("namespaces", inbound.namespaces.clone().into()),
                ("serviceAccounts", Json::List(accounts.collect())),
            ]),
        ),
        ("gslb", Json::Map(gslb::write(&inbound.gslb))),
    ])
}

fn write_balancing(balancing: Option<&LoadBalancing>) -> (Json, Json, Json, Json, Json) {
    let none = || Json::Null;
    let mode = |mode: LbMode| word_of(LB_MODES, Some(mode));
    let Some(balancing) = balancing else { return (none(), none(), none(), none(), none()) };
    let hashed = word_of(TYPES, Some(true));
    match balancing {
        LoadBalancing::ConsistentHash(HashKey::Cookie(name)) => {
            (hashed, mode(LbMode::Cookie), name.as_str().into(), none(), none())
        }
        LoadBalancing::ConsistentHash(HashKey::Header(name)) => {
            (hashed, mode(LbMode::Header), none(), name.as_str().into(), none())
        }
        LoadBalancing::ConsistentHash(HashKey::MinimumRingSize(size)) => {
            (hashed, mode(LbMode::Ring), none(), none(), (*size).into())
        }
        LoadBalancing::ConsistentHash(HashKey::SourceIp) => (hashed, mode(LbMode::SourceIp), none(), none(), none()),
        LoadBalancing::Simple(simple) => {
            (word_of(TYPES, Some(false)), mode(LbMode::Simple(*simple)), none(), none(), none())
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum LbMode {
    Cookie,
    Header,
    Ring,
    Simple(SimpleBalancing),
    SourceIp,
}

/// True for consistent hashing. The second spelling is that of the wiki.
const TYPES: &[(&str, bool)] = &[("consistentHash", true), ("ConsistenHash", true), ("simple", false)];
const LB_MODES: &[(&str, LbMode)] = &[
    ("LEAST_REQUEST", LbMode::Simple(SimpleBalancing::LeastRequest)),
    ("LEAST_CONN", LbMode::Simple(SimpleBalancing::LeastRequest)),
    ("ROUND_ROBIN", LbMode::Simple(SimpleBalancing::RoundRobin)),
    ("RANDOM", LbMode::Simple(SimpleBalancing::Random)),
    ("PASSTHROUGH", LbMode::Simple(SimpleBalancing::Passthrough)),
    ("httpCookie", LbMode::Cookie),
    ("httpHeader", LbMode::Header),
    ("httpHeaderName", LbMode::Header),
    ("useSourceIp", LbMode::SourceIp),
    ("minimumRingSize", LbMode::Ring),
    ("ringHash", LbMode::Ring),
];
/// Protocols of a service.
pub(super) const PROTOCOLS: &[(&str, Protocol)] = &[
    ("HTTP", Protocol::Http),
    ("HTTP2", Protocol::Http2),
    ("HTTPS", Protocol::Https),
    ("GRPC", Protocol::Grpc),
    ("TCP", Protocol::Tcp),
    ("UDP", Protocol::Udp),
];
/// `SIMPLE` is the wiki's word for a service without Istio.
const MESHES: &[(&str, ServiceMesh)] =
    &[("istio", ServiceMesh::Istio), ("none", ServiceMesh::None), ("SIMPLE", ServiceMesh::None)];
const TLS_MODES: &[(&str, TlsMode)] = &[
    ("SIMPLE", TlsMode::Simple),
    ("MUTUAL", TlsMode::Mutual),
    ("ISTIO_MUTUAL", TlsMode::IstioMutual),
    ("NONE", TlsMode::None),
    ("DISABLE", TlsMode::None),
];
const SPANS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);
