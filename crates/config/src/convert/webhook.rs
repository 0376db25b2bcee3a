//! The webhook for ExternalDNS.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use fairway_access::{Subject, TokenHash};
use fairway_providers::webhook_server::Scope;

use super::{Converter, access::server_tls};
use crate::{
    OwnerCredentials, WebhookSettings,
    bounds_wire::{As, Plain},
    webhook_wire::{Lease, Webhook, WebhookOwner},
};

pub(super) fn webhook(converter: &mut Converter<'_, '_>, wire: Webhook) -> WebhookSettings {
    let default = WebhookSettings::default();
    let lease = wire.lease.and_then(|As(Lease(lease))| lease);
    if let Some(short) = lease.filter(|lease| *lease < LEASE_MIN || *lease > LEASE_MAX) {
        let what = format!("{short:?} is not between {LEASE_MIN:?} and {LEASE_MAX:?}");
        converter.error("/webhook/lease", what, "write a time within these limits, or off");
    }
    let token = wire.token.plain();
    let asks_clients = wire.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    let settings = WebhookSettings {
        listen: wire.listen.plain().unwrap_or(default.listen),
        tls: wire.tls.and_then(|tls| server_tls(converter, "/webhook/tls", &tls)),
        owners: owners(converter, wire.owners, token.as_ref(), asks_clients),
        token,
        shared: wire.shared.plain().unwrap_or_default(),
        lease,
    };
    let is_open = settings.token.is_none() && settings.owners.is_empty() && !asks_clients;
    if !settings.listen.ip().to_canonical().is_loopback() && is_open {
        let address = settings.listen;
        let what = format!("{address} can be reached from other machines, which requires authentication");
        let hint = format!(
            "add webhook.token, webhook.owners or webhook.tls.clientCa (docs/config/webhook.md), or listen on 127.0.0.1:{}",
            address.port()
        );
        converter.error("/webhook/listen", what, hint);
    }
    settings
}

/// Converts the owners. Two of them with one token or certificate could write as each other.
fn owners(
    converter: &mut Converter<'_, '_>,
    wires: Vec<WebhookOwner>,
    root: Option<&TokenHash>,
    asks_clients: bool,
) -> BTreeMap<String, OwnerCredentials> {
    let mut owners = BTreeMap::<String, OwnerCredentials>::new();
    for (index, WebhookOwner { name: As(name), token, certificate }) in wires.into_iter().enumerate() {
        let at = |field| format!("/webhook/owners/{index}/{field}");
        if Scope::owner(&name).is_none() {
            let what = format!("{name:?} is not the name of an owner");
            converter.error(at("name"), what, "use 1 to 63 letters, digits, '-', '_', '.'");
        }
        let made =
            OwnerCredentials { token: token.plain(), certificate: certificate.plain().map(Subject::Certificate) };
        if made == OwnerCredentials::default() {
            let what = format!("owner {name} has neither a token nor a certificate");
            converter.error(format_args!("/webhook/owners/{index}"), what, "create a token: fairway token create");
        }
        let is_known = |token: &TokenHash| owners.values().any(|other| other.token.as_ref() == Some(token));
        if made.token.as_ref().is_some_and(|token| root == Some(token) || is_known(token)) {
            let what = "the token is in use by another owner, or is webhook.token";
            converter.error(at("token"), what, "create another token: fairway token create");
        }
        if made.certificate.is_some() {
            if !asks_clients {
                converter.error(at("certificate"), "client certificates are not requested", "add webhook.tls.clientCa");
            }
            if owners.values().any(|other| other.certificate == made.certificate) {
                let what = "the certificate is in use by another owner";
                converter.error(at("certificate"), what, "give each owner a certificate with a name of its own");
            }
        }
        match owners.entry(name) {
            Entry::Vacant(entry) => _ = entry.insert(made),
            Entry::Occupied(entry) => {
                let what = format!("{} is already declared", entry.key());
                converter.error(at("name"), what, "rename or remove one of them");
            }
        }
    }
    owners
}

/// Shortest lease: ExternalDNS calls once a minute by default, and at most once a second.
const LEASE_MIN: Duration = Duration::from_secs(10);
/// Longest lease: 30 days.
const LEASE_MAX: Duration = Duration::from_secs(30 * 86_400);
