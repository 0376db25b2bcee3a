//! Whole answers, made when a zone is compiled: denials, referrals with their glue, and CNAMEs with their targets.
//!
//! ```text
//! answer  type (2), octets (2), number of patches (2), words to the next (2), counts of records (8), sections, patches (2 each)
//! ```
//! An answer is copied after the question. Its pointers are little-endian and relative to the end of the question,
//! which is added to each. Answers are numbered as sets are. They are stored after all entries, so that a name without one
//! has no cost.

use fairway_model::Rtype;

use super::{Entries, EntryWriter, RrSet, WORD};
use crate::wire::Section;

/// A whole answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WholeAnswer<'a> {
    head: u64,
    /// Records of each section, as in the header of a message.
    pub(crate) counts: u64,
    octets: &'a [u8],
}

impl<'a> WholeAnswer<'a> {
    /// Maximum octets. A larger answer is composed for each query, since its copy would dominate the cost anyway.
    pub(crate) const OCTETS_MAX: usize = 1_024;

    #[inline]
    fn at(octets: &'a [u8], number: u32) -> Self {
        let octets = &octets[number as usize * WORD..];
        let (head, octets) = octets.split_first_chunk::<ANSWER_HEAD>().expect("the number of a whole answer");
        let head = u128::from_le_bytes(*head);
        Self { head: head as u64, counts: (head >> 64) as u64, octets }
    }

    /// Returns the type that it answers.
    #[inline]
    pub(crate) fn rtype(self) -> Rtype {
        Rtype(self.head as u16)
    }

    /// Returns its sections. Pointers still lack the offset of the question's end.
    #[inline]
    pub(crate) fn sections(self) -> &'a [u8] {
        &self.octets[..self.octet_count()]
    }

    /// Returns the offsets of those pointers.
    #[inline]
    pub(crate) fn patches(self) -> impl Iterator<Item = usize> {
        let patches = &self.octets[self.octet_count()..][..usize::from((self.head >> 32) as u16) * 2];
        patches.as_chunks::<2>().0.iter().map(|at| usize::from(u16::from_le_bytes(*at)))
    }

    /// Returns the distance in words to the next answer of the same set.
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

    /// Returns the whole answer to a type, from the list that begins at `first`.
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
    /// Writes a whole answer and returns its number. `last` is the previous answer of the same set.
    pub(crate) fn whole_answer(&mut self, draft: &AnswerDraft, last: Option<u32>) -> u32 {
        let number = self.next_number();
        if let Some(last) = last {
            // At most 2,048 octets lie between the two.
            self.put(last as usize * WORD + 6, ((number - last) as u16).to_le_bytes());
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

/// Builder of a [`WholeAnswer`].
pub(crate) struct AnswerDraft {
    rtype: Rtype,
    octets: Vec<u8>,
    patches: Vec<u16>,
    counts: u64,
    /// Octets of the zone's apex.
    origin_len: usize,
}

impl AnswerDraft {
    /// Returns an answer without records to questions of a type.
    pub(crate) fn new(rtype: Rtype, origin_len: usize) -> Self {
        Self { rtype, octets: Vec::new(), patches: Vec::new(), counts: 0, origin_len }
    }

    /// Adds a set and returns its offset. `owner` is `None` if the owner is the name of the question.
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

    /// True if it is small enough to be stored.
    pub(crate) fn is_kept(&self) -> bool {
        self.octets.len() <= WholeAnswer::OCTETS_MAX
    }

    /// Writes a pointer that still lacks the offset of the question's end.
    fn point(&mut self, at: usize, to: AnswerPlace) {
        let pointer = match to {
            AnswerPlace::Within(place) => POINTER.wrapping_add(place as u16),
            AnswerPlace::BeforeNameEnd(octets) => POINTER.wrapping_sub(TYPE_AND_CLASS + octets as u16),
        };
        self.patches.push(at as u16);
        self.octets[at..at + 2].copy_from_slice(&pointer.to_le_bytes());
    }
}

/// Location of a name that a [`WholeAnswer`] points to.
#[derive(Clone, Copy)]
pub(crate) enum AnswerPlace {
    /// Offset in the answer itself.
    Within(usize),
    /// Octets before the end of the question's name.
    BeforeNameEnd(usize),
}

/// First two bits of a compression pointer (RFC 1035 section 4.1.4).
const POINTER: u16 = 0xc000;
/// Octets between the name and the end of the question.
const TYPE_AND_CLASS: u16 = 4;
/// Octets of a whole answer's head.
const ANSWER_HEAD: usize = 16;
