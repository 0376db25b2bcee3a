//! Rules about an RRset, and about the RRsets of one owner.

use std::borrow::Cow;

use fairway_model::{Rtype, Ttl};

use super::{Check, Kinds, Node};
use crate::{Record, rdata::rdata_names};

/// Octets of a message without names and records: header, type and class of the question, OPT.
const OVERHEAD: usize = 12 + 4 + 11;
/// Octets of a record without its data, with a compressed owner.
const RECORD_OVERHEAD: usize = 12;
/// Maximum octets of a message over TCP (RFC 1035 section 4.2.2).
const MESSAGE_MAX: usize = 65_535;

impl<'z> Check<'z, '_> {
    /// Checks the RRsets of a node: duplicates, TTLs, types with one record, size.
    pub(super) fn rrsets(&mut self, node: &Node) {
        let records = &self.nodes.zone.records;
        let mut indices = self.nodes.indices(node);
        // Most owners have one record; they need no list.
        if indices.len() == 1 {
            return indices.next().into_iter().for_each(|index| self.size(&[index]));
        }
        let mut sorted: Vec<(Rtype, Cow<'z, [u8]>, usize)> =
            indices.map(|index| (records[index].rtype, canonical(&records[index]), index)).collect();
        sorted.sort_unstable();
        for rrset in sorted.chunk_by(|a, b| a.0 == b.0) {
            let mut distinct: Vec<usize> = Vec::with_capacity(rrset.len());
            for same in rrset.chunk_by(|a, b| a.1 == b.1) {
                distinct.push(same[0].2);
                self.dropped.extend(same[1..].iter().map(|(_, _, index)| *index));
            }
            distinct.sort_unstable();
            let all: Vec<usize> = rrset.iter().map(|(_, _, index)| *index).collect();
            self.ttl(&all);
            self.single_record(&distinct);
            self.size(&distinct);
            self.service_modes(&distinct);
        }
    }

    /// Sets one TTL for the whole RRset, the smallest. Signatures have the TTL of the RRset that they cover (RFC 4034 section 3).
    fn ttl(&mut self, rrset: &[usize]) {
        let records = &self.nodes.zone.records;
        let ttl_of = |index: &usize| records[*index].ttl;
        let smallest = rrset.iter().map(ttl_of).min().unwrap_or(Ttl::MAX);
        let differing = rrset.iter().copied().filter(|index| ttl_of(index) != smallest);
        let Some(first) = differing.clone().min() else { return };
        let record = &records[first];
        if matches!(record.rtype, Rtype::RRSIG | Rtype::SIG) {
            return;
        }
        self.ttls.extend(differing.map(|index| (index, smallest)));
        let fact = format!(
            "the {} records of {} have different TTLs; the smallest, {smallest}, applies to all (RFC 2181 section 5.2)",
            record.rtype, record.owner
        );
        self.warning(record, fact, "give them the same TTL");
    }

    /// Checks that SOA, CNAME and DNAME RRsets have one record (RFC 2181 section 10.1, RFC 6672 section 2.4).
    fn single_record(&mut self, rrset: &[usize]) {
        let [_, second, ..] = rrset else { return };
        let record = &self.nodes.zone.records[*second];
        if matches!(record.rtype, Rtype::SOA | Rtype::CNAME | Rtype::DNAME) {
            let fact = format!("{} has {} different {} records", record.owner, rrset.len(), record.rtype);
            self.error(record, fact, "keep one");
        }
    }

    /// Checks that an RRset fits into one message; otherwise it could never be answered.
    fn size(&mut self, rrset: &[usize]) {
        let records = &self.nodes.zone.records;
        let Some(first) = rrset.first().map(|index| &records[*index]) else { return };
        let data: usize = rrset.iter().map(|index| RECORD_OVERHEAD + records[*index].rdata.len()).sum();
        let octets = OVERHEAD + first.owner.as_wire().len() + data;
        if octets > MESSAGE_MAX {
            let fact = format!(
                "the {} records of {} need a message of {octets} octets; the maximum is 65535",
                first.rtype, first.owner
            );
            self.error(first, fact, "use fewer or shorter records");
        }
    }

    /// Checks that an AliasMode record is the only one of its RRset (RFC 9460 section 2.4.1).
    fn service_modes(&mut self, rrset: &[usize]) {
        let records = &self.nodes.zone.records;
        let is_alias = |index: &&usize| records[**index].rdata.starts_with(&[0, 0]);
        let Some(first) = rrset.first().map(|index| &records[*index]) else { return };
        if !matches!(first.rtype, Rtype::SVCB | Rtype::HTTPS) || rrset.len() < 2 {
            return;
        }
        if let Some(alias) = rrset.iter().find(is_alias) {
            let fact = format!(
                "{} has an {} record with priority 0 next to others, which clients then ignore (RFC 9460 section 2.4.1)",
                first.owner, first.rtype
            );
            self.warning(&records[*alias], fact, "keep only that one, or give it a priority of 1 or more");
        }
    }

    /// Checks that only DNSSEC types exist next to a CNAME (RFC 1034 section 3.6.2, RFC 2181 section 10.1).
    pub(super) fn cname_and_others(&mut self, node: &Node) {
        let others = Kinds::ADDRESS.and(Kinds::DNAME).and(Kinds::NS).and(Kinds::OTHER);
        if !node.kinds.any(Kinds::CNAME) || !node.kinds.any(others) {
            return;
        }
        let is_other = |r: &&Record| {
            !matches!(r.rtype, Rtype::CNAME | Rtype::RRSIG | Rtype::NSEC | Rtype::SIG | Rtype::KEY | Rtype::NXT)
        };
        let other = self.nodes.records(node).find(is_other).map_or(Rtype::CNAME, |r| r.rtype);
        if let Some(cname) = self.nodes.records(node).find(|r| r.rtype == Rtype::CNAME) {
            let fact = format!(
                "{} has a CNAME and {other} data; a CNAME must be the only record (RFC 1034 section 3.6.2)",
                cname.owner
            );
            self.error(cname, fact, "remove one of the two");
        }
    }
}

/// Returns RDATA with its names in lower case, for comparison.
fn canonical(record: &Record) -> Cow<'_, [u8]> {
    if !record.rdata.iter().any(u8::is_ascii_uppercase) {
        return Cow::Borrowed(&record.rdata);
    }
    let mut lower = Cow::Borrowed(&*record.rdata);
    for name in rdata_names(record.rtype, &record.rdata) {
        lower.to_mut()[name].make_ascii_lowercase();
    }
    lower
}
