//! Reads endpoints: addresses for a steered name, or records that are served as they are.
//!
//! A problem of an endpoint is reported as a warning and blocks nothing. An endpoint that was acknowledged is stored and returned
//! unchanged.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use fairway_model::{
    Check, ClusterName, ContributedSpec, HttpCheck, Monitor, MonitorName, Name, NameContribution, RecordSet, Rtype,
    Tier, TlsCheck, Ttl, Weight, closest,
};
use fairway_providers::{Endpoint, Json, plain_name};
use fairway_zonefile::rdata_from_text;

use super::{
    names::name_part,
    rows_wire::{Part, Row, Withdrawn},
};

/// A stored endpoint with its meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadRow {
    /// The stored endpoint.
    pub row: Row,
    /// The name; `None` if it is invalid.
    pub name: Option<Name>,
    /// The name in its usual spelling without the final dot. An invalid name is kept as ExternalDNS compares it.
    pub text: Arc<str>,
    /// The meaning.
    pub meaning: Meaning,
    /// Problems, for people.
    pub problems: Vec<String>,
}

/// The meaning of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    /// Addresses for a steered name.
    Addresses(Vec<IpAddr>, Arc<ContributedSpec>),
    /// A host name whose addresses are those of a steered name: a CNAME with a set identifier.
    Host(Name, Arc<ContributedSpec>),
    /// An endpoint that cannot be served.
    Nothing,
    /// Records that are served as they are.
    Records(RecordSet),
}

impl Meaning {
    /// Adds addresses or host name to the contribution of an owner.
    pub(crate) fn add_to(&self, contribution: &mut NameContribution) {
        match self {
            Self::Addresses(addresses, _) => contribution.addresses.extend(addresses),
            Self::Host(host, _) => contribution.hosts.push(host.clone()),
            Self::Nothing | Self::Records(_) => {}
        }
    }
}

/// A part of a client's rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadPart {
    /// The rows.
    pub rows: Box<[Arc<ReadRow>]>,
    /// Names that were withdrawn at once, in the last ten minutes or since the part was written.
    pub withdrawn: Box<[Withdrawn]>,
}

impl ReadPart {
    /// Reads the value of an object. Rows that are the same in its last version are shared with it.
    pub fn read(bytes: &[u8], before: Option<&Self>) -> Result<Self, String> {
        let part = Part::from_json(bytes)?;
        let known: HashMap<_, _> =
            before.iter().flat_map(|part| &part.rows).map(|row| (row.row.identity(), row)).collect();
        let read = |row: Row| match known.get(&row.identity()).filter(|known| known.stored() == row) {
            Some(known) => Arc::clone(known),
            None => Arc::new(ReadRow::new(row)),
        };
        Ok(Self { rows: part.rows.into_iter().map(read).collect(), withdrawn: part.withdrawn.into() })
    }

    /// Returns the value of the object that holds it.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.part().to_bytes().unwrap_or_default()
    }

    /// Returns the part as it is stored.
    pub fn part(&self) -> Part {
        Part { rows: self.rows.iter().map(|row| row.stored()).collect(), withdrawn: self.withdrawn.to_vec() }
    }
}

impl ReadRow {
    /// Reads a row.
    pub fn new(mut row: Row) -> Self {
        let mut problems = Vec::new();
        row.endpoint.targets.shrink_to_fit();
        row.endpoint.provider_specific.shrink_to_fit();
        let endpoint = &row.endpoint;
        let name = Name::without_control(&endpoint.dns_name).map(|name| name.to_lowercase());
        let name = name.map_err(|error| problems.push(format!("invalid domain name: {error}"))).ok();
        let rtype = endpoint.record_type.parse::<Rtype>().ok().filter(|rtype| !rtype.is_meta());
        let meaning = match (&name, rtype) {
            (Some(_), Some(Rtype::A | Rtype::AAAA)) => {
                let addresses = addresses(endpoint, &mut problems);
                let spec = spec(endpoint, &mut problems);
                if addresses.is_empty() { Meaning::Nothing } else { Meaning::Addresses(addresses, shared(spec)) }
            }
            (Some(_), Some(Rtype::CNAME)) if !endpoint.set_identifier.is_empty() => {
                match host(endpoint, &mut problems) {
                    Some(host) => Meaning::Host(host, shared(spec(endpoint, &mut problems))),
                    None => Meaning::Nothing,
                }
            }
            (Some(name), Some(rtype)) => match records(endpoint, name, rtype, &mut problems) {
                Some(set) => Meaning::Records(set),
                None => Meaning::Nothing,
            },
            (Some(_), None) => {
                problems.push(format!("{:.40?} is not a record type", endpoint.record_type));
                Meaning::Nothing
            }
            (None, _) => Meaning::Nothing,
        };
        let text = name.as_ref().map_or_else(|| plain_name(&endpoint.dns_name), |name| name.to_plain());
        problems.shrink_to_fit();
        let mut read = Self { text: text.into(), row, name, meaning, problems };
        read.leave_out_targets();
        read
    }

