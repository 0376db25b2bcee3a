//! What an endpoint means: addresses that are offered for a name, or records that are served as they are; and what is odd about it.
//!
//! Whatever is odd is told and blocks nothing: an endpoint that was acknowledged is kept, and given back, as it is.

use std::{net::IpAddr, sync::Arc};

use fairway_model::{
    Check, ClusterName, ContributedSpec, HttpCheck, Monitor, MonitorName, Name, RecordSet, Rtype, StatusSet, Tier,
    TlsCheck, Ttl, Weight, closest,
};
use fairway_providers::{Endpoint, plain_name};
use fairway_zonefile::rdata_from_text;

use super::rows_wire::Row;

/// An endpoint that is kept, with what it means.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadRow {
    /// As it is kept.
    pub row: Row,
    /// The name; none where it is not one.
    pub name: Option<Name>,
    /// The name as it is told, without its final dot; else what stands in its place, as plans compare it.
    pub text: Arc<str>,
    /// What it means.
    pub meaning: Meaning,
    /// What is odd about it.
    pub odd: Vec<String>,
}

/// What an endpoint means.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    /// Addresses that are offered for a steered name.
    Addresses(Vec<IpAddr>, Arc<ContributedSpec>),
    /// Nothing that can be served.
    Nothing,
    /// Records that are served as they are.
    Records(RecordSet),
}

impl ReadRow {
    pub(crate) fn new(row: Row) -> Self {
        let mut odd = Vec::new();
        let endpoint = &row.endpoint;
        let name = endpoint.dns_name.parse::<Name>().map(|name| name.to_lowercase());
        let name = name.map_err(|error| odd.push(format!("it is no domain name: {error}"))).ok();
        let rtype = endpoint.record_type.parse::<Rtype>().ok().filter(|rtype| !rtype.is_meta());
        let meaning = match (&name, rtype) {
            (Some(_), Some(Rtype::A | Rtype::AAAA)) => {
                let addresses = addresses(endpoint, &mut odd);
                let wanted = wanted(endpoint, &mut odd);
                if addresses.is_empty() { Meaning::Nothing } else { Meaning::Addresses(addresses, Arc::new(wanted)) }
            }
            (Some(name), Some(rtype)) => match records(endpoint, name, rtype, &mut odd) {
                Some(set) => Meaning::Records(set),
                None => Meaning::Nothing,
            },
            (Some(_), None) => {
                odd.push(format!("{:.40?} is no type of records", endpoint.record_type));
                Meaning::Nothing
            }
            (None, _) => Meaning::Nothing,
        };
        let text = name.as_ref().map_or_else(|| plain_name(&endpoint.dns_name), |name| plain_name(&name.to_string()));
        Self { text: text.into(), row, name, meaning, odd }
    }

    /// Whether its name can be spelled in another way, so that its rows need not lie in one part.
    pub fn is_spelled_otherwise(&self) -> bool {
        plain_name(&self.row.endpoint.dns_name) != *self.text
    }

    /// Who the endpoint belongs to, where it tells.
    pub fn told_owner(&self) -> Option<&str> {
        let endpoint = &self.row.endpoint;
        let own = endpoint.labels.get("owner").map(String::as_str);
        own.or_else(|| endpoint.targets.iter().find_map(|target| heritage_owner(target))).filter(|own| !own.is_empty())
    }

    /// The name whose owner a record of the registry tells: its label says which, else its own name does, as `a-www` for `www`.
    pub fn companion_of(&self) -> Option<String> {
        let endpoint = &self.row.endpoint;
        if !endpoint.record_type.eq_ignore_ascii_case("TXT") || self.told_owner().is_none() {
            return None;
        }
        if let Some(owned) = endpoint.labels.get("ownedRecord") {
            return Some(plain_name(owned));
        }
        let own = plain_name(&endpoint.dns_name);
        let (word, rest) = own.split_once('-')?;
        REGISTRY_TYPES.contains(&word).then(|| rest.to_owned())
    }
}

/// The owner in a record of the TXT registry: `heritage=external-dns,external-dns/owner=NAME,…`.
fn heritage_owner(target: &str) -> Option<&str> {
    let pairs = target.trim_matches('"').strip_prefix("heritage=external-dns,")?;
    pairs.split(',').find_map(|pair| pair.strip_prefix("external-dns/owner="))
}

fn addresses(endpoint: &Endpoint, odd: &mut Vec<String>) -> Vec<IpAddr> {
    let wants_v4 = endpoint.record_type.eq_ignore_ascii_case("A");
    let mut addresses = Vec::with_capacity(endpoint.targets.len());
    for target in &endpoint.targets {
        match target.parse::<IpAddr>().ok().filter(|address| address.is_ipv4() == wants_v4) {
            Some(address) => addresses.push(address),
            None => odd.push(format!("{target:.60?} is no address of type {}", endpoint.record_type)),
        }
    }
    if endpoint.targets.is_empty() {
        odd.push("it has no target".to_owned());
    }
    odd.truncate(ODD_MAX);
    addresses
}

