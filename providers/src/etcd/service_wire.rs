//! Values in etcd: records as CoreDNS reads them (`plugin/etcd/msg/service.go`).

use std::{collections::BTreeMap, net::IpAddr};

use fairway_model::{Name, ProviderRecordSet, RecordSet, RecordSetKey, Rtype, Ttl};
use fairway_zonefile::{rdata_from_text, rdata_text};
use serde::{Deserialize, Serialize};

use super::key::{Key, name_of};
use crate::sets::{text_of, txt_of};

/// A value. Other fields are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Service {
    /// An address, or a name without its final dot.
    #[serde(skip_serializing_if = "String::is_empty")]
    host: String,
    #[serde(skip_serializing_if = "is_zero")]
    port: i64,
    #[serde(skip_serializing_if = "is_zero")]
    priority: i64,
    #[serde(skip_serializing_if = "is_zero")]
    weight: i64,
    /// Text of a TXT record, with the escapes of zone text.
    #[serde(skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(skip_serializing_if = "is_false")]
    mail: bool,
    /// TTL in seconds; 0 for CoreDNS' default of 300.
    #[serde(skip_serializing_if = "is_zero")]
    ttl: i64,
    /// Number of labels at the end of the key that are not part of the name.
    #[serde(skip_serializing_if = "is_zero")]
    targetstrip: i64,
    /// Excludes names below this one from the answers for it.
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    /// Our own field: RDATA as zone file text, since CoreDNS' fields lose information (strings of a TXT, weight 0).
    #[serde(skip_serializing_if = "String::is_empty")]
    data: String,
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    rdata: Box<[u8]>,
    ttl: Ttl,
    group: String,
}

/// Returns the records of a key with name and type. A record is `None` if the value cannot be parsed.
pub(super) fn read(key: &Key, value: &str) -> Vec<(Name, Rtype, Option<Record>)> {
    let service = serde_json::from_str::<Service>(value).ok();
    match key {
        Key::Ours { name, rtype } => {
            let record = service.and_then(|service| own(name, *rtype, service));
            vec![(name.clone(), *rtype, record)]
        }
        Key::Other(labels) => {
            let strip = service.as_ref().map_or(0, |service| usize::try_from(service.targetstrip).unwrap_or(0));
            let Some(name) = labels.len().checked_sub(strip).and_then(|length| name_of(&labels[..length])) else {
                return Vec::new();
            };
            let records = service.as_ref().map_or_else(Vec::new, foreign);
            if records.is_empty() {
                // CoreDNS fails for all types of the name.
                return [Rtype::A, Rtype::AAAA, Rtype::TXT].map(|rtype| (name.clone(), rtype, None)).into();
            }
            records.into_iter().map(|(rtype, record)| (name.clone(), rtype, Some(record))).collect()
        }
    }
}

/// Joins records into a set. If one cannot be parsed or their TTLs or groups differ, the set has no records, so that it is written again.
pub(super) fn joined(key: RecordSetKey, records: Vec<Record>) -> ProviderRecordSet {
    let first = records.first().cloned();
    let is_one = records.windows(2).all(|two| two[0].ttl == two[1].ttl && two[0].group == two[1].group);
    let ttl = first.as_ref().map_or(Ttl::STEERED, |record| record.ttl);
    let rdatas = if is_one { records.into_iter().map(|record| record.rdata).collect() } else { Vec::new() };
    let mut properties = BTreeMap::new();
    if let Some(group) = first.map(|record| record.group).filter(|group| *group != key.name.to_plain()) {
        properties.insert(GROUP.to_owned(), group);
    }
    let set = RecordSet::new(key.name, key.rtype, ttl, rdatas);
    ProviderRecordSet { set, set_identifier: key.set_identifier, properties }
}

/// Returns the value of an owned record, or the reason why CoreDNS could not serve it.
pub(super) fn write(set: &ProviderRecordSet, rdata: &[u8]) -> Result<String, String> {
    let group = set.properties.get(GROUP).cloned().unwrap_or_else(|| set.set.name.to_plain());
    let service = service(set.set.rtype, rdata, set.set.ttl, group)?;
    serde_json::to_string(&service).map_err(|error| error.to_string())
}

