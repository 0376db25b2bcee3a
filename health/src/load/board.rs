//! The latest word of each source on each cluster, and which of them counts. Pure: time comes in as an argument.
//!
//! ```text
//! a push that is valid ─ before ─ what was read from the cluster's source, three periods long ─ before ─ nothing
//! ```
//! What does not count is kept and shown all the same. A gateway that does not answer counts with what it said last, three
//! periods long; then it counts as gone, as long as another one answers. A cluster moves to a worse signal only when the
//! better one was missing for that long: numbers of different signals do not compare.

use std::{collections::BTreeMap, num::NonZeroU64, sync::Arc, time::Duration};

use fairway_model::{
    ClusterName, DesiredState, Load, LoadReport, LoadSignal, LoadSource, LoadSourceName, LoadUnit, ProbeAddress,
    closest,
};
use tokio::time::Instant;

use super::{
    failure::ReadError,
    gateway::{GatewayMetrics, GatewayWarning},
    ladder::{self, Readings},
};

/// A report that counts, as the balancer hears it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadUpdate {
    /// The report. Its sequence counts what was told of this cluster, whatever it was read from.
    pub report: LoadReport,
    /// When the next one is expected; of a push, a third of the time it is valid. Held three of these long, it is as
    /// good as what follows: then it is unknown.
    pub period: Duration,
    /// All gateways that answered drain or are overloaded: the cluster is to get no more than it must, whatever its
    /// load. That is no verdict: it can be answered, it is in nobody's way to panic, and it ends with the report.
    pub is_exhausted: bool,
}

/// A cluster, and from where its load is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterLoadSettings {
    /// The cluster.
    pub cluster: ClusterName,
    /// Its capacity, if declared.
    pub capacity: Option<NonZeroU64>,
    /// Its source; none if its load is only pushed.
    pub source: Option<(LoadSourceName, Arc<LoadSource>)>,
    /// Its gateways, where each of them is asked.
    pub gateways: Vec<ProbeAddress>,
}

impl ClusterLoadSettings {
    /// Returns all clusters of a wish, in order of name.
    pub fn all(desired: &DesiredState) -> Vec<Self> {
        let feed = |cluster: &fairway_model::Cluster| {
            let feed = desired.cluster_load_sources.get(&cluster.name);
            let source = feed.and_then(|feed| desired.load_sources.get_key_value(&feed.source));
            let named = feed.map(|feed| feed.gateways.clone()).filter(|gateways| !gateways.is_empty());
            // The other family leads to the same gateways: asked twice, they would count twice.
            let of_family = |v4| cluster.addresses.iter().filter(move |address| address.is_ipv4() == v4);
            let v4 = of_family(true).next().is_some();
            let own = || of_family(v4).map(|address| ProbeAddress::Address(*address)).collect();
            Self {
                cluster: cluster.name.clone(),
                capacity: cluster.capacity.and_then(NonZeroU64::new),
                source: source.map(|(name, source)| (name.clone(), Arc::clone(source))),
                gateways: named.unwrap_or_else(own),
            }
        };
        desired.clusters.values().map(feed).collect()
    }
}

/// A load that somebody reports by himself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushedLoad {
    /// How much.
    pub amount: LoadAmount,
    /// Counts the pushes of this cluster; one that is not above the last valid one is refused. Default: no order is held.
    pub sequence: Option<u64>,
    /// How long it counts.
    pub valid_for: Duration,
}

/// How much of a cluster is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadAmount {
    /// Permille of the capacity.
    Permille(u32),
    /// In the unit of the capacity.
    Used(u64),
}

/// Why a push is refused; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// It counts in the unit of a capacity that is not declared.
    #[error("cluster {0} has no capacity, so used says nothing; declare its capacity, or push load in permille")]
    NoCapacity(ClusterName),
    /// It is not above the last one.
    #[error("sequence {given} is not above {last}, the last one taken; count on, or wait until that one has ended")]
    Sequence {
        /// What came.
        given: u64,
        /// What came before.
        last: u64,
    },
    /// The task that takes it has ended.
    #[error("fairway is stopping; push again when it runs")]
    Stopped,
    /// No such cluster.
    #[error("cluster {0} is not declared; {1}")]
    Unknown(String, String),
}

/// What an event did.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Effect {
    /// What the balancer hears.
    pub news: Option<LoadUpdate>,
    /// What the log hears: changes, not states.
    pub changes: Vec<Change>,
}

/// Something that is otherwise than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Other gateways answer than before: so many of so many.
    Answering(usize, usize),
    /// Load is read for the first time, again, or by another signal.
    Read(LoadSignal, Load),
    /// Load cannot be read any more.
    Unread(String),
    /// The warnings are others.
    Warned(Vec<GatewayWarning>),
}

/// All clusters.
#[derive(Debug, Default)]
pub(super) struct Board {
    rows: BTreeMap<ClusterName, Row>,
}

