//! Names with their record sets, each in one piece of memory, so that a query reads few cache lines.
//!
//! ```text
//! entry    head (16), name in lower case, sets
//! head     octets of the name (1), flags (1), zone (2), number of sets (2), 0 (2), steered (4), link (4)
//! set      type (2), number of records (2), octets of the records (2), words of the details (2), records, details
//! details  number of patches (2), of extras (2), octets of the alias (2), 0 (2), first extra (4), target (4),
//!          hash of the alias (8), answer (4), 0 (4), patches (2 each), alias
//! ```
//! A word is eight octets. Each part begins at a word boundary. The *number* of an entry or set is the index of its
//! first word. Records have wire form, and their owner is a pointer to the name of the question (0xc00c). Integers
//! outside of records are little-endian.

mod whole;
mod writer;

use fairway_model::Rtype;

use crate::wire::same_name;

pub(crate) use whole::{AnswerDraft, AnswerPlace, WholeAnswer};
pub(crate) use writer::{EntryWriter, Head};

/// Bit in the number of a node of the upper layer.
pub(crate) const UPPER: u32 = 1 << 31;

/// All entries, and the record sets without a name: negative answers and the answers of pools.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) octets: Box<[u8]>,
}

impl Entries {
    #[inline]
    pub(crate) fn node(&self, number: u32) -> Node<'_> {
        Node::at(&self.octets, number)
    }

    #[inline]
    pub(crate) fn set(&self, number: u32) -> RrSet<'_> {
        RrSet::at(&self.octets, number)
    }
}

/// Offset after the header that lies in the second cache line, wherever the entry begins.
const SECOND_LINE: usize = 47;

/// A name that exists: in a zone file, steered, or as an empty non-terminal above another name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    head: [u64; 2],
    /// Memory from the name on.
    rest: &'a [u8],
}

impl<'a> Node<'a> {
    /// The apex of a zone.
    pub(crate) const APEX: u8 = 1;
    /// A delegation: NS records below an apex.
    pub(crate) const CUT: u8 = 2;
    /// Has a DNAME, which hides everything below.
    pub(crate) const DNAME: u8 = 4;
    /// Has authority: neither hidden by a delegation or DNAME, nor a delegation.
    pub(crate) const OPEN: u8 = 8;
    /// Has a CNAME.
    pub(crate) const ALIAS: u8 = 16;

    #[inline]
    fn at(octets: &'a [u8], number: u32) -> Self {
        let octets = &octets[number as usize * WORD..];
        let (head, rest) = octets.split_first_chunk::<NODE_HEAD>().expect("the number of a node");
        let head = u128::from_le_bytes(*head);
        Self { head: [head as u64, (head >> 64) as u64], rest }
    }

    #[inline]
    pub(crate) fn is(self, flag: u8) -> bool {
        self.flags() & flag != 0
    }

    pub(crate) fn flags(self) -> u8 {
        (self.head[0] >> 8) as u8
    }

    #[inline]
    pub(crate) fn zone(self) -> u16 {
        (self.head[0] >> 16) as u16
    }

    #[inline]
    pub(crate) fn set_count(self) -> u16 {
        (self.head[0] >> 32) as u16
    }

    /// Returns the index of its [`Steered`](crate::snapshot::Steered) plus one, or 0 for a static name.
    #[inline]
    pub(crate) fn steered(self) -> u32 {
        self.head[1] as u32
    }

    /// Returns the number of the child `*` of an open node.
    #[inline]
    pub(crate) fn wildcard(self) -> Option<u32> {
        self.link().filter(|_| self.is(Self::OPEN))
    }

    /// Returns the number of the topmost delegation or DNAME above a node that is not open. `None` for a delegation
    /// that nothing hides.
    #[inline]
    pub(crate) fn occluder(self) -> Option<u32> {
        self.link().filter(|_| !self.is(Self::OPEN))
    }

    #[inline]
    fn link(self) -> Option<u32> {
        ((self.head[1] >> 32) as u32).checked_sub(1)
    }

    /// Returns the name, in lower case.
    #[inline]
    pub(crate) fn name(self) -> &'a [u8] {
        &self.rest[..self.name_len()]
    }

    #[inline]
    pub(crate) fn name_len(self) -> usize {
        usize::from(self.head[0] as u8)
    }

    /// True if this is the name. The case of letters is ignored.
    #[inline]
    pub(crate) fn is_called(self, name: &[u8]) -> bool {
        self.name_len() == name.len() && same_name(name, self.rest.as_chunks().0)
    }

    /// Loads the first two cache lines, which a query reads.
    #[inline]
    pub(crate) fn touch(self) {
        std::hint::black_box((self.steered(), self.rest.get(SECOND_LINE)));
    }

    /// Returns the record sets.
    pub(crate) fn sets(self) -> impl Iterator<Item = RrSet<'a>> {
        let mut rest = &self.rest[whole_words(self.name_len())..];
        (0..self.set_count()).map(move |_| {
            let set = RrSet::read(rest);
            rest = &set.octets[set.length()..];
            set
        })
    }

    /// Returns the memory of the record sets.
    fn set_octets(self) -> &'a [u8] {
        let length = self.sets().map(|set| WORD + set.length()).sum();
        &self.rest[whole_words(self.name_len())..][..length]
    }

    /// Returns the record set of a type.
    #[inline]
    pub(crate) fn set(self, rtype: Rtype) -> Option<RrSet<'a>> {
        let mut rest = &self.rest[whole_words(self.name_len())..];
        for _ in 0..self.set_count() {
            let set = RrSet::read(rest);
            if set.rtype() == rtype {
                return Some(set);
            }
            rest = &set.octets[set.length()..];
        }
        None
    }
}

