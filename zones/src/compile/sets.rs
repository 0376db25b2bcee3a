//! Record sets to the octets that go on the wire.

use std::collections::HashSet;

use fairway_model::{Name, Rtype};

use crate::{
    snapshot::{Extra, RrSet},
    wire::compressible,
};

/// Record sets under construction.
#[derive(Default)]
pub(super) struct Sets {
    pub(super) sets: Vec<RrSet>,
    pub(super) blobs: Vec<u8>,
    pub(super) patches: Vec<u32>,
    pub(super) extras: Vec<Extra>,
}

/// A name inside a record set whose addresses may be wanted with it.
pub(super) struct Mention {
    /// Number of the set.
    pub(super) set: u32,
    /// Where the name stands in the blob; [`Extra::OWNER`] for the owner.
    pub(super) at: u32,
    /// The name; none for the owner.
    pub(super) target: Option<Name>,
    /// Whether it stands in an SVCB or HTTPS record.
    pub(super) service: bool,
}

/// A record set has more octets than a message can hold.
pub(super) struct TooLarge(pub(super) usize);

impl Sets {
    /// Octets of a record set that fit a message next to the longest question and OPT.
    pub(super) const OCTETS_MAX: usize = 65_535 - 12 - 259 - 300;

    /// Adds a set of these records, duplicates dropped, names compressed against `origin` where their type allows.
    pub(super) fn add<'a>(
        &mut self,
        rtype: Rtype,
        ttl: u32,
        rdatas: impl Iterator<Item = &'a [u8]>,
        origin: &Name,
        mentions: &mut Vec<Mention>,
    ) -> Result<u32, TooLarge> {
        let (blob, patches) = (self.blobs.len(), self.patches.len());
        let number = self.sets.len() as u32;
        let mut seen = HashSet::new();
        let mut count = 0usize;
        let mut rdatas = rdatas.peekable();
        while let Some(rdata) = rdatas.next() {
            // One record alone, by far the most common, needs no memory of what was seen.
            if (count > 0 || rdatas.peek().is_some()) && !seen.insert(rdata) {
                continue;
            }
            self.blobs.extend_from_slice(&[0xc0, 12]);
            self.blobs.extend_from_slice(&rtype.0.to_be_bytes());
            self.blobs.extend_from_slice(&[0, 1]);
            self.blobs.extend_from_slice(&ttl.to_be_bytes());
            let rdata_at = (self.blobs.len() - blob) as u32 + 2;
            self.push_rdata(rtype, rdata, origin, blob);
            mention(rtype, rdata, number, rdata_at, mentions);
            count += 1;
        }
        let len = self.blobs.len() - blob;
        let Some(count) = u16::try_from(count).ok().filter(|_| len <= Self::OCTETS_MAX) else {
            self.blobs.truncate(blob);
            self.patches.truncate(patches);
            mentions.retain(|m| m.set != number);
            return Err(TooLarge(len));
        };
        self.sets.push(RrSet {
            rtype,
            count,
            ttl,
            blob: blob as u32,
            len: len as u32,
            patches: patches as u32,
            patch_count: (self.patches.len() - patches) as u32,
            extras: 0,
            extra_count: 0,
            alias: RrSet::NO_ALIAS,
        });
        Ok(number)
    }

    /// Writes RDLENGTH and RDATA; a name within the zone keeps its own labels and ends in a pointer to the apex, which is
    /// somewhere in every message about this zone.
    fn push_rdata(&mut self, rtype: Rtype, rdata: &[u8], origin: &Name, blob: usize) {
        let length_at = self.blobs.len();
        self.blobs.extend_from_slice(&[0, 0]);
        let (prefix, names) = compressible(rtype);
        let mut rest = rdata;
        if names > 0 && rdata.len() > prefix {
            self.blobs.extend_from_slice(&rdata[..prefix]);
            rest = &rdata[prefix..];
            for _ in 0..names {
                let Ok(name) = Name::from_wire(rest) else { break };
                rest = &rest[name.as_wire().len()..];
                if origin.is_root() || !name.is_within(origin) {
                    self.blobs.extend_from_slice(name.as_wire());
                    continue;
                }
                let own = name.as_wire().len() - origin.as_wire().len();
                self.blobs.extend_from_slice(&name.as_wire()[..own]);
                self.patches.push((self.blobs.len() - blob) as u32);
                self.blobs.extend_from_slice(&[0, 0]);
            }
        }
        self.blobs.extend_from_slice(rest);
        let length = (self.blobs.len() - length_at - 2) as u16;
        self.blobs[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    }

    /// The octets of a set.
    pub(super) fn blob(&self, set: &RrSet) -> &[u8] {
        &self.blobs[set.blob as usize..][..set.len as usize]
    }
}

/// Notes a name whose addresses belong in the additional section: of a name server (RFC 1034 section 4.3.2), of SRV
/// (RFC 2782), of SVCB and HTTPS (RFC 9460 section 4.1).
fn mention(rtype: Rtype, rdata: &[u8], set: u32, rdata_at: u32, mentions: &mut Vec<Mention>) {
    let skip = match rtype {
        Rtype::NS => 0,
        Rtype::SRV => 6,
        Rtype::SVCB | Rtype::HTTPS => 2,
        _ => return,
    };
    let Some(target) = rdata.get(skip..).and_then(|wire| Name::from_wire(wire).ok()) else { return };
    let owner_itself = target.is_root();
    let service = matches!(rtype, Rtype::SVCB | Rtype::HTTPS);
    match rtype {
        // AliasMode's root means "not there"; ServiceMode's means the owner (RFC 9460 sections 2.5.1 and 2.5.2).
        Rtype::SVCB | Rtype::HTTPS if owner_itself && rdata.starts_with(&[0, 0]) => {}
        Rtype::SVCB | Rtype::HTTPS if owner_itself => {
            mentions.push(Mention { set, at: Extra::OWNER, target: None, service })
        }
        _ if owner_itself => {}
        // Compressed or not, the name begins where it does in RDATA: what stands before it is never shortened.
        _ => mentions.push(Mention { set, at: rdata_at + skip as u32, target: Some(target), service }),
    }
}
