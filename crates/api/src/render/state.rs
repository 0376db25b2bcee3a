//! Renders `/v1/state`: what is configured, measured and answered.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::SystemTime,
};

use fairway_api_types::state_wire::{
    self, AddressState, BalanceState, ClusterState, ConfigState, DrainState, ListenerState, MemberState, PoolState,
    ShareState, State, StoreState, WeightFrom, ZoneState,
};
use fairway_control::{
    Control, ControlError, CurrentState, Published, Readiness, Shared,
    drains::Drains,
    overrides::{ActiveOverride, OverrideTable},
    uses::ClusterAddress,
};
use fairway_health::{HistoryEntry, TargetState, load::ClusterLoad};
use fairway_model::{
    AcceptedShare, AdaptiveTtl, Cluster, ClusterName, DesiredState, Eligibility, Health, HealthStatus, Member, Name,
    OverrideAction, Permille, Pool, PoolName, Target, Timestamp, WeightOrigin,
};
use fairway_zones::{ServingState, TargetIndex};

use super::{eligibility_word, load::add_loads, override_state, percent, reload_report, shares::add_shares};

/// Returns everything that `/v1/state` shows. The control task is not asked, since it may be busy.
pub async fn state(control: &Control) -> Result<State, ControlError> {
    let shared = Arc::clone(control.shared());
    let current = shared.serving.load();
    let states = shared.probes.checker.states().await;
    let (loads, _) = shared.probes.loads.states();
    // 10,000 targets with their history take some milliseconds.
    let render = move || render(&shared, &current, &states, &loads);
    tokio::task::spawn_blocking(render).await.map_err(|_| ControlError::Stopped)
}

fn render(shared: &Shared, current: &CurrentState, states: &[TargetState], loads: &[ClusterLoad]) -> State {
    let now = Timestamp::from(SystemTime::now());
    let (lifecycle, serving, published) = (&shared.lifecycle, &current.serving, &*current.published);
    let readiness = *lifecycle.readiness.borrow();
    let configured = &published.configured;
    let desired = &configured.merged.desired;
    let renderer = Renderer::new(serving, published, states);
    let mut clusters: Vec<_> = desired.clusters.values().map(cluster).collect();
    add_load_bounds(&mut clusters, desired);
    add_loads(&mut clusters, loads);
    add_accepted_shares(&mut clusters, serving);
    add_drains(&mut clusters, &shared.balance.drains.load());
    let mut pools: Vec<_> = desired.pools.values().map(|pool| renderer.pool(pool)).collect();
    add_shares(&mut pools, desired, &shared.balance.answered.load(), loads);
    let listeners = lifecycle.listeners.get().into_iter().flatten();
    let overrides = published.overrides.all().map(|(id, spec)| ActiveOverride::new(id, spec, &configured.uses));
    State {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        now: now.to_string(),
        started_at: lifecycle.started.to_string(),
        uptime_secs: now.since(lifecycle.started).as_secs(),
        ready: readiness == Readiness::Ready,
        not_ready: readiness.reason().to_owned(),
        config: ConfigState {
            source: lifecycle.source.clone(),
            generation: published.generation,
            loaded_at: published.loaded_at.to_string(),
            snapshot: format!("{:016x}", serving.snapshot.id()),
            runtime_state: format!("{:016x}", serving.runtime.id()),
            stale: published.stale,
            last_reload: published.last_reload.as_ref().map(reload_report),
            warnings: configured.warnings.iter().map(ToString::to_string).collect(),
        },
        store: store(shared),
        balance: balance(shared, serving),
        listeners: listeners
            .map(|listener| ListenerState { kind: listener.kind.to_owned(), address: listener.address.clone() })
            .collect(),
        zones: renderer.zones(),
        clusters,
        pools,
        targets: renderer.targets(),
        overrides: overrides.map(|active| override_state(&active)).collect(),
        conflicts: configured.merged.conflicts.values().cloned().collect(),
    }
}

