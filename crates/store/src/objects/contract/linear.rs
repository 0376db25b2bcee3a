//! Test if a recorded history is linearizable: the search of Wing and Gong (1993), with the cache of states of Lowe (2017). One search
//! per object, since operations on different objects do not order each other.

use std::collections::HashSet;

use super::super::Expect;

/// One operation on one object, with the times of call and return.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) called: u64,
    pub(super) returned: u64,
    pub(super) did: Did,
}

/// Operation and result. Objects are given by their revisions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Did {
    /// A change with a conflict, and the revision that was found.
    Conflicted(Expect, Option<u64>),
    /// A read, and the revision that it found.
    Read(Option<u64>),
    /// A deletion, and its revision.
    Deleted(Expect, u64),
    /// A write, and its revision.
    Wrote(Expect, u64),
}

/// Revision of the object, and the highest revision so far.
type State = (Option<u64>, u64);

/// True if the operations have an order that explains every result, and in which no operation comes before one that had returned
/// when it was called.
pub(super) fn is_linearizable(operations: &[Operation]) -> bool {
    let mut operations = operations.to_vec();
    operations.sort_by_key(|operation| operation.called);
    let mut search =
        Search { done: vec![0; operations.len().div_ceil(64)], operations: &operations, seen: HashSet::new() };
    search.from((None, 0), operations.len())
}

struct Search<'a> {
    operations: &'a [Operation],
    done: Vec<u64>,
    seen: HashSet<(Vec<u64>, State)>,
}

impl Search<'_> {
    fn is_done(&self, at: usize) -> bool {
        self.done[at / 64] & (1 << (at % 64)) != 0
    }

    fn from(&mut self, state: State, left: usize) -> bool {
        if left == 0 {
            return true;
        }
        if !self.seen.insert((self.done.clone(), state)) {
            return false;
        }
        let open: Vec<_> = (0..self.operations.len()).filter(|at| !self.is_done(*at)).collect();
        let first_return = open.iter().map(|at| self.operations[*at].returned).min().unwrap_or(u64::MAX);
        for at in open.into_iter().take_while(|at| self.operations[*at].called < first_return) {
            let Some(next) = after(state, self.operations[at].did) else { continue };
            self.done[at / 64] |= 1 << (at % 64);
            if self.from(next, left - 1) {
                return true;
            }
            self.done[at / 64] &= !(1 << (at % 64));
        }
        false
    }
}

/// Returns the state after an operation; `None` if the operation would have had another result.
fn after((current, highest): State, did: Did) -> Option<State> {
    let holds = |expect: Expect| expect.check(&super::key("any"), current).is_ok();
    match did {
        Did::Conflicted(expect, found) => (!holds(expect) && found == current).then_some((current, highest)),
        Did::Read(seen) => (seen == current).then_some((current, highest)),
        Did::Deleted(expect, revision) => {
            (holds(expect) && current.is_some() && revision > highest).then_some((None, revision))
        }
        Did::Wrote(expect, revision) => (holds(expect) && revision > highest).then_some((Some(revision), revision)),
    }
}

/// Times of call and return, and the operation.
type Recorded = (u64, u64, Did);

fn history(operations: &[Recorded]) -> Vec<Operation> {
    operations
        .iter()
        .map(|(called, returned, did)| Operation { called: *called, returned: *returned, did: *did })
        .collect()
}

#[test]
fn overlapping_operations_may_have_any_order() {
    let both =
        [(1, 9, Did::Wrote(Expect::Revision(4), 5)), (2, 8, Did::Wrote(Expect::Absent, 4)), (3, 7, Did::Read(Some(5)))];
    assert!(is_linearizable(&history(&both)));
    let refused = [(1, 9, Did::Conflicted(Expect::Absent, Some(1))), (2, 3, Did::Wrote(Expect::Absent, 1))];
    assert!(is_linearizable(&history(&refused)));
    let again =
        [(1, 2, Did::Wrote(Expect::Absent, 1)), (3, 4, Did::Deleted(Expect::Present, 2)), (5, 6, Did::Read(None))];
    assert!(is_linearizable(&history(&again)));
}

#[test]
fn planted_errors_are_found() {
    let wrote = (1, 2, Did::Wrote(Expect::Absent, 1));
    let broken: &[(&str, &[Recorded])] = &[
        ("a stale read", &[wrote, (3, 4, Did::Wrote(Expect::Anything, 2)), (5, 6, Did::Read(Some(1)))]),
        ("a lost write", &[wrote, (3, 4, Did::Read(None))]),
        ("a read of a later write", &[(1, 2, Did::Read(Some(1))), (3, 4, Did::Wrote(Expect::Absent, 1))]),
        (
            "two writes that both succeeded",
            &[wrote, (3, 9, Did::Wrote(Expect::Revision(1), 2)), (4, 8, Did::Wrote(Expect::Revision(1), 3))],
        ),
        ("a conflict without a reason", &[wrote, (3, 4, Did::Conflicted(Expect::Revision(1), Some(1)))]),
        ("a conflict with a revision that never was", &[wrote, (3, 4, Did::Conflicted(Expect::Absent, Some(7)))]),
        ("a revision that goes back", &[(1, 2, Did::Wrote(Expect::Absent, 5)), (3, 4, Did::Wrote(Expect::Present, 4))]),
        ("a deletion without effect", &[wrote, (3, 4, Did::Deleted(Expect::Present, 2)), (5, 6, Did::Read(Some(1)))]),
        (
            "reads that go back and forth",
            &[wrote, (3, 9, Did::Wrote(Expect::Anything, 2)), (4, 5, Did::Read(Some(2))), (6, 7, Did::Read(Some(1)))],
        ),
    ];
    for (what, operations) in broken {
        assert!(!is_linearizable(&history(operations)), "{what} was not found");
    }
}

#[test]
fn planted_error_among_many_operations_is_found() {
    // Each write overlaps the next one. Each read comes after its write returned and during the next one.
    let recorded = |stale: u64| -> Vec<_> {
        let before = |n: u64| if n == 1 { Expect::Absent } else { Expect::Revision(n - 1) };
        let of = |n: u64| {
            let wrote = (n * 100, n * 100 + 150, Did::Wrote(before(n), n));
            [wrote, (n * 100 + 151, n * 100 + 160, Did::Read(Some(if n == stale { n - 1 } else { n })))]
        };
        (1..=200).flat_map(of).collect()
    };
    assert!(is_linearizable(&history(&recorded(0))));
    assert!(!is_linearizable(&history(&recorded(150))));
}
