//! A simulated network in which a test decides how targets behave.

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
    Checker, HealthTransition, TargetState,
    fence::NotAllowed,
    observer::Family,
    probe::{PreparedMonitor, ProbeResult},
};

/// The behaviour of a target that is probed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Behaviour {
    Pass,
    Refuse,
    /// No response until the timeout.
    Hang,
    /// No end at all, as if the timer of the probe never fired.
    Stuck,
    NoDescriptor,
    NoRoute,
    Panic,
    /// Pass and failure in turn.
    Flap,
    /// The fence does not allow a connection.
    Denied,
}

#[derive(Debug, Default)]
pub(super) struct NetworkState {
    behaviours: HashMap<IpAddr, Behaviour>,
    /// Starts of probes.
    pub(super) probes: Vec<(Instant, IpAddr)>,
    counts: HashMap<IpAddr, usize>,
    pub(super) running: usize,
    pub(super) most_running: usize,
}

/// The network, and a checker of it.
#[derive(Clone, Default)]
pub(super) struct Network(Arc<Mutex<NetworkState>>);

impl Network {
    pub(super) fn seen(&self) -> MutexGuard<'_, NetworkState> {
        self.0.lock().unwrap()
    }

    /// Sets the behaviour of a target.
    pub(super) fn answer(&self, number: u32, behaviour: Behaviour) {
        self.seen().behaviours.insert(address(number), behaviour);
    }

    pub(super) fn probes(&self, number: u32) -> usize {
        self.seen().counts.get(&address(number)).copied().unwrap_or(0)
    }

    pub(super) fn checker(&self, sockets_max: usize, transitions: mpsc::Sender<HealthTransition>) -> Checker {
        let network = self.clone();
        Checker::start_with(sockets_max, transitions, 1, move |work, at| network.clone().probe(work, at))
    }

    /// Returns a checker with enough sockets and a large channel.
    pub(super) fn open(&self) -> (Checker, Receiver<HealthTransition>) {
        let (sender, transitions) = mpsc::channel(100_000);
        (self.checker(1_024, sender), transitions)
    }

    async fn probe(self, work: Arc<PreparedMonitor>, at: ProbeAddress) -> ProbeResult {
        let ProbeAddress::Address(ip) = at else { panic!("tests probe addresses") };
        let running = RunningProbe::new(&self, ip);
        let answer = running.0.seen().behaviours.get(&ip).copied().unwrap_or(Behaviour::Pass);
        let turn = running.0.seen().counts[&ip];
        match answer {
            Behaviour::Pass => ProbeResult::Pass,
            Behaviour::Refuse => refusal(),
            Behaviour::Flap if turn.is_multiple_of(2) => refusal(),
            Behaviour::Flap => ProbeResult::Pass,
            Behaviour::Hang => {
                sleep(work.timeout).await;
                ProbeResult::Fail { cause: Cause::new("timeout"), reached: false }
            }
            Behaviour::Stuck => pending().await,
            Behaviour::NoDescriptor => ProbeResult::Inconclusive(Cause::new("no file descriptor left")),
            Behaviour::NoRoute => ProbeResult::Unreachable(Family::V4, Cause::new("network unreachable")),
            Behaviour::Denied => ProbeResult::NotAllowed(NotAllowed::Loopback),
            Behaviour::Panic => panic!("the test wants this probe to panic"),
        }
    }
}

fn refusal() -> ProbeResult {
    ProbeResult::Fail { cause: Cause::new("connection refused"), reached: true }
}

/// Counts a probe for as long as it runs.
struct RunningProbe(Network);

impl RunningProbe {
    fn new(network: &Network, ip: IpAddr) -> Self {
        let mut seen = network.seen();
        seen.probes.push((Instant::now(), ip));
        *seen.counts.entry(ip).or_default() += 1;
        seen.running += 1;
        seen.most_running = seen.most_running.max(seen.running);
        Self(network.clone())
    }
}

impl Drop for RunningProbe {
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

/// Returns a network with a checker after `wait`, when all of this many targets are up.
pub(super) async fn all_up(
    count: u32,
    monitor: &Monitor,
    wait: Duration,
) -> (Network, Checker, Receiver<HealthTransition>) {
    let network = Network::default();
    let (checker, mut transitions) = network.open();
    checker.set_targets(targets(count, monitor), vec![]).await;
    sleep(wait).await;
    let up = (HealthStatus::Pending, HealthStatus::Up);
    assert!(drain(&mut transitions).into_iter().eq((0..count).map(|_| up)), "all targets are up");
    (network, checker, transitions)
}

/// Returns the transitions received so far.
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
