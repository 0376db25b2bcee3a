//! Compound and outbound intents, clients, access points: parsing and canonical form.

use fairway_model::{
    Network, Secret,
    intent::{
        AccessAction, AccessPoint, Client, ClientSecurity, Compound, DnsResolution, Outbound, OutboundServer,
        UserAccess,
    },
};

use super::{
    certificates::{self, SecretForm},
    common::{self, LABEL_MAX, metadata},
    fields::{Body, Field, Table, fold},
    gslb::{self, PORTS, word_of},
    inbound::PROTOCOLS,
    json_wire::Json,
    values::{Errors, invalid, list, text},
};

/// Fields of a compound intent.
pub(super) static COMPOUND: Table = Table::of(&[common::METADATA, &[Field::plain("spec.externalName")], gslb::FIELDS]);
/// Fields of a client.
pub(super) static CLIENT: Table = Table::of(&[
    common::METADATA,
    USER,
    &[
        Field::plain("spec.namespaces"),
        Field::plain("spec.cidrs"),
        Field::homed("spec.security.issuer", &["spec", ""], &["externalauthenticationissuer"]),
        Field::homed("spec.security.jwksUri", &["spec", ""], &["externalauthenticationjwksuri"]),
        Field::homed("spec.security.userAccess", &["spec", ""], &["useraccess"]),
    ],
]);
/// Fields of an access point.
pub(super) static ACCESS_POINT: Table = Table::of(&[
    common::METADATA,
    &[Field::plain("spec.action"), Field::named("spec.url", &["urls"]), Field::plain("spec.access")],
]);
/// Fields of an outbound intent.
pub(super) static OUTBOUND: Table = Table::of(&[common::METADATA, USER]);
/// Fields of the server of an outbound intent.
pub(super) static OUTBOUND_SERVER: Table = Table::of(&[
    common::METADATA,
    &[
        Field::plain("spec.externalServiceName"),
        Field::plain("spec.port"),
        Field::plain("spec.protocol"),
        Field::plain("spec.dnsResolution"),
        Field::plain("spec.endPointAddress"),
    ],
    certificates::CLIENT,
]);

/// Fields of a user of a service.
const USER: &[Field] = &[
    Field::named("spec.app", &["application"]),
    Field::named("spec.serviceName", &["clientservicename"]),
    Field::plain("spec.appLabel"),
];

/// Parses a compound intent.
pub(super) fn compound(body: &mut Body<'_>) -> Option<Compound> {
    body.need("spec.externalName", "\"shop.gslb.example\"");
    let compound = Compound {
        metadata: metadata(body)?,
        external_name: super::inbound::domain(body, "spec.externalName"),
        gslb: gslb::read(body),
    };
    if !compound.gslb.members.is_empty() {
        let detail = "the members of a compound are those of the inbound intents below it; list them there";
        body.error_at("spec.gslb.members", detail);
    }
    Some(compound)
}

/// Returns the canonical form of `spec`.
pub(super) fn write_compound(compound: &Compound) -> Json {
    let mut entries = vec![("externalName".to_owned(), Json::from(compound.external_name.as_str()))];
    entries.extend(gslb::write(&compound.gslb).into_iter().filter(|(key, _)| key != "members"));
    Json::Map(entries)
}

/// Parses a client.
pub(super) fn client(body: &mut Body<'_>) -> Option<Client> {
    Some(Client {
        metadata: metadata(body)?,
        app: body.text("spec.app", LABEL_MAX),
        app_label: common::label(body, "spec.appLabel"),
        service_name: body.text("spec.serviceName", LABEL_MAX),
        namespaces: body.list("spec.namespaces", 256, |json| text(json, LABEL_MAX)),
        cidrs: body.list("spec.cidrs", 1_024, |json| {
            let text = text(json, 64)?;
            text.parse::<Network>().or_else(|error| invalid(error.to_string()))
        }),
        security: ClientSecurity {
            issuer: body.text("spec.security.issuer", 1_024),
            jwks_uri: body.text("spec.security.jwksUri", 1_024),
            user_access: body.list("spec.security.userAccess", 256, user_access),
        },
    })
}

/// Returns the canonical form of `spec`.
pub(super) fn write_client(client: &Client) -> Json {
    let access = client.security.user_access.iter().map(|access| {
        Json::map([
            ("user", access.user.as_str().into()),
            ("path", access.path.as_str().into()),
            ("methods", access.methods.clone().into()),
        ])
    });
    Json::map([
        ("app", client.app.as_str().into()),
        ("appLabel", client.app_label.as_str().into()),
        ("serviceName", client.service_name.as_str().into()),
        ("namespaces", client.namespaces.clone().into()),
        ("cidrs", client.cidrs.iter().map(Network::to_string).collect::<Vec<_>>().into()),
        (
            "security",
            Json::map([
                ("issuer", client.security.issuer.as_str().into()),
                ("jwksUri", client.security.jwks_uri.as_str().into()),
                ("userAccess", Json::List(access.collect())),
            ]),
        ),
    ])
}

