//! Brings those who wrote and the readings that took what they wrote together, whichever comes first.
//!
//! A store tells of a batch as soon as it is durable, so that a reading may have it in the answers before its writer has even heard that
//! it is. So both are kept for a while: writers until their revision has passed, the last passages for writers that come late.

use std::{
    collections::{BTreeMap, VecDeque},
    time::SystemTime,
};

use opentelemetry::trace::SpanContext;

/// A reading that brought revisions into the answers.
#[derive(Clone, Debug)]
pub struct Passage {
    /// The revision before it, and its own: what is between is in the answers because of it.
    pub revisions: (u64, u64),
    /// When the reading began.
    pub begun: SystemTime,
    /// When it had compiled.
    pub compiled: SystemTime,
    /// When the answers followed it.
    pub in_force: SystemTime,
    /// True if only what is touched was compiled.
    pub is_incremental: bool,
    /// How many pools, names and names of records are touched; 0 where that is not known, as where files are read.
    pub touched: [usize; 3],
    /// The id of what is served since.
    pub snapshot: u64,
    /// The configurations accepted since the start.
    pub generation: u64,
    /// What its log lines have as `trace`.
    pub log: String,
}

/// Who wrote.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Writer {
    pub(super) span: SpanContext,
    /// When it began.
    pub(super) since: SystemTime,
}

/// Those who wait for each other.
#[derive(Debug, Default)]
pub(super) struct Carried {
    writers: BTreeMap<u64, Vec<Writer>>,
    waiting: usize,
    passages: VecDeque<Passage>,
}

impl Carried {
    /// A writer made a revision; with the passage that has it already. One over the bound gives way to the oldest.
    pub(super) fn wrote(&mut self, revision: u64, writer: Writer) -> Option<(Writer, Passage)> {
        let has = |passage: &&Passage| passage.revisions.0 < revision && revision <= passage.revisions.1;
        match self.passages.iter().find(has) {
            // A batch that changes nothing gets the revision of those who wrote before, and passes with nobody.
            Some(passage) => (passage.in_force >= writer.since).then(|| (writer, passage.clone())),
            None if self.passages.back().is_some_and(|last| revision <= last.revisions.1) => None,
            None => {
                self.writers.entry(revision).or_default().push(writer);
                self.waiting += 1;
                while self.waiting > WRITERS_MAX {
                    self.waiting -= self.writers.pop_first().map_or(0, |(_, gone)| gone.len());
                }
                None
            }
        }
    }

    /// Revisions are in the answers; those who wrote them.
    pub(super) fn passed(&mut self, passage: &Passage) -> Vec<Writer> {
        let later = self.writers.split_off(&(passage.revisions.1 + 1));
        let writers: Vec<_> = std::mem::replace(&mut self.writers, later).into_values().flatten().collect();
        self.waiting -= writers.len();
        if passage.revisions.0 < passage.revisions.1 {
            self.passages.push_back(passage.clone());
            self.passages.drain(..self.passages.len().saturating_sub(PASSAGES_MAX));
        }
        writers
    }
}

/// Writers that may wait for their revision: as many as a second of writes has.
const WRITERS_MAX: usize = 2_048;
/// Passages that are kept for writers that are late, by some milliseconds.
const PASSAGES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use opentelemetry::trace::{SpanId, TraceFlags, TraceId, TraceState};

    use super::*;

    fn at(secs: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(secs)
    }

    fn writer(id: u64, since: u64) -> Writer {
        let ids = (TraceId::from(u128::from(id)), SpanId::from(id));
        let span = SpanContext::new(ids.0, ids.1, TraceFlags::SAMPLED, false, TraceState::default());
        Writer { span, since: at(since) }
    }

    fn passage(revisions: (u64, u64), in_force: u64) -> Passage {
        let (begun, in_force) = (at(in_force), at(in_force));
        let (is_incremental, touched, log) = (true, [0; 3], String::new());
        Passage {
            revisions,
            begun,
            compiled: begun,
            in_force,
            is_incremental,
            touched,
            snapshot: 1,
            generation: 1,
            log,
        }
    }

    #[test]
    fn writers_pass_with_their_revision_whoever_comes_first() {
        let mut carried = Carried::default();
        assert_eq!(carried.wrote(2, writer(1, 1)).map(|(it, _)| it), None);
        assert_eq!(carried.wrote(4, writer(2, 1)).map(|(it, _)| it), None);
        assert_eq!(carried.passed(&passage((1, 3), 2)), [writer(1, 1)]);
        let late = carried.wrote(3, writer(3, 1)).map(|(it, passage)| (it, passage.revisions));
        assert_eq!(late, Some((writer(3, 1), (1, 3))));
        assert_eq!(carried.passed(&passage((3, 4), 3)), [writer(2, 1)]);
        assert_eq!(carried.passed(&passage((4, 4), 4)), []);
    }

    #[test]
    fn who_changed_nothing_passes_with_nobody() {
        let mut carried = Carried::default();
        assert_eq!(carried.passed(&passage((1, 2), 2)), []);
        assert!(carried.wrote(2, writer(1, 3)).is_none(), "it began after that was in force");
        assert!(carried.wrote(1, writer(2, 3)).is_none(), "that was in force before anything");
        assert_eq!(carried.waiting, 0);
        assert_eq!(carried.passed(&passage((2, 3), 4)), []);
    }

    #[test]
    fn what_is_kept_has_a_bound_and_the_oldest_go() {
        let mut carried = Carried::default();
        for revision in 1..=3_000 {
            assert!(carried.wrote(revision, writer(revision, 1)).is_none());
        }
        assert_eq!(carried.waiting, WRITERS_MAX);
        let passed = carried.passed(&passage((0, 3_000), 2));
        assert_eq!((passed.len(), passed.first()), (WRITERS_MAX, Some(&writer(953, 1))));
        (0..1_000).for_each(|n| _ = carried.passed(&passage((3_000 + n, 3_001 + n), 2)));
        assert_eq!((carried.passages.len(), carried.waiting), (PASSAGES_MAX, 0));
    }
}
