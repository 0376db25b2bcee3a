//! What the records of a zone say together: rules of the apex, of CNAME and DNAME, of cuts, of targets, of RRsets.
//!
//! What `named-checkzone` refuses is an error here, and what it only mentions is a warning, with steered names taken
//! into account. Nothing is asked of the network: names outside the zone are not looked at.

mod nodes;
mod places;
mod rrsets;
mod targets;

#[cfg(test)]
mod tests;

use std::{collections::HashSet, sync::Arc};

use fairway_model::{Diagnostic, FileLocation, Name, Rtype, Ttl};

use super::{Record, ZoneData, faults::Faults};
use nodes::{Kinds, Node, Nodes};

/// Checks what the records of a zone say together, and puts it in order: duplicates are dropped, and the TTLs of an
/// RRset become the smallest of them (RFC 2181 section 5.2).
///
/// `steered` says whether exactly this name is a steered one: its addresses come from the configuration, so they are
/// never missing, and the file may not state them. Wildcards are looked for here, steered ones too.
pub fn check_zone(zone: &mut ZoneData, steered: &dyn Fn(&Name) -> bool) -> Vec<Diagnostic> {
    let nodes = Nodes::new(zone);
    let mut check = Check {
        glue: targets::name_servers(&nodes),
        nodes: &nodes,
        steered,
        faults: Faults::default(),
        dropped: HashSet::new(),
        ttls: vec![],
    };
    check.apex();
    for node in nodes.iter() {
        check.node(node);
    }
    let Check { faults, dropped, ttls, .. } = check;
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
    faults.finish(file_place(zone))
}

/// One run of the check.
struct Check<'z, 'n> {
    nodes: &'n Nodes<'z>,
    steered: &'n dyn Fn(&Name) -> bool,
    /// Every name that an NS record names, in wire form.
    glue: HashSet<nodes::Folded<'z>>,
    faults: Faults,
    /// Indices of records that say what another says.
    dropped: HashSet<usize>,
    /// Records whose TTL must become that of their RRset.
    ttls: Vec<(usize, Ttl)>,
}

impl<'z> Check<'z, '_> {
    /// An apex has one SOA and at least one NS (RFC 1035 section 5.2, RFC 1034 section 4.2.1). That the SOA is not
    /// more than one is a rule of RRsets.
    fn apex(&mut self) {
        let apex = self.nodes.get(self.nodes.zone.origin.as_wire());
        for (rtype, hint) in [
            (Rtype::SOA, "add one: @ SOA ns1 hostmaster 1 1h 15m 2w 5m; without it the file may be truncated or empty"),
            (Rtype::NS, "add one for each name server of the zone"),
        ] {
            if !apex.is_some_and(|apex| self.nodes.records(apex).any(|record| record.rtype == rtype)) {
                let what = format!("the zone {} has no {rtype} record at its apex", self.nodes.zone.origin);
                self.faults.add(Diagnostic::error(file_place(self.nodes.zone), what, hint));
            }
        }
    }

    fn node(&mut self, node: &Node) {
        self.rrsets(node);
        self.cname_and_others(node);
        self.steered_beside_static(node);
        let hidden = self.hidden(node);
        for record in self.nodes.records(node) {
            self.place_of(node, record);
            self.host_name(record);
            if !hidden {
                self.target(record);
            }
        }
    }

    /// The addresses of a steered name come from the configuration alone.
    fn steered_beside_static(&mut self, node: &Node) {
        let taken = Kinds::ADDRESS.and(Kinds::CNAME);
        if !node.kinds.any(taken) || !(self.steered)(self.nodes.owner(node)) {
            return;
        }
        let mut records = self.nodes.records(node);
        if let Some(record) = records.find(|r| matches!(r.rtype, Rtype::A | Rtype::AAAA | Rtype::CNAME)) {
            let what = format!("{} is a steered name, but the file has {} data for it", record.owner, record.rtype);
            self.error(record, what, "remove the record, or remove the name from the configuration");
        }
    }

    fn error(&mut self, record: &Record, what: impl Into<String>, hint: impl Into<String>) {
        self.faults.add(Diagnostic::error(self.nodes.zone.place(record), what, hint));
    }

    fn warning(&mut self, record: &Record, what: impl Into<String>, hint: impl Into<String>) {
        self.faults.add(Diagnostic::warning(self.nodes.zone.place(record), what, hint));
    }
}

fn file_place(zone: &ZoneData) -> FileLocation {
    FileLocation { file: Arc::clone(&zone.files[0]), line: 0, column: 0 }
}
