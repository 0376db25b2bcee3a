//! Whole answers in one piece, made when a zone is compiled: denials, referrals with their glue, CNAMEs with what they lead to.
//!
//! ```text
//! answer  type (2), octets (2), count of patches (2), words to the next (2), counts of records (8), sections, patches (2 each)
//! ```
//! An answer goes right behind the question. Its pointers stand little-endian and relative to where that ends, so that copying it and
//! adding that place to each is all there is to do. They go by numbers as sets do, and lie behind all entries: a name that has none pays nothing.

use fairway_model::Rtype;

use super::{Entries, EntryWriter, RrSet, WORD};
use crate::wire::Section;

/// A whole answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WholeAnswer<'a> {
    head: u64,
    /// How many records of each section, as they stand in a message's header.
    pub(crate) counts: u64,
    octets: &'a [u8],
}

impl<'a> WholeAnswer<'a> {
    /// Most octets of one. What is larger is put together when it is asked for, which costs less than its copy.
    pub(crate) const OCTETS_MAX: usize = 1_024;

    #[inline]
    fn at(octets: &'a [u8], number: u32) -> Self {
        let octets = &octets[number as usize * WORD..];
        let (head, octets) = octets.split_first_chunk::<ANSWER_HEAD>().expect("the number of a whole answer");
        let head = u128::from_le_bytes(*head);
        Self { head: head as u64, counts: (head >> 64) as u64, octets }
    }

    /// The type that it answers.
    #[inline]
    pub(crate) fn rtype(self) -> Rtype {
        Rtype(self.head as u16)
    }

    /// Its sections, with pointers that still lack the place where the question ends.
    #[inline]
    pub(crate) fn sections(self) -> &'a [u8] {
        &self.octets[..self.octet_count()]
    }

    /// Places of those pointers.
    #[inline]
    pub(crate) fn patches(self) -> impl Iterator<Item = usize> {
        let patches = &self.octets[self.octet_count()..][..usize::from((self.head >> 32) as u16) * 2];
        patches.as_chunks::<2>().0.iter().map(|at| usize::from(u16::from_le_bytes(*at)))
    }

    /// Words from this one to the next of the same set; none for the last one.
    #[inline]
    pub(crate) fn words_to_next(self) -> Option<u32> {
        let words = (self.head >> 48) as u32;
        (words != 0).then_some(words)
    }

    #[inline]
    fn octet_count(self) -> usize {
        usize::from((self.head >> 16) as u16)
    }
}

impl Entries {
    #[inline]
    pub(crate) fn whole_answer(&self, number: u32) -> WholeAnswer<'_> {
        WholeAnswer::at(&self.octets, number)
    }

    /// The whole answer to this type, of those that follow each other from this number on.
    #[inline]
    pub(crate) fn whole_answer_to(&self, first: u32, rtype: Rtype) -> Option<WholeAnswer<'_>> {
        let mut number = first;
        loop {
            let answer = self.whole_answer(number);
            if answer.rtype() == rtype {
                return Some(answer);
            }
            number += answer.words_to_next()?;
        }
    }
}

impl EntryWriter {
    /// Writes a whole answer; gives its number. `last` is the one before it of the same set.
    pub(crate) fn whole_answer(&mut self, draft: &AnswerDraft, last: Option<u32>) -> u32 {
        let number = self.next_number();
        if let Some(last) = last {
            let at = last as usize * WORD + 6;
            // Less than 2,048 octets lie between the two.
            self.octets[at..at + 2].copy_from_slice(&((number - last) as u16).to_le_bytes());
        }
        let fields = [draft.rtype.0, draft.octets.len() as u16, draft.patches.len() as u16, 0];
        self.octets.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        self.octets.extend_from_slice(&draft.counts.to_le_bytes());
        self.octets.extend_from_slice(&draft.octets);
        self.octets.extend(draft.patches.iter().flat_map(|at| at.to_le_bytes()));
        self.fill_word();
        number
    }
}

/// A [`WholeAnswer`] being made.
pub(crate) struct AnswerDraft {
    rtype: Rtype,
    octets: Vec<u8>,
    patches: Vec<u16>,
    counts: u64,
    /// Octets of the zone's apex.
    origin_len: usize,
}

impl AnswerDraft {
    /// One of no records yet, to questions of this type in the zone whose apex has so many octets.
    pub(crate) fn new(rtype: Rtype, origin_len: usize) -> Self {
        Self { rtype, octets: Vec::new(), patches: Vec::new(), counts: 0, origin_len }
    }

    /// Adds a set whose owner is the question's name, or stands elsewhere; gives where it begins.
    pub(crate) fn add(&mut self, set: RrSet<'_>, owner: Option<AnswerPlace>, section: Section) -> usize {
        let start = self.octets.len();
        self.octets.extend_from_slice(set.records());
        self.counts += u64::from(set.count()) << section as u64;
        let mut at = start;
        for _ in 0..set.count() {
            if let Some(owner) = owner {
                self.point(at, owner);
            }
            at += 12 + usize::from(u16::from_be_bytes([self.octets[at + 10], self.octets[at + 11]]));
        }
        for patch in set.details().iter().flat_map(|rest| rest.patches()) {
            self.point(start + patch, AnswerPlace::BeforeNameEnd(self.origin_len));
        }
        start
    }

    /// Whether it is small enough to be kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.octets.len() <= WholeAnswer::OCTETS_MAX
    }

    /// Makes two octets a pointer, but for the place where the question ends.
    fn point(&mut self, at: usize, to: AnswerPlace) {
        let pointer = match to {
            AnswerPlace::Within(place) => POINTER.wrapping_add(place as u16),
            AnswerPlace::BeforeNameEnd(octets) => POINTER.wrapping_sub(TYPE_AND_CLASS + octets as u16),
        };
        self.patches.push(at as u16);
        self.octets[at..at + 2].copy_from_slice(&pointer.to_le_bytes());
    }
}

/// Where a name stands that a [`WholeAnswer`] points to.
#[derive(Clone, Copy)]
pub(crate) enum AnswerPlace {
    /// In the answer itself.
    Within(usize),
    /// In the question's name: so many octets before its end.
    BeforeNameEnd(usize),
}

/// What tells a pointer from a label (RFC 1035 section 4.1.4).
const POINTER: u16 = 0xc000;
/// Octets between a question's name and its end.
const TYPE_AND_CLASS: u16 = 4;
/// Octets of the head of a whole answer.
const ANSWER_HEAD: usize = 16;
