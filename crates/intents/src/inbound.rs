//! Inbound intents: the fields of ONAP and EMCO with all their names, and the rules between fields.

use std::{ops::RangeInclusive, time::Duration};

use fairway_model::intent::{
    AccessRule, BalancingMode, Inbound, Protocol, ServiceAccount, ServiceMesh, TlsMode, Traffic,
};
use serde_json::json;

use super::{
    certificates,
    common::{DOMAIN, LABEL, METHOD, PORT, PROTOCOL, WORD},
    fields::{Body, Field, homed, named},
    gslb,
    json_wire::Json,
    values::{Custom, Errors, FLAG, Form, List, Span, Whole, Words, below, invalid, list, text},
};

/// Visits an inbound intent.
pub(super) fn fields(body: &mut Body<'_>, inbound: &mut Inbound) {
    body.required(named("spec.app", &["application"]), &WORD, &mut inbound.app, "\"shop\"");
    body.required(named("spec.serviceName", &["inboundservicename"]), &WORD, &mut inbound.service_name, "\"shop\"");
    body.field("spec.appLabel", &LABEL, &mut inbound.app_label);
    body.field("spec.externalName", &DOMAIN, &mut inbound.external_name);
    body.field("spec.localDomain", &DOMAIN, &mut inbound.local_domain);
    body.field("spec.publicDomain", &DOMAIN, &mut inbound.public_domain);
    body.optional("spec.port", &PORT, &mut inbound.port);
    body.optional("spec.protocol", &PROTOCOL, &mut inbound.protocol);
    body.field("spec.headless", &FLAG, &mut inbound.headless);
    body.field("spec.externalSupport", &FLAG, &mut inbound.external_support);
    // `traffic-weeight` is the spelling of the wiki's example.
    let weight = named("spec.trafficWeight", &["weight", "trafficweeight"]);
    body.optional(weight, &Whole(0..=100), &mut inbound.traffic_weight);
    body.field("spec.serviceMesh", &MESH, &mut inbound.service_mesh);
    let sidecar = homed("spec.sidecarProxy", &["spec.management"], &["istioproxy", "sidecarproxy"]);
    body.field(sidecar, &FLAG, &mut inbound.sidecar_proxy);
    let tls_mode = homed("spec.tlsMode", &["spec.management"], &["mutualtls", "tlstype", "tlsmode"]);
    body.field(tls_mode, &TLS_MODE, &mut inbound.tls_mode);
    balancing(body, &mut inbound.traffic);
    circuit_breaking(body, &mut inbound.traffic);
    certificates::fields(body, &["servicecertificate"], &["serviceprivatekey"], &mut inbound.certificates);
    let namespaces = homed("spec.access.namespaces", &["spec"], &["namespaces"]);
    body.field(namespaces, &List(256, WORD), &mut inbound.namespaces);
    let accounts = homed("spec.access.serviceAccounts", &["spec"], &["serviceaccountaccess", "serviceaccounts"]);
    body.field(accounts, &ACCOUNTS, &mut inbound.service_accounts);
    gslb::fields(body, &mut inbound.gslb);
    check_rules(body, inbound);
}

