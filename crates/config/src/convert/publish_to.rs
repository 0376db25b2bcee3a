//! Kinds of providers that records are published to.

use std::{sync::Arc, time::Duration};

use fairway_http::{Tls, Url};
use fairway_model::{Cluster, ClusterName, KubernetesApi, Secret, SharedMap};
use fairway_providers::rfc2136::TsigKey;

use super::{
    Converter,
    monitors::{secret, secret_if_given},
    plain_http::reject_secret_in_clear,
    store::{endpoints, key_prefix},
};
use crate::{
    Destination, ObjectPlace,
    bounds_wire::{As, Plain, Text},
    publish_to_wire as wire,
    publish_wire::Provider,
};

/// Returns the destination of a provider, which must have exactly one.
pub(super) fn destination(
    converter: &mut Converter<'_, '_>,
    pointer: &str,
    from: Provider,
    clusters: &SharedMap<ClusterName, Cluster>,
) -> Option<Destination> {
    let Provider { rfc2136, powerdns, etcd, webhook, dnsendpoint, file, .. } = from;
    let file = file.map(|As(path)| Some(Destination::File(converter.path(format_args!("{pointer}/file"), &path))));
    let destinations = [
        file,
        rfc2136.map(|from| self::rfc2136(converter, &format!("{pointer}/rfc2136"), from)),
        powerdns.map(|from| self::powerdns(converter, &format!("{pointer}/powerdns"), from)),
        etcd.map(|from| self::etcd(converter, &format!("{pointer}/etcd"), from)),
        webhook.map(|from| self::webhook(converter, &format!("{pointer}/webhook"), from)),
        dnsendpoint.map(|from| dnsendpoints(converter, &format!("{pointer}/dnsendpoint"), from, clusters)),
    ];
    let mut given = destinations.into_iter().flatten();
    let destination = given.next();
    if destination.is_none() {
        let hint = "add rfc2136, powerdns, etcd, webhook, dnsendpoint or file";
        converter.error(pointer, "the provider has no destination", hint);
    }
    if given.next().is_some() {
        converter.error(pointer, "the provider has several destinations", "declare a provider for each");
    }
    destination?
}

fn rfc2136(converter: &mut Converter<'_, '_>, pointer: &str, from: wire::Rfc2136) -> Option<Destination> {
    let key = match from.tsig {
        Some(tsig) => Some(tsig_key(converter, &format!("{pointer}/tsig"), tsig)?),
        None => None,
    };
    Some(Destination::Rfc2136 { server: from.server.0, key, timeout: timeout(converter, pointer, from.timeout) })
}

fn powerdns(converter: &mut Converter<'_, '_>, pointer: &str, from: wire::PowerDns) -> Option<Destination> {
    let url = url(converter, pointer, &from.url);
    let key = secret(converter, format_args!("{pointer}/key"), &from.key);
    let timeout = timeout(converter, pointer, from.timeout);
    reject_secret_in_clear(converter, format_args!("{pointer}/key"), from.allow_plain_http, &url);
    Some(Destination::PowerDns { url: url?, key: key?, timeout })
}

fn etcd(converter: &mut Converter<'_, '_>, pointer: &str, from: wire::SkyDns) -> Option<Destination> {
    let endpoints = endpoints(converter, pointer, &from.endpoints);
    let prefix = key_prefix(converter, pointer, from.prefix, "/skydns/");
    let password = secret_if_given(converter, format_args!("{pointer}/password"), from.password.as_ref())?;
    if from.user.is_some() != from.password.is_some() {
        let hint = "add the missing one, or remove the other one";
        converter.error(pointer, "user and password must be given together", hint);
    }
    let endpoints = endpoints?;
    if password.is_some() {
        reject_secret_in_clear(converter, format_args!("{pointer}/password"), from.allow_plain_http, &endpoints);
    }
    let is_encrypted = endpoints.iter().all(Url::is_https);
    let tls = tls(converter, &format!("{pointer}/tls"), &from.tls, is_encrypted)?;
    let timeout = timeout(converter, pointer, from.timeout);
    let etcd = fairway_etcd::Settings::new(endpoints, tls, from.user.plain().zip(password), timeout);
    Some(Destination::Etcd { prefix: format!("/{}/", prefix.trim_matches('/')), etcd })
}

fn webhook(converter: &mut Converter<'_, '_>, pointer: &str, from: wire::WebhookProvider) -> Option<Destination> {
    let url = url(converter, pointer, &from.url);
    let token = secret_if_given(converter, format_args!("{pointer}/token"), from.token.as_ref())?;
    let url = url?;
    if token.is_some() {
        reject_secret_in_clear(converter, format_args!("{pointer}/token"), from.allow_plain_http, [&url]);
    }
    Some(Destination::Webhook {
        authorization: token.map(|token| Secret::new(["Bearer ", token.expose().trim()].concat())),
        tls: tls(converter, &format!("{pointer}/tls"), &from.tls, url.is_https())?,
        url,
        weights: from.weights.plain(),
        timeout: timeout(converter, pointer, from.timeout),
    })
}

