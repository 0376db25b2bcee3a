//! Counters of one thread, summed by the reader.

/// Counters of one worker thread: one writer, relaxed stores, no shared line.
#[derive(Debug, Default)]
pub struct Tally {}

/// The sum over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tallies {}

impl Tally {
    /// Adds this thread's counters to a sum.
    pub fn add_to(&self, sum: &mut Tallies) {
        let _ = sum;
    }
}
