//! Messages of DNS UPDATE (RFC 2136) and of zone transfers (RFC 5936).

use std::collections::BTreeMap;

use domain::{
    base::{
        Message, MessageBuilder, Name as WireName, ParsedName, ParsedRecord, Rtype as WireType, Ttl as WireTtl,
        iana::{Class, Opcode},
        message_builder::{AdditionalBuilder, PushError},
        name::ToName,
        rdata::{ComposeRecordData, UnknownRecordData},
        wire::ParseError,
    },
    rdata::ZoneRecordData,
};
use fairway_model::{Changes, Name, ProviderRecordSet, RecordSet, Rtype, Ttl};

/// A request that is complete except for its signature.
pub(super) type Request = AdditionalBuilder<Vec<u8>>;

/// Returns an UPDATE of one zone (RFC 2136 section 2), which the server applies as a whole or not at all.
///
/// Its prerequisites are that created record sets do not exist, and that changed and deleted ones are still as they were read. So an update
/// never overwrites a concurrent change.
pub(super) fn update(id: u16, zone: &Name, changes: &Changes) -> Result<Request, PushError> {
    let mut message = MessageBuilder::new_vec();
    message.header_mut().set_id(id);
    message.header_mut().set_opcode(Opcode::UPDATE);
    let mut message = message.question();
    message.push((wire_name(zone), WireType::SOA))?;
    let before = || changes.update.iter().map(|update| &update.from).chain(&changes.delete);
    let mut prerequisites = message.answer();
    for set in &changes.create {
        prerequisites.push(record(set, Class::NONE, 0, &[]))?;
    }
    for set in before() {
        for rdata in set.set.rdatas.iter() {
            prerequisites.push(record(set, Class::IN, 0, rdata))?;
        }
    }
    let mut updates = prerequisites.authority();
    for set in before() {
        updates.push(record(set, Class::ANY, 0, &[]))?;
    }
    for set in changes.puts() {
        for rdata in set.set.rdatas.iter() {
            updates.push(record(set, Class::IN, set.set.ttl.secs(), rdata))?;
        }
    }
    Ok(updates.additional())
}

/// Returns a request for a whole zone (RFC 5936 section 2.1).
pub(super) fn transfer(id: u16, zone: &Name) -> Result<Request, PushError> {
    let mut message = MessageBuilder::new_vec();
    message.header_mut().set_id(id);
    let mut message = message.question();
    message.push((wire_name(zone), WireType::AXFR))?;
    Ok(message.additional())
}

pub(super) fn wire_name(name: &Name) -> WireName<&[u8]> {
    WireName::from_octets(name.as_wire()).expect("a `Name` is a valid name in wire format")
}

type WireRecord<'a> = (WireName<&'a [u8]>, Class, WireTtl, UnknownRecordData<&'a [u8]>);

fn record<'a>(set: &'a ProviderRecordSet, class: Class, ttl: u32, rdata: &'a [u8]) -> WireRecord<'a> {
    let rdata = UnknownRecordData::from_octets(WireType::from_int(set.set.rtype.0), rdata)
        .expect("the RDATA of a record set is at most 65,535 bytes");
    (wire_name(&set.set.name), class, WireTtl::from_secs(ttl), rdata)
}

/// A record of a transfer.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) name: Name,
    pub(super) rtype: Rtype,
    class: Class,
    ttl: u32,
    /// Without compressed names.
    rdata: Box<[u8]>,
}

impl Record {
    /// Returns the bytes that it takes in memory.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.name.as_wire().len() + self.rdata.len()
    }
}

/// Returns the records of the answer section.
pub(super) fn answers(message: &Message<Vec<u8>>) -> Result<Vec<Record>, ParseError> {
    message.answer()?.map(|parsed| read_record(&parsed?)).collect()
}