fn records(endpoint: &Endpoint, name: &Name, rtype: Rtype, odd: &mut Vec<String>) -> Option<RecordSet> {
    if matches!(rtype, Rtype::SOA) {
        odd.push("a zone's SOA is its own".to_owned());
        return None;
    }
    let ttl = ttl_of(endpoint, odd).unwrap_or(RECORDS_TTL);
    let mut rdatas = Vec::with_capacity(endpoint.targets.len());
    for target in &endpoint.targets {
        let read = match rtype {
            Rtype::TXT => text(target),
            // Names of targets are whole, with a final dot or without.
            _ => rdata_from_text(rtype, target.as_bytes(), &Name::root()).map_err(|error| error.to_string()),
        };
        match read {
            Ok(rdata) => rdatas.push(rdata),
            Err(what) => odd.push(format!("{target:.60?}: {what}")),
        }
    }
    if endpoint.targets.is_empty() {
        odd.push("it has no target".to_owned());
    }
    odd.truncate(ODD_MAX);
    let set = RecordSet::new(name.clone(), rtype, ttl, rdatas);
    (!set.rdatas.is_empty()).then_some(set)
}

/// TXT data of a target: character strings in quotes, or one text as it is; each is cut where it is longer than 255 octets.
fn text(target: &str) -> Result<Box<[u8]>, String> {
    let strings = if target.starts_with('"') { quoted(target)? } else { vec![target.as_bytes().to_vec()] };
    let mut rdata = Vec::with_capacity(target.len() + 16);
    for string in strings {
        if string.is_empty() {
            rdata.push(0);
        }
        for piece in string.chunks(255) {
            rdata.push(u8::try_from(piece.len()).unwrap_or(u8::MAX));
            rdata.extend_from_slice(piece);
        }
    }
    match rdata.len() {
        0..=TXT_MAX => Ok(rdata.into()),
        length => Err(format!("{length} octets of text are more than the {TXT_MAX} that one record may have")),
    }
}

/// Strings in quotes with white space between; `\"`, `\\` and `\DDD` stand for one octet each (RFC 1035 section 5.1).
fn quoted(target: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut strings = Vec::new();
    let mut rest = target.as_bytes().iter().copied();
    while let Some(octet) = rest.next() {
        match octet {
            b' ' | b'\t' => continue,
            b'"' => {}
            _ => return Err("something stands between its strings".to_owned()),
        }
        let mut string = Vec::new();
        loop {
            match rest.next() {
                None => return Err("the closing quote is missing".to_owned()),
                Some(b'"') => break,
                Some(b'\\') => string.push(escaped(&mut rest)?),
                Some(octet) => string.push(octet),
            }
        }
        strings.push(string);
    }
    Ok(strings)
}

fn escaped(rest: &mut impl Iterator<Item = u8>) -> Result<u8, String> {
    let wrong = || "a backslash is followed by neither a character nor three digits".to_owned();
    let first = rest.next().ok_or_else(wrong)?;
    if !first.is_ascii_digit() {
        return Ok(first);
    }
    let mut value = u16::from(first - b'0');
    for _ in 0..2 {
        let digit = rest.next().filter(u8::is_ascii_digit).ok_or_else(wrong)?;
        value = value * 10 + u16::from(digit - b'0');
    }
    u8::try_from(value).map_err(|_| wrong())
}

fn ttl_of(endpoint: &Endpoint, odd: &mut Vec<String>) -> Option<Ttl> {
    if endpoint.record_ttl == 0 {
        return None;
    }
    let ttl = u32::try_from(endpoint.record_ttl).ok().and_then(|secs| Ttl::from_secs(secs).ok());
    if ttl.is_none() {
        odd.push(format!("{} is no TTL in seconds", endpoint.record_ttl));
    }
    ttl
}

/// What the properties say.
fn wanted(endpoint: &Endpoint, odd: &mut Vec<String>) -> ContributedSpec {
    let mut wanted = ContributedSpec { ttl: ttl_of(endpoint, odd), ..ContributedSpec::default() };
    let mut health = Health::default();
    for property in &endpoint.provider_specific {
        let Some(word) = property.name.strip_prefix(PREFIX) else { continue };
        let value = property.value.trim();
        let read = match word {
            "answers" => set(&mut wanted.answers, value.parse().ok().filter(|count| (1..=8).contains(count))),
            "cluster" => set(&mut wanted.cluster, ClusterName::new(value).ok()),
            "health-path" => set(&mut health.path, path(value)),
            "health-port" => set(&mut health.port, value.parse().ok().filter(|port| *port > 0)),
            "health-scheme" => set(&mut health.scheme, SCHEMES.iter().find(|scheme| **scheme == value).copied()),
            "policy" => set(&mut wanted.policy, policy(value)),
            "region" => set(&mut wanted.region, Some(value).filter(|text| is_word(text)).map(Arc::from)),
            "tier" => set(&mut wanted.tier, value.parse().ok().and_then(|tier| Tier::new(tier).ok())),
            "ttl" => set(&mut wanted.ttl, ttl_of_text(value)),
            "weight" => set(&mut wanted.weight, value.parse().ok().map(Weight)),
            _ => {
                let known = KNOWN.iter().map(|(word, _)| *word);
                let hint = closest(word, known).map_or_else(String::new, |best| format!("; did you mean gslb-{best}?"));
                odd.push(format!("webhook-gslb-{word:.60} is not known{hint}"));
                continue;
            }
        };
        if !read {
            let expected = KNOWN.iter().find(|(known, _)| *known == word).map_or("", |(_, expected)| expected);
            odd.push(format!("webhook-gslb-{word} is {value:.60?}; give {expected}"));
        }
    }
    wanted.monitor = health.monitor();
    odd.truncate(ODD_MAX);
    wanted
}

