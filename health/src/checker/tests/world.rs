//! A network whose answers a test decides.

use std::{
    collections::HashMap,
    future::pending,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use fairway_model::{Cause, Check, HealthStatus, Monitor, MonitorName, ProbeAddress, Target};
use tokio::{
    sync::mpsc::{self, Receiver},
    time::{Instant, sleep},
};

use crate::{
    Checker, CheckerSettings, HealthTransition, TargetState,
    observer::Family,
    probe::{Finding, Prepared},
};

/// What a target does when it is probed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Pass,
    Refuse,
    /// Silence until the timeout.
    Hang,
    /// Silence beyond any timeout, as if the probe's own timer never fired.
    Stuck,
    NoDescriptor,
    NoRoute,
    Panic,
    /// Pass and failure by turns.
    Flap,
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    answers: HashMap<IpAddr, Answer>,
    /// Starts of probes.
    pub(super) probes: Vec<(Instant, IpAddr)>,
    counts: HashMap<IpAddr, usize>,
    pub(super) running: usize,
    pub(super) most_running: usize,
}

/// The network, and a checker of it.
#[derive(Clone, Default)]
pub(super) struct World(Arc<Mutex<Seen>>);

impl World {
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap()
    }

    /// From now on the target answers so.
    pub(super) fn answer(&self, number: u32, answer: Answer) {
        self.seen().answers.insert(address(number), answer);
    }

    pub(super) fn probes(&self, number: u32) -> usize {
        self.seen().counts.get(&address(number)).copied().unwrap_or(0)
    }

    pub(super) fn checker(&self, sockets_max: usize, transitions: mpsc::Sender<HealthTransition>) -> Checker {
        let world = self.clone();
        Checker::start_with(&CheckerSettings { sockets_max }, transitions, 1, move |work, at| {
            world.clone().probe(work, at)
        })
    }

    /// Returns a checker with room for everything.
    pub(super) fn open(&self) -> (Checker, Receiver<HealthTransition>) {
        let (sender, transitions) = mpsc::channel(100_000);
        (self.checker(1_024, sender), transitions)
    }

    async fn probe(self, work: Arc<Prepared>, at: ProbeAddress) -> Finding {
        let ProbeAddress::Address(ip) = at else { panic!("tests probe addresses") };
        let running = Running::new(&self, ip);
        let answer = running.0.seen().answers.get(&ip).copied().unwrap_or(Answer::Pass);
        let turn = running.0.seen().counts[&ip];
        match answer {
            Answer::Pass => Finding::Pass,
            Answer::Refuse => refusal(),
            Answer::Flap if turn.is_multiple_of(2) => refusal(),
            Answer::Flap => Finding::Pass,
            Answer::Hang => {
                sleep(work.timeout()).await;
                Finding::Fail { cause: Cause::new("timeout"), reached: false }
            }
            Answer::Stuck => pending().await,
            Answer::NoDescriptor => Finding::Unsure(Cause::new("no file descriptor left")),
            Answer::NoRoute => Finding::Unreachable(Family::V4, Cause::new("network unreachable")),
            Answer::Panic => panic!("a probe that panics, as this test wants"),
        }
    }
}

fn refusal() -> Finding {
    Finding::Fail { cause: Cause::new("connection refused"), reached: true }
}

/// Counts a probe for as long as it runs.
struct Running(World);

impl Running {
    fn new(world: &World, ip: IpAddr) -> Self {
        let mut seen = world.seen();
        seen.probes.push((Instant::now(), ip));
        *seen.counts.entry(ip).or_default() += 1;
        seen.running += 1;
        seen.most_running = seen.most_running.max(seen.running);
        Self(world.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.seen().running -= 1;
    }
}

pub(super) fn address(number: u32) -> IpAddr {
    Ipv4Addr::from(0xC612_0000 + number).into()
}

/// TCP every 10 s, timeout 4 s, rise 3, fall 3.
pub(super) fn monitor() -> Monitor {
    Monitor::new(Check::Tcp { port: 80 })
}

/// As [`monitor`], with period and timeout of 200 ms and fall 2.
pub(super) fn fast() -> Monitor {
    let short = Duration::from_millis(200);
    Monitor { period: short, timeout: short, fall: 2, ..monitor() }
}

pub(super) fn target(number: u32, monitor: &Monitor) -> Target {
    Target {
        address: ProbeAddress::Address(address(number)),
        monitor: Arc::new(monitor.clone()),
        label: MonitorName::new("m").unwrap(),
    }
}

pub(super) fn targets(count: u32, monitor: &Monitor) -> Vec<Target> {
    let shared = Arc::new(monitor.clone());
    (0..count).map(|number| Target { monitor: Arc::clone(&shared), ..target(number, monitor) }).collect()
}

/// Returns the flips that are there by now.
pub(super) fn drain(transitions: &mut Receiver<HealthTransition>) -> Vec<(HealthStatus, HealthStatus)> {
    std::iter::from_fn(|| transitions.try_recv().ok()).map(|transition| (transition.from, transition.to)).collect()
}

pub(super) async fn state(checker: &Checker) -> TargetState {
    checker.states().await.remove(0)
}

pub(super) fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(super) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}
