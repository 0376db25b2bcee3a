//! Zones: read from their files, or made from the configuration if they have none.

use std::{
    mem,
    net::IpAddr,
    path::{Path, PathBuf},
    time::SystemTime,
};

use fairway_model::{
    AnswerMode, DesiredState, Diagnostic, FileLocation, Name, NameError, Rtype, SteeredName, Subject, Ttl, ZoneSpec,
};
use fairway_zonefile::{Record, ZoneData, check_zone, read_zone};

use super::Converter;
use crate::{
    address_sets,
    bounds_wire::{As, Plain},
    cache::{Origin, PreviousLoad, ZoneCache},
    files::{Files, ZONE_MAX},
    reason::Reason,
    v1,
    values_wire::{NameServer, NameServerAddresses},
};

/// Returns the records of every zone, or `None` if they did not change. Adds the zones to `desired`, whose names must
/// be complete.
pub(super) fn zones(
    converter: &mut Converter<'_, '_>,
    list: Vec<v1::Zone>,
    desired: &mut DesiredState,
) -> (Option<Vec<ZoneData>>, ZoneCache) {
    let mut declared = Vec::new();
    for (index, wire) in list.into_iter().enumerate() {
        let pointer = format!("/zones/{index}");
        let records = records(converter, &pointer, &wire);
        let As(name) = &wire.name;
        if !converter.declare(Subject::Zone(name.clone()), index) {
            continue;
        }
        let (monitor, visibility) = (wire.monitor.plain(), wire.visibility.plain().unwrap_or_default());
        desired.zones.insert(name.clone(), ZoneSpec { name: name.clone(), monitor, visibility });
        declared.extend(records.map(|records| (pointer, name.clone(), records)));
    }
    let origins: Vec<_> = declared.iter().map(|(_, name, records)| records.origin(name)).collect();
    let aliases = aliases(desired);
    let is_same = |previous: &PreviousLoad<'_>| previous.has_same_zones(&origins, &aliases, &desired.names);
    if let Some(previous) = converter.context.previous.filter(is_same) {
        converter.files().fingerprint.join(&previous.zones.files);
        converter.context.report_all(previous.zones.warnings.clone());
        return (None, previous.zones.clone());
    }
    let (others, diagnostics) = (mem::take(&mut converter.files().fingerprint), converter.context.diagnostics.len());
    let mut zones = Vec::with_capacity(declared.len());
    for (pointer, name, records) in declared {
        let data = match records {
            Records::File(path) => from_file(converter, &pointer, &name, &path),
            Records::Made(data) => Some(data),
        };
        zones.extend(data.map(|data| checked(converter, &pointer, data, desired)));
    }
    let files = mem::replace(&mut converter.files().fingerprint, others);
    converter.files().fingerprint.join(&files);
    let warnings = converter.context.diagnostics.get(diagnostics..).unwrap_or_default().to_vec();
    let is_settled = files.is_settled(SystemTime::now());
    (Some(zones), ZoneCache { origins, aliases, files, warnings, is_settled })
}

/// Source of the records of a zone.
enum Records {
    /// A zone file.
    File(PathBuf),
    /// The keys of the configuration.
    Made(ZoneData),
}

impl Records {
    fn origin(&self, name: &Name) -> Origin {
        match self {
            Self::File(path) => Origin::File(name.clone(), path.clone()),
            Self::Made(data) => {
                let unlocated = |record: &Record| Record { file: 0, line: 0, ..record.clone() };
                Origin::Made(data.records.iter().map(unlocated).collect())
            }
        }
    }
}

fn records(converter: &mut Converter<'_, '_>, pointer: &str, wire: &v1::Zone) -> Option<Records> {
    match (&wire.file, &wire.ns) {
        (Some(file), None) => {
            reject_keys_of_made_zones(converter, pointer, wire);
            Some(Records::File(converter.path(format_args!("{pointer}/file"), &file.0)))
        }
        (None, Some(As(ns))) => made(converter, pointer, wire, ns).map(Records::Made),
        (Some(_), Some(_)) => {
            converter.error(pointer, "file and ns exclude each other", "keep file, or ns and contact");
            None
        }
        (None, None) => {
            let what = format!("zone {} has no file and no ns", wire.name.0);
            converter.error(pointer, what, "add its file, or the names of its servers as ns");
            None
        }
    }
}

