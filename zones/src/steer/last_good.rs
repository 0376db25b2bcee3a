//! Last-good members, which pools with the down answer `last-good` keep in [`RuntimeState`].

use std::ops::Range;

use fairway_model::{ClusterName, mix};

use super::{
    answer::Kind,
    eligibility::{EXHAUSTED, LIVE},
    pick::MemberFilter,
    pool::{Down, SteerPool},
};
use crate::{hash, runtime::RuntimeState};

/// Words with one bit for each of the 255 members that a pool may have.
const WORDS_MAX: usize = 4;

impl SteerPool {
    /// Returns the range of the pool's words in [`RuntimeState`], one bit per member. Empty unless its down answer is
    /// `last-good`.
    pub(crate) fn memory(&self) -> Range<usize> {
        let begin = self.memory_begin as usize;
        begin..begin + if self.down == Down::LastGood { self.members.len().div_ceil(64) } else { 0 }
    }

    /// Returns the members that are live or exhausted, one bit each.
    pub(crate) fn live(&self, runtime: &RuntimeState) -> [u64; WORDS_MAX] {
        let filter = MemberFilter::new(self, runtime, Kind::Cname);
        let mut words = [0; WORDS_MAX];
        for member in self.members.iter().filter(|m| filter.any(m) & (LIVE | EXHAUSTED) != 0) {
            words[usize::from(member.number / 64)] |= 1 << (member.number % 64);
        }
        words
    }

    /// Returns the clusters of the members whose bit is set.
    pub(crate) fn clusters_among(&self, words: &[u64]) -> impl Iterator<Item = &ClusterName> {
        let is_set = |number: usize| words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1);
        self.clusters().enumerate().filter(move |(number, _)| is_set(*number)).map(|(_, cluster)| cluster)
    }

    /// Returns the part of the pool's last-good members in the id of the runtime state.
    pub(crate) fn memory_hash(&self, words: &[u64]) -> u64 {
        let name = hash::text(hash::seed::MEMORY, self.name().as_str());
        words.iter().fold(name, |hash, word| mix(hash ^ word))
    }
}
