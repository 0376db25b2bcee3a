//! Who goes first on a core: threads that answer, before those that do anything else.
//!
//! A query costs microseconds, and waits for a core that another thread has just taken until that thread's time slice ends: milliseconds.
//! So threads that answer compute in short slices, by which the scheduler lets them go first after they woke, and all others have a smaller
//! share and take the core from nobody by waking up. Neither needs a privilege.

use std::time::Duration;

use super::{batch::Share, standby::Computing};

/// A few batches, and the shortest that Linux gives.
const SLICE: Duration = Duration::from_micros(100);

/// A tenth of a core's time for what is not answering, where answering could take all of it; any of it that answering leaves.
const NICER_BY: i32 = 10;

/// A third of that for long computations: probes and requests come before them.
const LAST_BY: i32 = 15;

/// For a thread that answers, as it begins.
pub(super) fn answer_first() {
    tell(Share { is_batch: false, nicer_by: 0, slice: Some(SLICE) });
}

/// For a thread that answers no query, as it begins; those it starts have the same share.
pub fn let_answers_first() {
    tell(Share { is_batch: true, nicer_by: NICER_BY, slice: None });
}

/// For a thread that computes for long, as it begins; it does so as long as it holds what is returned.
pub fn let_all_others_first() -> Computing {
    tell(Share { is_batch: true, nicer_by: LAST_BY, slice: None });
    Computing::begin()
}

fn tell(share: Share) {
    if let Err(error) = share.take() {
        tracing::debug!(%error, ?share, "CPU share of thread not set");
    }
}
