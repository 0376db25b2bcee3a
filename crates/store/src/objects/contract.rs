//! What every store must do, as tests that know the trait only: an implementation runs them all by [`keeps_the_contract`].
//!
//! Left out: what a disk or a network does to a store, which is for the tests of each.

mod linear;
pub(super) mod race;
pub(super) mod rules;
pub(super) mod watching;

use fairway_model::Timestamp;

use super::{Author, Batch, Change, Expect, Key, Kind, ObjectStore};

/// Runs every rule as a test of its own. The expression makes an empty store, and with it what must live as long.
macro_rules! keeps_the_contract {
    ($fresh:expr) => {
        crate::objects::contract::keeps_the_contract!(@ $fresh;
            rules: each_expectation_is_checked_against_what_is_there;
            rules: a_batch_is_carried_out_whole_or_not_at_all;
            rules: objects_are_listed_in_the_order_of_their_keys_page_by_page;
            rules: a_prefix_lists_what_is_below_it_only;
            rules: the_same_octets_change_nothing;
            rules: a_generation_counts_changes_and_begins_anew_with_the_object;
            rules: a_history_tells_who_when_and_why_the_latest_first;
            rules: a_history_is_bounded_and_the_latest_entries_stay;
            rules: a_batch_at_every_bound_is_taken_and_one_over_any_is_refused;
            race: writers_that_race_on_few_objects_see_one_order;
            watching: a_watch_tells_batches_whole_and_in_order;
            watching: a_watch_resumes_after_what_was_seen_last;
            watching: a_revision_that_is_forgotten_or_never_was_cannot_be_watched_from;
            watching: a_reader_that_is_too_slow_is_closed_and_misses_nothing_when_it_resumes;
            watching: watches_that_begin_among_writes_miss_nothing;
        );
    };
    (@ $fresh:expr; $($file:ident: $rule:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                let (_ground, store) = $fresh;
                crate::objects::contract::$file::$rule(store).await;
            }
        )*
    };
}

pub(super) use keeps_the_contract;

/// The key of a pool.
pub(super) fn key(name: &str) -> Key {
    Key::new(Kind::Pool, &[name]).unwrap()
}

/// A change to these octets.
pub(super) fn put(name: &str, expect: Expect, value: &[u8]) -> Change {
    Change { key: key(name), expect, value: Some(value.to_vec()) }
}

/// A change that takes an object away.
pub(super) fn take(name: &str, expect: Expect) -> Change {
    Change { key: key(name), expect, value: None }
}

/// A batch of one person at a moment.
pub(super) fn batch(secs: u64, changes: Vec<Change>) -> Batch {
    let by = Author::new("ann", "ticket 7");
    Batch { changes, by, at: Timestamp::from_secs(secs) }
}

/// Commits one change that must be taken; its revision.
pub(super) async fn done(store: &dyn ObjectStore, change: Change) -> u64 {
    store.commit(batch(1, vec![change])).await.unwrap().revision
}
