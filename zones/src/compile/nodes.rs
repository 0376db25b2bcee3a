//! Which node each record belongs to. A zone served here hides what a zone above it says about the same names.

use std::{collections::HashMap, iter};

use fairway_model::{Diagnostic, FileLocation, Name, Rtype};
use fairway_zonefile::{Record, ZoneData};

use super::{
    names::{Names, is_wildcard, parent_of},
    records::Compiler,
};
use crate::entries::Node;

/// The zones, those with fewer labels first, so that a parent's number is smaller than its child's.
pub(super) struct Origins<'a> {
    pub(super) zones: Vec<&'a ZoneData>,
    numbers: HashMap<&'a Name, u16>,
    /// Whether there are zones below each one.
    has_nested: Vec<bool>,
}

/// A record at its node.
#[derive(Clone, Copy)]
pub(super) struct RecordAtNode {
    pub(super) node: u32,
    pub(super) rtype: Rtype,
    /// Number of the zone whose text has it.
    pub(super) zone: u16,
    pub(super) record: u32,
}

impl<'a> Origins<'a> {
    pub(super) fn new(zones: &'a [ZoneData]) -> Self {
        let mut zones: Vec<_> = zones.iter().collect();
        zones.sort_by_key(|z| (z.origin.label_count(), z.origin.clone()));
        let numbers = (0..).zip(&zones).map(|(number, zone)| (&zone.origin, number)).collect();
        let mut origins = Self { has_nested: vec![false; zones.len()], zones, numbers };
        for number in 0..origins.zones.len() {
            let above = origins.zones[number].origin.parent().and_then(|above| origins.of(&above));
            if let Some(above) = above {
                origins.has_nested[usize::from(above)] = true;
            }
        }
        origins
    }

    /// The closest zone that holds the name.
    pub(super) fn of(&self, name: &Name) -> Option<u16> {
        iter::successors(Some(name.clone()), Name::parent).find_map(|name| self.numbers.get(&name).copied())
    }

    pub(super) fn record(&self, at_nodes: &RecordAtNode) -> &'a Record {
        &self.zones[usize::from(at_nodes.zone)].records[at_nodes.record as usize]
    }

    /// Where a record stands.
    pub(super) fn place(&self, at_nodes: &RecordAtNode) -> FileLocation {
        self.zones[usize::from(at_nodes.zone)].place(self.record(at_nodes))
    }
}

impl<'a> Compiler<'a> {
    pub(super) fn place_records(&mut self) {
        for number in 0..self.origins.zones.len() {
            self.place_zone(number);
        }
    }

    fn place_zone(&mut self, number: usize) {
        let zone = self.origins.zones[number];
        let apex_labels = zone.origin.label_count();
        let mut last: Option<(&Name, u32)> = None;
        for (index, record) in zone.records.iter().enumerate() {
            if index % Names::TOGETHER == 0 {
                self.names.fetch(zone.records[index..].iter().map(|record| &record.owner));
            }
            if proves_hashed_names(record) {
                continue;
            }
            let node = match last {
                Some((owner, node)) if *owner == record.owner => node,
                _ if !record.owner.is_within(&zone.origin) => {
                    let what = format!("{} lies outside of zone {}", record.owner, zone.origin);
                    self.faults.push(Diagnostic::error(zone.place(record), what, "move it to its own zone's file"));
                    continue;
                }
                _ => match self.node_for(record, number, apex_labels) {
                    Some(node) => node,
                    None => continue,
                },
            };
            // At the apex of a zone below, only DS is the parent's, so the next record is looked at anew.
            last = (self.names.drafts[node as usize].zone == number as u16).then_some((&record.owner, node));
            self.mark(node, record.rtype);
            self.at_nodes.push(RecordAtNode { node, rtype: record.rtype, zone: number as u16, record: index as u32 });
        }
    }

    /// The node of a record of this zone; none if a zone below hides it.
    fn node_for(&mut self, record: &'a Record, number: usize, apex_labels: usize) -> Option<u32> {
        let (owner, labels) = (record.owner.as_wire(), record.owner.label_count());
        let nested = self.origins.has_nested[number].then(|| self.origins.of(&record.owner)).flatten();
        let Some(below) = nested.filter(|closest| usize::from(*closest) != number) else {
            return Some(self.names.intern(owner, labels, apex_labels, number as u16));
        };
        if record.owner != self.origins.zones[usize::from(below)].origin {
            return None;
        }
        // A zone between this one and that apex hides what this one says of it.
        record.owner.parent().filter(|above| self.origins.of(above) == Some(number as u16))?;
        match record.rtype {
            // DS stands at the parent's side of the cut (RFC 4035 section 3.1.4.1).
            Rtype::DS => self.names.find(&record.owner),
            Rtype::NS => {
                // The delegation itself is the child's to answer; what it makes exist above itself stays.
                self.names.intern(parent_of(owner), labels - 1, apex_labels, number as u16);
                None
            }
            _ => None,
        }
    }

    fn mark(&mut self, node: u32, rtype: Rtype) {
        let node = &mut self.names.drafts[node as usize];
        match rtype {
            // NS at a wildcard delegates nothing: it is data (RFC 4592 section 4.2).
            Rtype::NS if !node.is(Node::APEX) && !is_wildcard(node.name) => {
                node.flags |= Node::CUT;
            }
            Rtype::DNAME => node.flags |= Node::DNAME,
            Rtype::CNAME => node.flags |= Node::ALIAS,
            _ => {}
        }
    }
}

/// NSEC3 and its signatures: their owners are hashes, which do not exist as names (RFC 5155 section 7.2.8), and nobody is
/// answered with them outside of the proofs of a signed zone.
fn proves_hashed_names(record: &Record) -> bool {
    record.rtype == Rtype::NSEC3
        || (record.rtype == Rtype::RRSIG && record.rdata.starts_with(&Rtype::NSEC3.0.to_be_bytes()))
}
