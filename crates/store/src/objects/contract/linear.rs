//! Whether a history that was recorded could have happened one operation at a time: the search of Wing and Gong (1993), with
//! states remembered as Lowe does (2017). One object a search: operations on different objects do not order each other.

use std::collections::HashSet;

use super::super::Expect;

/// One operation on one object, from the moment it was called to the moment it returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) called: u64,
    pub(super) returned: u64,
    pub(super) did: Did,
}

/// What was asked, and what was answered. What is at an object is told by its revision.
#[derive(Clone, Copy, Debug)]
pub(super) enum Did {
    /// A change that was refused: what was found instead.
    Lost(Expect, Option<u64>),
    /// A read, and what it saw.
    Read(Option<u64>),
    /// A removal that was carried out, and its revision.
    Took(Expect, u64),
    /// A write that was carried out, and its revision.
    Wrote(Expect, u64),
}

/// What is at the object, and the highest revision so far.
type State = (Option<u64>, u64);

/// Whether there is an order of all operations, in which none stands before one that returned before it was called, and each
/// is answered as it was.
pub(super) fn is_linearisable(operations: &[Operation]) -> bool {
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

/// The state after an operation; none where it would not have been answered so.
fn after((there, highest): State, did: Did) -> Option<State> {
    let holds = |expect| match expect {
        Expect::Absent => there.is_none(),
        Expect::Anything => true,
        Expect::Present => there.is_some(),
        Expect::Revision(revision) => there == Some(revision),
    };
    match did {
        Did::Lost(expect, found) => (!holds(expect) && found == there).then_some((there, highest)),
        Did::Read(seen) => (seen == there).then_some((there, highest)),
        Did::Took(expect, revision) => {
            (holds(expect) && there.is_some() && revision > highest).then_some((None, revision))
        }
        Did::Wrote(expect, revision) => (holds(expect) && revision > highest).then_some((Some(revision), revision)),
    }
}

/// When an operation was called, when it returned, and what it did.
type Recorded = (u64, u64, Did);

fn history(operations: &[Recorded]) -> Vec<Operation> {
    operations
        .iter()
        .map(|(called, returned, did)| Operation { called: *called, returned: *returned, did: *did })
        .collect()
}

#[test]
fn operations_at_the_same_time_may_have_any_order() {
    let both =
        [(1, 9, Did::Wrote(Expect::Revision(4), 5)), (2, 8, Did::Wrote(Expect::Absent, 4)), (3, 7, Did::Read(Some(5)))];
    assert!(is_linearisable(&history(&both)));
    let refused = [(1, 9, Did::Lost(Expect::Absent, Some(1))), (2, 3, Did::Wrote(Expect::Absent, 1))];
    assert!(is_linearisable(&history(&refused)));
    let again = [(1, 2, Did::Wrote(Expect::Absent, 1)), (3, 4, Did::Took(Expect::Present, 2)), (5, 6, Did::Read(None))];
    assert!(is_linearisable(&history(&again)));
}

#[test]
fn planted_faults_are_found() {
    let wrote = (1, 2, Did::Wrote(Expect::Absent, 1));
    let broken: &[(&str, &[Recorded])] = &[
        ("a stale read", &[wrote, (3, 4, Did::Wrote(Expect::Anything, 2)), (5, 6, Did::Read(Some(1)))]),
        ("a lost write", &[wrote, (3, 4, Did::Read(None))]),
        ("a read of what is to come", &[(1, 2, Did::Read(Some(1))), (3, 4, Did::Wrote(Expect::Absent, 1))]),
        (
            "two that both won",
            &[wrote, (3, 9, Did::Wrote(Expect::Revision(1), 2)), (4, 8, Did::Wrote(Expect::Revision(1), 3))],
        ),
        ("a refusal without a reason", &[wrote, (3, 4, Did::Lost(Expect::Revision(1), Some(1)))]),
        ("a refusal that saw what was not there", &[wrote, (3, 4, Did::Lost(Expect::Absent, Some(7)))]),
        ("a revision that goes back", &[(1, 2, Did::Wrote(Expect::Absent, 5)), (3, 4, Did::Wrote(Expect::Present, 4))]),
        ("a removal that did not last", &[wrote, (3, 4, Did::Took(Expect::Present, 2)), (5, 6, Did::Read(Some(1)))]),
        (
            "reads that go back and forth",
            &[wrote, (3, 9, Did::Wrote(Expect::Anything, 2)), (4, 5, Did::Read(Some(2))), (6, 7, Did::Read(Some(1)))],
        ),
    ];
    for (what, operations) in broken {
        assert!(!is_linearisable(&history(operations)), "{what} was not found");
    }
}

#[test]
fn one_planted_fault_among_many_operations_is_found() {
    // Each write overlaps the next one; each read comes after its write returned and while the next one is under way.
    let recorded = |stale: u64| -> Vec<_> {
        let before = |n: u64| if n == 1 { Expect::Absent } else { Expect::Revision(n - 1) };
        let of = |n: u64| {
            let wrote = (n * 100, n * 100 + 150, Did::Wrote(before(n), n));
            [wrote, (n * 100 + 151, n * 100 + 160, Did::Read(Some(if n == stale { n - 1 } else { n })))]
        };
        (1..=200).flat_map(of).collect()
    };
    assert!(is_linearisable(&history(&recorded(0))));
    assert!(!is_linearisable(&history(&recorded(150))));
}
