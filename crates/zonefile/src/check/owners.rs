//! Rules about owners: the apex, zone cuts, names below cuts and DNAMEs, wildcards, host names.

use fairway_model::{Name, Rtype};

use super::{Check, Kinds, Node, nodes::Folded};
use crate::{Record, rdata::rdata_names};

impl Check<'_, '_> {
    /// Warns about data that is never answered because a zone cut or a DNAME hides it. Returns true if the whole node is hidden.
    pub(super) fn is_hidden(&mut self, node: &Node) -> bool {
        let owner = self.nodes.owner(node);
        let above = self.nodes.cover(owner.as_wire());
        let (cover, below) = match above {
            Some(cover) => (cover, true),
            None if self.nodes.is_cut(node) => (node, false),
            None => return false,
        };
        let glue = self.glue.contains(&Folded(owner.as_wire()));
        let cut = self.nodes.is_cut(cover);
        let shown = |record: &&Record| match record.rtype {
            Rtype::A | Rtype::AAAA => cut && glue,
            Rtype::NS | Rtype::DS => cut && !below,
            Rtype::NSEC | Rtype::RRSIG => !below || !cut,
            Rtype::NSEC3 => !cut,
            _ => false,
        };
        if let Some(record) = self.nodes.records(node).find(|record| !shown(record)) {
            let top = self.nodes.owner(cover);
            let by = if cut { "delegation" } else { "DNAME" };
            let fact = format!("{} data of {owner} is never answered: the {by} at {top} hides it", record.rtype);
            let hint = if cut { format!("move it into the zone {top}, or remove it") } else { "remove it".into() };
            self.warning(record, fact, hint);
        }
        below
    }

    /// Checks types that are allowed only at certain names.
    pub(super) fn check_owner(&mut self, node: &Node, record: &Record) {
        let owner = &record.owner;
        match record.rtype {
            Rtype::SOA if !self.nodes.is_apex(node) => {
                let fact = format!("{owner} has an SOA record but is not the zone apex {}", self.nodes.zone.origin);
                self.error(record, fact, "remove it, or check the zone's name");
            }
            Rtype::SOA => self.mailbox(record),
            Rtype::NS if owner.is_wildcard() => {
                let fact = format!(
                    "{owner} is a wildcard with NS records, which have no defined meaning (RFC 4592 section 4.2)"
                );
                self.error(record, fact, "delegate each name separately");
            }
            Rtype::DNAME if owner.is_wildcard() => {
                let fact =
                    format!("{owner} is a wildcard with a DNAME, whose meaning is not defined (RFC 4592 section 4.4)");
                self.warning(record, fact, "give each name a DNAME of its own");
            }
            Rtype::DS if self.nodes.is_apex(node) => {
                self.error(
                    record,
                    format!("{owner} is the zone apex; its DS record belongs in the parent zone"),
                    "move it there",
                );
            }
            Rtype::DS if !node.kinds.any(Kinds::NS) => {
                let fact = format!("{owner} has a DS record but no NS records, so no resolver asks for it");
                self.warning(record, fact, "add its NS records, or remove it");
            }
            Rtype::SVCB | Rtype::HTTPS if record.rdata.starts_with(&[0, 0]) && service_parameters(record) => {
                let fact = "a record with priority 0 has parameters, which clients ignore (RFC 9460 section 2.4.2)";
                self.warning(record, fact, "remove them, or give it a priority of 1 or more");
            }
            _ => {}
        }
    }

    /// Checks that a name with an address is a host name: letters, digits and hyphens (RFC 952, RFC 1123 section 2.1).
    pub(super) fn host_name(&mut self, record: &Record) {
        let owner = record.owner.as_wire();
        let first = usize::from(record.owner.is_wildcard()) * 2; // octets of the label "*"
        if matches!(record.rtype, Rtype::A | Rtype::AAAA) && !is_host_name(&owner[first..]) {
            let fact = format!("{} has an address but is not a valid host name (RFC 1123 section 2.1)", record.owner);
            self.warning(record, fact, "use letters, digits and hyphens only");
        }
    }

    /// Checks the mailbox of an SOA, in which a dot stands for the `@` (RFC 1035 section 8).
    fn mailbox(&mut self, record: &Record) {
        let names = rdata_names(record.rtype, &record.rdata);
        let Some(wire) = names.get(1).map(|name| &record.rdata[name.clone()]) else { return };
        if wire.contains(&b'@') {
            let mailbox = Name::from_wire(wire).map_or_else(|_| String::new(), |name| name.to_string());
            let fact = format!("the SOA mailbox {mailbox} contains an @");
            self.warning(record, fact, "replace the @ with a dot: hostmaster.example.com.");
        }
    }
}

/// True if every label consists of letters, digits and hyphens and neither begins nor ends with a hyphen.
pub(super) fn is_host_name(mut wire: &[u8]) -> bool {
    while let Some((length, rest)) = wire.split_first().filter(|(length, _)| **length > 0) {
        let Some((label, tail)) = rest.split_at_checked(usize::from(*length)) else { return false };
        let plain = label.iter().all(|octet| octet.is_ascii_alphanumeric() || *octet == b'-');
        if !plain || label.starts_with(b"-") || label.ends_with(b"-") {
            return false;
        }
        wire = tail;
    }
    true
}

/// True if an SVCB or HTTPS record has parameters.
fn service_parameters(record: &Record) -> bool {
    rdata_names(record.rtype, &record.rdata).first().is_some_and(|target| target.end < record.rdata.len())
}
