//! Writes record sets in wire form.

use std::collections::HashSet;

use fairway_model::{Name, Rtype, Ttl};

use crate::{
    entries::{Alias, EntryWriter, Extra},
    wire::{NameKey, compressible},
};

/// Owner of a record set.
#[derive(Clone, Copy)]
pub(super) struct SetContext<'n> {
    /// Key of the hashes of names.
    pub(super) key: &'n NameKey,
    /// Apex against which names are compressed, or the root for none.
    pub(super) origin: &'n Name,
    /// Number of the owner's node, or `None` without one.
    pub(super) node: Option<u32>,
}

/// A name in a record set whose addresses may go with it.
pub(super) struct Mention {
    /// Number of the owner's node.
    pub(super) node: u32,
    /// Number of the set.
    pub(super) set: u32,
    /// Type of the set.
    pub(super) rtype: Rtype,
    /// Offset of the name in the records, or [`Extra::OWNER`].
    pub(super) at: u32,
    /// Name that is mentioned, or `None` for the owner.
    pub(super) target: Option<Name>,
}

/// A record set is larger than a message. Contains its octets.
pub(super) struct TooLarge(pub(super) usize);

impl TooLarge {
    /// Returns the error for a set of this name and type.
    pub(super) fn message(&self, name: &Name, rtype: Rtype) -> String {
        format!("the {rtype} records of {name} have {} octets", self.0)
    }

    /// Returns the hint for the error.
    pub(super) fn hint() -> String {
        format!("at most {OCTETS_MAX} fit into a message; use fewer or shorter records")
    }
}

/// Maximum octets of a record set: what fits into a message with the longest question and OPT.
pub(super) const OCTETS_MAX: usize = 65_535 - 12 - 259 - 300;

/// Writes a set without duplicates and returns its number. Names are compressed if the type allows it.
pub(super) fn write<'a>(
    entries: &mut EntryWriter,
    rtype: Rtype,
    ttl: u32,
    rdatas: impl Iterator<Item = &'a [u8]>,
    context: SetContext<'_>,
    mentions: &mut Vec<Mention>,
) -> Result<u32, TooLarge> {
    let (set, mentioned) = (entries.begin_set(), mentions.len());
    let mut alias = None;
    let mut seen = HashSet::new();
    let mut count = 0usize;
    let mut rdatas = rdatas.peekable();
    while let Some(rdata) = rdatas.next() {
        // A single record, the usual case, needs no set of known records.
        if (count > 0 || rdatas.peek().is_some()) && !seen.insert(rdata) {
            continue;
        }
        let ([t0, t1], [l0, l1, l2, l3]) = (rtype.0.to_be_bytes(), ttl.to_be_bytes());
        entries.extend(&[0xc0, 12, t0, t1, 0, 1, l0, l1, l2, l3, 0, 0]);
        let rdata_at = entries.record_octets();
        if let Some(node) = context.node
            && let Some((skip, target)) = mentioned_in(rtype, rdata)
        {
            // Compression does not change where the name begins, since nothing before it is shortened.
            let at = if target.is_some() { (rdata_at + skip) as u32 } else { Extra::OWNER };
            mentions.push(Mention { node, set, rtype, at, target });
        }
        write_rdata(entries, rtype, rdata, context.origin);
        let length = entries.record_octets() - rdata_at;
        entries.overwrite(rdata_at - 2, length as u16);
        if alias.is_none() && matches!(rtype, Rtype::CNAME | Rtype::DNAME) {
            alias = Some(Alias { hash: context.key.hash(rdata), name: rdata });
        }
        count += 1;
    }
    let octets = entries.record_octets();
    let Some(count) = u16::try_from(count).ok().filter(|_| octets <= OCTETS_MAX) else {
        entries.drop_set();
        mentions.truncate(mentioned);
        return Err(TooLarge(octets));
    };
    let has_extras = mentions.len() > mentioned;
    entries.end_set(rtype, count, alias, has_extras);
    Ok(set)
}

/// Writes a set without owner. Its names are not compressed, since a pool may answer in several zones.
pub(super) fn write_small<'a>(
    key: &NameKey,
    entries: &mut EntryWriter,
    rtype: Rtype,
    ttl: Ttl,
    rdatas: impl Iterator<Item = &'a [u8]>,
) -> u32 {
    let context = SetContext { key, origin: &Name::root(), node: None };
    write(entries, rtype, ttl.secs(), rdatas, context, &mut Vec::new())
        .unwrap_or_else(|_| unreachable!("at most 255 members of 8 addresses, or 16 fallback addresses: 57,120 octets"))
}

/// Writes RDATA. A name within the zone ends in a pointer to the apex, which every message about the zone contains.
fn write_rdata(entries: &mut EntryWriter, rtype: Rtype, rdata: &[u8], origin: &Name) {
    let (prefix, names) = compressible(rtype);
    let mut rest = rdata;
    if names > 0 && rdata.len() > prefix {
        entries.extend(&rdata[..prefix]);
        rest = &rdata[prefix..];
        for _ in 0..names {
            let Ok(name) = Name::from_wire(rest) else { break };
            rest = &rest[name.as_wire().len()..];
            if origin.is_root() || !name.is_within(origin) {
                entries.extend(name.as_wire());
                continue;
            }
            let own = name.as_wire().len() - origin.as_wire().len();
            entries.extend(&name.as_wire()[..own]);
            entries.point_to_apex();
        }
    }
    entries.extend(rest);
}

/// Returns the name in RDATA whose addresses belong into the additional section, and its offset: of a name server (RFC
/// 1034 section 4.3.2), of SRV (RFC 2782), of SVCB and HTTPS (RFC 9460 section 4.1). `None` in place of the name stands
/// for the owner.
fn mentioned_in(rtype: Rtype, rdata: &[u8]) -> Option<(usize, Option<Name>)> {
    let skip = match rtype {
        Rtype::NS => 0,
        Rtype::SRV => 6,
        Rtype::SVCB | Rtype::HTTPS => 2,
        _ => return None,
    };
    let target = Name::from_wire(rdata.get(skip..)?).ok()?;
    if !target.is_root() {
        return Some((skip, Some(target)));
    }
    // The root means "not available" in AliasMode, and the owner in ServiceMode (RFC 9460 sections 2.5.1 and 2.5.2).
    let owner = matches!(rtype, Rtype::SVCB | Rtype::HTTPS) && !rdata.starts_with(&[0, 0]);
    owner.then_some((skip, None))
}