/// Records of one name and type (RRset).
#[derive(Clone, Copy, Debug)]
pub(crate) struct RrSet<'a> {
    head: u64,
    /// Memory from the records on.
    octets: &'a [u8],
}

impl<'a> RrSet<'a> {
    #[inline]
    pub(crate) fn at(octets: &'a [u8], number: u32) -> Self {
        Self::read(&octets[number as usize * WORD..])
    }

    #[inline]
    fn read(octets: &'a [u8]) -> Self {
        let (head, octets) = octets.split_first_chunk::<WORD>().expect("the number of a set");
        Self { head: u64::from_le_bytes(*head), octets }
    }

    #[inline]
    pub(crate) fn rtype(self) -> Rtype {
        Rtype(self.head as u16)
    }

    /// Returns the number of records.
    #[inline]
    pub(crate) fn count(self) -> u16 {
        (self.head >> 16) as u16
    }

    /// Returns the records in wire form.
    #[inline(always)]
    pub(crate) fn records(self) -> &'a [u8] {
        &self.octets[..usize::from((self.head >> 32) as u16)]
    }

    /// True if the records can be copied to a response as they are.
    #[inline]
    pub(crate) fn is_verbatim(self) -> bool {
        self.head >> 48 == 0
    }

    /// Returns the number of bytes after the header.
    fn length(self) -> usize {
        self.details_at() + (self.head >> 48) as usize * WORD
    }

    fn details_at(self) -> usize {
        whole_words(usize::from((self.head >> 32) as u16))
    }

    /// Returns the TTL of the first record. All records of a set have the same (RFC 2181 section 5.2).
    pub(crate) fn ttl(self) -> u32 {
        let ttl = self.records().get(6..10).and_then(<[u8]>::first_chunk);
        ttl.map_or(0, |ttl| u32::from_be_bytes(*ttl))
    }

    /// Returns the details of a set that is not copied as it is.
    #[inline]
    pub(crate) fn details(self) -> Option<SetDetails<'a>> {
        if self.is_verbatim() {
            return None;
        }
        let (words, behind) = self.octets[self.details_at()..].split_first_chunk::<DETAILS_HEAD>()?;
        let word = |n: usize| words.as_chunks::<WORD>().0.get(n).map_or(0, |word| u64::from_le_bytes(*word));
        Some(SetDetails {
            counts: word(0),
            first_extra: word(1) as u32,
            target: (word(1) >> 32) as u32,
            alias_hash: word(2),
            answer: word(3) as u32,
            behind,
        })
    }
}

/// Changes and additions that a copy of the records needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetDetails<'a> {
    counts: u64,
    first_extra: u32,
    target: u32,
    /// Hash of the alias's target, or 0 for a set that is no alias.
    pub(crate) alias_hash: u64,
    answer: u32,
    behind: &'a [u8],
}

impl<'a> SetDetails<'a> {
    /// Returns the number of the first [`WholeAnswer`] made of the set.
    #[inline]
    pub(crate) fn answer(self) -> Option<u32> {
        self.answer.checked_sub(1)
    }

    /// Returns the offsets in the records where a pointer to the zone's apex is due.
    #[inline]
    pub(crate) fn patches(self) -> impl Iterator<Item = usize> {
        let patches = &self.behind[..self.patch_octets()];
        patches.as_chunks::<2>().0.iter().map(|at| usize::from(u16::from_le_bytes(*at)))
    }

    #[inline]
    fn patch_octets(self) -> usize {
        usize::from(self.counts as u16) * 2
    }

    /// Returns the indices of the extras of the set.
    #[inline]
    pub(crate) fn extras(self) -> std::ops::Range<usize> {
        let first = self.first_extra as usize;
        first..first + usize::from((self.counts >> 16) as u16)
    }

    /// Returns the number of the alias's target, if it is a known open node. It needs no lookup then.
    #[inline]
    pub(crate) fn target(self) -> Option<u32> {
        self.target.checked_sub(1)
    }

    /// Returns the target of a CNAME or DNAME.
    #[inline]
    pub(crate) fn alias(self) -> Option<Alias<'a>> {
        let length = usize::from((self.counts >> 32) as u16);
        let name = self.behind.get(self.patch_octets()..)?.get(..length)?;
        (length > 0).then_some(Alias { hash: self.alias_hash, name })
    }
}

/// The target of a CNAME or DNAME.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alias<'a> {
    /// Hash of the target, so that following a CNAME hashes nothing.
    pub(crate) hash: u64,
    /// Name in wire form, case as written.
    pub(crate) name: &'a [u8],
}

/// Addresses for the additional section: glue of a delegation, or targets of SRV and SVCB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extra {
    /// Offset of the name in the records of its set, or [`Extra::OWNER`].
    pub(crate) at: u32,
    /// Number of the address set.
    pub(crate) set: u32,
    /// True for glue that the delegation needs (RFC 9471). If it does not fit, the response is truncated.
    pub(crate) required: bool,
}

impl Extra {
    /// Offset that stands for the owner of the set.
    pub(crate) const OWNER: u32 = u32::MAX;
}

/// Octets of a word, which is also the size of a set's head.
const WORD: usize = 8;
/// Octets of an entry's head.
const NODE_HEAD: usize = 16;
/// Octets of the details without patches and alias.
const DETAILS_HEAD: usize = 32;

/// Rounds octets up to whole words.
#[inline]
const fn whole_words(octets: usize) -> usize {
    octets.next_multiple_of(WORD)
}
