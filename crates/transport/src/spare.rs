//! Spare workers: more threads at each UDP socket while the process runs a long computation.
//!
//! They keep p99 low where answering and computing share one core. Under Linux' scheduler (EEVDF, 6.6 and newer) a thread that has just
//! answered has used more than its share for some microseconds. If the next query wakes it then, it does not preempt a computing thread,
//! however small that thread's share is. The query waits until that thread blocks or the timer ticks: milliseconds. A thread that has
//! rested preempts at once. The kernel wakes the thread that has waited longest at a socket, so with several threads each one has rested.
//!
//! Alternatives that were measured under the same load (bench/README.md): niceness 19 or `SCHED_IDLE` for all other threads gave a p99 of
//! 0.2 to 0.5 ms, and would starve probes and the API under a flood. Five spare workers gave 0.139 ms.
//!
//! If batches are full, queries come faster than they can be answered. The first worker is then always awake, and spare workers pause:
//! six busy threads would leave almost nothing of the core to the rest of the process.
//!
//! If nothing computes, spare workers are parked. Otherwise each query would wake a thread instead of waiting for the next batch, which
//! costs 50 % more CPU at a third of the full rate.

use std::{
    sync::{
        Condvar, LazyLock, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::stop::Stop;

/// Held during a long computation. Spare workers run while any guard of the process exists, and 200 ms longer.
#[derive(Debug)]
#[must_use = "spare workers run only while the guard exists"]
pub struct ComputeGuard(&'static SpareWorkers);

impl ComputeGuard {
    /// Starts the spare workers, if none run. Costs one system call at most.
    pub fn begin() -> Self {
        SPARE_WORKERS.begin();
        Self(&SPARE_WORKERS)
    }
}

impl Drop for ComputeGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Number of running computations, and the wake-up of parked workers.
#[derive(Debug)]
pub(super) struct SpareWorkers {
    /// Number of guards.
    computing: AtomicUsize,
    /// Time at which the last guard was dropped, in milliseconds of [`millis`].
    ended: AtomicU64,
    parked: Mutex<()>,
    wake_up: Condvar,
}

impl SpareWorkers {
    const fn new() -> Self {
        Self {
            computing: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
            parked: Mutex::new(()),
            wake_up: Condvar::new(),
        }
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

    /// True if spare workers should run. Takes no lock, because a computing thread that holds it may be off the core.
    pub(super) fn is_needed(&self) -> bool {
        self.computing.load(Relaxed) > 0 || millis() < self.ended.load(Relaxed).saturating_add(LINGER)
    }

    /// Parks until spare workers should run. Returns false if the server ends.
    pub(super) fn wait(&self, stop: &Stop) -> bool {
        let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        while !stop.is_requested() {
            if self.is_needed() {
                return true;
            }
            parked = self.wake_up.wait_timeout(parked, PARK_MAX).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// Wakes all parked workers, to run or to see that the server ends.
    pub(super) fn wake(&self) {
        let _parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        self.wake_up.notify_all();
    }
}

/// Wakes parked workers when it is dropped.
#[derive(Debug)]
pub(super) struct WakeAtEnd;

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        SPARE_WORKERS.wake();
    }
}

/// Returns the number of spare workers per socket. Measured on one core, p99 in microseconds while the API takes all writes it can: with
/// none 1,049, one 786, three 184, five 139, seven 156; without writes 119. With many cores one of them is mostly free for a query.
pub(super) fn spare_per_socket(sockets: usize) -> usize {
    (TOTAL_MAX / sockets.max(1)).clamp(1, PER_SOCKET_MAX)
}

fn millis() -> u64 {
    // Starts at LINGER, so that the initial `ended` of 0 lies long enough in the past.
    u64::try_from(EPOCH.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(LINGER)
}

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// One for the whole process, because all its threads share the cores.
pub(super) static SPARE_WORKERS: SpareWorkers = SpareWorkers::new();

/// Milliseconds that spare workers continue after a computation, because computations often follow each other.
const LINGER: u64 = 200;
/// Pause of a spare worker after a full batch.
pub(super) const FULL_BATCH_PAUSE: Duration = Duration::from_millis(50);
/// Maximum time between two checks of a parked worker.
const PARK_MAX: Duration = Duration::from_secs(2);
/// Maximum number of spare workers per socket.
const PER_SOCKET_MAX: usize = 5;
/// Maximum number of spare workers of all sockets, but at least one per socket.
const TOTAL_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Phase;

    #[test]
    fn spare_workers_run_during_a_computation_and_200_ms_longer() {
        let standby = SpareWorkers::new();
        assert!(!standby.is_needed(), "no computation has started");
        standby.begin();
        standby.begin();
        standby.end();
        assert!(standby.is_needed(), "one computation still runs");
        standby.end();
        assert!(standby.is_needed(), "200 ms have not passed");
        standby.ended.store(millis() - LINGER, Relaxed);
        assert!(!standby.is_needed(), "200 ms have passed");
    }

    #[test]
    fn parked_worker_wakes_to_run_or_to_end() {
        let standby = SpareWorkers::new();
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
    fn spare_workers_per_socket_decrease_with_the_number_of_sockets() {
        assert_eq!([0, 1, 2, 4, 8, 64].map(spare_per_socket), [5, 5, 5, 5, 2, 1]);
    }
}
