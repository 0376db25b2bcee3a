//! More threads at each UDP socket, while something computes beside answering.
//!
//! A thread that has just answered had, by the rules of Linux' scheduler (EEVDF, 6.6 and newer), more than its share for some
//! microseconds. If the next query wakes it then, it does not take the core from a thread that computes, however small that one's share
//! is: it waits until that one blocks, or the timer ticks, which are milliseconds. One that has rested takes the core at once. Of several
//! that wait at one socket the kernel wakes the one that has waited longest, so each of them has rested for as many queries as there are
//! others.
//!
//! Where queries come faster than they can be answered (batches are full), the others leave them to the first for a while: then it is
//! always awake, and six threads would leave next to nothing of the core to all else.
//!
//! Where nothing computes, all but the first are parked. Otherwise each query would wake a thread instead of waiting a moment for the
//! next batch: half as much CPU again at a third of the full rate.

use std::{
    sync::{
        Condvar, LazyLock, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::stop::Stop;

/// Held by who computes beside answering, as long as it does: meanwhile, and for a fifth of a second after, threads stand by. Of the process.
#[derive(Debug)]
#[must_use = "threads stand by as long as this is held"]
pub struct Computing(&'static Standby);

impl Computing {
    /// Calls the threads. Costs a system call at most.
    pub fn begin() -> Self {
        STANDBY.begin();
        Self(&STANDBY)
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Whether threads are to stand by, and how those that are parked hear of it.
#[derive(Debug)]
pub(super) struct Standby {
    /// How many compute.
    computing: AtomicUsize,
    /// When the last of them ended, in milliseconds.
    ended: AtomicU64,
    parked: Mutex<()>,
    call: Condvar,
}

impl Standby {
    const fn new() -> Self {
        let (computing, ended) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { computing, ended, parked: Mutex::new(()), call: Condvar::new() }
    }

    fn begin(&self) {
        if self.computing.fetch_add(1, Relaxed) == 0 {
            self.wake();
        }
    }

    fn end(&self) {
        self.ended.store(millis(), Relaxed);
        self.computing.fetch_sub(1, Relaxed);
    }

    /// Whether threads are to stand by. Takes no lock: who computes may be kept from the core with one in its hands.
    pub(super) fn is_needed(&self) -> bool {
        self.computing.load(Relaxed) > 0 || millis() < self.ended.load(Relaxed).saturating_add(LINGER)
    }

    /// Parks until threads are to stand by; false if the server is to end.
    pub(super) fn wait(&self, stop: &Stop) -> bool {
        let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        while !stop.asked() {
            if self.is_needed() {
                return true;
            }
            parked = self.call.wait_timeout(parked, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// Wakes all that are parked: to stand by, or to see that they are to end.
    pub(super) fn wake(&self) {
        let _calling = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        self.call.notify_all();
    }
}

/// Wakes them when it is dropped.
#[derive(Debug)]
pub(super) struct WakeAtEnd;

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        STANDBY.wake();
    }
}

/// How many stand by at each of so many sockets. Measured on one core, p99 while the API takes all writes it can, in microseconds: none
/// 1,049, one 786, three 184, five 139, seven 156; without writes 119. On many cores a query is mostly answered on a free one.
pub(super) fn at_each_of(sockets: usize) -> usize {
    (ALL_MAX / sockets.max(1)).clamp(1, EACH_MAX)
}

fn millis() -> u64 {
    // Begins so late that nothing has just ended at the start.
    u64::try_from(BEGUN.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(LINGER)
}

static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Of the process: its threads share the cores, whichever server they are of.
pub(super) static STANDBY: Standby = Standby::new();

/// Milliseconds that threads go on standing by: computations often come one after the other.
const LINGER: u64 = 200;
/// How long a thread leaves a socket alone after it found a full batch there.
pub(super) const REST: Duration = Duration::from_millis(50);
/// A parked thread that was not called looks all the same.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Threads of one socket that stand by.
const EACH_MAX: usize = 5;
/// Threads of all sockets that stand by, unless there are more sockets.
const ALL_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Phase;

    #[test]
    fn threads_stand_by_while_something_computes_and_a_moment_longer() {
        let standby = Standby::new();
        assert!(!standby.is_needed(), "nothing has computed yet");
        standby.begin();
        standby.begin();
        standby.end();
        assert!(standby.is_needed(), "one computes still");
        standby.end();
        assert!(standby.is_needed(), "it lingers");
        standby.ended.store(millis() - LINGER, Relaxed);
        assert!(!standby.is_needed(), "long ago");
    }

    #[test]
    fn a_parked_thread_is_called_or_ends() {
        let standby = Standby::new();
        for ends in [true, false] {
            let (phase, stop) = Stop::new();
            std::thread::scope(|scope| {
                let parked = scope.spawn(|| standby.wait(&stop));
                if ends {
                    phase.send_replace(Phase::End);
                    standby.wake();
                } else {
                    standby.begin();
                }
                assert_eq!(parked.join().unwrap(), !ends);
            });
        }
    }

    #[test]
    fn few_sockets_have_several_and_many_have_one() {
        assert_eq!([0, 1, 2, 4, 8, 64].map(at_each_of), [5, 5, 5, 5, 2, 1]);
    }
}
