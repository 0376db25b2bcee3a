//! The clusters that are balanced: their places, what they are judged by, and whether they can be answered.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::{Duration, Instant},
};

use fairway_health::{
    balance::{Declared, Settings},
    load::LoadUpdate,
};
use fairway_model::{AcceptedShare, ClusterName, DesiredState, Eligibility, Shares};
use fairway_zones::{RuntimeState, Snapshot, TargetIndex, steer::SteerPool};

/// Clusters by their place in [`Settings::clusters`].
#[derive(Debug)]
pub(super) struct Clusters {
    names: Vec<ClusterName>,
    /// What each is judged by, in all pools together.
    seats: Vec<Box<[Seat]>>,
    /// Clusters whose gateways drain or are overloaded, until when that is known.
    exhausted: HashMap<usize, Instant>,
    /// Which can be answered.
    up: Vec<bool>,
    /// Which could be when the step that runs, or else the last one, began.
    begun: Vec<bool>,
    /// Which could be when what holds was decided.
    decided: Vec<bool>,
}

/// What says whether a cluster can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seat {
    target: TargetIndex,
    /// Whose schedule may keep it out: the place of the pool, and the number of the member.
    scheduled: Option<(usize, u8)>,
}

/// A cluster that came or went: its place, and whether it can be answered now.
pub(super) type Turned = (usize, bool);

impl Clusters {
    /// All of them count as up until they are looked at.
    pub(super) fn new(settings: &Settings, snapshot: &Snapshot) -> Self {
        let names: Vec<_> = settings.clusters.iter().map(|declared| declared.name.clone()).collect();
        let up = vec![true; names.len()];
        let (begun, decided) = (up.clone(), up.clone());
        let mut clusters = Self { names, seats: vec![], exhausted: HashMap::new(), up, begun, decided };
        clusters.find_targets(snapshot);
        clusters
    }

    /// Another snapshot numbers targets anew.
    pub(super) fn find_targets(&mut self, snapshot: &Snapshot) {
        let places = self.places();
        let mut seats = vec![BTreeSet::new(); self.names.len()];
        for (at, pool) in balanced_pools(snapshot) {
            for (number, cluster, target) in pool.member_targets() {
                if let Some(place) = places.get(cluster) {
                    seats[*place].insert(Seat { target, scheduled: pool.heeds_schedules().then_some((at, number)) });
                }
            }
        }
        self.seats = seats.into_iter().map(|seats| seats.into_iter().collect()).collect();
    }

    /// The place of each cluster.
    pub(super) fn places(&self) -> HashMap<ClusterName, usize> {
        self.names.iter().cloned().zip(0..).collect()
    }

    /// Notes whether gateways of a cluster drain or are overloaded. It is forgotten where no report says it again.
    pub(super) fn hear(&mut self, place: usize, news: &LoadUpdate, now: Instant) {
        if news.is_exhausted {
            self.exhausted.insert(place, now + news.period * PERIODS_HELD);
        } else {
            self.exhausted.remove(&place);
        }
    }

    /// Looks which clusters can be answered: which came or went since the last look.
    pub(super) fn look(&mut self, snapshot: &Snapshot, runtime: &RuntimeState, now: Instant) -> Vec<Turned> {
        self.exhausted.retain(|_, end| *end > now);
        let is_up = |place: usize| {
            let judged = answerable(&self.seats[place], snapshot, runtime).unwrap_or(self.up[place]);
            judged && !self.exhausted.contains_key(&place)
        };
        let places = (0..self.up.len()).map(|place| (place, is_up(place)));
        let turned: Vec<Turned> = places.filter(|(place, up)| self.up[*place] != *up).collect();
        turned.iter().for_each(|(place, up)| self.up[*place] = *up);
        turned
    }

    /// Clusters whose gateways drain or are overloaded.
    pub(super) fn exhausted(&self) -> impl Iterator<Item = &ClusterName> {
        self.exhausted.keys().map(|place| &self.names[*place])
    }

