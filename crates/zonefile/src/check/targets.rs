//! Targets of NS, MX and SRV records: inside the zone they must have addresses and must not be aliases.

use std::collections::HashSet;

use fairway_model::{AnswerMode, Name, Rtype};

use super::{
    Check, Kinds, Node, Nodes,
    nodes::{Folded, ancestors},
    owners::is_host_name,
};
use crate::{Record, rdata::rdata_names};

/// State of a target inside the zone.
enum Target<'n> {
    /// It has addresses, from the file or steered.
    Address,
    /// It has a CNAME.
    Alias,
    /// It is steered, and its pool answers with a CNAME.
    SteeredAlias,
    /// A DNAME at this node renames it.
    Renamed(&'n Node),
    /// It is delegated, and the zone has no address for it.
    Delegated,
    /// It does not exist, or has no addresses.
    Missing,
}

impl Target<'_> {
    /// Returns the state of a steered name.
    const fn steered(mode: AnswerMode) -> Self {
        match mode {
            AnswerMode::Address => Self::Address,
            AnswerMode::Cname => Self::SteeredAlias,
        }
    }
}

/// Returns the targets of all NS records of the zone.
pub(super) fn name_servers<'z>(nodes: &Nodes<'z>) -> HashSet<Folded<'z>> {
    let records = nodes.iter().filter(|node| node.kinds.any(Kinds::NS)).flat_map(|node| nodes.records(node));
    records.filter(|record| record.rtype == Rtype::NS).map(|record| Folded(&record.rdata)).collect()
}

impl Check<'_, '_> {
    /// Checks the target of an NS, MX or SRV record.
    pub(super) fn target(&mut self, record: &Record) {
        if !matches!(record.rtype, Rtype::NS | Rtype::MX | Rtype::SRV) {
            return;
        }
        let names = rdata_names(record.rtype, &record.rdata);
        let Some(wire) = names.first().map(|name| &record.rdata[name.clone()]) else { return };
        let Ok(target) = Name::from_wire(wire) else { return };
        // A target of "." means that the service does not exist (RFC 2782, RFC 7505).
        if target.is_root() {
            return;
        }
        self.target_form(record, &target);
        if !target.is_within(&self.nodes.zone.origin) {
            return;
        }
        let state = self.resolve(&target);
        let hint = match state {
            Target::SteeredAlias => {
                "point to a name that has an address, or set mode of its pool to address".to_owned()
            }
            _ => self.hint(&target),
        };
        let fact = match state {
            Target::Address => return,
            Target::Delegated if record.rtype == Rtype::NS && target.is_within(&record.owner) => {
                let fact =
                    format!("{target} is a name server of {} inside that zone, but has no glue address", record.owner);
                let hint = "add its A or AAAA record; without it, resolvers cannot reach that server";
                return self.warning(record, fact, hint);
            }
            Target::Delegated => return,
            Target::Alias => format!("{} points to {target}, which is a CNAME (RFC 2181 section 10.3)", record.rtype),
            Target::SteeredAlias => {
                let rtype = record.rtype;
                format!("{rtype} points to {target}, whose pool answers with a CNAME (RFC 2181 section 10.3)")
            }
            Target::Renamed(dname) => {
                format!("{} points to {target}, which the DNAME at {} renames", record.rtype, self.nodes.owner(dname))
            }
            Target::Missing => format!("{} points to {target}, which has no A or AAAA record", record.rtype),
        };
        // As named-checkzone: only the zone itself cannot be served without its own name servers.
        if record.rtype == Rtype::NS && record.owner == self.nodes.zone.origin {
            self.error(record, fact, hint);
        } else {
            self.warning(record, fact, hint);
        }
    }

    fn hint(&self, target: &Name) -> String {
        let origin = &self.nodes.zone.origin;
        let shortened = target.as_wire().strip_suffix(origin.as_wire()).map(|front| [front, &[0]].concat());
        let doubled = shortened.and_then(|front| Name::from_wire(&front).ok()).filter(|name| name.is_within(origin));
        match doubled {
            Some(name) if !origin.is_root() => format!("end the name with a dot if you mean {name}"),
            _ => "point to a name that has an address, or add one".to_owned(),
        }
    }

    /// Warns about targets that look like addresses or are no host names.
    fn target_form(&mut self, record: &Record, target: &Name) {
        let numbers = target.labels().take(4).filter(|label| is_decimal_octet(label)).count();
        let rest = target.as_wire().len() - target.labels().take(4).map(|label| label.len() + 1).sum::<usize>();
        if numbers == 4 && (rest == 1 || rest == self.nodes.zone.origin.as_wire().len()) {
            let fact = format!("{} points to {target}, which looks like an address", record.rtype);
            self.warning(record, fact, "use a host name that has an A record");
        } else if !is_host_name(target.as_wire()) {
            let fact =
                format!("{} points to {target}, which is not a valid host name (RFC 1123 section 2.1)", record.rtype);
            self.warning(record, fact, "use letters, digits and hyphens only");
        }
    }

    fn resolve(&self, target: &Name) -> Target<'_> {
        let wire = target.as_wire();
        let node = self.nodes.get(wire);
        let has_address = node.is_some_and(|node| node.kinds.any(Kinds::ADDRESS));
        match self.nodes.cover(wire) {
            Some(cover) if !self.nodes.is_cut(cover) => return Target::Renamed(cover),
            Some(_) if has_address => return Target::Address,
            Some(_) => return Target::Delegated,
            None if has_address => return Target::Address,
            None => {}
        }
        if let Some(mode) = (self.steered)(target) {
            return Target::steered(mode);
        }
        match node {
            Some(node) if self.nodes.is_cut(node) => Target::Delegated,
            Some(node) if node.kinds.any(Kinds::CNAME) => Target::Alias,
            Some(_) => Target::Missing,
            None => self.by_wildcard(wire),
        }
    }

    /// Returns the state of a name that does not exist itself but may match a wildcard. Ignores empty non-terminals, which can only suppress
    /// a diagnostic.
    fn by_wildcard(&self, wire: &[u8]) -> Target<'_> {
        for encloser in ancestors(wire, &self.nodes.zone.origin) {
            let Some(wildcard) = Name::from_wire(encloser).ok().and_then(|name| name.child(b"*").ok()) else { break };
            let node = self.nodes.get(wildcard.as_wire());
            if let Some(mode) = (self.steered)(&wildcard) {
                return Target::steered(mode);
            }
            match node {
                Some(node) if node.kinds.any(Kinds::ADDRESS) => return Target::Address,
                Some(node) if node.kinds.any(Kinds::CNAME) => return Target::Alias,
                Some(_) => break,
                None if self.nodes.get(encloser).is_some() => break,
                None => {}
            }
        }
        Target::Missing
    }
}

fn is_decimal_octet(label: &[u8]) -> bool {
    label.len() <= 3 && std::str::from_utf8(label).is_ok_and(|text| text.parse::<u8>().is_ok())
}