fn service(rtype: Rtype, rdata: &[u8], ttl: Ttl, group: String) -> Result<Service, String> {
    let mut service =
        Service { ttl: i64::from(ttl.secs()), group, data: rdata_text(rtype, rdata), ..Service::default() };
    // CoreDNS would remove labels from the target of an SRV as well.
    service.targetstrip = i64::from(rtype != Rtype::SRV);
    let malformed = || "its RDATA is malformed".to_owned();
    let host_of = |target: &[u8]| Name::from_wire(target).map(|n| n.to_plain()).map_err(|_| malformed());
    match rtype {
        Rtype::A => service.host = <[u8; 4]>::try_from(rdata).map(IpAddr::from).map_err(|_| malformed())?.to_string(),
        Rtype::AAAA => {
            service.host = <[u8; 16]>::try_from(rdata).map(IpAddr::from).map_err(|_| malformed())?.to_string();
        }
        Rtype::CNAME => service.host = host_of(rdata)?,
        Rtype::SRV => {
            let (fields, target) = rdata.split_at_checked(6).ok_or_else(malformed)?;
            let field = |at: usize| i64::from(u16::from_be_bytes([fields[at], fields[at + 1]]));
            (service.priority, service.weight, service.port) = (field(0), field(2), field(4));
            service.host = host_of(target)?;
        }
        Rtype::TXT => service.text = escaped(rdata).ok_or_else(malformed)?,
        _ => return Err("CoreDNS serves no records of this type from etcd".to_owned()),
    }
    if service.text.is_empty() && service.host.is_empty() {
        return Err("CoreDNS serves no empty records".to_owned());
    }
    if is_split_in_escape(&service.text) {
        return Err("CoreDNS splits the text every 255 bytes, here within an escape sequence; shorten it".to_owned());
    }
    Ok(service)
}

/// Returns an owned record from our own field, if it still agrees with CoreDNS' fields.
fn own(name: &Name, rtype: Rtype, found: Service) -> Option<Record> {
    let rdata = rdata_from_text(rtype, found.data.as_bytes(), &Name::root()).ok()?;
    let ttl = Ttl::from_secs(u32::try_from(found.ttl).ok()?).ok()?;
    let group = if found.group.is_empty() { name.to_plain() } else { found.group.clone() };
    let meant = service(rtype, &rdata, ttl, group.clone()).ok()?;
    (meant == found).then_some(Record { rdata, ttl, group })
}

/// Returns the records that CoreDNS serves from a value of another client.
fn foreign(service: &Service) -> Vec<(Rtype, Record)> {
    let ttl = u32::try_from(service.ttl).ok().and_then(|ttl| Ttl::from_secs(ttl).ok()).unwrap_or(Ttl::STEERED);
    let record = |rdata: Box<[u8]>| Record { rdata, ttl, group: service.group.clone() };
    let mut records = Vec::new();
    match service.host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => records.push((Rtype::A, record(Box::from(address.octets())))),
        Ok(IpAddr::V6(address)) => records.push((Rtype::AAAA, record(Box::from(address.octets())))),
        Err(_) if service.host.is_empty() => {}
        Err(_) => {
            let Ok(host) = service.host.parse::<Name>() else { return Vec::new() };
            let fields = |numbers: &[i64]| {
                let octets = numbers.iter().flat_map(|number| u16::try_from(*number).unwrap_or(0).to_be_bytes());
                octets.chain(host.as_wire().iter().copied()).collect::<Box<[u8]>>()
            };
            let priority = if service.priority == 0 { PRIORITY } else { service.priority };
            records.push(match (service.mail, service.port) {
                (true, _) => (Rtype::MX, record(fields(&[priority]))),
                (false, 0) => (Rtype::CNAME, record(fields(&[]))),
                (false, port) => (Rtype::SRV, record(fields(&[priority, service.weight, port]))),
            });
        }
    }
    if !service.text.is_empty() {
        records.push((Rtype::TXT, record(unescaped(&service.text))));
    }
    records
}

/// Returns the strings of a TXT record concatenated, with the escape sequences that CoreDNS removes.
fn escaped(rdata: &[u8]) -> Option<String> {
    let mut text = String::new();
    for octet in text_of(rdata)? {
        match octet {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(octet)),
            octet => text.push_str(&format!("\\{octet:03}")),
        }
    }
    Some(text)
}

/// Returns true if the split into strings would cut an escape sequence.
fn is_split_in_escape(text: &str) -> bool {
    let (mut at, octets) = (0, text.as_bytes());
    while at < octets.len() {
        let length = match (octets[at], octets.get(at + 1)) {
            (b'\\', Some(b'0'..=b'9')) => 4,
            (b'\\', _) => 2,
            _ => 1,
        };
        if length > 1 && at / STRING_MAX != (at + length - 1) / STRING_MAX {
            return true;
        }
        at += length;
    }
    false
}

/// Returns the strings of a TXT record from escaped text.
fn unescaped(text: &str) -> Box<[u8]> {
    let (mut octets, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, tail)) = rest.split_first() {
        let number = (*first == b'\\').then(|| tail.get(..3)).flatten();
        let number = number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u8>().ok());
        (octets, rest) = match (first, number, tail.split_first()) {
            (b'\\', Some(octet), _) => ([octets, vec![octet]].concat(), &tail[3..]),
            (b'\\', None, Some((next, tail))) => ([octets, vec![*next]].concat(), tail),
            _ => ([octets, vec![*first]].concat(), tail),
        };
    }
    txt_of(&octets)
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// The field in which ExternalDNS carries a group.
const GROUP: &str = "coredns/group";
/// Default priority of CoreDNS.
const PRIORITY: i64 = 10;
/// Bytes of a TXT string, after which CoreDNS splits.
const STRING_MAX: usize = 255;
