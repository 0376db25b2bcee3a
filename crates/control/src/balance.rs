//! Balancing in the daemon: reports of load, who asks, and health go in; shares come out and into the runtime state.
//!
//! What is decided is `fairway_health::balance`; where a client would be sent under other shares is asked of the very code
//! that answers. Nothing runs unless a pool's policy says `load`, and somebody tells the load of one of its clusters: else
//! there would be nothing to go by, and pools go by their other steps.
//!
//! Where several servers share a store, one decides for all of them (`lead`); the others learn and decide all the same, to go on by
//! themselves where they are cut off, or to lead.
//!
//! ```text
//!            ┌── idle ◄─────────── stepped ───────────┐
//!  reports ─►│ who asked, health ──── begin ──► a step, on a thread of its own
//!            └── what comes meanwhile waits
//! ```

mod clusters;
mod lead;
mod learnt;
mod past;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_health::{
    balance::{Balancer, Caution, Drain, Settings},
    load::LoadUpdate,
};
use fairway_model::{ClusterName, DesiredState, PoolName, Shares, Timestamp};
use fairway_zones::{Asked, RuntimeState, Snapshot};
use tokio::task::{JoinHandle, spawn_blocking};

pub(crate) use self::lead::Decides;
pub(crate) use self::lead::Lead;
use self::{
    clusters::{Clusters, balanced_pools, settings},
    learnt::{Learnt, Places, Step},
    past::Past,
};
use super::truth::Answered;
use fairway_store::{Leadership, SavedBalance, encode_decision};

/// Balances the clusters of pools that heed load; nothing where there are none.
#[derive(Default)]
pub struct Balance {
    running: Option<Running>,
    /// Whether anybody told a load since the start: what is pushed is not foreseen by the configuration.
    told: bool,
    /// What a process before this one had learnt, and the time by the clock that it was left in.
    past: Option<(SavedBalance, Timestamp)>,
    /// When what was learnt is to be kept next.
    next_keep: Option<Instant>,
    lead: Lead,
}

/// What runs while there is something to balance.
struct Running {
    settings: Settings,
    places: Arc<Places>,
    clusters: Clusters,
    work: Work,
    /// Reports that came while a step ran, with their times.
    waiting: Vec<(LoadUpdate, Instant)>,
    /// What the last step decided.
    decided: Shares,
    next_step: Instant,
    caution: Caution,
    /// When a report came last.
    heard: Option<Instant>,
}

/// What was learnt is here, or where a step decides from it.
enum Work {
    Idle(Box<Learnt>),
    Stepping(JoinHandle<Learnt>),
    /// On the way from one to the other.
    Between,
}

impl Balance {
    /// Goes on from what a process before this one had learnt, if anything and if it is not too old; `now` by the clock.
    pub fn after(past: Option<SavedBalance>, now: Timestamp) -> Self {
        Self { past: past.map(|past| (past, now)), ..Self::default() }
    }

    /// Follows a configuration: what is learnt goes on where the clusters are the same. No step may run: see
    /// [`Balance::stepped`].
    pub fn follow(&mut self, desired: &DesiredState, snapshot: &Snapshot, now: Instant) {
        let settings = settings(desired, snapshot);
        let is_read =
            |settings: &Settings| settings.clusters.iter().any(|c| desired.cluster_load_sources.contains_key(&c.name));
        let Some(settings) = settings.filter(|settings| self.told || is_read(settings)) else {
            self.running = None;
            return;
        };
        let before = self.running.take();
        let mut running = match before {
            Some(before) if before.settings == settings => before,
            Some(before) => Running::new(settings, before.past(), snapshot, now),
            None => {
                let past = self.past.take().and_then(|(kept, now)| Past::of(kept, now, &settings, snapshot));
                Running::new(settings, past, snapshot, now)
            }
        };
        running.find_again(snapshot);
        self.running = Some(running);
    }

    /// Whether there is anything to balance.
    pub fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// Whether a step runs: until it ends, nothing can be asked of what was learnt.
    pub fn is_stepping(&self) -> bool {
        self.running.as_ref().is_some_and(|running| matches!(running.work, Work::Stepping(_)))
    }

    /// Notes that somebody tells a load; whether there may be something to balance from now on, so that the configuration
    /// is to be followed again.
    pub fn note_told(&mut self) -> bool {
        !std::mem::replace(&mut self.told, true) && self.running.is_none()
    }

