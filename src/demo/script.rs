//! The script: actions on gateways, their expected effects, and the observed ones.
//!
//! Answers are measured from outside, by a client that queries the server over UDP. Health transitions come from the server.

use std::{
    net::Ipv4Addr,
    time::{Duration, SystemTime},
};

use fairway_model::HealthStatus;
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::{self, Instant},
};

use super::{
    dns_client::{DnsClient, client_network},
    format::{self, Shares},
    gateway::GatewayAction,
    playground::{CLUSTERS, DemoCluster, Playground, find, pay, shop},
    watch::{AnswerChange, Watch, Watched},
};
use crate::cli::{Out, Tone, thousands};
use fairway_control::AppliedTransition;

/// Number of client networks that shares are measured with. The standard deviation of a share is then at most 0.5 points.
const NETWORKS: u16 = 10_000;
/// Largest accepted difference of a share from its weight, in tenths of a percent: four standard deviations.
const SHARE_TOLERANCE: usize = 20;
/// Longest wait for the effects of an action. They take about a tenth of it.
const STEP_LIMIT: Duration = Duration::from_secs(5);
/// Events within this time are sorted before they are printed, since transitions and answers arrive over different paths.
const SORT_WINDOW: Duration = Duration::from_millis(15);
/// Largest number of events that are held back for sorting.
const SORT_MAX: usize = 64;
/// Time to wait for further effects after the last expected one, so that they are printed as well.
const AFTERMATH: Duration = Duration::from_millis(100);

/// An observed event.
#[derive(Debug)]
pub(super) enum Event {
    /// The health of a gateway changed.
    Health(Box<AppliedTransition>),
    /// The answer to a client changed.
    Answer(AnswerChange),
}

impl Event {
    /// Returns the time of the event.
    pub(super) fn at(&self) -> SystemTime {
        match self {
            Self::Health(applied) => applied.transition.at,
            Self::Answer(change) => change.at,
        }
    }

    /// Returns kind and content of its line.
    pub(super) fn line(&self) -> (&'static str, Vec<(Tone, String)>) {
        match self {
            Self::Health(applied) => ("health", health_text(applied)),
            Self::Answer(AnswerChange { now, from, .. }) => {
                let name = now.name.to_string();
                // A failover pool gives all clients the same answer, so the client matters for the weighted pool only.
                let client = (now.name == shop()).then_some(now.client);
                ("answer", format::answer_change(name.trim_end_matches('.'), *from, now.answer, client))
            }
        }
    }
}

fn health_text(applied: &AppliedTransition) -> Vec<(Tone, String)> {
    let transition = &applied.transition;
    let clusters: Vec<_> = applied.clusters.iter().map(ToString::to_string).collect();
    let tone = match transition.to {
        HealthStatus::Up => Tone::Good,
        HealthStatus::Down => Tone::Bad,
        HealthStatus::Pending | HealthStatus::Unknown => Tone::Warn,
    };
    vec![
        (Tone::Strong, format!("{} ", clusters.join(", "))),
        (tone, format!("is {}", transition.to)),
        (Tone::Quiet, format!("  {}", transition.cause)),
    ]
}

/// The running demonstration.
pub(super) struct Demo<'a> {
    /// Server and gateways.
    pub(super) playground: &'a Playground,
    /// Output.
    pub(super) out: Out,
    client: DnsClient,
    transitions: broadcast::Receiver<AppliedTransition>,
    watch: Watch,
    /// Events that are not printed yet.
    pending: Vec<Event>,
    /// Announced effects that were not observed.
    pub(super) failures: Vec<String>,
}

impl<'a> Demo<'a> {
    /// Starts to observe the server.
    pub(super) async fn start(playground: &'a Playground, out: Out) -> anyhow::Result<Self> {
        let transitions = playground.daemon.control().transitions();
        let mut client = DnsClient::new(playground.dns).await?;
        let shares = Shares(client.ask_as_networks(&shop(), NETWORKS).await?);
        let watched = watched(&mut client, &shares).await?;
        // 1 ms, as precise as the printed times.
        let watch = Watch::start(playground.dns, watched, Duration::from_millis(1)).await?;
        Ok(Self { playground, out, client, transitions, watch, pending: Vec::new(), failures: Vec::new() })
    }

    /// Queries less often, to leave the processor to the user.
    pub(super) async fn watch_slowly(&mut self, shares: &Shares) -> anyhow::Result<()> {
        let watched = watched(&mut self.client, shares).await?;
        self.watch = Watch::start(self.playground.dns, watched, Duration::from_millis(20)).await?;
        Ok(())
    }

