//! Assigns records to nodes. A zone hides what a zone above it has for the same names.

use std::{collections::HashMap, iter};

use fairway_model::{Diagnostic, FileLocation, Name, Rtype};
use fairway_zonefile::{Record, ZoneData};

use super::{
    names::{Names, is_wildcard, parent_of},
    records::Compiler,
};
use crate::entries::Node;

/// The zones, those with fewer labels first, so that a parent has a smaller number than its child.
pub(super) struct Origins<'a> {
    pub(super) zones: Vec<&'a ZoneData>,
    numbers: HashMap<&'a Name, u16>,
    /// True for each zone with other zones below it.
    has_nested: Vec<bool>,
}

/// A record with its node.
#[derive(Clone, Copy)]
pub(super) struct RecordAtNode {
    pub(super) node: u32,
    pub(super) rtype: Rtype,
    /// Number of the zone whose text has the record.
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

    /// Returns the closest zone of a name.
    pub(super) fn of(&self, name: &Name) -> Option<u16> {
        iter::successors(Some(name.clone()), Name::parent).find_map(|name| self.numbers.get(&name).copied())
    }

    pub(super) fn record(&self, at_nodes: &RecordAtNode) -> &'a Record {
        &self.zones[usize::from(at_nodes.zone)].records[at_nodes.record as usize]
    }

    /// Returns the location of a record in its file.
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
                if self.names.table.is_crowded() {
                    return;
                }
                self.names.fetch(zone.records[index..].iter().map(|record| &record.owner));
            }
            if proves_hashed_names(record) {
                continue;
            }
            let node = match last {
                Some((owner, node)) if *owner == record.owner => node,
                _ if !record.owner.is_within(&zone.origin) => {
                    let what = format!("{} is outside of zone {}", record.owner, zone.origin);
                    self.faults.push(Diagnostic::error(zone.place(record), what, "move it to its own zone's file"));
                    continue;
                }
                _ => match self.node_for(record, number, apex_labels) {
                    Some(node) => node,
                    None => continue,
                },
            };
            // At the apex of a zone below, only DS belongs to the parent, so the next record needs its own lookup.
            last = (self.names.drafts[node as usize].zone == number as u16).then_some((&record.owner, node));
            self.mark(node, record.rtype);
            self.at_nodes.push(RecordAtNode { node, rtype: record.rtype, zone: number as u16, record: index as u32 });
        }
    }

    /// Returns the node of a record. `None` if a zone below hides it.
    fn node_for(&mut self, record: &'a Record, number: usize, apex_labels: usize) -> Option<u32> {
        let (owner, labels) = (record.owner.as_wire(), record.owner.label_count());
        let nested = self.origins.has_nested[number].then(|| self.origins.of(&record.owner)).flatten();
        let Some(below) = nested.filter(|closest| usize::from(*closest) != number) else {
            return Some(self.names.intern(owner, labels, apex_labels, number as u16));
        };
        if record.owner != self.origins.zones[usize::from(below)].origin {
            return None;
        }
        // A zone between this one and that apex hides the record.
        record.owner.parent().filter(|above| self.origins.of(above) == Some(number as u16))?;
        match record.rtype {
            // DS belongs to the parent's side of the cut (RFC 4035 section 3.1.4.1).
            Rtype::DS => self.names.find(&record.owner),
            Rtype::NS => {
                // The child zone answers the delegation itself. The names above it exist all the same.
                self.names.intern(parent_of(owner), labels - 1, apex_labels, number as u16);
                None
            }
            _ => None,
        }
    }

    fn mark(&mut self, node: u32, rtype: Rtype) {
        let node = &mut self.names.drafts[node as usize];
        match rtype {
            // At a wildcard, NS does not delegate but is data (RFC 4592 section 4.2).
            Rtype::NS if !node.is(Node::APEX) && !is_wildcard(node.name) => {
                node.flags |= Node::CUT;
            }
            Rtype::DNAME => node.flags |= Node::DNAME,
            Rtype::CNAME => node.flags |= Node::ALIAS,
            _ => {}
        }
    }
}

/// True for NSEC3 and its signatures. Their owners are hashes and do not exist as names (RFC 5155 section 7.2.8), and
/// only proofs of signed zones contain them.
fn proves_hashed_names(record: &Record) -> bool {
    record.rtype == Rtype::NSEC3
        || (record.rtype == Rtype::RRSIG && record.rdata.starts_with(&Rtype::NSEC3.0.to_be_bytes()))
}
