//! Where a record has published to, as its flags tell.
//!
//! A record names no file of the server: certificates stand in it themselves, and what is written lies in a folder of its own.

use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use fairway_etcd::Settings;
use fairway_http::{Tls, Url};
use fairway_model::{Name, Secret};
use fairway_providers::{
    publish::Weights,
    rfc2136::{TsigAlgorithm, TsigKey},
    spoken::Native,
};

use super::given::Given;
use fairway_config::{Destination, show_duration};

/// The place. `folder` is the one for files of the record.
pub(super) fn destination(given: &mut Given<'_>, folder: Option<&Path>) -> Option<Destination> {
    match given.native() {
        Native::DnsEndpoint => dnsendpoints(given, folder),
        Native::Etcd => etcd(given),
        Native::File => Some(Destination::File(inside(given, "path", "records.zone", folder)?)),
        Native::PowerDns => powerdns(given),
        Native::Rfc2136 => rfc2136(given),
        Native::Webhook => webhook(given),
    }
}

fn rfc2136(given: &mut Given<'_>) -> Option<Destination> {
    let host = match given.list("rfc2136-host")[..] {
        [] => {
            given.flaw("rfc2136-host", "is missing; give the address of the server, as 192.0.2.53");
            None
        }
        [host] => {
            let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
            if address.is_none() {
                given.flaw("rfc2136-host", format!("{host:?} is no address, and names are not looked up; give one"));
            }
            address
        }
        _ => {
            given.flaw("rfc2136-host", "several servers are given; make a record of each");
            None
        }
    };
    let port = given.whole("rfc2136-port", &(1..=65_535)).and_then(|port| u16::try_from(port).ok()).unwrap_or(53);
    let key = tsig_key(given)?;
    Some(Destination::Rfc2136 { server: SocketAddr::new(host?, port), key, timeout: TIMEOUT })
}

/// What messages are signed with; no key only where that is said.
fn tsig_key(given: &mut Given<'_>) -> Option<Option<TsigKey>> {
    let (keyname, secret) = ("rfc2136-tsig-keyname", "rfc2136-tsig-secret");
    if given.switch("rfc2136-insecure") == Some(true) {
        for flag in [keyname, secret, "rfc2136-tsig-secret-alg"] {
            if given.has(flag) {
                given.flaw(flag, "signs nothing with rfc2136-insecure; take one of both out");
            }
        }
        return Some(None);
    }
    let name = given.needed(keyname, "the key's name; or say rfc2136-insecure for a server that goes by addresses");
    let algorithm = given.word("rfc2136-tsig-secret-alg", ALGORITHMS).unwrap_or_default();
    let text = given.needed(secret, "the key in base64, as in the server's configuration");
    let Ok(name) = name?.parse::<Name>() else {
        given.flaw(keyname, "is no domain name; write it as the server's configuration does");
        return None;
    };
    let key = TsigKey { name, algorithm, secret: Secret::new(text?) };
    if key.octets().is_none() {
        given.flaw(secret, "is no base64; give the key as in the server's configuration");
    }
    Some(Some(key))
}

fn powerdns(given: &mut Given<'_>) -> Option<Destination> {
    let url = given.needed("pdns-server", "the URL of its API, as http://192.0.2.53:8081");
    let url = url.and_then(|url| given.url("pdns-server", url));
    let key = given.needed("pdns-api-key", "its api-key");
    check_line(given, "pdns-api-key");
    Some(Destination::PowerDns { url: url?, key: Secret::new(key?), timeout: TIMEOUT })
}

fn etcd(given: &mut Given<'_>) -> Option<Destination> {
    given.needed("etcd-urls", "the URLs of its servers, as http://192.0.2.10:2379, several with commas between")?;
    let texts = given.list("etcd-urls");
    if !(1..=ENDPOINTS_MAX).contains(&texts.len()) {
        given.flaw("etcd-urls", format!("{} URLs are given; 1 to {ENDPOINTS_MAX} can be", texts.len()));
    }
    let endpoints: Vec<_> = texts.into_iter().map(|text| given.endpoint("etcd-urls", text)).collect();
    let endpoints = endpoints.into_iter().collect::<Option<Vec<_>>>()?;
    let prefix = given.text("coredns-prefix").unwrap_or("/skydns/").trim_matches('/');
    if prefix.is_empty() || prefix.len() > PREFIX_MAX || !prefix.bytes().all(|octet| octet.is_ascii_graphic()) {
        let detail = format!("is no prefix of at most {PREFIX_MAX} printable characters; write it as /skydns/");
        given.flaw("coredns-prefix", detail);
    }
    let user = match (given.text("etcd-username"), given.text("etcd-password")) {
        (None, None) => None,
        (Some(user), Some(password)) => Some((user.to_owned(), Secret::new(password))),
        (user, _) => {
            let flag = if user.is_some() { "etcd-username" } else { "etcd-password" };
            given.flaw(flag, "user and password mean nothing without each other; give both or none");
            None
        }
    };
    let is_tls = endpoints.iter().all(Url::is_https);
    let tls = tls(given, ["etcd-ca-file", "etcd-cert-file", "etcd-key-file"], is_tls)?;
    Some(Destination::Etcd { prefix: format!("/{prefix}/"), etcd: Settings::new(endpoints, tls, user, TIMEOUT) })
}