/// Checks the records of a zone, unless steered names that they may refer to are missing from the input.
fn checked(converter: &mut Converter<'_, '_>, pointer: &str, mut data: ZoneData, desired: &DesiredState) -> ZoneData {
    if converter.is_complete("names") {
        let mut diagnostics = check(&mut data, desired);
        // The records of a made zone have the location of the zone, which is only looked up for errors.
        if data.records.first().is_some_and(|record| record.line == 0) && !diagnostics.is_empty() {
            let location = FileLocation { column: 1, ..converter.location(pointer) };
            for diagnostic in &mut diagnostics {
                diagnostic.location.clone_from(&location);
            }
        }
        converter.context.report_all(diagnostics);
    }
    data
}

/// Checks the records of a zone against each other.
pub(crate) fn check(data: &mut ZoneData, desired: &DesiredState) -> Vec<Diagnostic> {
    check_zone(data, &|name| desired.names.get(name).map(|name| mode(desired, name)))
}

/// Returns the kind of answer of a steered name. A missing pool is reported elsewhere.
fn mode(desired: &DesiredState, name: &SteeredName) -> AnswerMode {
    desired.pools.get(&name.pool).map(|pool| pool.mode).unwrap_or_default()
}

/// Returns the steered names that are answered with a CNAME: the checks of zones depend on them.
fn aliases(desired: &DesiredState) -> Vec<Name> {
    // Names are many, and most configurations have no such pool.
    if desired.pools.values().all(|pool| pool.mode == AnswerMode::Address) {
        return Vec::new();
    }
    let names = desired.names.values().filter(|name| mode(desired, name) == AnswerMode::Cname);
    names.map(|name| name.name.clone()).collect()
}

fn reject_keys_of_made_zones(converter: &mut Converter<'_, '_>, pointer: &str, wire: &v1::Zone) {
    let given = [
        ("contact", wire.contact.is_some()),
        ("serial", wire.serial.is_some()),
        ("ttl", wire.ttl.is_some()),
        ("negativeTtl", wire.negative_ttl.is_some()),
    ];
    for (key, _) in given.iter().filter(|(_, given)| *given) {
        let what = format!("{key} is not allowed with file");
        converter.error(format_args!("{pointer}/{key}"), what, "the zone file has it; remove the key");
    }
}

fn from_file(converter: &mut Converter<'_, '_>, pointer: &str, origin: &Name, path: &Path) -> Option<ZoneData> {
    let read = read(converter.files(), origin, path);
    let (data, diagnostics) =
        read.map_err(|why| converter.reject(format_args!("{pointer}/file"), why.about(path))).ok()?;
    converter.context.report_all(diagnostics);
    Some(data)
}

/// Reads a zone file and its included files. Relative paths of inclusions start at the zone file's folder.
pub(crate) fn read(files: &mut Files, origin: &Name, path: &Path) -> Result<(ZoneData, Vec<Diagnostic>), Reason> {
    let text = files.read(path, ZONE_MAX)?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let mut include = |included: &str| files.read(&folder.join(included), ZONE_MAX).map_err(|why| why.what);
    Ok(read_zone(origin, &path.to_string_lossy(), &text, &mut include))
}