    /// Waits for events. Returns them in order of time. Cancel-safe.
    pub(super) async fn events(&mut self) -> Vec<Event> {
        if self.pending.is_empty() {
            let first = self.event().await;
            self.pending.push(first);
        }
        while self.pending.len() < SORT_MAX
            && let Ok(event) = time::timeout(SORT_WINDOW, self.event()).await
        {
            self.pending.push(event);
        }
        self.pending.sort_by_key(Event::at);
        std::mem::take(&mut self.pending)
    }

    /// Waits for the next event. Cancel-safe.
    async fn event(&mut self) -> Event {
        loop {
            tokio::select! {
                biased;
                applied = self.transitions.recv() => match applied {
                    Ok(applied) => return Event::Health(Box::new(applied)),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => std::future::pending().await, // only when the server stops
                },
                change = self.watch.next() => return Event::Answer(change),
            }
        }
    }

    /// Measures the shares over many client networks.
    pub(super) async fn measure_shares(&mut self) -> anyhow::Result<Shares> {
        Ok(Shares(self.client.ask_as_networks(&shop(), NETWORKS).await?))
    }

    /// Performs an action, prints events as they happen, and notes expected effects that are missing.
    pub(super) async fn run_step(&mut self, cluster: DemoCluster, action: GatewayAction) -> anyhow::Result<()> {
        let before = SystemTime::now();
        find(&mut self.playground.gateways.lock().await, cluster.name)?.act(action).await?;
        // A start takes effect when it is complete, a stop when it begins.
        let (verb, status, since) = match action {
            GatewayAction::Up => ("is back", HealthStatus::Up, SystemTime::now()),
            GatewayAction::Down => ("dies", HealthStatus::Down, before),
            GatewayAction::Drain => ("drains", HealthStatus::Down, before),
        };
        let line = [(Tone::Strong, format!("{} ", cluster.name)), (Tone::Plain, verb.to_owned())];
        self.print("0 ms", "gateway", &line)?;
        let mut expected = ExpectedEffects { cluster, status, health: true, pay: true, shop: true };
        let mut deadline = Instant::now() + STEP_LIMIT;
        while let Ok(events) = time::timeout_at(deadline, self.events()).await {
            for event in &events {
                if expected.any() {
                    expected.remove(event);
                    if !expected.any() {
                        deadline = Instant::now() + AFTERMATH;
                    }
                }
                let when = format::millis(event.at().duration_since(since).unwrap_or_default());
                let (kind, content) = event.line();
                self.print(&when, kind, &content)?;
            }
        }
        self.failures.extend(expected.failures());
        Ok(())
    }

    /// Prints the line of an event.
    pub(super) fn print(&self, when: &str, kind: &str, content: &[(Tone, String)]) -> anyhow::Result<()> {
        Ok(self.out.line(&format::event(self.out.palette, when, kind, content))?)
    }

    /// Prints the shares, and notes those that do not match the weights of the clusters in `up`.
    pub(super) async fn print_shares(&mut self, up: &[DemoCluster], before: Option<&Shares>) -> anyhow::Result<Shares> {
        let now = self.measure_shares().await?;
        let networks = thousands(u64::from(NETWORKS));
        self.out.line("")?;
        self.out.line(&format!("  shop.demo.example, answers to {networks} client networks:"))?;
        self.out.print(&format::shares(self.out.palette, &now, before))?;
        self.failures.extend(wrong_shares(&now, up));
        Ok(now)
    }

    /// Prints how many clients kept their cluster, and notes if one moved although it could have stayed.
    pub(super) fn print_moves(&mut self, before: &Shares, now: &Shares, failed: DemoCluster) -> anyhow::Result<()> {
        let (moved, all) = before.unnecessary_moves(now, failed.address);
        let (kept, total) = (thousands((all - moved) as u64), thousands(all as u64));
        let line = format!("  {kept} of {total} clients of other clusters kept theirs.");
        self.out.line(&self.out.palette.paint(Tone::Quiet, &line))?;
        if moved > 0 {
            self.failures.push(format!("{moved} clients were moved although their cluster was up"));
        }
        Ok(())
    }
}

/// Returns the queries to watch: `pay` of any client, and `shop` of one client of each cluster.
async fn watched(client: &mut DnsClient, shares: &Shares) -> anyhow::Result<Vec<Watched>> {
    let network = client_network(0);
    let answer = client.ask(&pay(), network).await?;
    let mut watched = vec![Watched { name: pay(), client: network, answer }];
    for cluster in CLUSTERS {
        if let Some(network) = client_of(shares, cluster) {
            watched.push(Watched { name: shop(), client: network, answer: Some(cluster.address) });
        }
    }
    Ok(watched)
}