fn user_access(json: &Json) -> Result<UserAccess, Errors> {
    let Json::Map(entries) = json else {
        let example = "{\"user\": \"ann\", \"path\": \"/status\", \"methods\": [\"GET\"]}";
        return invalid(format!("{} is not the access of a user; write {example}", json.what()));
    };
    let mut access = UserAccess { user: String::new(), path: String::new(), methods: Vec::new() };
    for (key, value) in entries {
        match &*fold(key) {
            "user" | "userid" | "name" => access.user = text(value, LABEL_MAX)?,
            "path" | "uri" | "url" | "relativeresource" => access.path = text(value, 1_024)?,
            "methods" | "method" | "access" | "action" => access.methods = list(value, 32, method)?,
            _ => return invalid(format!("unknown field {key:?}; known fields: user, path, methods")),
        }
    }
    Ok(access)
}

/// Parses an access point.
pub(super) fn access_point(body: &mut Body<'_>) -> Option<AccessPoint> {
    Some(AccessPoint {
        metadata: metadata(body)?,
        action: body.word("spec.action", ACTIONS).unwrap_or_default(),
        url: body.list("spec.url", 256, |json| text(json, 1_024)),
        access: body.list("spec.access", 32, method),
    })
}

/// Returns the canonical form of `spec`.
pub(super) fn write_access_point(point: &AccessPoint) -> Json {
    Json::map([
        ("action", word_of(ACTIONS, Some(point.action))),
        ("url", point.url.clone().into()),
        ("access", point.access.clone().into()),
    ])
}

fn method(json: &Json) -> Result<String, Errors> {
    let method = text(json, 32)?.to_ascii_uppercase();
    let plain = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic());
    if plain { Ok(method) } else { invalid(format!("{method:?} is not an HTTP method; write it like GET")) }
}

/// Parses an outbound intent.
pub(super) fn outbound(body: &mut Body<'_>) -> Option<Outbound> {
    Some(Outbound {
        metadata: metadata(body)?,
        app: body.text("spec.app", LABEL_MAX),
        service_name: body.text("spec.serviceName", LABEL_MAX),
        app_label: common::label(body, "spec.appLabel"),
    })
}

/// Returns the canonical form of `spec`.
pub(super) fn write_outbound(outbound: &Outbound) -> Json {
    Json::map([
        ("app", outbound.app.as_str().into()),
        ("serviceName", outbound.service_name.as_str().into()),
        ("appLabel", outbound.app_label.as_str().into()),
    ])
}

/// Parses the server of an outbound intent.
pub(super) fn outbound_server(body: &mut Body<'_>, stored: Option<&Secret>) -> Option<OutboundServer> {
    let server = OutboundServer {
        metadata: metadata(body)?,
        external_service_name: body.needed_text("spec.externalServiceName", LABEL_MAX, "\"db.example\""),
        port: body.whole("spec.port", PORTS),
        protocol: body.word("spec.protocol", PROTOCOLS),
        dns_resolution: body.word("spec.dnsResolution", RESOLUTIONS).unwrap_or_default(),
        endpoint_address: body.text("spec.endPointAddress", LABEL_MAX),
        certificates: certificates::read(body, stored),
    };
    if server.dns_resolution == DnsResolution::Static && server.endpoint_address.is_empty() {
        body.error_at("spec.endPointAddress", "is missing: STATIC requires an address; add it, or write DNS");
    }
    Some(server)
}

/// Returns the canonical form of `spec`.
pub(super) fn write_outbound_server(server: &OutboundServer, form: SecretForm) -> Json {
    Json::map([
        ("externalServiceName", server.external_service_name.as_str().into()),
        ("port", server.port.map(u64::from).into()),
        ("protocol", word_of(PROTOCOLS, server.protocol)),
        ("dnsResolution", word_of(RESOLUTIONS, Some(server.dns_resolution))),
        ("endPointAddress", server.endpoint_address.as_str().into()),
        ("certificates", certificates::write(&server.certificates, form)),
    ])
}

const ACTIONS: &[(&str, AccessAction)] = &[("ALLOW", AccessAction::Allow), ("DENY", AccessAction::Deny)];
const RESOLUTIONS: &[(&str, DnsResolution)] =
    &[("DNS", DnsResolution::Dns), ("STATIC", DnsResolution::Static), ("NONE", DnsResolution::None)];
