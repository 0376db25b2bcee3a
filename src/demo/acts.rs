//! The show: what is done to the gateways, what must follow, and what did.
//!
//! Everything told here is measured from outside, by a client that asks the server over UDP, apart from the verdicts: those the
//! server itself tells.

use std::{
    net::Ipv4Addr,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use fairway_model::HealthStatus;
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::{self, Instant},
};

use super::{
    asker::{Asker, network},
    remote::Deed,
    show::{self, Shares},
    stage::{CLUSTERS, DemoCluster, Stage, pay, shop},
    watch::{Change, Watch, Watched},
};
use crate::cli::{Out, Palette, Tone, thousands};
use fairway_control::AppliedTransition;

/// Client networks asked for in a census (shares within ±2 points of their weights; one standard deviation is 0.5).
const NETWORKS: u16 = 10_000;
/// Most points, in tenths of a percent, that a share may be off.
const SHARE_TOLERANCE: usize = 20;
/// Longest wait for what an act must bring about: some ten times what it takes.
const ACT_LIMIT: Duration = Duration::from_secs(5);
/// What happens within this time is told in order of time: verdicts and answers come to us on different ways.
const BREATH: Duration = Duration::from_millis(15);
/// Most that is held back for that.
const BURST: usize = 64;
/// How long to go on gathering after the last thing expected has happened: what else came of it is told too.
const AFTERMATH: Duration = Duration::from_millis(100);

/// Something that happened.
#[derive(Debug)]
pub(super) enum Event {
    /// The server judges a gateway anew.
    HealthStatus(Box<AppliedTransition>),
    /// A client is answered something else.
    Answer(Change),
}

impl Event {
    /// When it happened.
    pub(super) fn at(&self) -> SystemTime {
        match self {
            Self::HealthStatus(applied) => applied.transition.at,
            Self::Answer(change) => change.at,
        }
    }

    /// Kind and content of its line.
    pub(super) fn line(&self) -> (&'static str, Vec<(Tone, String)>) {
        match self {
            Self::HealthStatus(applied) => ("health", status(applied)),
            Self::Answer(Change { now, from, .. }) => {
                let name = now.name.to_string();
                // Everybody gets the same from a failover pool; who asks matters for the shared one only.
                let client = (now.name == shop()).then_some(now.client);
                ("answer", show::change(name.trim_end_matches('.'), *from, now.answer, client))
            }
        }
    }
}

fn status(applied: &AppliedTransition) -> Vec<(Tone, String)> {
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

/// The running show.
pub(super) struct Show<'a> {
    /// What it plays on.
    pub(super) stage: &'a mut Stage,
    /// Where it is told.
    pub(super) out: Out,
    asker: Asker,
    statuses: broadcast::Receiver<AppliedTransition>,
    watch: Watch,
    /// What has happened and is not told yet.
    untold: Vec<Event>,
    /// What was announced and did not happen.
    pub(super) broken: Vec<String>,
}

impl<'a> Show<'a> {
    /// Begins to watch; tells the shares of the start.
    pub(super) async fn begin(stage: &'a mut Stage, out: Out) -> anyhow::Result<(Self, Shares)> {
        let statuses = stage.daemon.control().transitions();
        let mut asker = Asker::new(stage.dns).await?;
        let shares = Shares::new(asker.census(&shop(), NETWORKS).await?);
        let watched = watched(&mut asker, &shares).await?;
        // 1 ms: as exact as the figures that are told.
        let watch = Watch::start(stage.dns, watched, Duration::from_millis(1)).await?;
        Ok((Self { stage, out, asker, statuses, watch, untold: Vec::new(), broken: Vec::new() }, shares))
    }

    /// From here on the visitor plays: asking less often leaves the machine to him.
    pub(super) async fn relax(&mut self, shares: &Shares) -> anyhow::Result<()> {
        let watched = watched(&mut self.asker, shares).await?;
        self.watch = Watch::start(self.stage.dns, watched, Duration::from_millis(20)).await?;
        Ok(())
    }

    /// Does something to a gateway; returns the moment it took effect.
    pub(super) async fn act(&mut self, cluster: &str, deed: Deed) -> anyhow::Result<SystemTime> {
        let gateway =
            self.stage.gateway(cluster).with_context(|| format!("no gateway {cluster}; there are eu1, us1, ap1"))?;
        let before = SystemTime::now();
        match deed {
            Deed::Down => gateway.down().await?,
            Deed::Drain => gateway.drain().await?,
            Deed::Up => gateway.up().await?,
        }
        // A start takes its time, and counts when it is done; an end counts from its beginning.
        Ok(if deed == Deed::Up { SystemTime::now() } else { before })
    }