fn read_record(parsed: &ParsedRecord<'_, Vec<u8>>) -> Result<Record, ParseError> {
    let mut rdata = Vec::new();
    let composed = match parsed.to_record::<ZoneRecordData<_, ParsedName<_>>>() {
        Ok(Some(record)) => record.data().compose_rdata(&mut rdata),
        // A record of another owner may have RDATA that we cannot parse. That must not fail the transfer of the zone.
        _ => {
            let raw = parsed.to_record::<UnknownRecordData<_>>()?;
            raw.map_or(Ok(()), |record| record.data().compose_rdata(&mut rdata))
        }
    };
    composed.expect("appending to a `Vec` cannot fail");
    let name = parsed.owner().to_vec();
    Ok(Record {
        name: Name::from_wire(name.as_slice()).map_err(|_| ParseError::form_error("invalid name"))?,
        rtype: Rtype(parsed.rtype().to_int()),
        class: parsed.class(),
        ttl: parsed.ttl().as_secs(),
        rdata: rdata.into(),
    })
}

/// Returns the record sets of the records of a transfer. The lowest TTL of a set's records is the TTL of the set.
pub(super) fn sets(records: Vec<Record>) -> Vec<ProviderRecordSet> {
    let mut sets: BTreeMap<(Name, Rtype), Vec<Record>> = BTreeMap::new();
    for record in records.into_iter().filter(|record| record.class == Class::IN) {
        sets.entry((record.name.clone(), record.rtype)).or_default().push(record);
    }
    let set = |((name, rtype), records): ((Name, Rtype), Vec<Record>)| {
        let ttl = records.iter().map(|record| record.ttl).min().and_then(|ttl| Ttl::from_secs(ttl).ok());
        let rdatas = records.into_iter().map(|record| record.rdata);
        ProviderRecordSet::plain(RecordSet::new(name, rtype, ttl.unwrap_or(Ttl::MAX), rdatas))
    };
    sets.into_iter().map(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    /// A response with one record of the given bytes after the question `x. AXFR`.
    fn response(record: &[u8]) -> Message<Vec<u8>> {
        let mut wire = transfer(7, &name("x.")).unwrap().finish();
        wire[7] = 1;
        wire.extend_from_slice(record);
        Message::from_octets(wire).unwrap()
    }

    #[test]
    fn compressed_names_in_rdata_are_expanded() {
        // x. MX 10 m.x., both names are pointers to the question.
        let record = b"\xc0\x0c\x00\x0f\x00\x01\x00\x00\x00\x3c\x00\x06\x00\x0a\x01m\xc0\x0c";
        let records = answers(&response(record)).unwrap();
        assert_eq!((&records[0].name, &*records[0].rdata), (&name("x."), &b"\x00\x0a\x01m\x01x\x00"[..]));
        for end in 0..record.len() {
            assert!(answers(&response(&record[..end])).is_err(), "expected an error for {end} bytes");
        }
    }

    #[test]
    fn malformed_rdata_is_kept_as_it_is() {
        // x. A with three bytes.
        let records = answers(&response(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x03\x01\x02\x03")).unwrap();
        assert_eq!(*records[0].rdata, [1, 2, 3]);
    }

    #[test]
    fn compression_loop_is_an_error() {
        assert!(answers(&response(b"\xc0\x13\x00\x01\x00\x01")).is_err());
    }

    #[test]
    fn update_has_prerequisites() {
        let rdata = [Box::from([192, 0, 2, 1])];
        let set = ProviderRecordSet::plain(RecordSet::new(name("a.x."), Rtype::A, Ttl::STEERED, rdata));
        let changes = Changes { create: vec![set], ..Changes::default() };
        let wire = update(1, &name("x."), &changes).unwrap().finish();
        // Counts: one zone, one prerequisite, one update.
        assert_eq!(wire[2..12], [5 << 3, 0, 0, 1, 0, 1, 0, 1, 0, 0]);
        let none = b"\x01a\x01x\x00\x00\x01\x00\xfe\x00\x00\x00\x00\x00\x00";
        assert_eq!(wire[19..][..none.len()], none[..]);
    }
}
