//! Joins writes with the reloads that applied them, in either order.
//!
//! A store reports a batch as soon as it is durable, so a reload may apply it before the writer knows its revision. So both are kept for
//! a while: writers until a reload applies their revision, the last passages for late writers.

use std::{
    collections::{BTreeMap, VecDeque},
    time::SystemTime,
};

use opentelemetry::trace::SpanContext;

/// A reload that applied revisions.
#[derive(Clone, Debug)]
pub struct Passage {
    /// The revision before the reload, and the one that it applied.
    pub revisions: (u64, u64),
    /// Start of the reload.
    pub begun: SystemTime,
    /// End of compiling.
    pub compiled: SystemTime,
    /// Time when the answers followed it.
    pub in_force: SystemTime,
    /// True if only the changed parts were compiled.
    pub is_incremental: bool,
    /// Numbers of changed pools, names and names of records; 0 if not known, as after a full reload.
    pub touched: [usize; 3],
    /// Id of the new snapshot.
    pub snapshot: u64,
    /// Configurations accepted since the start.
    pub configuration: u64,
    /// Field `trace` of its log lines.
    pub log: String,
}

/// A write.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Writer {
    pub(super) span: SpanContext,
    /// Start of the write.
    pub(super) since: SystemTime,
}

/// Writes and reloads that wait for each other.
#[derive(Debug, Default)]
pub(super) struct Carried {
    writers: BTreeMap<u64, Vec<Writer>>,
    waiting: usize,
    passages: VecDeque<Passage>,
}

impl Carried {
    /// Registers a write. Returns it with the passage if a reload applied its revision already. Over the bound the oldest go.
    pub(super) fn wrote(&mut self, revision: u64, writer: Writer) -> Option<(Writer, Passage)> {
        let has = |passage: &&Passage| passage.revisions.0 < revision && revision <= passage.revisions.1;
        match self.passages.iter().find(has) {
            // A batch that changes nothing has the revision of the write before, and no reload.
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

    /// Registers a reload. Returns the writes that it applied.
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

/// Maximum number of writers that wait for a reload: the writes of about a second.
const WRITERS_MAX: usize = 2_048;
/// Maximum number of passages kept for writers that are some milliseconds late.
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
            configuration: 1,
            log,
        }
    }

    #[test]
    fn write_and_reload_meet_in_either_order() {
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
    fn write_without_change_meets_no_reload() {
        let mut carried = Carried::default();
        assert_eq!(carried.passed(&passage((1, 2), 2)), []);
        assert!(carried.wrote(2, writer(1, 3)).is_none(), "it began after that was in force");
        assert!(carried.wrote(1, writer(2, 3)).is_none(), "that was in force before anything");
        assert_eq!(carried.waiting, 0);
        assert_eq!(carried.passed(&passage((2, 3), 4)), []);
    }

    #[test]
    fn writers_over_the_bound_drop_the_oldest() {
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