    /// What happens next, together with what comes of it, in order of time. Safe to cancel.
    pub(super) async fn events(&mut self) -> Vec<Event> {
        if self.untold.is_empty() {
            let first = self.event().await;
            self.untold.push(first);
        }
        while self.untold.len() < BURST
            && let Ok(event) = time::timeout(BREATH, self.event()).await
        {
            self.untold.push(event);
        }
        self.untold.sort_by_key(Event::at);
        std::mem::take(&mut self.untold)
    }

    /// The next thing that is heard of. Safe to cancel.
    async fn event(&mut self) -> Event {
        loop {
            tokio::select! {
                biased;
                applied = self.statuses.recv() => match applied {
                    Ok(applied) => return Event::HealthStatus(Box::new(applied)),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => std::future::pending().await, // only when the server ends
                },
                change = self.watch.next() => return Event::Answer(change),
            }
        }
    }

    /// Who is answered what, over many client networks.
    pub(super) async fn census(&mut self) -> anyhow::Result<Shares> {
        Ok(Shares::new(self.asker.census(&shop(), NETWORKS).await?))
    }

    /// One act: does it, tells what follows as it happens, and notes what does not.
    pub(super) async fn perform(&mut self, cluster: DemoCluster, deed: Deed) -> anyhow::Result<()> {
        let palette = self.out.palette;
        let since = self.act(cluster.name, deed).await?;
        let (word, wanted) = match deed {
            Deed::Up => ("is back", HealthStatus::Up),
            Deed::Down => ("dies", HealthStatus::Down),
            Deed::Drain => ("drains", HealthStatus::Down),
        };
        let first = [(Tone::Strong, format!("{} ", cluster.name)), (Tone::Plain, word.to_owned())];
        self.out.line(&show::moment(palette, "0 ms", "gateway", &first))?;
        let mut missing = Expected { cluster, wanted, status: true, pay: true, shop: true };
        let mut deadline = Instant::now() + ACT_LIMIT;
        while let Ok(events) = time::timeout_at(deadline, self.events()).await {
            for event in &events {
                if missing.any() && missing.strike(event) && !missing.any() {
                    deadline = Instant::now() + AFTERMATH;
                }
                self.tell(palette, since, event)?;
            }
        }
        self.broken.extend(missing.left());
        Ok(())
    }

    fn tell(&self, palette: Palette, since: SystemTime, event: &Event) -> anyhow::Result<()> {
        let when = show::millis(event.at().duration_since(since).unwrap_or_default());
        let (kind, what) = event.line();
        Ok(self.out.line(&show::moment(palette, &when, kind, &what))?)
    }

    /// Tells the shares now, and notes where they are not those of the clusters that are up.
    pub(super) async fn tell_shares(&mut self, up: &[DemoCluster], before: Option<&Shares>) -> anyhow::Result<Shares> {
        let now = self.census().await?;
        let who = format!("  shop.demo.example, answers to {} client networks:", thousands(u64::from(NETWORKS)));
        self.out.line("")?;
        self.out.line(&who)?;
        self.out.print(&show::shares(self.out.palette, &now, before))?;
        self.broken.extend(wrong_shares(&now, up));
        Ok(now)
    }

    /// Tells that whoever could keep its cluster did, and notes if not.
    pub(super) fn tell_moves(&mut self, before: &Shares, now: &Shares, gone: DemoCluster) -> anyhow::Result<()> {
        let (moved, all) = before.moved_for_nothing(now, gone.address);
        let count = |n: usize| thousands(u64::try_from(n).unwrap_or(u64::MAX));
        let line = format!("  {} of {} clients of other clusters kept theirs.", count(all - moved), count(all));
        self.out.line(&self.out.palette.paint(Tone::Quiet, &line))?;
        if moved > 0 {
            self.broken.push(format!("{moved} clients were moved although their cluster was up"));
        }
        Ok(())
    }
}

/// `pay` as anybody asks for it, and `shop` as one client of each cluster does.
async fn watched(asker: &mut Asker, shares: &Shares) -> anyhow::Result<Vec<Watched>> {
    let client = network(0);
    let answer = asker.ask(&pay(), client).await?;
    let mut watched = vec![Watched { name: pay(), client, answer }];
    for cluster in CLUSTERS {
        let number = shares.answers().iter().position(|a| *a == Some(cluster.address));
        if let Some(number) = number.and_then(|n| u16::try_from(n).ok()) {
            watched.push(Watched { name: shop(), client: network(number), answer: Some(cluster.address) });
        }
    }
    Ok(watched)
}

