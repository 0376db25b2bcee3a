//! What a running daemon says of itself: `/v1/state`.

use std::collections::{BTreeMap, HashMap};

use fairway_health::{HistoryEntry, TargetState, load::ClusterLoad};
use fairway_model::{
    AcceptedShare, AdaptiveTtl, Cluster, ClusterName, DesiredState, Eligibility, Health, HealthStatus, Member, Name,
    OverrideAction, Permille, Pool, PoolName, Target, Timestamp, WeightOrigin,
};
use fairway_zones::{ServingState, TargetIndex};

use super::{
    book::Book,
    command,
    drains::Drains,
    load,
    shared::{Published, Readiness, Shared},
    truth,
    uses::Site,
};
use fairway_api_types::state_wire::{
    self, AddressState, BalanceState, ClusterState, ConfigState, DrainState, MemberState, PoolState, ShareState, State,
    StoreState, WeightFrom, ZoneState,
};

/// Writes out everything there is to show.
pub(crate) fn render(
    shared: &Shared,
    view: &ServingState,
    published: &Published,
    states: &[TargetState],
    loads: &[ClusterLoad],
) -> State {
    let now = Timestamp::from(std::time::SystemTime::now());
    let readiness = *shared.readiness.borrow();
    let configured = &published.configured;
    let mut names: HashMap<&PoolName, Vec<String>> = HashMap::new();
    for name in configured.merged.desired.names.values() {
        names.entry(&name.pool).or_default().push(name.name.to_string());
    }
    let states = states.iter().map(|state| (&state.target, state)).collect();
    let mut clusters: Vec<_> = configured.merged.desired.clusters.values().map(cluster).collect();
    aimed(&mut clusters, &configured.merged.desired);
    load::add(&mut clusters, loads);
    accepted(&mut clusters, view);
    drained(&mut clusters, &shared.drains.load());
    let infos = view.snapshot.pool_infos().iter().enumerate().filter(|(_, info)| info.bounds.is_some());
    let paces = infos.map(|(place, info)| (&info.name, view.runtime.pace(place))).collect();
    let origins = configured.origins().map(|it| ((&it.pool.name, &it.member.cluster), it.origin)).collect();
    let page = Page { view, published, states, names, paces, origins };
    let mut pools: Vec<_> = configured.merged.desired.pools.values().map(|pool| page.pool(pool)).collect();
    truth::add(&mut pools, &configured.merged.desired, &shared.answered.load(), loads);
    State {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        now: now.to_string(),
        started_at: shared.started.to_string(),
        uptime_secs: now.since(shared.started).as_secs(),
        ready: readiness == Readiness::Ready,
        not_ready: readiness.reason().to_owned(),
        config: ConfigState {
            source: shared.source.clone(),
            generation: published.generation,
            loaded_at: published.loaded_at.to_string(),
            snapshot: format!("{:016x}", view.snapshot.id()),
            runtime_state: format!("{:016x}", view.runtime.id()),
            stale: published.stale,
            last_reload: published.last_reload.clone(),
            warnings: configured.warnings.iter().map(ToString::to_string).collect(),
        },
        store: store(shared),
        balance: balance(shared, view),
        listeners: shared.listeners.get().cloned().unwrap_or_default(),
        zones: page.zones(),
        clusters,
        pools,
        targets: page.targets(),
        overrides: published.book.all().map(|(id, said)| command::shown(id, said, &configured.uses)).collect(),
        conflicts: configured.merged.conflicts.values().cloned().collect(),
    }
}

/// The store of declared objects, if there is one.
fn store(shared: &Shared) -> Option<StoreState> {
    let status = shared.objects.get()?.as_ref().ok()?.store().status();
    let (unavailable_since, error) = status.outage.map(|outage| (outage.since.to_string(), outage.reason)).unzip();
    Some(StoreState {
        kind: status.kind.to_string(),
        endpoint: status.endpoint,
        revision: status.revision,
        served: *shared.served.borrow(),
        behind: status.latest.saturating_sub(status.revision),
        unavailable_since,
        error,
    })
}

/// Whose decisions of balancing hold, where anything is balanced.
fn balance(shared: &Shared, view: &ServingState) -> Option<BalanceState> {
    let epoch = view.runtime.shares().map_or(0, |shares| shares.epoch);
    view.snapshot.heeds_load().then(|| {
        let decides = shared.decides.load();
        BalanceState { role: decides.lead.to_owned(), reason: decides.reason.as_deref().map(str::to_owned), epoch }
    })
}

/// Adds to clusters in order of name how far they are loaded on purpose.
fn aimed(clusters: &mut [ClusterState], desired: &DesiredState) {
    let percent = |part: Permille| f64::from(part.thousandths()) / 10.0;
    for (state, cluster) in clusters.iter_mut().zip(desired.clusters.values()).filter(|(_, c)| c.capacity.is_some()) {
        let aim = desired.load_bounds.get(&cluster.name).copied().unwrap_or_default();
        (state.target, state.limit) = (Some(percent(aim.target())), Some(percent(aim.limit())));
    }
}

