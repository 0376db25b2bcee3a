//! Contract tests of [`ObjectStore`]: [`contract_tests`] runs them against an implementation.
//!
//! Failures of disk and network are in the tests of each implementation.

mod linear;
pub(super) mod race;
pub(super) mod rules;
pub(super) mod watching;

use fairway_model::Timestamp;

use super::{Author, Batch, Change, Expect, Key, Kind, ObjectStore};

/// Generates a test for each rule. The expression returns a value that must outlive the store, and an empty store.
macro_rules! contract_tests {
    ($fresh:expr) => {
        crate::objects::contract::contract_tests!(@ $fresh;
            rules: expectation_is_compared_with_the_stored_revision;
            rules: batch_is_committed_completely_or_not_at_all;
            rules: list_returns_pages_in_key_order;
            rules: prefix_lists_objects_below_it_only;
            rules: equal_value_changes_nothing;
            rules: generation_counts_changes_and_restarts_with_a_new_object;
            rules: history_has_author_time_and_reason_latest_first;
            rules: history_over_the_limit_keeps_the_latest_entries;
            rules: batch_at_each_bound_is_accepted_and_over_it_rejected;
            race: racing_writers_are_linearizable;
            watching: watch_sends_complete_batches_in_order;
            watching: watch_resumes_after_the_last_seen_revision;
            watching: watch_from_an_expired_or_future_revision_is_rejected;
            watching: slow_watch_gets_every_batch_in_order;
            watching: watch_that_is_slower_than_the_history_ends;
            watching: watch_started_during_writes_has_no_gap;
        );
    };
    (@ $fresh:expr; $($file:ident: $rule:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                let (_guard, store) = $fresh;
                crate::objects::contract::$file::$rule(store).await;
            }
        )*
    };
}

pub(super) use contract_tests;

/// Returns the key of a pool.
pub(super) fn key(name: &str) -> Key {
    Key::new(Kind::Pool, &[name]).unwrap()
}

/// Returns a change that writes a value.
pub(super) fn put(name: &str, expect: Expect, value: &[u8]) -> Change {
    Change { key: key(name), expect, value: Some(value.to_vec()) }
}

/// Returns a change that deletes an object.
pub(super) fn delete(name: &str, expect: Expect) -> Change {
    Change { key: key(name), expect, value: None }
}

/// Returns a batch at this time.
pub(super) fn batch(secs: u64, changes: Vec<Change>) -> Batch {
    let by = Author::new("ann", "ticket 7");
    Batch { changes, by, at: Timestamp::from_secs(secs) }
}

/// Commits one change. Returns its revision.
pub(super) async fn commit_one(store: &dyn ObjectStore, change: Change) -> u64 {
    store.commit(batch(1, vec![change])).await.unwrap().revision
}