/// What an act must bring about, and has not yet.
struct Expected {
    cluster: DemoCluster,
    wanted: HealthStatus,
    status: bool,
    pay: bool,
    shop: bool,
}

impl Expected {
    fn any(&self) -> bool {
        self.status || self.pay || self.shop
    }

    /// Strikes off what the event fulfils; whether it did.
    fn strike(&mut self, event: &Event) -> bool {
        let before = (self.status, self.pay, self.shop);
        match event {
            Event::HealthStatus(applied) => {
                let ours = applied.clusters.iter().any(|c| c.as_str() == self.cluster.name);
                self.status &= !(ours && applied.transition.to == self.wanted);
            }
            Event::Answer(Change { now, from, .. }) => {
                let side = if self.wanted == HealthStatus::Up { now.answer } else { *from };
                let ours = side == Some(self.cluster.address);
                self.pay &= !(ours && now.name == pay());
                self.shop &= !(ours && now.name == shop());
            }
        }
        before != (self.status, self.pay, self.shop)
    }

    fn left(&self) -> Vec<String> {
        let within = format!("within {} s", ACT_LIMIT.as_secs());
        let Self { cluster: DemoCluster { name, .. }, wanted, .. } = self;
        let left = [
            (self.status, format!("{name} was not judged {wanted} {within}")),
            (self.pay, format!("pay.demo.example did not follow {name} {within}")),
            (self.shop, format!("shop.demo.example did not follow {name} {within}")),
        ];
        left.into_iter().filter_map(|(missing, what)| missing.then_some(what)).collect()
    }
}

/// Clusters whose share is not their weight's part of the weight that is up.
fn wrong_shares(now: &Shares, up: &[DemoCluster]) -> Vec<String> {
    let weight: usize = up.iter().map(|c| usize::from(c.weight)).sum();
    let fault = |cluster: &DemoCluster| {
        let part = if up.contains(cluster) { usize::from(cluster.weight) * 1_000 / weight.max(1) } else { 0 };
        let is = now.permille(cluster.address);
        let tolerance = if part == 0 { 0 } else { SHARE_TOLERANCE };
        let name = cluster.name;
        (is.abs_diff(part) > tolerance).then(|| format!("{name} got {is} of 1,000 clients instead of {part}"))
    };
    CLUSTERS.iter().filter_map(fault).collect()
}

/// An address for `dig +subnet`: a client of this network.
pub(super) fn example_client(shares: &Shares, cluster: DemoCluster) -> Option<Ipv4Addr> {
    let number = shares.answers().iter().position(|a| *a == Some(cluster.address))?;
    u16::try_from(number).ok().map(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(counts: [usize; 3]) -> Shares {
        Shares::new(CLUSTERS.iter().zip(counts).flat_map(|(c, n)| vec![Some(c.address); n]).collect())
    }

    fn change(name: fairway_model::Name, from: usize, to: usize) -> Event {
        let [from, to] = [from, to].map(|index| Some(CLUSTERS[index].address));
        Event::Answer(Change {
            now: Watched { name, client: network(0), answer: to },
            from,
            at: SystemTime::UNIX_EPOCH,
        })
    }

    #[test]
    fn shares_must_be_the_weights_of_those_that_are_up() {
        assert_eq!(wrong_shares(&census([590, 310, 100]), &CLUSTERS), Vec::<String>::new());
        assert_eq!(wrong_shares(&census([0, 745, 255]), &CLUSTERS[1..]), Vec::<String>::new());
        assert_eq!(wrong_shares(&census([640, 260, 100]), &CLUSTERS).len(), 2);
    }

    #[test]
    fn one_answer_for_a_dead_cluster_is_wrong() {
        assert_eq!(wrong_shares(&census([1, 744, 255]), &CLUSTERS[1..]).len(), 1);
    }

    #[test]
    fn only_a_change_away_from_the_dead_cluster_fulfils_its_act() {
        let mut missing =
            Expected { cluster: CLUSTERS[0], wanted: HealthStatus::Down, status: false, pay: true, shop: true };
        assert!(!missing.strike(&change(pay(), 1, 0)));
        assert!(missing.strike(&change(pay(), 0, 1)) && missing.strike(&change(shop(), 0, 2)));
        assert!(!missing.any() && missing.left().is_empty());
    }

    #[test]
    fn what_did_not_happen_is_named() {
        let missing = Expected { cluster: CLUSTERS[0], wanted: HealthStatus::Up, status: true, pay: false, shop: true };
        assert_eq!(missing.left().len(), 2);
        assert!(missing.left()[0].starts_with("eu1 was not judged up"));
    }
}