    /// Takes a report.
    pub fn hear(&mut self, news: LoadUpdate, now: Instant) {
        let Some(running) = &mut self.running else { return };
        let Some(place) = running.places.clusters.get(&news.report.cluster) else { return };
        running.clusters.hear(*place, &news, now);
        running.heard = Some(now);
        match &mut running.work {
            Work::Idle(learnt) => learnt.hear(&news, now),
            // A step takes a part of a period: these are a report or two a cluster.
            _ if running.waiting.len() < WAITING_MAX => running.waiting.push((news, now)),
            _ => {}
        }
    }

    /// Takes who asked since the last call; what is asked while a step runs waits with those who answer.
    pub fn asked(&mut self, asked: &Asked, snapshot: &Snapshot, now: Instant) {
        let Some(running) = &mut self.running else { return };
        if let Work::Idle(learnt) = &mut running.work {
            learnt.asked(asked, &running.places, snapshot, now);
        }
    }

    /// Replaces counts of answers by the demand that goes to each member, in pools that are balanced. No step may run.
    pub fn weigh(&self, answered: &mut Answered, snapshot: &Snapshot, runtime: &RuntimeState) {
        let Some(Running { work: Work::Idle(learnt), places, .. }) = &self.running else { return };
        let weighed = learnt.weigh(places, snapshot, runtime);
        let pools: BTreeSet<PoolName> = weighed.keys().map(|slot| slot.pool.clone()).collect();
        answered.retain(|slot, _| !pools.contains(&slot.pool));
        answered.extend(weighed);
    }

    /// Looks which clusters came or went, and begins a step where one did or where it is time.
    ///
    /// `runtime` is what is to be served next, with the health of now; what is returned takes its place.
    pub fn look(
        &mut self,
        snapshot: &Arc<Snapshot>,
        runtime: &Arc<RuntimeState>,
        now: Instant,
    ) -> Option<RuntimeState> {
        let running = self.running.as_mut()?;
        let turned = running.clusters.look(snapshot, runtime, now);
        if let Work::Idle(learnt) = &mut running.work {
            turned.iter().for_each(|(place, up)| learnt.balancer.available(*place, *up, now));
        }
        let changed = (!turned.is_empty()).then(|| running.share(&self.lead, snapshot, runtime)).flatten();
        if !turned.is_empty() || now >= running.next_step {
            running.next_step = now + running.settings.period;
            running.begin(snapshot, runtime, now);
        }
        changed
    }

    /// Clusters whose gateways drain or are overloaded.
    pub fn exhausted(&self) -> impl Iterator<Item = &ClusterName> {
        self.running.iter().flat_map(|running| running.clusters.exhausted())
    }

    /// How much TTLs should leave to the next minutes, as the last step saw it; where nothing is balanced, as declared.
    pub fn caution(&self) -> Caution {
        match (&self.lead, &self.running) {
            (_, None) => Caution::Ordinary,
            (Lead::Follows(_, caution), _) => *caution,
            (_, Some(running)) => running.caution,
        }
    }

    /// Takes what is on the board of those that share the store; whether there may be something to balance from now on, so that the
    /// configuration is to be followed again.
    pub fn take_posted(&mut self, posted: &Leadership) -> bool {
        self.lead = Lead::of(posted);
        matches!(self.lead, Lead::Follows(..)) && self.note_told()
    }

    /// Whose decisions hold.
    pub fn lead(&self) -> &Lead {
        &self.lead
    }

    /// What others are to follow, if they follow this server: what the last step decided; nothing without a report of late.
    pub fn offer(&self, now: Instant) -> Option<Arc<[u8]>> {
        let running = self.running.as_ref()?;
        let oldest = running.settings.period * PERIODS_HEARD;
        running.heard.filter(|heard| now.saturating_duration_since(*heard) < oldest)?;
        Some(encode_decision(&running.decided, running.caution).into())
    }

    /// How far the drain of a cluster is; none where it is not balanced, or while a step runs.
    pub fn drain(&self, cluster: &ClusterName, now: Instant) -> Option<Drain> {
        let Some(Running { work: Work::Idle(learnt), places, .. }) = &self.running else { return None };
        places.clusters.get(cluster).map(|place| learnt.balancer.drain(*place, now))
    }

    /// What a process after this one should find; nothing while a step runs.
    pub fn keep(&self, now: Timestamp) -> Option<SavedBalance> {
        let Some(Running { work: Work::Idle(learnt), .. }) = &self.running else { return None };
        Some(past::keep(learnt, now))
    }

    /// Whether what was learnt should be kept now: once a report period, and every ten seconds at most.
    pub fn is_keeping_due(&mut self, now: Instant) -> bool {
        let Some(running) = &self.running else { return false };
        if self.next_keep.is_some_and(|next| now < next) {
            return false;
        }
        self.next_keep = Some(now + running.settings.period.max(KEEP_PERIOD));
        true
    }