/// What is known of one cluster.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) feed: ClusterLoadSettings,
    pub(super) gateways: Vec<Gateway>,
    /// What was read last.
    pub(super) read: Option<Kept>,
    /// What was pushed last, and until when it is valid.
    pub(super) pushed: Option<(Kept, PushedLoad)>,
    /// Why the last reading gave no load.
    pub(super) failing: Option<String>,
    pub(super) warnings: Vec<GatewayWarning>,
    /// Reports told so far.
    told: u64,
}

/// One gateway of a cluster, or the one place that speaks for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Gateway {
    /// The last good look, and when it was asked for.
    last: Option<(GatewayMetrics, Instant)>,
    /// What that look told beside the one before it.
    readings: Readings,
    /// Why the last look failed.
    pub(super) fault: Option<String>,
}

/// One load with its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) load: Load,
    pub(super) signal: LoadSignal,
    pub(super) at: Instant,
}

impl Kept {
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at)
    }
}

impl Board {
    /// Makes these the clusters that are known; those that are read as before keep what was said of them.
    pub(super) fn set(&mut self, feeds: Vec<ClusterLoadSettings>) {
        let mut before = std::mem::take(&mut self.rows);
        for feed in feeds {
            let row = match before.remove(&feed.cluster) {
                Some(row) if row.feed == feed => row,
                // A push counted in permille of a capacity that may be another one now; its sequence goes on.
                Some(row) => Row { told: row.told, pushed: row.pushed, ..Row::new(feed) },
                None => Row::new(feed),
            };
            self.rows.insert(row.feed.cluster.clone(), row);
        }
    }

    /// Takes what the gateways of a cluster said that were asked at a time, in their order; of a source with one place,
    /// one. A reading that the observer itself spoilt is not brought here.
    pub(super) fn looked(
        &mut self,
        cluster: &ClusterName,
        looks: Vec<Result<GatewayMetrics, ReadError>>,
        at: Instant,
        now: Instant,
    ) -> Effect {
        self.rows.get_mut(cluster).map(|row| row.looked(looks, at, now)).unwrap_or_default()
    }

    /// Returns the clusters that are read from a source.
    pub(super) fn clusters_of<'a>(&'a self, source: &'a LoadSourceName) -> impl Iterator<Item = &'a ClusterName> {
        let of = move |row: &&Row| row.feed.source.as_ref().is_some_and(|(name, _)| name == source);
        self.rows.values().filter(of).map(|row| &row.feed.cluster)
    }

    /// Takes a push, or refuses it and changes nothing.
    pub(super) fn push(&mut self, cluster: &str, push: PushedLoad, now: Instant) -> Result<Effect, PushError> {
        let Some(row) = self.rows.get_mut(cluster) else {
            let hint = match closest(cluster, self.rows.keys().map(ClusterName::as_str)) {
                Some(near) => format!("did you mean {near}?"),
                None => "`fairway status` lists clusters".to_owned(),
            };
            return Err(PushError::Unknown(cluster.to_owned(), hint));
        };
        row.push(push, now)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }
}

impl Row {
    fn new(feed: ClusterLoadSettings) -> Self {
        let places = match &feed.source {
            Some((_, source)) if source.is_per_gateway() => feed.gateways.len(),
            _ => usize::from(feed.source.is_some()),
        };
        let gateways = vec![Gateway::default(); places];
        Self { feed, gateways, read: None, pushed: None, failing: None, warnings: vec![], told: 0 }
    }

    fn looked(&mut self, looks: Vec<Result<GatewayMetrics, ReadError>>, at: Instant, now: Instant) -> Effect {
        let Some((_, source)) = self.feed.source.clone() else { return Effect::default() };
        let mut changes = Vec::new();
        let before = self.gateways.iter().filter(|gateway| gateway.fault.is_none()).count();
        for (gateway, look) in self.gateways.iter_mut().zip(looks) {
            gateway.looked(look, at, source.metric().is_some_and(|metric| metric.is_rate));
        }
        let answering = self.gateways.iter().filter(|gateway| gateway.fault.is_none()).count();
        if answering != before && answering > 0 && self.gateways.len() > 1 {
            changes.push(Change::Answering(answering, self.gateways.len()));
        }
        self.warn(&mut changes);
        let outcome = self.load(&source, answering, now);
        let mut news = None;
        match outcome {
            Ok(Some(kept)) => {
                if self.failing.take().is_some() || self.read.is_none_or(|before| before.signal != kept.signal) {
                    changes.push(Change::Read(kept.signal, kept.load));
                }
                self.read = Some(Kept { at, ..kept });
                if !self.is_pushed(now) {
                    news = self.read.map(|kept| self.news(kept, source.period));
                }
            }
            // A counter was seen once: nothing to tell, and nothing wrong.
            Ok(None) => {}
            Err(why) => {
                if self.failing.is_none() {
                    changes.push(Change::Unread(why.clone()));
                }
                self.failing = Some(why);
            }
        }
        Effect { news, changes }
    }

