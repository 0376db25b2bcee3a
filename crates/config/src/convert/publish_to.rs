//! Kinds of providers that records are published to.

use std::{ops::RangeInclusive, time::Duration};

use fairway_http::{Tls, Url};
use fairway_model::Secret;
use fairway_providers::{
    publish::Weights,
    rfc2136::{TsigAlgorithm, TsigKey},
};

use super::{Converter, monitors::secret, store::endpoint};
use crate::{
    Destination,
    bounds_wire::{List, Text},
    publish_to_wire as wire,
    publish_wire::Provider,
    values_wire::{As, Reference},
};

/// Returns the destination of a provider, which must have exactly one.
pub(super) fn destination(converter: &mut Converter<'_, '_>, pointer: &str, from: &Provider) -> Option<Destination> {
    let Provider { rfc2136, powerdns, etcd, webhook, dnsendpoint, file, .. } = from;
    let destinations = [
        rfc2136.is_some(),
        powerdns.is_some(),
        etcd.is_some(),
        webhook.is_some(),
        dnsendpoint.is_some(),
        file.is_some(),
    ];
    match destinations.into_iter().filter(|is_given| *is_given).count() {
        0 => {
            let hint = "add rfc2136, powerdns, etcd, webhook, dnsendpoint or file";
            converter.error(pointer, "the provider has no destination", hint);
            return None;
        }
        1 => {}
        _ => {
            converter.error(pointer, "the provider has several destinations", "declare a provider for each");
            return None;
        }
    }
    if let Some(Text(path)) = file {
        return Some(Destination::File(converter.path(&format!("{pointer}/file"), path)));
    }
    if let Some(from) = rfc2136 {
        return self::rfc2136(converter, &format!("{pointer}/rfc2136"), from);
    }
    if let Some(from) = powerdns {
        return self::powerdns(converter, &format!("{pointer}/powerdns"), from);
    }
    if let Some(from) = etcd {
        return self::etcd(converter, &format!("{pointer}/etcd"), from);
    }
    if let Some(from) = webhook {
        return self::webhook(converter, &format!("{pointer}/webhook"), from);
    }
    dnsendpoint.as_ref().map(|from| dnsendpoints(converter, &format!("{pointer}/dnsendpoint"), from))
}

fn rfc2136(converter: &mut Converter<'_, '_>, pointer: &str, from: &wire::Rfc2136) -> Option<Destination> {
    let As(server) = from.server;
    let key = match &from.tsig {
        Some(tsig) => Some(tsig_key(converter, &format!("{pointer}/tsig"), tsig)?),
        None => None,
    };
    Some(Destination::Rfc2136 { server, key, timeout: timeout(converter, pointer, from.timeout.as_ref()) })
}

fn powerdns(converter: &mut Converter<'_, '_>, pointer: &str, from: &wire::PowerDns) -> Option<Destination> {
    let url = url(converter, &format!("{pointer}/url"), &from.url);
    let key = secret(converter, &format!("{pointer}/key"), &from.key);
    let timeout = timeout(converter, pointer, from.timeout.as_ref());
    Some(Destination::PowerDns { url: url?, key: key?, timeout })
}

fn etcd(converter: &mut Converter<'_, '_>, pointer: &str, from: &wire::SkyDns) -> Option<Destination> {
    let List(endpoints) = &from.endpoints;
    let endpoints = endpoints.iter().enumerate();
    let endpoints: Vec<_> =
        endpoints.map(|(at, text)| endpoint(converter, format_args!("{pointer}/endpoints/{at}"), text)).collect();
    let prefix = from.prefix.as_ref().map_or("/skydns/", |Text(prefix)| prefix);
    if !prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
        converter.error(
            format_args!("{pointer}/prefix"),
            format!("{prefix:?} is not printable ASCII"),
            "write it as /skydns/",
        );
    }
    let password = from.password.as_ref().map(|password| secret(converter, &format!("{pointer}/password"), password));
    let user = match (&from.user, password) {
        (None, None) => None,
        (Some(Text(user)), Some(password)) => Some((user.clone(), password?)),
        _ => {
            converter.error(
                pointer,
                "user and password must be given together",
                "add the missing one, or remove the other one",
            );
            None
        }
    };
    let endpoints = endpoints.into_iter().collect::<Option<Vec<_>>>()?;
    if endpoints.iter().any(|endpoint| !endpoint.is_https()) {
        reject_unused(converter, &format!("{pointer}/tls"), &from.tls);
    }
    let tls = tls(converter, &format!("{pointer}/tls"), &from.tls)?;
    let timeout = timeout(converter, pointer, from.timeout.as_ref());
    let etcd = fairway_etcd::Settings::new(endpoints, tls, user, timeout);
    Some(Destination::Etcd { prefix: format!("/{}/", prefix.trim_matches('/')), etcd })
}