fn dnsendpoints(
    converter: &mut Converter<'_, '_>,
    pointer: &str,
    from: wire::DnsEndpoints,
    clusters: &SharedMap<ClusterName, Cluster>,
) -> Option<Destination> {
    let namespace = from.namespace.plain().unwrap_or_else(|| "default".to_owned());
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !namespace.bytes().all(plain) || namespace.starts_with('-') || namespace.ends_with('-') {
        let what = format!("{namespace:?} is not the name of a namespace");
        converter.error(format_args!("{pointer}/namespace"), what, "use lower-case letters, digits and dashes");
    }
    let place = match (from.cluster, from.folder) {
        (Some(As(name)), None) => {
            let api = kubernetes_of(converter, &format!("{pointer}/cluster"), &name, clusters)?;
            ObjectPlace::Cluster(name, api)
        }
        (None, Some(As(folder))) => ObjectPlace::Folder(converter.path(format_args!("{pointer}/folder"), &folder)),
        (Some(_), Some(_)) => {
            let hint = "remove one of them, or declare a provider for each";
            converter.error(pointer, "cluster and folder are both given", hint);
            return None;
        }
        (None, None) => {
            converter.error(pointer, "the objects have no place", "add cluster or folder");
            return None;
        }
    };
    Some(Destination::DnsEndpoints { place, namespace, weights: from.weights.plain() })
}

/// Returns the Kubernetes API of a cluster of the files.
fn kubernetes_of(
    converter: &mut Converter<'_, '_>,
    pointer: &str,
    name: &ClusterName,
    clusters: &SharedMap<ClusterName, Cluster>,
) -> Option<Arc<KubernetesApi>> {
    match clusters.get(name) {
        Some(Cluster { kubernetes: Some(api), .. }) => return Some(Arc::clone(api)),
        Some(_) => {
            let what = format!("cluster {name} has no Kubernetes API");
            converter.error(pointer, what, "add kubernetes to it");
        }
        // Its own error is reported.
        None if converter.context.left_out.may_include("clusters", name.as_str()) => {}
        None => {
            let what = format!("cluster {name} is not declared in the configuration");
            converter.error(pointer, what, "add it to clusters, with kubernetes; clusters of the API cannot have it");
        }
    }
    None
}

fn url(converter: &mut Converter<'_, '_>, pointer: &str, As(text): &Text<1, 512>) -> Option<Url> {
    let url = Url::parse_base(text);
    url.map_err(|error| converter.error(format_args!("{pointer}/url"), error.to_string(), error.hint())).ok()
}

/// Returns the time limit of a call: 30 s by default.
fn timeout(converter: &mut Converter<'_, '_>, pointer: &str, given: Option<As<Duration>>) -> Duration {
    let secs = Duration::from_secs;
    converter.bounded(format_args!("{pointer}/timeout"), given, secs(1)..=secs(120), secs(30))
}

/// Returns TLS settings of calls, after checking that they can be used.
///
/// Certificates for a server that is reached without TLS are rejected: a user who gives them expects an encrypted
/// connection.
pub(super) fn tls(
    converter: &mut Converter<'_, '_>,
    pointer: &str,
    from: &wire::CallTls,
    is_encrypted: bool,
) -> Option<Tls> {
    if !is_encrypted && (from.ca.is_some() || from.cert.is_some() || from.key.is_some()) {
        let what = "certificates have no effect on an http URL";
        converter.error(pointer, what, "write https:// everywhere, or remove the certificates");
    }
    let mut read = |key: &str, given| secret_if_given(converter, format_args!("{pointer}/{key}"), given);
    let ca = read("ca", from.ca.as_ref())?;
    let (cert, key) = (read("cert", from.cert.as_ref())?, read("key", from.key.as_ref())?);
    if cert.is_some() != key.is_some() {
        converter.error(pointer, "cert and key must be given together", "add the missing one, or remove the other one");
        return None;
    }
    let tls = Tls { ca, identity: cert.zip(key) };
    if tls != Tls::default()
        && let Err(error) = tls.config()
    {
        converter.error(pointer, error.to_string(), "use certificates and the key that belongs to them, all in PEM");
        return None;
    }
    Some(tls)
}

fn tsig_key(converter: &mut Converter<'_, '_>, pointer: &str, tsig: wire::Tsig) -> Option<TsigKey> {
    let pointer = format!("{pointer}/secret");
    let key = TsigKey {
        name: tsig.name.0,
        algorithm: tsig.algorithm.plain().unwrap_or_default(),
        secret: secret(converter, &pointer, &tsig.secret)?,
    };
    if !key.is_valid() {
        let hint = "use the base64 text of the key, as in the server's configuration";
        converter.error(pointer, "the secret is not base64", hint);
    }
    Some(key)
}