    /// Returns the load by the best signal; none if a counter has to be seen once more.
    fn load(&self, source: &LoadSource, answering: usize, now: Instant) -> Result<Option<Kept>, String> {
        if answering == 0 {
            return Err(self.gateways.iter().find_map(|gateway| gateway.fault.clone()).unwrap_or_default());
        }
        let held = source.period * LoadSource::PERIODS_VALID;
        let counted = self.gateways.iter().filter(|gateway| gateway.counts(held, now));
        let readings: Vec<Readings> = counted.map(|gateway| gateway.readings).collect();
        let Some(rung) = ladder::rung(&readings, source.signal(), source.unit) else {
            let waits = readings.iter().any(Readings::waits);
            return if waits { Ok(None) } else { Err("the gateways show no signal that all of them have".to_owned()) };
        };
        if let Some(better) = self.read.filter(|read| read.signal < rung.signal && read.age(now) <= held) {
            return Err(format!("no {} any more, and {} does not compare", better.signal, rung.signal));
        }
        let load = match (source.unit, self.feed.capacity) {
            (LoadUnit::Capacity, Some(capacity)) => Load::of(rung.amount, capacity),
            (LoadUnit::Capacity, None) => return Err("its capacity is not declared".to_owned()),
            (LoadUnit::Permille, _) => permille(rung.amount),
        };
        Ok(Some(Kept { load, signal: rung.signal, at: now }))
    }

    fn warn(&mut self, changes: &mut Vec<Change>) {
        let shown = self.gateways.iter().filter(|gateway| gateway.fault.is_none());
        let shown = shown.filter_map(|gateway| gateway.last.as_ref());
        let mut warnings: Vec<GatewayWarning> = shown.flat_map(|(shown, _)| shown.warnings.clone()).collect();
        warnings.sort();
        warnings.dedup();
        // A pressure that moves by a per cent is the same warning.
        let kinds = |warnings: &[GatewayWarning]| {
            let mut words: Vec<_> = warnings.iter().map(GatewayWarning::kind).collect();
            words.dedup();
            words
        };
        if kinds(&warnings) != kinds(&self.warnings) {
            changes.push(Change::Warned(warnings.clone()));
        }
        self.warnings = warnings;
    }

    fn push(&mut self, push: PushedLoad, now: Instant) -> Result<Effect, PushError> {
        let last = self.pushed.filter(|_| self.is_pushed(now)).and_then(|(_, last)| last.sequence);
        if let (Some(given), Some(last)) = (push.sequence, last)
            && given <= last
        {
            return Err(PushError::Sequence { given, last });
        }
        let load = match (push.amount, self.feed.capacity) {
            (LoadAmount::Permille(load), _) => permille(load.into()),
            (LoadAmount::Used(used), Some(capacity)) => Load::of(used, capacity),
            (LoadAmount::Used(_), None) => return Err(PushError::NoCapacity(self.feed.cluster.clone())),
        };
        let changes = if self.is_pushed(now) { vec![] } else { vec![Change::Read(LoadSignal::Declared, load)] };
        let kept = Kept { load, signal: LoadSignal::Declared, at: now };
        self.pushed = Some((kept, push));
        let news = self.news(kept, push.valid_for / LoadSource::PERIODS_VALID);
        Ok(Effect { news: Some(news), changes })
    }

    pub(super) fn is_pushed(&self, now: Instant) -> bool {
        self.pushed.is_some_and(|(kept, push)| kept.age(now) < push.valid_for)
    }

    /// Returns true if all gateways that answered are exhausted.
    pub(super) fn is_exhausted(&self) -> bool {
        let mut answered = self.gateways.iter().filter(|gateway| gateway.fault.is_none() && gateway.last.is_some());
        let exhausted = |gateway: &Gateway| {
            gateway.last.as_ref().is_some_and(|(shown, _)| shown.warnings.iter().any(GatewayWarning::exhausts))
        };
        answered.clone().next().is_some() && answered.all(exhausted)
    }

    fn news(&mut self, kept: Kept, period: Duration) -> LoadUpdate {
        self.told += 1;
        let report = LoadReport {
            cluster: self.feed.cluster.clone(),
            load: kept.load,
            signal: kept.signal,
            sequence: self.told,
            at: kept.at.into_std(),
        };
        LoadUpdate { report, period, is_exhausted: self.is_exhausted() }
    }
}

impl Gateway {
    fn looked(&mut self, look: Result<GatewayMetrics, ReadError>, at: Instant, is_rate: bool) {
        match look {
            Ok(shown) => {
                let before = self.last.as_ref().map(|(shown, then)| (shown, *then));
                self.readings = Readings::new((&shown, at), before, is_rate);
                self.last = Some((shown, at));
                self.fault = None;
            }
            Err(error) => self.fault = Some(error.to_string()),
        }
    }

    fn counts(&self, held: Duration, now: Instant) -> bool {
        self.last.as_ref().is_some_and(|(_, at)| now.saturating_duration_since(*at) <= held)
    }
}

fn permille(amount: u64) -> Load {
    Load(u32::try_from(amount).map_or(Load::MAX.0, |amount| amount.min(Load::MAX.0)))
}