/// Adds to clusters that are taken out until when clients are still there.
fn drained(clusters: &mut [ClusterState], drains: &Drains) {
    for (name, drain) in drains {
        if let Ok(place) = clusters.binary_search_by(|cluster| cluster.name.as_str().cmp(name.as_str())) {
            clusters[place].drain = Some(DrainState {
                since: format!("{:.3}", drain.since),
                over: format!("{:.3}", drain.over),
                left: drain.left.map(|left| (1000.0 * left).round() / 10.0),
            });
        }
    }
}

/// Adds to clusters how much of their traffic they take.
fn accepted(clusters: &mut [ClusterState], view: &ServingState) {
    let shares = view.runtime.shares();
    let percent = |part: u16| (f64::from(part) / f64::from(u16::MAX) * 1000.0).round() / 10.0;
    for cluster in clusters {
        let taken = shares.and_then(|shares| shares.accepted.iter().find(|(name, _)| name.as_str() == cluster.name));
        let taken = taken.map_or(AcceptedShare::ALL, |(_, taken)| *taken);
        (cluster.accepts_local, cluster.accepts_overflow) = (percent(taken.local), percent(taken.overflow));
    }
}

impl Readiness {
    /// Why not to be asked; empty when ready.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Starting => "the first round of probes is not done",
            Self::Ready => "",
            Self::Draining => "fairway is stopping",
        }
    }
}

/// What one page of state is written from.
struct Page<'a> {
    view: &'a ServingState,
    published: &'a Published,
    states: HashMap<&'a Target, &'a TargetState>,
    /// The names that each pool answers.
    names: HashMap<&'a PoolName, Vec<String>>,
    /// Which TTL each pool answers with, where that is not its own.
    paces: HashMap<&'a PoolName, AdaptiveTtl>,
    /// Where the weights of members come from that are not declared.
    origins: HashMap<(&'a PoolName, &'a ClusterName), &'a WeightOrigin>,
}