/// Returns a field of the traffic settings, which are in several groups: of the first wiki page, and of the later one.
const fn traffic(path: &'static str, names: &'static [&'static str]) -> Field {
    const GROUPS: &[&str] = &[
        "spec.trafficmanagementinfo",
        "spec.trafficmanagement",
        "spec.istio.loadbalancing",
        "spec.istio.circuitbreaking",
    ];
    homed(path, GROUPS, names)
}

/// Visits the load balancing between instances, and checks that type, mode and hash key agree.
fn balancing(body: &mut Body<'_>, settings: &mut Traffic) {
    let mut is_hash = settings.mode.map(BalancingMode::is_hash);
    let kind = traffic("spec.traffic.lbType", &["loadbalancingtype", "loadbalancertype", "lbtype"]);
    body.optional(kind, &TYPE, &mut is_hash);
    let mode = traffic("spec.traffic.lbMode", &["loadbalancermode", "loadbalancingmode", "lbmode"]);
    body.optional(mode, &LB_MODE, &mut settings.mode);
    body.optional(traffic("spec.traffic.httpCookie", &["httpcookie"]), &WORD, &mut settings.http_cookie);
    body.optional(
        traffic("spec.traffic.httpHeader", &["httpheader", "httpheadername"]),
        &WORD,
        &mut settings.http_header,
    );
    let ring = traffic("spec.traffic.minimumRingSize", &["minimumringsize"]);
    body.optional(ring, &Whole(1..=8_388_608), &mut settings.minimum_ring_size);
    for (path, is_given, mode) in [
        ("spec.traffic.httpCookie", settings.http_cookie.is_some(), BalancingMode::Cookie),
        ("spec.traffic.httpHeader", settings.http_header.is_some(), BalancingMode::Header),
        ("spec.traffic.minimumRingSize", settings.minimum_ring_size.is_some(), BalancingMode::Ring),
    ] {
        let name = path.rsplit('.').next().unwrap_or_default();
        match (is_given, settings.mode == Some(mode)) {
            (true, false) => {
                body.error_at(path, format!("has an effect only if lbMode is {name}; remove it, or set lbMode"));
            }
            (false, true) => body.error_at(path, format!("is missing: lbMode {name} requires it; add it")),
            _ => {}
        }
    }
    let detail = match (is_hash, settings.mode) {
        (Some(_), None) => "is missing: a type requires a mode; add one, for example \"ROUND_ROBIN\"",
        (Some(false), Some(mode)) if mode.is_hash() => {
            "is not a mode of Simple; choose another mode, or the type consistentHash"
        }
        (Some(true), Some(mode)) if !mode.is_hash() => {
            "is not a mode of consistentHash; choose another mode, or the type Simple"
        }
        _ => return,
    };
    body.error_at("spec.traffic.lbMode", detail);
}

fn circuit_breaking(body: &mut Body<'_>, settings: &mut Traffic) {
    let count = Whole(0..=u32::MAX);
    let span = Span(SPANS);
    body.optional(traffic("spec.traffic.maxConnections", &["maxconnections"]), &count, &mut settings.max_connections);
    let http2 = traffic("spec.traffic.http2MaxRequests", &["concurrenthttp2requests", "http2maxrequests"]);
    body.optional(http2, &count, &mut settings.http2_max_requests);
    let per_connection = traffic(
        "spec.traffic.maxRequestsPerConnection",
        &["httprequestperconnection", "httprequestsperconnection", "maxrequestsperconnection"],
    );
    body.optional(per_connection, &count, &mut settings.max_requests_per_connection);
    let errors = traffic("spec.traffic.consecutiveErrors", &["consecutiveerrors", "consecutive5xxerrors"]);
    body.optional(errors, &Whole(1..=10_000), &mut settings.consecutive_errors);
    let ejection = traffic("spec.traffic.baseEjectionTime", &["baseejectiontime"]);
    body.optional(ejection, &span, &mut settings.base_ejection_time);
    let sweep = traffic("spec.traffic.sweepInterval", &["intervalsweep", "sweepinterval"]);
    body.optional(sweep, &span, &mut settings.sweep_interval);
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

/// Service accounts with their rules.
const ACCOUNTS: Custom<Vec<ServiceAccount>> = Custom {
    parse: service_accounts,
    write: |accounts| {
        let rule = |rule: &AccessRule| {
            Json::map([("method", rule.method.as_str().into()), ("path", rule.path.as_str().into())])
        };
        let account = |account: &ServiceAccount| {
            let rules = account.rules.iter().map(rule).collect();
            Json::map([("name", account.name.as_str().into()), ("rules", Json::List(rules))])
        };
        Json::List(accounts.iter().map(account).collect())
    },
    schema: || {
        let rule = json!({"type": "object", "properties": {"method": {"type": "string"}, "path": {"type": "string"}}});
        let properties = json!({"name": WORD.schema(), "rules": {"type": "array", "items": rule}});
        let account = json!({"type": "object", "required": ["name"], "properties": properties});
        json!({"type": "array", "maxItems": 256, "items": account})
    },
};

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
            let name = json
                .get("name")
                .map_or_else(|| invalid("name is missing; write the name of the account"), |name| WORD.parse(name))?;
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
        // A single map of rules is a list of one element.
        let rules = if matches!(rules, Json::Map(_)) { Json::List(vec![rules.clone()]) } else { rules.clone() };
        let rules = list(&rules, 256, |json| match json {
            Json::Map(pairs) => pairs.iter().map(|(method, path)| pair(method, path)).collect::<Result<Vec<_>, _>>(),
            other => invalid(format!("{} is not a rule; write {{\"GET\": \"/status\"}}", other.what())),
        });
        let rules = rules.map_err(|errors| below(&pointer, errors))?;
        Ok(ServiceAccount { name: name.clone(), rules: rules.into_iter().flatten().collect() })
    };
    entries.iter().map(account).collect()
}

fn rule(json: &Json) -> Result<AccessRule, Errors> {
    match (json, json.get("method"), json.get("path")) {
        (Json::Map(entries), Some(Json::Text(method)), Some(path)) if entries.len() == 2 => pair(method, path),
        (Json::Map(entries), None, None) if entries.len() == 1 => pair(&entries[0].0, &entries[0].1),
        _ => invalid(format!("{} is not a rule; write {{\"method\": \"GET\", \"path\": \"/status\"}}", json.what())),
    }
}

fn pair(method: &str, path: &Json) -> Result<AccessRule, Errors> {
    Ok(AccessRule { path: text(path, 1_024)?, method: METHOD.parse(&method.into())? })
}

/// True for consistent hashing. The second spelling is that of the wiki.
const TYPE: Words<bool> = Words(&[("consistentHash", true), ("ConsistenHash", true), ("simple", false)]);
const LB_MODE: Words<BalancingMode> = Words(&[
    ("LEAST_REQUEST", BalancingMode::LeastRequest),
    ("LEAST_CONN", BalancingMode::LeastRequest),
    ("ROUND_ROBIN", BalancingMode::RoundRobin),
    ("RANDOM", BalancingMode::Random),
    ("PASSTHROUGH", BalancingMode::Passthrough),
    ("httpCookie", BalancingMode::Cookie),
    ("httpHeader", BalancingMode::Header),
    ("httpHeaderName", BalancingMode::Header),
    ("useSourceIp", BalancingMode::SourceIp),
    ("minimumRingSize", BalancingMode::Ring),
    ("ringHash", BalancingMode::Ring),
]);
/// `SIMPLE` is the wiki's word for a service without Istio.
const MESH: Words<ServiceMesh> =
    Words(&[("istio", ServiceMesh::Istio), ("none", ServiceMesh::None), ("SIMPLE", ServiceMesh::None)]);
const TLS_MODE: Words<TlsMode> = Words(&[
    ("SIMPLE", TlsMode::Simple),
    ("MUTUAL", TlsMode::Mutual),
    ("ISTIO_MUTUAL", TlsMode::IstioMutual),
    ("NONE", TlsMode::None),
    ("DISABLE", TlsMode::None),
]);
const SPANS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);