    /// Each cluster's place, and whether it can be answered.
    pub(super) fn all_up(&self) -> impl Iterator<Item = Turned> {
        self.up.iter().copied().enumerate()
    }

    /// A step begins, that knows which clusters can be answered now.
    pub(super) fn step_begins(&mut self) {
        self.begun.clone_from(&self.up);
    }

    /// What that step decided holds.
    pub(super) fn step_ended(&mut self) {
        self.decided.clone_from(&self.begun);
    }

    /// What was decided, with nothing for clusters that cannot be answered: one that returns begins with nothing, however
    /// long the next decision takes. Where none can, nobody is held back.
    pub(super) fn without_those_down(&self, decided: &Shares) -> Shares {
        let mut shares = decided.clone();
        let is_out = |place: usize| self.up.contains(&true) && !(self.up[place] && self.decided[place]);
        let is_down = |place: usize| self.exhausted.contains_key(&place) || is_out(place);
        let down: HashSet<&ClusterName> =
            (0..self.names.len()).filter(|place| is_down(*place)).map(|place| &self.names[place]).collect();
        for cluster in &down {
            shares.accepted.insert((*cluster).clone(), AcceptedShare::NONE);
        }
        if !down.is_empty() {
            shares.pins.retain(|_, held| !down.contains(held));
        }
        shares
    }
}

/// Whether one of these is up, or unknown, and not closed; of those that were never judged, while none is, nothing can be
/// said.
fn answerable(seats: &[Seat], snapshot: &Snapshot, runtime: &RuntimeState) -> Option<bool> {
    let mut is_judged = true;
    let is_closed = |(pool, number): (usize, u8)| snapshot.steer_pools()[pool].is_closed(number, runtime);
    for seat in seats.iter().filter(|seat| !seat.scheduled.is_some_and(is_closed)) {
        match runtime.health(seat.target).eligibility() {
            Eligibility::Up | Eligibility::Unknown => return Some(true),
            Eligibility::Pending => is_judged = false,
            Eligibility::Down | Eligibility::Out => {}
        }
    }
    is_judged.then_some(false)
}

/// Pools that heed load, with their places in the snapshot.
pub(super) fn balanced_pools(snapshot: &Snapshot) -> impl Iterator<Item = (usize, &SteerPool)> {
    snapshot.steer_pools().iter().enumerate().filter(|(_, pool)| pool.is_balanced())
}

/// What there is to balance; none where no pool heeds load.
///
/// Clusters without capacity cannot be compared: they take everything.
pub(super) fn settings(desired: &DesiredState, snapshot: &Snapshot) -> Option<Settings> {
    // Pools are many, and mostly none of them heeds load.
    if !snapshot.heeds_load() {
        return None;
    }
    let used: HashSet<&ClusterName> = balanced_pools(snapshot).flat_map(|(_, pool)| pool.clusters()).collect();
    let names: BTreeSet<&ClusterName> = used.into_iter().collect();
    let declared = |name: &ClusterName| {
        let capacity = desired.clusters.get(name)?.capacity?;
        let aim = desired.load_bounds.get(name).copied().unwrap_or_default();
        let (soft, hard) = (aim.target(), aim.limit());
        Some(Declared { name: name.clone(), capacity, soft, hard, split: capacity })
    };
    let clusters: Vec<Declared> = names.iter().filter_map(|name| declared(name)).collect();
    let ttl = balanced_pools(snapshot).map(|(place, _)| snapshot.pool_infos()[place].ttl_max()).max()?;
    let feeds = names.iter().filter_map(|name| desired.cluster_load_sources.get(*name));
    let periods = feeds.filter_map(|feed| desired.load_sources.get(&feed.source)).map(|source| source.period);
    let period = periods.max().unwrap_or(Duration::from_secs(10));
    let ttl = Duration::from_secs(u64::from(ttl.secs().max(1)));
    (!clusters.is_empty()).then_some(Settings { clusters, period, ttl, sampled: 1 })
}

/// How many periods long the word counts that a cluster is exhausted.
const PERIODS_HELD: u32 = 3;