/// Returns the state of the store of declared objects, if there is one.
fn store(shared: &Shared) -> Option<StoreState> {
    let status = shared.declarations.objects.get()?.as_ref().ok()?.store().status();
    let (unavailable_since, error) = status.outage.map(|outage| (outage.since.to_string(), outage.reason)).unzip();
    Some(StoreState {
        kind: status.kind.to_string(),
        endpoint: status.endpoint,
        revision: status.revision,
        served: *shared.declarations.served.borrow(),
        behind: status.latest.saturating_sub(status.revision),
        unavailable_since,
        error,
    })
}

/// Returns the role of this server in balancing, if anything is balanced.
fn balance(shared: &Shared, serving: &ServingState) -> Option<BalanceState> {
    let epoch = serving.runtime.shares().map_or(0, |shares| shares.epoch);
    serving.snapshot.uses_load().then(|| {
        let leader = shared.balance.leader.load();
        BalanceState { role: leader.role.to_owned(), reason: leader.reason.as_deref().map(str::to_owned), epoch }
    })
}

/// Adds the declared bounds of load to clusters, which are in order of their names.
fn add_load_bounds(clusters: &mut [ClusterState], desired: &DesiredState) {
    let percent = |part: Permille| percent(f64::from(part.thousandths()) / 1000.0);
    for (state, cluster) in clusters.iter_mut().zip(desired.clusters.values()).filter(|(_, c)| c.capacity.is_some()) {
        let bounds = desired.load_bounds.get(&cluster.name).copied().unwrap_or_default();
        state.target = Some(percent(bounds.target()));
        state.limit = Some(percent(bounds.limit()));
    }
}

/// Adds the progress of drains to clusters, which are in order of their names.
fn add_drains(clusters: &mut [ClusterState], drains: &Drains) {
    for (name, drain) in drains {
        if let Ok(at) = clusters.binary_search_by(|cluster| cluster.name.as_str().cmp(name.as_str())) {
            clusters[at].drain = Some(DrainState {
                since: format!("{:.3}", drain.since),
                over: format!("{:.3}", drain.over),
                left: drain.left.map(percent),
            });
        }
    }
}

/// Adds the accepted shares to clusters.
fn add_accepted_shares(clusters: &mut [ClusterState], serving: &ServingState) {
    let shares = serving.runtime.shares();
    let percent = |part: u16| percent(f64::from(part) / f64::from(u16::MAX));
    for cluster in clusters {
        let accepted = shares.and_then(|shares| shares.accepted.iter().find(|(name, _)| name.as_str() == cluster.name));
        let accepted = accepted.map_or(AcceptedShare::ALL, |(_, accepted)| *accepted);
        cluster.accepts_local = percent(accepted.local);
        cluster.accepts_overflow = percent(accepted.overflow);
    }
}

/// The data that pools, zones and targets are rendered from.
struct Renderer<'a> {
    serving: &'a ServingState,
    published: &'a Published,
    states: HashMap<&'a Target, &'a TargetState>,
    /// Names of each pool.
    names: HashMap<&'a PoolName, Vec<String>>,
    /// Adaptive TTLs of pools with bounds.
    ttls: HashMap<&'a PoolName, AdaptiveTtl>,
    /// Origins of the weights of contributed members.
    origins: HashMap<(&'a PoolName, &'a ClusterName), &'a WeightOrigin>,
}

impl<'a> Renderer<'a> {
    fn new(serving: &'a ServingState, published: &'a Published, states: &'a [TargetState]) -> Self {
        let mut names: HashMap<&PoolName, Vec<String>> = HashMap::new();
        for name in published.configured.merged.desired.names.values() {
            names.entry(&name.pool).or_default().push(name.name.to_string());
        }
        let infos = serving.snapshot.pool_infos().iter().enumerate().filter(|(_, info)| info.bounds.is_some());
        let members = published.configured.contributed_members();
        Self {
            serving,
            published,
            states: states.iter().map(|state| (&state.target, state)).collect(),
            names,
            ttls: infos.map(|(number, info)| (&info.name, serving.runtime.adaptive_ttl(number))).collect(),
            origins: members.map(|of| ((&of.pool.name, &of.member.cluster), of.origin)).collect(),
        }
    }
}

