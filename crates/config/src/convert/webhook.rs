//! The webhook for ExternalDNS.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use fairway_access::TokenHash;
use fairway_providers::webhook_server::Scope;

use super::{Converter, access::server_tls};
use crate::{
    WebhookSettings,
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
    let settings = WebhookSettings {
        listen: wire.listen.plain().unwrap_or(default.listen),
        tls: wire.tls.and_then(|tls| server_tls(converter, "/webhook/tls", &tls.cert, &tls.key, None)),
        owners: owners(converter, wire.owners, token.as_ref()),
        token,
        shared: wire.shared.plain().unwrap_or_default(),
        lease,
    };
    if !settings.listen.ip().to_canonical().is_loopback() && settings.token.is_none() && settings.owners.is_empty() {
        let address = settings.listen;
        let what = format!("{address} can be reached from other machines, which requires authentication");
        let hint = format!(
            "add webhook.token or webhook.owners (docs/config/webhook.md), or listen on 127.0.0.1:{}",
            address.port()
        );
        converter.error("/webhook/listen", what, hint);
    }
    settings
}

/// Converts the owners. Two of them with one token could write as each other.
fn owners(
    converter: &mut Converter<'_, '_>,
    wires: Vec<WebhookOwner>,
    root: Option<&TokenHash>,
) -> BTreeMap<String, TokenHash> {
    let mut owners = BTreeMap::new();
    for (index, WebhookOwner { name: As(name), token: As(token) }) in wires.into_iter().enumerate() {
        if Scope::owner(&name).is_none() {
            let what = format!("{name:?} is not the name of an owner");
            let hint = "use 1 to 63 letters, digits, '-', '_', '.'";
            converter.error(format_args!("/webhook/owners/{index}/name"), what, hint);
        }
        if root == Some(&token) || owners.values().any(|other| *other == token) {
            let what = "the token is in use by another owner, or is webhook.token";
            let hint = "create another token: fairway token create";
            converter.error(format_args!("/webhook/owners/{index}/token"), what, hint);
        }
        match owners.entry(name) {
            Entry::Vacant(entry) => _ = entry.insert(token),
            Entry::Occupied(entry) => {
                let what = format!("{} is already declared", entry.key());
                converter.error(format_args!("/webhook/owners/{index}/name"), what, "rename or remove one of them");
            }
        }
    }
    owners
}

/// Shortest lease: ExternalDNS calls once a minute by default, and at most once a second.
const LEASE_MIN: Duration = Duration::from_secs(10);
/// Longest lease: 30 days.
const LEASE_MAX: Duration = Duration::from_secs(30 * 86_400);