/// Builds a zone of SOA, NS and the addresses of its servers.
fn made(converter: &mut Converter<'_, '_>, pointer: &str, wire: &v1::Zone, ns: &[NameServer]) -> Option<ZoneData> {
    let origin = &wire.name.0;
    let line = converter.tree.parsed_position(pointer).line;
    let ttl = wire.ttl.plain();
    converter.warn_if_uncached(format_args!("{pointer}/ttl"), ttl);
    let ttl = ttl.unwrap_or(HOUR);
    let record = |owner: &Name, rtype, rdata: &[u8]| Record {
        owner: owner.clone(),
        rtype,
        ttl,
        rdata: rdata.into(),
        file: 0,
        line,
    };
    let servers = servers(converter, pointer, origin, ns);
    let soa = soa(converter, pointer, wire, servers.first()?.0)?;
    let mut records = vec![record(origin, Rtype::SOA, &soa)];
    records.extend(servers.iter().map(|(name, _)| record(origin, Rtype::NS, name.as_wire())));
    for set in servers.iter().flat_map(|(name, addresses)| address_sets(name, ttl, addresses)) {
        records.extend(set.rdatas.iter().map(|rdata| record(&set.name, set.rtype, rdata)));
    }
    Some(ZoneData { origin: origin.clone(), records, files: vec![converter.file(pointer)] })
}

/// Returns the names of the servers with their addresses; each name once.
fn servers<'w>(
    converter: &mut Converter<'_, '_>,
    pointer: &str,
    origin: &Name,
    ns: &'w [NameServer],
) -> Vec<(&'w Name, Vec<IpAddr>)> {
    let mut servers: Vec<(&Name, Vec<IpAddr>)> = Vec::new();
    for (index, server) in ns.iter().enumerate() {
        let pointer = format!("{pointer}/ns/{index}");
        let (name, addresses) = match server {
            NameServer::Name(As(name)) => (name, Vec::new()),
            NameServer::WithAddresses(NameServerAddresses { name: As(name), addresses: As(addresses) }) => {
                (name, addresses.clone().plain())
            }
        };
        if !addresses.is_empty() && !name.is_within(origin) {
            let what = format!("{name} is outside the zone, so it cannot have addresses here");
            converter.error(&pointer, what, "write the name only");
        }
        if servers.iter().any(|(known, _)| *known == name) {
            converter.error(&pointer, format!("{name} is repeated"), "remove one");
        } else {
            servers.push((name, addresses));
        }
    }
    servers
}

/// Returns the RDATA of the SOA record (RFC 1035 section 3.3.13).
fn soa(converter: &mut Converter<'_, '_>, pointer: &str, wire: &v1::Zone, primary: &Name) -> Option<Vec<u8>> {
    let origin = &wire.name.0;
    let contact = match &wire.contact {
        Some(As(contact)) => mailbox(contact),
        None => origin.child(b"hostmaster"),
    };
    let report = |why: NameError| {
        let what = format!("the contact is not a mail address or name: {why}");
        converter.error(format_args!("{pointer}/contact"), what, "write it like hostmaster@example.com");
    };
    let contact = contact.map_err(report).ok()?;
    let negative = wire.negative_ttl.plain().unwrap_or(MINUTE);
    let numbers = [wire.serial.plain().unwrap_or(1), REFRESH, RETRY, EXPIRE, negative.secs()];
    let numbers = numbers.map(u32::to_be_bytes).concat();
    Some([primary.as_wire(), contact.as_wire(), &numbers].concat())
}

/// Parses the mailbox of an SOA: the part before the `@` is one label, including its dots (RFC 1035 section 8).
fn mailbox(text: &str) -> Result<Name, NameError> {
    let Some((local, domain)) = text.rsplit_once('@') else { return text.parse() };
    domain.parse::<Name>()?.child(local.as_bytes())
}

const fn seconds(secs: u32) -> Ttl {
    match Ttl::from_secs(secs) {
        Ok(ttl) => ttl,
        Err(_) => Ttl::MAX,
    }
}

/// Default TTL of zones and delegations, which change seldom.
pub(super) const HOUR: Ttl = seconds(3_600);
const MINUTE: Ttl = seconds(60);
// For secondaries, which a zone without file seldom has: the values that RIPE-203 recommends for small zones.
const REFRESH: u32 = 86_400;
const RETRY: u32 = 7_200;
const EXPIRE: u32 = 3_600_000;