fn webhook(given: &mut Given<'_>) -> Option<Destination> {
    let url = given.needed("webhook-provider-url", "its URL, as http://127.0.0.1:8888");
    let url = url.and_then(|url| given.url("webhook-provider-url", url));
    let authorization = given.text("token").map(|token| Secret::new(format!("Bearer {token}")));
    check_line(given, "token");
    let weights = weights(given);
    let timeout = webhook_timeout(given);
    let url = url?;
    let tls = tls(given, ["tls-ca", "tls-client-cert", "tls-client-cert-key"], url.is_https())?;
    Some(Destination::Webhook { url, authorization, tls, weights, timeout })
}

/// Refuses what no header of a request can hold.
fn check_line(given: &mut Given<'_>, flag: &str) {
    if given.text(flag).is_some_and(|text| text.chars().any(char::is_control)) {
        given.flaw(flag, "has several lines, or control characters; give it alone");
    }
}

/// ExternalDNS gives a call the time for reading and for writing together.
fn webhook_timeout(given: &mut Given<'_>) -> Duration {
    let (reading, writing) = ("webhook-provider-read-timeout", "webhook-provider-write-timeout");
    let parts = [given.duration(reading, &PARTS), given.duration(writing, &PARTS)];
    let timeout = match parts {
        [None, None] => return TIMEOUT,
        [read, write] => read.unwrap_or(READING) + write.unwrap_or(WRITING),
    };
    if !TIMEOUTS.contains(&timeout) {
        let flag = if given.has(reading) { reading } else { writing };
        let (least, most) = (show_duration(*TIMEOUTS.start()), show_duration(*TIMEOUTS.end()));
        let detail = format!("a call would have {}; {least} to {most} can be", show_duration(timeout));
        given.flaw(flag, format!("{detail}, reading and writing together"));
    }
    timeout
}

fn dnsendpoints(given: &mut Given<'_>, folder: Option<&Path>) -> Option<Destination> {
    let namespace = given.text("namespace").unwrap_or("default").to_owned();
    let plain = |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit() || octet == b'-';
    if namespace.len() > 63 || !namespace.bytes().all(plain) || namespace.starts_with('-') || namespace.ends_with('-') {
        let detail = format!("{namespace:?} is no name of a namespace; give lower-case letters, digits and dashes");
        given.flaw("namespace", detail);
    }
    let weights = weights(given);
    let folder = inside(given, "folder", "objects", folder)?;
    Some(Destination::DnsEndpoints { folder, namespace, weights })
}

fn weights(given: &mut Given<'_>) -> Option<Weights> {
    given.word("weights", WEIGHTS)
}

/// A path below the folder of the record. Each step of it is plain, so that none leads elsewhere.
fn inside(given: &mut Given<'_>, flag: &str, default: &str, folder: Option<&Path>) -> Option<PathBuf> {
    let Some(folder) = folder else {
        given.flaw(flag, "this server has no data folder, and writes to no other; start it with --data-dir");
        return None;
    };
    let path = given.text(flag).unwrap_or(default);
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    let is_plain =
        |step: &str| (1..=STEP_MAX).contains(&step.len()) && !step.starts_with('.') && step.bytes().all(plain);
    if path.split('/').count() > STEPS_MAX || !path.split('/').all(is_plain) {
        let detail = format!(
            "{path:?} is no path within the record's own folder; give at most {STEPS_MAX} steps of letters, digits, '-', '_' and \
             '.' with '/' between, none of them beginning with '.'"
        );
        given.flaw(flag, detail);
        return None;
    }
    Some(folder.join(path))
}

/// TLS of calls: authority, certificate and key, each as PEM.
fn tls(given: &mut Given<'_>, flags: [&str; 3], is_tls: bool) -> Option<Tls> {
    let said: Vec<&str> = flags.into_iter().filter(|flag| given.has(flag)).collect();
    let Some(first) = said.first() else { return Some(Tls::default()) };
    if !is_tls {
        given.flaw(first, "a certificate is given for a URL without TLS; write https://, or take it out");
        return None;
    }
    let [ca, cert, key] = flags.map(|flag| given.text(flag));
    if let Some(flag) = said.iter().find(|flag| given.text(flag).is_none_or(|text| !text.contains("-----BEGIN "))) {
        given.flaw(flag, "is no PEM: a record names no file of the server; give what would be in the file");
        return None;
    }
    if cert.is_some() != key.is_some() {
        given.flaw(flags[if cert.is_some() { 1 } else { 2 }], "certificate and key go together; give both or none");
        return None;
    }
    let tls = Tls { ca: ca.map(Secret::new), identity: cert.map(Secret::new).zip(key.map(Secret::new)) };
    if let Err(error) = tls.config() {
        given.flaw(first, format!("{error}; give certificates and a key that belongs to them, all in PEM"));
        return None;
    }
    Some(tls)
}

const ALGORITHMS: &[(&str, TsigAlgorithm)] = &[
    ("hmac-sha256", TsigAlgorithm::Sha256),
    ("hmac-sha384", TsigAlgorithm::Sha384),
    ("hmac-sha512", TsigAlgorithm::Sha512),
];
const WEIGHTS: &[(&str, Weights)] = &[("aws", Weights::Aws), ("fairway", Weights::Fairway)];
/// How long a call may take where nothing is said, as of the section `publish`.
const TIMEOUT: Duration = Duration::from_secs(30);
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(120);
/// Each part of a call's time.
const PARTS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(120);
/// What ExternalDNS gives where only the other part is said.
const READING: Duration = Duration::from_secs(5);
const WRITING: Duration = Duration::from_secs(10);
const ENDPOINTS_MAX: usize = 16;
const PREFIX_MAX: usize = 200;
/// Steps of a path, and their octets.
const STEPS_MAX: usize = 8;
const STEP_MAX: usize = 100;