    /// Waits for the step that runs; for ever where none does. Nothing is lost where this is not waited for to the end.
    pub async fn stepped(&mut self) {
        let Some(Running { work: Work::Stepping(step), .. }) = &mut self.running else {
            return std::future::pending().await;
        };
        let ended = step.await;
        if let Some(running) = &mut self.running {
            running.end(ended.ok());
        }
    }

    /// Waits for the step that runs, if one does.
    pub async fn rest(&mut self) {
        if self.is_stepping() {
            self.stepped().await;
        }
    }

    /// The runtime state under what was decided last by whom this server goes, if it differs.
    pub fn share(&self, snapshot: &Snapshot, runtime: &RuntimeState) -> Option<RuntimeState> {
        self.running.as_ref()?.share(&self.lead, snapshot, runtime)
    }
}

impl Running {
    /// Goes on from what another balance of other clusters has learnt.
    fn new(settings: Settings, past: Option<Past>, snapshot: &Snapshot, now: Instant) -> Self {
        let balancer = Balancer::new(settings.clone(), now, past.as_ref().map(|past| &past.learnt));
        let clients = past.map(|past| past.clients).unwrap_or_default();
        Self {
            clusters: Clusters::new(&settings, snapshot),
            decided: balancer.shares().clone(),
            work: Work::Idle(Box::new(Learnt { balancer, clients })),
            settings,
            places: Arc::default(),
            waiting: vec![],
            next_step: now,
            caution: Caution::Ordinary,
            heard: None,
        }
    }

    /// What others can go on from.
    fn past(self) -> Option<Past> {
        let Work::Idle(learnt) = self.work else { return None };
        Some(Past { learnt: learnt.balancer.keep(), clients: learnt.clients })
    }

    /// Finds everything again in a snapshot.
    fn find_again(&mut self, snapshot: &Snapshot) {
        let pools = balanced_pools(snapshot).map(|(place, pool)| (pool.key(), place)).collect();
        self.places = Arc::new(Places { pools, clusters: self.clusters.places() });
        self.clusters.find_targets(snapshot);
        if let Work::Idle(learnt) = &mut self.work {
            learnt.find_clients_again(&self.places, snapshot);
        }
    }

    /// Begins a step, unless one runs.
    fn begin(&mut self, snapshot: &Arc<Snapshot>, runtime: &Arc<RuntimeState>, now: Instant) {
        self.work = match std::mem::replace(&mut self.work, Work::Between) {
            Work::Idle(learnt) => {
                self.clusters.step_begins();
                let (places, snapshot, runtime) = (Arc::clone(&self.places), Arc::clone(snapshot), Arc::clone(runtime));
                let step = Step { learnt: *learnt, places, snapshot, runtime, now };
                Work::Stepping(spawn_blocking(|| step.run()))
            }
            stepping => {
                // What turned meanwhile is told to it when it ends, and then it decides again.
                self.next_step = now;
                stepping
            }
        };
    }

    /// Takes what a step leaves; one that was lost with its thread leaves nothing, and everything is learnt anew.
    fn end(&mut self, learnt: Option<Learnt>) {
        let now = Instant::now();
        let mut learnt = learnt.unwrap_or_else(|| {
            tracing::error!(
                "load balancing failed and restarts from the declared weights; please report this as a bug"
            );
            Learnt { balancer: Balancer::new(self.settings.clone(), now, None), clients: HashMap::new() }
        });
        for (news, at) in self.waiting.drain(..) {
            learnt.hear(&news, at);
        }
        // Those that did not turn are passed over.
        self.clusters.all_up().for_each(|(place, up)| learnt.balancer.available(place, up, now));
        self.decided = learnt.balancer.shares().clone();
        self.caution = learnt.balancer.caution(now);
        self.clusters.step_ended();
        self.work = Work::Idle(Box::new(learnt));
    }

    fn share(&self, lead: &Lead, snapshot: &Snapshot, runtime: &RuntimeState) -> Option<RuntimeState> {
        let decided = if let Lead::Follows(shares, _) = lead { shares } else { &self.decided };
        let shares = self.clusters.without_those_down(decided);
        let same = runtime.shares().map_or_else(|| shares == Shares::default(), |before| **before == shares);
        (!same).then(|| runtime.with_shares(snapshot, &Arc::new(shares)))
    }
}

/// Report periods without a report after which a server leads no others: three, as a report holds.
const PERIODS_HEARD: u32 = 3;
/// What was learnt is written at most this often.
const KEEP_PERIOD: Duration = Duration::from_secs(10);
/// Most reports that wait for the end of a step: the gateways' next words say more than lost ones did.
const WAITING_MAX: usize = 4096;