    /// Removes targets that follow from the records.
    fn leave_out_targets(&mut self) {
        let Meaning::Records(set) = &self.meaning else { return };
        if set.rtype == Rtype::TXT && self.declared_owner().is_none() && self.row.endpoint.targets == unquoted(set) {
            self.row.endpoint.targets = Vec::new();
        }
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> Endpoint {
        let mut endpoint = self.row.endpoint.clone();
        if let (Meaning::Records(set), true) = (&self.meaning, endpoint.targets.is_empty()) {
            endpoint.targets = unquoted(set);
        }
        endpoint
    }

    /// Returns the row as it is stored.
    fn stored(&self) -> Row {
        Row { endpoint: self.endpoint(), ..self.row }
    }

    /// Returns true if the spelling of its name differs from the text, so that other rows of the name may be in another part.
    pub fn is_respelled(&self) -> bool {
        plain_name(&self.row.endpoint.dns_name) != *self.text
    }

    /// Returns the type of the records that it declares.
    pub fn rtype(&self) -> Option<Rtype> {
        match &self.meaning {
            Meaning::Addresses(addresses, _) => Some(if addresses.first()?.is_ipv4() { Rtype::A } else { Rtype::AAAA }),
            Meaning::Host(..) => Some(Rtype::CNAME),
            Meaning::Nothing => None,
            Meaning::Records(set) => Some(set.rtype),
        }
    }

    /// Returns true if it declares a member of a steered name.
    pub const fn is_member(&self) -> bool {
        matches!(self.meaning, Meaning::Addresses(..) | Meaning::Host(..))
    }

    /// Returns the owner that the endpoint itself declares.
    pub fn declared_owner(&self) -> Option<&str> {
        declared_owner(&self.row.endpoint)
    }

    /// Returns the name whose owner this record of the registry declares. The name is in its label, or follows from its own name, as `www`
    /// from `a-www`.
    pub fn companion_of(&self) -> Option<String> {
        let endpoint = &self.row.endpoint;
        if !endpoint.record_type.eq_ignore_ascii_case("TXT") || self.declared_owner().is_none() {
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

/// Returns the owner that an endpoint declares.
pub(crate) fn declared_owner(endpoint: &Endpoint) -> Option<&str> {
    let own = endpoint.labels.get("owner");
    own.or_else(|| endpoint.targets.iter().find_map(|target| heritage_owner(target))).filter(|own| !own.is_empty())
}

/// Returns the owner in a record of the TXT registry: `heritage=external-dns,external-dns/owner=NAME,…`.
fn heritage_owner(target: &str) -> Option<&str> {
    let pairs = target.trim_matches('"').strip_prefix("heritage=external-dns,")?;
    pairs.split(',').find_map(|pair| pair.strip_prefix("external-dns/owner="))
}

/// Reads the targets. Invalid ones are reported and skipped.
fn targets<T>(endpoint: &Endpoint, problems: &mut Vec<String>, read: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
    let mut valid = Vec::with_capacity(endpoint.targets.len());
    for target in &endpoint.targets {
        match read(target) {
            Ok(value) => valid.push(value),
            Err(problem) => problems.push(format!("{target:.60?}{problem}")),
        }
    }
    if endpoint.targets.is_empty() {
        problems.push("it has no target".to_owned());
    }
    problems.truncate(PROBLEMS_MAX);
    valid
}

fn addresses(endpoint: &Endpoint, problems: &mut Vec<String>) -> Vec<IpAddr> {
    let wants_v4 = endpoint.record_type.eq_ignore_ascii_case("A");
    targets(endpoint, problems, |target| {
        let address = target.parse::<IpAddr>().ok().filter(|address| address.is_ipv4() == wants_v4);
        address.ok_or_else(|| format!(" is not an address of type {}", endpoint.record_type))
    })
}

/// Reads the target of a CNAME that is a member.
fn host(endpoint: &Endpoint, problems: &mut Vec<String>) -> Option<Name> {
    let hosts = targets(endpoint, problems, |target| {
        let name = Name::without_control(target).ok().filter(Name::is_host);
        name.map(|name| name.to_lowercase()).ok_or_else(|| " is not a host name".to_owned())
    });
    if hosts.len() > 1 {
        problems.push("a CNAME has one target; the first one is used".to_owned());
    }
    hosts.into_iter().next()
}

fn records(endpoint: &Endpoint, name: &Name, rtype: Rtype, problems: &mut Vec<String>) -> Option<RecordSet> {
    if matches!(rtype, Rtype::SOA) {
        problems.push("SOA records cannot be contributed: the zone has its own".to_owned());
        return None;
    }
    let ttl = ttl_of(endpoint, problems).unwrap_or(RECORDS_TTL);
    let rdatas = targets(endpoint, problems, |target| {
        let read = match rtype {
            Rtype::TXT => text(target),
            // Target names are absolute, with or without a final dot.
            _ => rdata_from_text(rtype, target.as_bytes(), &Name::root()).map_err(|error| error.to_string()),
        };
        read.map_err(|what| format!(": {what}"))
    });
    let set = RecordSet::new(name.clone(), rtype, ttl, rdatas);
    (!set.rdatas.is_empty()).then_some(set)
}

/// Returns the TXT data of a target: quoted character strings, or one unquoted text. Strings are split after 255 octets (RFC 1035 section
/// 3.3).
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
        length => Err(format!("the text has {length} octets; one record has {TXT_MAX} at most")),
    }
}

/// Returns the targets of TXT records that [`text`] reads as these, if they were not quoted.
fn unquoted(set: &RecordSet) -> Vec<String> {
    let target = |rdata: &[u8]| {
        let (mut text, mut rest) = (Vec::with_capacity(rdata.len()), rdata);
        while let Some((length, tail)) = rest.split_first() {
            let (string, tail) = tail.split_at_checked(usize::from(*length))?;
            text.extend_from_slice(string);
            rest = tail;
        }
        String::from_utf8(text).ok()
    };
    set.rdatas.iter().filter_map(|rdata| target(rdata)).collect()
}

/// Returns quoted strings that are separated by white space. `\"`, `\\` and `\DDD` are one octet each (RFC 1035 section 5.1).
fn quoted(target: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut strings = Vec::new();
    let mut rest = target.as_bytes().iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            b' ' | b'\t' => continue,
            b'"' => {}
            _ => return Err("there is text between the quoted strings".to_owned()),
        }
        let mut string = Vec::new();
        loop {
            match rest.next() {
                None => return Err("the closing quote is missing".to_owned()),
                Some(b'"') => break,
                Some(b'\\') => string.push(escaped(&mut rest)?),
                Some(byte) => string.push(byte),
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

fn ttl_of(endpoint: &Endpoint, problems: &mut Vec<String>) -> Option<Ttl> {
    if endpoint.record_ttl == 0 {
        return None;
    }
    let ttl = u32::try_from(endpoint.record_ttl).ok().and_then(|secs| Ttl::from_secs(secs).ok());
    if ttl.is_none() {
        problems.push(format!("{} is not a TTL in seconds", endpoint.record_ttl));
    }
    ttl
}

/// Returns the specification in shared memory: most endpoints have no properties, and these have the default once.
fn shared(spec: ContributedSpec) -> Arc<ContributedSpec> {
    static DEFAULT: LazyLock<Arc<ContributedSpec>> = LazyLock::new(Arc::default);
    if spec == **DEFAULT { Arc::clone(&DEFAULT) } else { Arc::new(spec) }
}

/// Reads the properties.
fn spec(endpoint: &Endpoint, problems: &mut Vec<String>) -> ContributedSpec {
    let mut spec = ContributedSpec { ttl: ttl_of(endpoint, problems), ..ContributedSpec::default() };
    let mut health = Health::default();
    for property in &endpoint.provider_specific {
        let Some(word) = property.name.strip_prefix(PREFIX) else { continue };
        let value = property.value.trim();
        let read = match word {
            "answers" => set(&mut spec.answers, value.parse().ok().filter(|count| (1..=8).contains(count))),
            "capacity-per-pod" => {
                set(&mut spec.capacity_per_pod, value.parse().ok().filter(|count| (1..=CAPACITY_MAX).contains(count)))
            }
            "cluster" => set(&mut spec.cluster, ClusterName::new(value).ok()),
            "health-path" => set(&mut health.path, path(value)),
            "health-port" => set(&mut health.port, value.parse().ok().filter(|port| *port > 0)),
            "health-scheme" => set(&mut health.scheme, SCHEMES.iter().find(|scheme| **scheme == value).copied()),
            "policy" => set(&mut spec.policy, policy(value)),
            "region" => set(&mut spec.region, Some(value).filter(|text| is_word(text)).map(Arc::from)),
            "tier" => set(&mut spec.tier, value.parse().ok().and_then(|tier| Tier::new(tier).ok())),
            "ttl" => set(&mut spec.ttl, ttl_of_text(value)),
            "weight-by" => set(&mut spec.weight_by_pods, (value == "pods").then_some(true)),
            "weight" => set(&mut spec.weight, value.parse().ok().map(Weight)),
            _ => {
                let known = KNOWN.iter().map(|(word, _)| *word);
                let hint = closest(word, known).map_or_else(String::new, |best| format!("; did you mean gslb-{best}?"));
                problems.push(format!("webhook-gslb-{word:.60} is unknown{hint}"));
                continue;
            }
        };
        if !read {
            let expected = KNOWN.iter().find(|(known, _)| *known == word).map_or("", |(_, expected)| expected);
            problems.push(format!("webhook-gslb-{word} is {value:.60?}; give {expected}"));
        }
    }
    spec.monitor = health.monitor();
    problems.truncate(PROBLEMS_MAX);
    spec
}

/// Sets a field if there is a value. Returns true if there is one.
fn set<T>(field: &mut Option<T>, value: Option<T>) -> bool {
    let is_some = value.is_some();
    if is_some {
        *field = value;
    }
    is_some
}

/// Reads a TTL: seconds, or a duration with a unit.
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
    let is_valid = text.starts_with('/') && text.len() <= 1_024 && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_valid.then(|| text.to_owned())
}

fn is_word(text: &str) -> bool {
    (1..=64).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// The properties of a health check.
#[derive(Default)]
struct Health {
    scheme: Option<&'static str>,
    port: Option<u16>,
    path: Option<String>,
}

impl Health {
    /// Returns the monitor, or `None` without properties.
    fn monitor(self) -> Option<(MonitorName, Arc<Monitor>)> {
        let Self { scheme, port, path } = self;
        if scheme.is_none() && port.is_none() && path.is_none() {
            return None;
        }
        let usual = if path.is_some() { "http" } else { "tcp" };
        let scheme = scheme.unwrap_or(usual);
        let port = port.unwrap_or(if scheme == "http" { 80 } else { 443 });
        let path = path.unwrap_or_else(|| "/".to_owned());
        let http = |tls| HttpCheck { tls, ..HttpCheck::get(port, &path) };
        let (check, text) = match scheme {
            "none" => (Check::Always, "webhook+none".to_owned()),
            "tcp" => (Check::Tcp { port }, format!("webhook+tcp+{port}")),
            // The name in the gateway's certificate is unknown here, so the certificate is not verified.
            "https" => {
                let tls = TlsCheck { verify: false, ..TlsCheck::default() };
                (Check::Http(http(Some(tls))), format!("webhook+https+{port}+{}", name_part(&path)))
            }
            _ => (Check::Http(http(None)), format!("webhook+http+{port}+{}", name_part(&path))),
        };
        Some((MonitorName::new(&text).ok()?, Arc::new(Monitor::new(check))))
    }
}

/// Prefix of the names of our properties.
const PREFIX: &str = "webhook/gslb-";
/// Schemes of health checks.
const SCHEMES: &[&str] = &["http", "https", "none", "tcp"];
/// Names of our properties, and their values.
const KNOWN: &[(&str, &str)] = &[
    ("answers", "a number from 1 to 8"),
    ("capacity-per-pod", "a number of requests in flight from 1"),
    ("cluster", "the name of a declared cluster"),
    ("health-path", "a path that begins with /"),
    ("health-port", "a port from 1 to 65535"),
    ("health-scheme", "http, https, tcp or none"),
    ("policy", "weighted, failover, sticky, or a list of tier, load and one of them"),
    ("region", "a name of 1 to 64 characters"),
    ("tier", "a number from 1 to 255"),
    ("ttl", "a number of seconds, or a time like 30s"),
    ("weight", "a number from 0 to 65535"),
    ("weight-by", "pods"),
];
/// Record types that the registry puts before a name.
const REGISTRY_TYPES: &[&str] = &["a", "aaaa", "cname", "mx", "naptr", "ns", "ptr", "srv", "txt"];
/// Default TTL of records: 300 s, as in most providers of ExternalDNS.
const RECORDS_TTL: Ttl = match Ttl::from_secs(300) {
    Ok(ttl) => ttl,
    Err(_) => Ttl::STEERED,
};
/// Maximum octets of TXT data in a message of 65,535, which also has a header, the question and the owner name.
const TXT_MAX: usize = 65_000;
/// Largest capacity of an endpoint: above it, floating-point numbers are not exact.
const CAPACITY_MAX: u64 = 1 << 53;
/// Maximum number of problems that are reported of one endpoint.
const PROBLEMS_MAX: usize = 5;

#[cfg(test)]
mod tests;