/// Sets what was read; tells whether anything was.
fn set<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    let read = value.is_some();
    *place = value.or_else(|| place.take());
    read
}

/// A number of seconds, or a time with its unit.
fn ttl_of_text(text: &str) -> Option<Ttl> {
    let secs = text.parse().ok().or_else(|| {
        let time = fairway_config::parse_duration(text).ok().filter(|time| time.subsec_nanos() == 0)?;
        u32::try_from(time.as_secs()).ok()
    });
    secs.and_then(|secs| Ttl::from_secs(secs).ok())
}

fn policy(text: &str) -> Option<fairway_model::Policy> {
    let words: Vec<String> = text.split(',').map(|word| word.trim().to_owned()).collect();
    fairway_config::parse_policy(&words).ok()
}

fn path(text: &str) -> Option<String> {
    let sound = text.starts_with('/') && text.len() <= 1_024 && text.bytes().all(|octet| octet.is_ascii_graphic());
    sound.then(|| text.to_owned())
}

fn is_word(text: &str) -> bool {
    (1..=64).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// What is said of a member's check.
#[derive(Default)]
struct Health {
    scheme: Option<&'static str>,
    port: Option<u16>,
    path: Option<String>,
}

impl Health {
    /// The monitor that it comes to; none where nothing is said.
    fn monitor(self) -> Option<(MonitorName, Arc<Monitor>)> {
        let Self { scheme, port, path } = self;
        if scheme.is_none() && port.is_none() && path.is_none() {
            return None;
        }
        let usual = if path.is_some() { "http" } else { "tcp" };
        let scheme = scheme.unwrap_or(usual);
        let port = port.unwrap_or(if scheme == "http" { 80 } else { 443 });
        let path = path.unwrap_or_else(|| "/".to_owned());
        let http = |tls| HttpCheck {
            port,
            path: path.clone(),
            method: "GET".to_owned(),
            host: None,
            headers: vec![],
            status: StatusSet::default(),
            body: None,
            response_header: None,
            tls,
        };
        let (check, text) = match scheme {
            "none" => (Check::Always, "webhook+none".to_owned()),
            "tcp" => (Check::Tcp { port }, format!("webhook+tcp+{port}")),
            // Which name a gateway's certificate has is not known here: what counts is that it answers.
            "https" => {
                let tls = TlsCheck { verify: false, ..TlsCheck::default() };
                (Check::Http(http(Some(tls))), format!("webhook+https+{port}+{}", super::name_part(&path)))
            }
            _ => (Check::Http(http(None)), format!("webhook+http+{port}+{}", super::name_part(&path))),
        };
        Some((MonitorName::new(&text).ok()?, Arc::new(Monitor::new(check))))
    }
}

/// What the names of our properties begin with.
const PREFIX: &str = "webhook/gslb-";
/// How a member can be checked.
const SCHEMES: &[&str] = &["http", "https", "none", "tcp"];
/// Our properties, and what each takes.
const KNOWN: &[(&str, &str)] = &[
    ("answers", "a number from 1 to 8"),
    ("cluster", "the name of a declared cluster"),
    ("health-path", "a path that begins with /"),
    ("health-port", "a port from 1 to 65535"),
    ("health-scheme", "http, https, tcp or none"),
    ("policy", "weighted, failover, sticky, or a list of tier, load and one of them"),
    ("region", "a name of 1 to 64 characters"),
    ("tier", "a number from 1 to 255"),
    ("ttl", "a number of seconds, or a time like 30s"),
    ("weight", "a number from 0 to 65535"),
];
/// Types whose word stands before the name in the registry.
const REGISTRY_TYPES: &[&str] = &["a", "aaaa", "cname", "mx", "naptr", "ns", "ptr", "srv", "txt"];
/// TTL of records of which nothing is said, as most providers of ExternalDNS have it.
const RECORDS_TTL: Ttl = match Ttl::from_secs(300) {
    Ok(ttl) => ttl,
    Err(_) => Ttl::STEERED,
};
/// What a message holds beside the head and the name of a record.
const TXT_MAX: usize = 65_000;
/// Most oddities that are told of one endpoint.
const ODD_MAX: usize = 5;

#[cfg(test)]
mod tests;