/// Returns the first client network that is answered with a cluster.
pub(super) fn client_of(shares: &Shares, cluster: DemoCluster) -> Option<Ipv4Addr> {
    let number = shares.0.iter().position(|answer| *answer == Some(cluster.address))?;
    u16::try_from(number).ok().map(client_network)
}

/// Effects of an action that were not observed yet.
struct ExpectedEffects {
    cluster: DemoCluster,
    /// Expected health of the cluster.
    status: HealthStatus,
    health: bool,
    pay: bool,
    shop: bool,
}

impl ExpectedEffects {
    /// True if an effect is still missing.
    fn any(&self) -> bool {
        self.health || self.pay || self.shop
    }

    /// Removes the effect that an event fulfils.
    fn remove(&mut self, event: &Event) {
        match event {
            Event::Health(applied) => {
                let is_cluster = applied.clusters.iter().any(|name| name.as_str() == self.cluster.name);
                self.health &= !(is_cluster && applied.transition.to == self.status);
            }
            Event::Answer(AnswerChange { now, from, .. }) => {
                let address = if self.status == HealthStatus::Up { now.answer } else { *from };
                let is_cluster = address == Some(self.cluster.address);
                self.pay &= !(is_cluster && now.name == pay());
                self.shop &= !(is_cluster && now.name == shop());
            }
        }
    }

    fn failures(&self) -> Vec<String> {
        let within = format!("within {} s", STEP_LIMIT.as_secs());
        let Self { cluster: DemoCluster { name, .. }, status, .. } = self;
        let failures = [
            (self.health, format!("the health of {name} was not {status} {within}")),
            (self.pay, format!("the answer to pay.demo.example did not follow {name} {within}")),
            (self.shop, format!("the answer to shop.demo.example did not follow {name} {within}")),
        ];
        failures.into_iter().filter_map(|(is_missing, text)| is_missing.then_some(text)).collect()
    }
}

/// Describes each cluster whose share does not match its part of the weight that is up.
fn wrong_shares(now: &Shares, up: &[DemoCluster]) -> Vec<String> {
    let total: usize = up.iter().map(|cluster| usize::from(cluster.weight)).sum();
    let failure = |cluster: &DemoCluster| {
        let expected = if up.contains(cluster) { usize::from(cluster.weight) * 1_000 / total.max(1) } else { 0 };
        let share = now.permille(cluster.address);
        let tolerance = if expected == 0 { 0 } else { SHARE_TOLERANCE };
        let name = cluster.name;
        (share.abs_diff(expected) > tolerance)
            .then(|| format!("{name} got {share} of 1,000 clients, expected {expected}"))
    };
    CLUSTERS.iter().filter_map(failure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(counts: [usize; 3]) -> Shares {
        Shares(CLUSTERS.iter().zip(counts).flat_map(|(c, n)| vec![Some(c.address); n]).collect())
    }

    fn change(name: fairway_model::Name, from: usize, to: usize) -> Event {
        let [from, to] = [from, to].map(|index| Some(CLUSTERS[index].address));
        Event::Answer(AnswerChange {
            now: Watched { name, client: client_network(0), answer: to },
            from,
            at: SystemTime::UNIX_EPOCH,
        })
    }

    #[test]
    fn shares_must_match_the_weights_of_up_clusters() {
        assert_eq!(wrong_shares(&shares([590, 310, 100]), &CLUSTERS), Vec::<String>::new());
        assert_eq!(wrong_shares(&shares([0, 745, 255]), &CLUSTERS[1..]), Vec::<String>::new());
        assert_eq!(wrong_shares(&shares([640, 260, 100]), &CLUSTERS).len(), 2);
    }

    #[test]
    fn one_answer_with_a_dead_cluster_is_a_failure() {
        assert_eq!(wrong_shares(&shares([1, 744, 255]), &CLUSTERS[1..]).len(), 1);
    }

    #[test]
    fn only_a_change_away_from_the_dead_cluster_is_the_expected_effect() {
        let mut expected =
            ExpectedEffects { cluster: CLUSTERS[0], status: HealthStatus::Down, health: false, pay: true, shop: true };
        expected.remove(&change(pay(), 1, 0));
        assert!(expected.pay && expected.shop);
        expected.remove(&change(pay(), 0, 1));
        expected.remove(&change(shop(), 0, 2));
        assert!(!expected.any() && expected.failures().is_empty());
    }

    #[test]
    fn missing_effects_are_described() {
        let expected =
            ExpectedEffects { cluster: CLUSTERS[0], status: HealthStatus::Up, health: true, pay: false, shop: true };
        assert_eq!(expected.failures().len(), 2);
        assert!(expected.failures()[0].starts_with("the health of eu1 was not up"), "{:?}", expected.failures());
    }
}
