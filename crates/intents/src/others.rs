//! Compound and outbound intents, clients, access points.

use fairway_model::{
    Network,
    intent::{AccessAction, AccessPoint, Client, Compound, DnsResolution, Outbound, OutboundServer, UserAccess},
};
use serde_json::json;

use super::{
    certificates,
    common::{DOMAIN, LABEL, METHOD, PORT, PROTOCOL, WORD},
    fields::{Body, Field, fold, homed, named},
    gslb,
    json_wire::Json,
    values::{Custom, Errors, Form, List, Text, Words, invalid, list, text},
};

/// The app and the service of a user of a service.
const APP: Field = named("spec.app", &["application"]);
const SERVICE: Field = named("spec.serviceName", &["clientservicename"]);

/// Visits a compound intent.
pub(super) fn compound(body: &mut Body<'_>, compound: &mut Compound) {
    body.required("spec.externalName", &DOMAIN, &mut compound.external_name, "\"shop.gslb.example\"");
    gslb::fields(body, &mut compound.gslb);
    if !compound.gslb.members.is_empty() {
        let detail = "the members of a compound are those of the inbound intents below it; list them there";
        body.error_at("spec.gslb.members", detail);
    }
}

/// Visits a client.
pub(super) fn client(body: &mut Body<'_>, client: &mut Client) {
    body.field(APP, &WORD, &mut client.app);
    body.field("spec.appLabel", &LABEL, &mut client.app_label);
    body.field(SERVICE, &WORD, &mut client.service_name);
    body.field("spec.namespaces", &List(256, WORD), &mut client.namespaces);
    body.field("spec.cidrs", &List(1_024, NETWORK), &mut client.cidrs);
    let security = &mut client.security;
    let in_security = |path, name| homed(path, &["spec", ""], name);
    let issuer = in_security("spec.security.issuer", &["externalauthenticationissuer"]);
    body.field(issuer, &Text(1_024), &mut security.issuer);
    let keys = in_security("spec.security.jwksUri", &["externalauthenticationjwksuri"]);
    body.field(keys, &Text(1_024), &mut security.jwks_uri);
    let access = in_security("spec.security.userAccess", &["useraccess"]);
    body.field(access, &List(256, USER_ACCESS), &mut security.user_access);
}

/// Visits an access point.
pub(super) fn access_point(body: &mut Body<'_>, point: &mut AccessPoint) {
    body.field("spec.action", &ACTION, &mut point.action);
    body.field(named("spec.url", &["urls"]), &List(256, Text(1_024)), &mut point.url);
    body.field("spec.access", &List(32, METHOD), &mut point.access);
}

/// Visits an outbound intent.
pub(super) fn outbound(body: &mut Body<'_>, outbound: &mut Outbound) {
    body.field(APP, &WORD, &mut outbound.app);
    body.field(SERVICE, &WORD, &mut outbound.service_name);
    body.field("spec.appLabel", &LABEL, &mut outbound.app_label);
}

/// Visits the server of an outbound intent.
pub(super) fn outbound_server(body: &mut Body<'_>, server: &mut OutboundServer) {
    body.required("spec.externalServiceName", &WORD, &mut server.external_service_name, "\"db.example\"");
    body.optional("spec.port", &PORT, &mut server.port);
    body.optional("spec.protocol", &PROTOCOL, &mut server.protocol);
    body.field("spec.dnsResolution", &RESOLUTION, &mut server.dns_resolution);
    body.field("spec.endPointAddress", &WORD, &mut server.endpoint_address);
    certificates::fields(body, &["clientcertificate"], &["clientprivatekey"], &mut server.certificates);
    if server.dns_resolution == DnsResolution::Static && server.endpoint_address.is_empty() {
        body.error_at("spec.endPointAddress", "is missing: STATIC requires an address; add it, or write DNS");
    }
}

/// A network of clients.
const NETWORK: Custom<Network> = Custom {
    parse: |json| text(json, 64)?.parse::<Network>().or_else(|error| invalid(error.to_string())),
    write: |network| network.to_string().into(),
    schema: || json!({"type": "string", "maxLength": 64, "examples": ["192.0.2.0/24"]}),
};

/// The permission of a user.
const USER_ACCESS: Custom<UserAccess> = Custom {
    parse: user_access,
    write: |access| {
        Json::map([
            ("user", access.user.as_str().into()),
            ("path", access.path.as_str().into()),
            ("methods", access.methods.clone().into()),
        ])
    },
    schema: || {
        let methods = json!({"type": "array", "items": METHOD.schema(), "maxItems": 32});
        let properties = json!({"user": WORD.schema(), "path": Text(1_024).schema(), "methods": methods});
        json!({"type": "object", "properties": properties})
    },
};

fn user_access(json: &Json) -> Result<UserAccess, Errors> {
    let Json::Map(entries) = json else {
        let example = "{\"user\": \"ann\", \"path\": \"/status\", \"methods\": [\"GET\"]}";
        return invalid(format!("{} is not the access of a user; write {example}", json.what()));
    };
    let mut access = UserAccess::default();
    for (key, value) in entries {
        match &*fold(key) {
            "user" | "userid" | "name" => access.user = WORD.parse(value)?,
            "path" | "uri" | "url" | "relativeresource" => access.path = text(value, 1_024)?,
            "methods" | "method" | "access" | "action" => access.methods = list(value, 32, METHOD.parse)?,
            _ => return invalid(format!("unknown field {key:?}; known fields: user, path, methods")),
        }
    }
    Ok(access)
}

const ACTION: Words<AccessAction> = Words(&[("ALLOW", AccessAction::Allow), ("DENY", AccessAction::Deny)]);
const RESOLUTION: Words<DnsResolution> =
    Words(&[("DNS", DnsResolution::Dns), ("STATIC", DnsResolution::Static), ("NONE", DnsResolution::None)]);
