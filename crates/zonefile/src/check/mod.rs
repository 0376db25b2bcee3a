//! Checks the records of a zone against each other: rules of the apex, of CNAME and DNAME, of zone cuts, of targets, of RRsets.
//!
//! A problem that `named-checkzone` rejects is an error here; a problem that it only reports is a warning. Steered names are taken into
//! account. Names outside the zone are not resolved.

mod nodes;
mod owners;
mod rrsets;
mod targets;

#[cfg(test)]
mod tests;

use std::{collections::HashSet, sync::Arc};

use fairway_model::{AnswerMode, Diagnostic, FileLocation, Name, Rtype, Ttl};

use super::{Record, ZoneData, diagnostics::Diagnostics};
use nodes::{Kinds, Node, Nodes};

/// Checks the records of a zone against each other and normalizes them: removes duplicates, and sets the TTL of each RRset to its smallest
/// (RFC 2181 section 5.2).
///
/// `steered` returns the kind of answer of exactly this name if it is steered: its addresses come from the configuration, so they never
/// count as missing, and the file must not contain them. This function expands wildcards itself, also steered ones.
pub fn check_zone(zone: &mut ZoneData, steered: &dyn Fn(&Name) -> Option<AnswerMode>) -> Vec<Diagnostic> {
    let nodes = Nodes::new(zone);
    let mut check = Check {
        glue: targets::name_servers(&nodes),
        nodes: &nodes,
        steered,
        diagnostics: Diagnostics::default(),
        dropped: HashSet::new(),
        ttls: vec![],
    };
    check.apex();
    for node in nodes.iter() {
        check.node(node);
    }
    let Check { diagnostics, dropped, ttls, .. } = check;
    for (index, ttl) in ttls {
        zone.records[index].ttl = ttl;
    }
    if !dropped.is_empty() {
        let mut index = 0;
        zone.records.retain(|_| {
            index += 1;
            !dropped.contains(&(index - 1))
        });
    }
    diagnostics.finish(file_location(zone))
}

/// One run of the check.
struct Check<'z, 'n> {
    nodes: &'n Nodes<'z>,
    steered: &'n dyn Fn(&Name) -> Option<AnswerMode>,
    /// Targets of all NS records, in wire form.
    glue: HashSet<nodes::Folded<'z>>,
    diagnostics: Diagnostics,
    /// Indices of duplicate records.
    dropped: HashSet<usize>,
    /// Indices of records whose TTL changes, with the new TTL.
    ttls: Vec<(usize, Ttl)>,
}

impl<'z> Check<'z, '_> {
    /// Checks that the apex has an SOA and at least one NS (RFC 1035 section 5.2, RFC 1034 section 4.2.1). `rrsets` checks that there is
    /// only one SOA.
    fn apex(&mut self) {
        let apex = self.nodes.get(self.nodes.zone.origin.as_wire());
        for (rtype, hint) in [
            (Rtype::SOA, "add one: @ SOA ns1 hostmaster 1 1h 15m 2w 5m; without it the file may be truncated or empty"),
            (Rtype::NS, "add one for each name server of the zone"),
        ] {
            if !apex.is_some_and(|apex| self.nodes.records(apex).any(|record| record.rtype == rtype)) {
                let fact = format!("the zone {} has no {rtype} record at its apex", self.nodes.zone.origin);
                self.diagnostics.add(Diagnostic::error(file_location(self.nodes.zone), fact, hint));
            }
        }
    }

    fn node(&mut self, node: &Node) {
        self.rrsets(node);
        self.cname_and_others(node);
        self.check_steered(node);
        let hidden = self.is_hidden(node);
        for record in self.nodes.records(node) {
            self.check_owner(node, record);
            self.host_name(record);
            if !hidden {
                self.target(record);
            }
        }
    }

    /// Checks that the file has no addresses for a steered name, because these come from the configuration.
    fn check_steered(&mut self, node: &Node) {
        let taken = Kinds::ADDRESS.and(Kinds::CNAME);
        if !node.kinds.any(taken) || (self.steered)(self.nodes.owner(node)).is_none() {
            return;
        }
        let mut records = self.nodes.records(node);
        if let Some(record) = records.find(|r| matches!(r.rtype, Rtype::A | Rtype::AAAA | Rtype::CNAME)) {
            let fact = format!("{} is a steered name, but the file has {} data for it", record.owner, record.rtype);
            self.error(record, fact, "remove the record, or remove the name from the configuration");
        }
    }

    fn error(&mut self, record: &Record, fact: impl Into<String>, hint: impl Into<String>) {
        self.diagnostics.add(Diagnostic::error(self.nodes.zone.place(record), fact, hint));
    }

    fn warning(&mut self, record: &Record, fact: impl Into<String>, hint: impl Into<String>) {
        self.diagnostics.add(Diagnostic::warning(self.nodes.zone.place(record), fact, hint));
    }
}

fn file_location(zone: &ZoneData) -> FileLocation {
    FileLocation { file: Arc::clone(&zone.files[0]), line: 0, column: 0 }
}