fn webhook(converter: &mut Converter<'_, '_>, pointer: &str, from: &wire::WebhookProvider) -> Option<Destination> {
    let url = url(converter, &format!("{pointer}/url"), &from.url);
    let token = from.token.as_ref().map(|token| secret(converter, &format!("{pointer}/token"), token));
    let authorization = match token {
        Some(token) => Some(Secret::new(format!("Bearer {}", token?.expose().trim()))),
        None => None,
    };
    let url = url?;
    if !url.is_https() {
        reject_unused(converter, &format!("{pointer}/tls"), &from.tls);
    }
    Some(Destination::Webhook {
        url,
        authorization,
        tls: tls(converter, &format!("{pointer}/tls"), &from.tls)?,
        weights: from.weights.map(weights),
        timeout: timeout(converter, pointer, from.timeout.as_ref()),
    })
}

fn dnsendpoints(converter: &mut Converter<'_, '_>, pointer: &str, from: &wire::DnsEndpoints) -> Destination {
    let Text(folder) = &from.folder;
    let namespace = from.namespace.as_ref().map_or("default", |Text(namespace)| namespace);
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !namespace.bytes().all(plain) || namespace.starts_with('-') || namespace.ends_with('-') {
        let what = format!("{namespace:?} is not the name of a namespace");
        converter.error(format_args!("{pointer}/namespace"), what, "use lower-case letters, digits and dashes");
    }
    Destination::DnsEndpoints {
        folder: converter.path(&format!("{pointer}/folder"), folder),
        namespace: namespace.to_owned(),
        weights: from.weights.map(weights),
    }
}

fn weights(field: wire::WeightField) -> Weights {
    match field {
        wire::WeightField::Aws => Weights::Aws,
        wire::WeightField::Fairway => Weights::Fairway,
    }
}

fn url(converter: &mut Converter<'_, '_>, pointer: &str, Text(text): &Text<1, 512>) -> Option<Url> {
    let url = Url::parse_base(text);
    url.map_err(|error| converter.error(pointer, error.to_string(), error.hint())).ok()
}

fn timeout(converter: &mut Converter<'_, '_>, pointer: &str, given: Option<&As<Duration>>) -> Duration {
    converter.bounded(&format!("{pointer}/timeout"), given, &TIMEOUTS, TIMEOUT)
}

/// Rejects certificates for a server that is reached without TLS: a user who gives them expects an encrypted
/// connection.
fn reject_unused(converter: &mut Converter<'_, '_>, pointer: &str, from: &wire::CallTls) {
    if from.ca.is_some() || from.cert.is_some() || from.key.is_some() {
        let what = "certificates have no effect on an http URL";
        converter.error(pointer, what, "write https:// everywhere, or remove the certificates");
    }
}

/// Returns TLS settings of calls, after checking that they can be used.
pub(super) fn tls(converter: &mut Converter<'_, '_>, pointer: &str, from: &wire::CallTls) -> Option<Tls> {
    let mut read = |name: &str, given: &Option<Reference>| match given {
        Some(given) => secret(converter, &format!("{pointer}/{name}"), given).map(Some),
        None => Some(None),
    };
    let (ca, cert, key) = (read("ca", &from.ca)?, read("cert", &from.cert)?, read("key", &from.key)?);
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

fn tsig_key(converter: &mut Converter<'_, '_>, pointer: &str, tsig: &wire::Tsig) -> Option<TsigKey> {
    let As(name) = &tsig.name;
    let key = TsigKey {
        name: name.clone(),
        algorithm: match tsig.algorithm {
            None | Some(wire::TsigAlgorithm::Sha256) => TsigAlgorithm::Sha256,
            Some(wire::TsigAlgorithm::Sha384) => TsigAlgorithm::Sha384,
            Some(wire::TsigAlgorithm::Sha512) => TsigAlgorithm::Sha512,
        },
        secret: secret(converter, &format!("{pointer}/secret"), &tsig.secret)?,
    };
    if !key.is_valid() {
        let hint = "use the base64 text of the key, as in the server's configuration";
        converter.error(format_args!("{pointer}/secret"), "the secret is not base64", hint);
    }
    Some(key)
}

/// Accepted time limits of a call.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(120);
/// Default time limit of a call.
const TIMEOUT: Duration = Duration::from_secs(30);