impl Page<'_> {
    fn zones(&self) -> Vec<ZoneState> {
        let desired = &self.published.configured.merged.desired;
        let mut names: BTreeMap<&Name, Vec<String>> = BTreeMap::new();
        for name in desired.names.keys() {
            if let Some(zone) = desired.zone_of(name) {
                names.entry(&zone.name).or_default().push(name.to_string());
            }
        }
        let zone = |info: fairway_zones::ZoneInfo| ZoneState {
            name: info.origin.to_string(),
            serial: Some(info.serial),
            records: info.records,
            names: names.remove(&info.origin).unwrap_or_default(),
        };
        let mut zones: Vec<_> = self.view.snapshot.zones().map(zone).collect();
        zones.sort_by(|a, b| a.name.cmp(&b.name));
        zones
    }

    fn pool(&self, pool: &Pool) -> PoolState {
        let pace = self.paces.get(&pool.name).copied().unwrap_or_default();
        let ttl = pool.ttl_bounds.map_or(pool.ttl, |bounds| pace.ttl(pool.ttl, bounds));
        PoolState {
            name: pool.name.to_string(),
            policy: pool.policy.to_string(),
            ttl: ttl.secs(),
            ttl_reason: pace.reason().to_owned(),
            names: self.names.get(&pool.name).cloned().unwrap_or_default(),
            members: pool.members.iter().map(|member| self.member(pool, member)).collect(),
        }
    }

    fn member(&self, pool: &Pool, member: &Member) -> MemberState {
        let addresses =
            self.published.configured.merged.desired.clusters.get(&member.cluster).map(|c| &c.addresses[..]);
        let sites = addresses.unwrap_or_default().iter().map(|address| (member.cluster.clone(), *address));
        let shown: Vec<(Eligibility, AddressState)> = sites.map(|site| self.address(pool, &site)).collect();
        let best = shown.iter().map(|(standing, _)| *standing).min().unwrap_or(Eligibility::Pending);
        let schedule = self.view.runtime.schedule(&self.view.snapshot, &pool.name, &member.cluster);
        let is_closed = schedule.is_some_and(|schedule| !schedule.turn.open);
        MemberState {
            cluster: member.cluster.to_string(),
            weight: member.weight.0,
            weight_from: self.origins.get(&(&pool.name, &member.cluster)).map(|origin| WeightFrom {
                owner: origin.owner.to_string(),
                set: origin.set.to_string(),
                declared: origin.weight.map(|weight| weight.0),
                lease_weight: f64::from(origin.lease_weight.thousandths()) / 1000.0,
            }),
            tier: member.tier.number(),
            eligibility: if is_closed { "closed" } else { word(best) }.to_owned(),
            schedule: schedule.map(ToString::to_string),
            share: ShareState::default(),
            addresses: shown.into_iter().map(|(_, state)| state).collect(),
        }
    }

    /// How one address of a member stands. Judged by several targets, the best of them is shown.
    fn address(&self, pool: &Pool, site: &Site) -> (Eligibility, AddressState) {
        let targets: Vec<TargetIndex> = self.published.configured.uses.targets(&pool.name, site).collect();
        let best = targets.iter().copied().min_by_key(|target| self.view.runtime.health(*target).eligibility());
        let health = best.map_or(Health::PENDING, |target| self.view.runtime.health(target));
        let reason = match best {
            None => "no name uses the pool, so it is not probed".to_owned(),
            Some(target) => self.reason(target, health, site),
        };
        let state = AddressState {
            address: site.1.to_string(),
            eligibility: word(health.eligibility()).to_owned(),
            reason,
            targets: targets.iter().map(|target| target.0 as usize).collect(),
        };
        (health.eligibility(), state)
    }

    fn reason(&self, target: TargetIndex, health: Health, site: &Site) -> String {
        if let Some(forced) = health.override_action() {
            return forced_reason(forced, &self.published.book, site);
        }
        let state = self.states.get(&self.view.snapshot.targets()[target.0 as usize]);
        let cause = state.and_then(|state| state.last_cause.as_ref().map(ToString::to_string));
        let since = state.map(|state| Timestamp::from(state.since));
        match (health.status(), since) {
            (HealthStatus::Pending, _) => {
                cause.map_or_else(|| "never judged".to_owned(), |cause| format!("never judged: {cause}"))
            }
            (status, Some(since)) => match cause {
                Some(cause) => format!("{status} since {since}: {cause}"),
                None => format!("{status} since {since}"),
            },
            (status, None) => status.to_string(),
        }
    }

    fn targets(&self) -> Vec<state_wire::TargetState> {
        let numbers = (0..).map(TargetIndex);
        numbers.zip(self.view.snapshot.targets()).map(|(number, target)| self.target(number, target)).collect()
    }

    fn target(&self, number: TargetIndex, target: &Target) -> state_wire::TargetState {
        let uses = &self.published.configured.uses;
        let health = self.view.runtime.health(number);
        let known = self.states.get(target);
        let moment = |at| Timestamp::from(at).to_string();
        let history = |entry: &HistoryEntry| state_wire::HistoryState {
            at: format!("{:.3}", Timestamp::from(entry.at)),
            to: entry.to.to_string(),
            cause: entry.cause.to_string(),
        };
        state_wire::TargetState {
            address: target.address.to_string(),
            monitor: target.label.to_string(),
            clusters: uses.clusters(number).iter().map(ToString::to_string).collect(),
            pools: uses.pools(number).keys().map(ToString::to_string).collect(),
            status: health.status().to_string(),
            override_action: health.override_action().map(|action| action.to_string()),
            since: known.map(|state| moment(state.since)).unwrap_or_default(),
            streak: known.map_or(0, |state| state.streak),
            last_cause: known.and_then(|state| state.last_cause.as_ref().map(ToString::to_string)),
            last_probe: known.and_then(|state| state.last_probe.map(moment)),
            last_micros: known
                .and_then(|state| state.last_duration.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX))),
            passes: known.map_or(0, |state| state.passes),
            failures: known.map_or(0, |state| state.failures),
            inconclusive: known.map_or(0, |state| state.inconclusive),
            history: known.map(|state| state.history.iter().map(history).collect()).unwrap_or_default(),
        }
    }
}

/// Who forced an address, why, and until when. A target shared with another address may be forced for that one's sake.
fn forced_reason(forced: OverrideAction, book: &Book, site: &Site) -> String {
    match book.speaking_for(site) {
        Some(said) => format!("forced {forced} until {}: {}", said.expires, said.reason),
        None => format!("forced {forced}, since its target is shared with an address that is"),
    }
}

fn cluster(cluster: &Cluster) -> ClusterState {
    ClusterState {
        name: cluster.name.to_string(),
        addresses: cluster.addresses.iter().map(ToString::to_string).collect(),
        dns_name: cluster.dns_name.as_ref().map(ToString::to_string),
        capacity: cluster.capacity,
        region: cluster.location.as_ref().and_then(|location| location.region.clone()),
        ..ClusterState::default()
    }
}

/// A standing in one word.
pub(crate) const fn word(standing: Eligibility) -> &'static str {
    match standing {
        Eligibility::Up => "up",
        Eligibility::Unknown => "unknown",
        Eligibility::Pending => "pending",
        Eligibility::Down => "down",
        Eligibility::Out => "out",
    }
}