impl Renderer<'_> {
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
        let mut zones: Vec<_> = self.serving.snapshot.zones().map(zone).collect();
        zones.sort_by(|a, b| a.name.cmp(&b.name));
        zones
    }

    fn pool(&self, pool: &Pool) -> PoolState {
        let adaptive = self.ttls.get(&pool.name).copied().unwrap_or_default();
        let ttl = pool.ttl_bounds.map_or(pool.ttl, |bounds| adaptive.ttl(pool.ttl, bounds));
        PoolState {
            name: pool.name.to_string(),
            policy: pool.policy.to_string(),
            ttl: ttl.secs(),
            ttl_reason: adaptive.reason().to_owned(),
            names: self.names.get(&pool.name).cloned().unwrap_or_default(),
            members: pool.members.iter().map(|member| self.member(pool, member)).collect(),
        }
    }

    fn member(&self, pool: &Pool, member: &Member) -> MemberState {
        let addresses =
            self.published.configured.merged.desired.clusters.get(&member.cluster).map(|c| &c.addresses[..]);
        let addresses = addresses.unwrap_or_default().iter().map(|address| (member.cluster.clone(), *address));
        let shown: Vec<(Eligibility, AddressState)> = addresses.map(|address| self.address(pool, &address)).collect();
        let best = shown.iter().map(|(eligibility, _)| *eligibility).min().unwrap_or(Eligibility::Pending);
        let schedule = self.serving.runtime.schedule(&self.serving.snapshot, &pool.name, &member.cluster);
        let is_closed = schedule.is_some_and(|schedule| !schedule.state.open);
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
            eligibility: if is_closed { "closed" } else { eligibility_word(best) }.to_owned(),
            schedule: schedule.map(ToString::to_string),
            share: ShareState::default(),
            addresses: shown.into_iter().map(|(_, state)| state).collect(),
        }
    }

    /// Renders one address of a member. Of several targets, the best one is shown.
    fn address(&self, pool: &Pool, address: &ClusterAddress) -> (Eligibility, AddressState) {
        let targets: Vec<TargetIndex> = self.published.configured.uses.targets(&pool.name, address).collect();
        let best = targets.iter().copied().min_by_key(|target| self.serving.runtime.health(*target).eligibility());
        let health = best.map_or(Health::PENDING, |target| self.serving.runtime.health(target));
        let reason = match best {
            None => "no name uses the pool, so it is not probed".to_owned(),
            Some(target) => self.reason(target, health, address),
        };
        let state = AddressState {
            address: address.1.to_string(),
            eligibility: eligibility_word(health.eligibility()).to_owned(),
            reason,
            targets: targets.iter().map(|target| target.0 as usize).collect(),
        };
        (health.eligibility(), state)
    }

    fn reason(&self, target: TargetIndex, health: Health, address: &ClusterAddress) -> String {
        if let Some(action) = health.override_action() {
            return override_reason(action, &self.published.overrides, address);
        }
        let state = self.states.get(&self.serving.snapshot.targets()[target.0 as usize]);
        let cause = state.and_then(|state| state.last_cause.as_ref().map(ToString::to_string));
        let since = state.map(|state| Timestamp::from(state.since));
        match (health.status(), since) {
            (HealthStatus::Pending, _) => {
                cause.map_or_else(|| "not evaluated yet".to_owned(), |cause| format!("not evaluated yet: {cause}"))
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
        numbers.zip(self.serving.snapshot.targets()).map(|(number, target)| self.target(number, target)).collect()
    }

    fn target(&self, number: TargetIndex, target: &Target) -> state_wire::TargetState {
        let uses = &self.published.configured.uses;
        let health = self.serving.runtime.health(number);
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

/// Returns the action of an override with its reason and expiry. An address may be overridden because it shares a target with another one.
fn override_reason(action: OverrideAction, overrides: &OverrideTable, address: &ClusterAddress) -> String {
    match overrides.matching(address) {
        Some(spec) => format!("override {action} until {}: {}", spec.expires, spec.reason),
        None => format!("override {action} of another address with the same target"),
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
