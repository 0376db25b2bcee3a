//! The decision of a leader election: wait, or write the Lease. Pure.
//!
//! ```text
//! no Lease, or one without a holder ──► write it: this server leads
//! held by this server ────────────────► write it again: renewed
//! held by another one ────────────────► wait, until it has not changed for its duration
//! ```
//! The times in a Lease are of other clocks, so only its changes count, by the clock of this server. The API server accepts a write only if
//! the Lease is as it was read, so one of several candidates wins. client-go decides alike.

use std::time::{Duration, Instant};

/// The fields of a Lease that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    /// Identity of the holder; `None`: it was released.
    pub(super) holder: Option<String>,
    /// Time of the last renewal by the clock of the holder, as text. It is only compared.
    pub(super) renewed: String,
    /// Duration for which it holds after a renewal.
    pub(super) duration: Duration,
}

/// The next step of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Write the Lease with this server as its new holder.
    Acquire,
    /// Write the Lease, which this server holds.
    Renew,
    /// Wait until this time for the end of the Lease of this holder, and read it again before.
    Wait(String, Instant),
}

/// A server that takes part in an election.
#[derive(Debug)]
pub(super) struct Candidate {
    identity: String,
    /// The last state of the Lease, with the time when it was first seen.
    seen: Option<(Observed, Instant)>,
}

impl Candidate {
    pub(super) const fn new(identity: String) -> Self {
        Self { identity, seen: None }
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns the step after the Lease was read as `observed`, `None` if there is none. `now` is the time after reading it.
    pub(super) fn next(&mut self, observed: Option<Observed>, now: Instant) -> Step {
        let Some(observed) = observed else {
            self.seen = None;
            return Step::Acquire;
        };
        let Some(holder) = observed.holder.clone() else { return Step::Acquire };
        if holder == self.identity {
            return Step::Renew;
        }
        let since = match &self.seen {
            Some((seen, since)) if *seen == observed => *since,
            _ => now,
        };
        let until = since + observed.duration;
        self.seen = Some((observed, since));
        if now >= until { Step::Acquire } else { Step::Wait(holder, until) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DURATION: Duration = Duration::from_secs(15);

    fn held(holder: &str, renewed: &str) -> Option<Observed> {
        let holder = Some(holder.to_owned()).filter(|holder| !holder.is_empty());
        Some(Observed { holder, renewed: renewed.to_owned(), duration: DURATION })
    }

    fn candidate(identity: &str) -> Candidate {
        Candidate::new(identity.to_owned())
    }

    #[test]
    fn free_lease_is_acquired_and_own_one_is_renewed() {
        let now = Instant::now();
        let mut us = candidate("us");
        assert_eq!(us.next(None, now), Step::Acquire);
        assert_eq!(us.next(held("", "1"), now), Step::Acquire, "released");
        assert_eq!(us.next(held("us", "1"), now), Step::Renew);
    }

    #[test]
    fn lease_that_changes_is_never_acquired_whatever_its_clock_says() {
        let start = Instant::now();
        let mut us = candidate("us");
        // The clock of the holder is years behind, then years ahead.
        for (round, renewed) in ["1999", "2000", "2099", "2098"].iter().enumerate() {
            let now = start + Duration::from_secs(14) * u32::try_from(round).unwrap();
            assert_eq!(us.next(held("them", renewed), now), Step::Wait("them".to_owned(), now + DURATION));
        }
    }

    #[test]
    fn lease_without_change_is_acquired_after_its_duration() {
        let start = Instant::now();
        let mut us = candidate("us");
        let wait = Step::Wait("them".to_owned(), start + DURATION);
        assert_eq!(us.next(held("them", "2099"), start), wait);
        assert_eq!(us.next(held("them", "2099"), start + DURATION - Duration::from_millis(1)), wait);
        assert_eq!(us.next(held("them", "2099"), start + DURATION), Step::Acquire);
        // Another candidate was faster.
        let now = start + DURATION;
        assert_eq!(us.next(held("third", "1999"), now), Step::Wait("third".to_owned(), now + DURATION));
    }

    /// A Lease at an API server: a write succeeds only with the version that was read.
    #[derive(Default)]
    struct Server {
        lease: Option<Observed>,
        version: u32,
    }

    impl Server {
        fn write(&mut self, holder: &str, read: u32) -> bool {
            let is_unchanged = read == self.version;
            if is_unchanged {
                self.version += 1;
                self.lease = held(holder, &self.version.to_string());
            }
            is_unchanged
        }
    }

    proptest! {
        /// Three servers read and write in any order, with any pauses, and some stop for a while. Each counts itself as the leader for
        /// 10 s from before its write.
        #[test]
        fn two_servers_never_lead_at_once(steps in prop::collection::vec((0..3_usize, 0..4_u64, 0..3_u64), 1..200)) {
            let start = Instant::now();
            let mut server = Server::default();
            let mut all = ["a", "b", "c"].map(candidate);
            let mut read: [Option<u32>; 3] = [None; 3];
            let mut leads: [Option<Instant>; 3] = [None; 3];
            let mut now = start;
            for (who, pause, delay) in steps {
                now += Duration::from_secs(pause);
                match read[who].take() {
                    None => {
                        let step = all[who].next(server.lease.clone(), now);
                        read[who] = (!matches!(step, Step::Wait(..))).then_some(server.version);
                    }
                    Some(version) => {
                        // The request arrives after a delay.
                        let sent = now;
                        now += Duration::from_secs(delay);
                        if server.write(all[who].identity(), version) {
                            leads[who] = Some(sent + Duration::from_secs(10));
                        }
                    }
                }
                let leading = leads.iter().filter(|until| until.is_some_and(|until| now < until)).count();
                prop_assert!(leading <= 1, "{leads:?} at {now:?}");
            }
        }
    }
}
