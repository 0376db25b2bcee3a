//! The webhook for ExternalDNS.

use std::{net::SocketAddr, time::Duration};

use super::{Converter, access::server_tls};
use crate::{
    WebhookSettings,
    bounds_wire::{As, Plain},
    values_wire::HttpAddress,
    webhook_wire::{Lease, Webhook},
};

pub(super) fn webhook(converter: &mut Converter<'_, '_>, wire: Webhook) -> WebhookSettings {
    let default = WebhookSettings::default();
    let lease = wire.lease.and_then(|As(Lease(lease))| lease);
    if let Some(short) = lease.filter(|lease| *lease < LEASE_MIN || *lease > LEASE_MAX) {
        let what = format!("{short:?} is not between {LEASE_MIN:?} and {LEASE_MAX:?}");
        converter.error("/webhook/lease", what, "write a time within these limits, or off");
    }
    let settings = WebhookSettings {
        listen: wire.listen.plain().unwrap_or(default.listen),
        metrics: wire.metrics.map_or(default.metrics, |As(HttpAddress(address))| address),
        tls: wire.tls.and_then(|tls| server_tls(converter, "/webhook/tls", &tls.cert, &tls.key, None)),
        token: wire.token.plain(),
        shared: wire.shared.plain().unwrap_or_default(),
        lease,
    };
    if settings.metrics.is_some_and(|metrics| same(metrics, settings.listen)) {
        converter.error("/webhook/metrics", "the address is the same as webhook.listen", "use another port, or off");
    }
    if !settings.listen.ip().to_canonical().is_loopback() && settings.token.is_none() {
        let what = format!("every client that can reach {} can change what is served", settings.listen);
        converter.warn("/webhook/listen", what, "add webhook.token, or restrict access to the address");
    }
    settings
}

fn same(a: SocketAddr, b: SocketAddr) -> bool {
    a == b && a.port() != 0
}

/// Shortest lease: ExternalDNS calls once a minute by default, and at most once a second.
const LEASE_MIN: Duration = Duration::from_secs(10);
/// Longest lease: 30 days.
const LEASE_MAX: Duration = Duration::from_secs(30 * 86_400);
