//! Renders `/v1/state`: what is configured, measured and answered.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::SystemTime,
};

use fairway_api_types::state_wire::{
    self, AddressState, BalanceState, ClusterState, ConfigState, DrainState, HostState, LimitState, ListenerState,
    MemberState, PoolState, ProbeState, ShareState, State, StoreState, WeightFrom, ZoneState,
};
use fairway_control::{
    Control, ControlError, CurrentState, Published, Readiness, Shared,
    answers::Answered,
    drains::Drains,
    overrides::{ActiveOverride, OverrideTable},
    uses::ClusterAddress,
};
use fairway_health::{HistoryEntry, TargetState, load::ClusterLoad};
use fairway_hosts::Host;
use fairway_model::{
    AdaptiveTtl, Backend, Cluster, ClusterHost, ClusterName, ContributionProblem, DesiredState, Health, HealthStatus,
    Member, Name, OverrideAction, Permille, Pool, PoolName, SharedMap, Target, Timestamp, WeightOrigin,
};
use fairway_sources::{FoundCluster, SourceStatus, ready_endpoints};
use fairway_zones::{ServingState, TargetIndex};

use crate::state::Operates;

use super::{
    cause, eligibility_word,
    kubernetes::{kubernetes_state, refused, split_problems, weight_factors},
    load_state, member_eligibility, override_state, percent, pool_pin, probe_state, reload_report,
    services::{service_load, service_states},
    shares::{arrived, shares},
    texts, word,
};

/// Returns everything that `/v1/state` shows to a caller with the verb `operate`.
pub async fn state(control: &Control) -> Result<State, ControlError> {
    state_for(Operates(true), control).await
}

/// Returns everything that `/v1/state` shows to a caller. The control task is not asked, since it may be busy.
pub(crate) async fn state_for(operates: Operates, control: &Control) -> Result<State, ControlError> {
    let shared = Arc::clone(control.shared());
    let current = shared.serving.load();
    let states = shared.probes.checker.states().await;
    let (loads, _) = shared.probes.loads.states();
    // 10,000 targets with their history take some milliseconds.
    let render = move || render(operates, &shared, &current, &states, &loads);
    tokio::task::spawn_blocking(render).await.map_err(|_| ControlError::Stopped)
}

fn render(
    operates: Operates,
    shared: &Shared,
    current: &CurrentState,
    states: &[TargetState],
    loads: &[ClusterLoad],
) -> State {
    let now = Timestamp::from(SystemTime::now());
    let (lifecycle, serving, published) = (&shared.lifecycle, &current.serving, &*current.published);
    let readiness = *lifecycle.readiness.borrow();
    let configured = &published.configured;
    let desired = &configured.merged.desired;
    let renderer = Renderer::new(operates, shared, current, states, loads);
    let listeners = lifecycle.listeners.get().into_iter().flatten();
    let overrides = ActiveOverride::all(&published.overrides, configured);
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
            number: published.number,
            loaded_at: published.loaded_at.to_string(),
            snapshot: format!("{:016x}", serving.snapshot.id()),
            runtime_state: format!("{:016x}", serving.runtime.id()),
            stale: published.stale,
            last_reload: published.last_reload.as_ref().map(reload_report),
            warnings: texts(&configured.warnings),
        },
        store: store(shared),
        balance: balance(shared, serving),
        listeners: listeners
            .map(|listener| ListenerState { kind: listener.kind.to_owned(), address: listener.address.clone() })
            .collect(),
        zones: renderer.zones(),
        clusters: desired.clusters.values().map(|cluster| renderer.cluster(cluster)).collect(),
        pools: desired.pools.values().map(|pool| renderer.pool(pool)).collect(),
        targets: renderer.targets(),
        overrides: overrides.iter().map(override_state).collect(),
        conflicts: configured.merged.conflicts.values().cloned().collect(),
    }
}

/// Returns the state of the store of declared objects, if there is one.
fn store(shared: &Shared) -> Option<StoreState> {
    let objects = shared.declarations.objects.get()?.as_ref().ok()?;
    let status = objects.store().status();
    let limits = objects.limiter().uses();
    let (unavailable_since, error) = status.outage.map(|outage| (outage.since.to_string(), outage.reason)).unzip();
    Some(StoreState {
        kind: status.kind.to_string(),
        endpoint: status.endpoint,
        revision: status.revision,
        served: *shared.declarations.served.borrow(),
        behind: status.latest.saturating_sub(status.revision),
        unavailable_since,
        error,
        limits: limits.map(|of| LimitState { name: of.name.to_owned(), used: of.used, limit: of.limit }).into(),
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

/// Returns the first warnings about what Kubernetes objects declare.
fn kubernetes_warnings(published: &Published) -> Vec<ContributionProblem> {
    let all = published.configured.merged.contributed.warnings();
    all.filter(|warning| warning.owner.starts_with("kubernetes:")).take(WARNINGS_MAX).collect()
}

/// Maximum number of these warnings.
const WARNINGS_MAX: usize = 1_000;

/// The data that clusters, pools, zones and targets are rendered from.
struct Renderer<'a> {
    operates: Operates,
    serving: &'a ServingState,
    published: &'a Published,
    desired: &'a DesiredState,
    states: HashMap<&'a Target, &'a TargetState>,
    loads: HashMap<&'a ClusterName, &'a ClusterLoad>,
    drains: Arc<Drains>,
    hosts: SharedMap<Name, Arc<Host>>,
    sources: BTreeMap<ClusterName, SourceStatus>,
    /// Warnings about what Kubernetes objects declare.
    warnings: Vec<ContributionProblem>,
    /// Answers of the last minute, by pool and cluster.
    answered: Arc<Answered>,
    /// Loads in the unit of the capacity.
    arrived: HashMap<ClusterName, f64>,
    /// Names of each pool.
    names: HashMap<&'a PoolName, Vec<String>>,
    /// Adaptive TTLs of pools with bounds.
    ttls: HashMap<&'a PoolName, AdaptiveTtl>,
    /// Origins of the weights of contributed members.
    origins: HashMap<(&'a PoolName, &'a ClusterName), &'a WeightOrigin>,
}

impl<'a> Renderer<'a> {
    fn new(
        operates: Operates,
        shared: &Shared,
        CurrentState { serving, published }: &'a CurrentState,
        states: &'a [TargetState],
        loads: &'a [ClusterLoad],
    ) -> Self {
        let desired = &published.configured.merged.desired;
        let mut names: HashMap<&PoolName, Vec<String>> = HashMap::new();
        for name in desired.names.values() {
            names.entry(&name.pool).or_default().push(name.name.to_string());
        }
        let infos = serving.snapshot.pool_infos().iter().enumerate().filter(|(_, info)| info.bounds.is_some());
        let members = published.configured.contributed_members();
        Self {
            operates,
            serving,
            published,
            desired,
            states: states.iter().map(|state| (&state.target, state)).collect(),
            loads: loads.iter().map(|load| (&load.cluster, load)).collect(),
            drains: shared.balance.drains.load_full(),
            hosts: shared.probes.hosts.known(),
            sources: shared.probes.sources.statuses(),
            warnings: kubernetes_warnings(published),
            answered: shared.balance.answered.load_full(),
            arrived: arrived(desired, loads),
            names,
            ttls: infos.map(|(number, info)| (&info.name, serving.runtime.adaptive_ttl(number))).collect(),
            origins: members.map(|of| ((&of.pool.name, &of.member.cluster), of.origin)).collect(),
        }
    }
}

impl Renderer<'_> {
    fn zones(&self) -> Vec<ZoneState> {
        let desired = self.desired;
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

    fn cluster(&self, cluster: &Cluster) -> ClusterState {
        let name = &cluster.name;
        let bounds = cluster.capacity.map(|_| self.desired.load_bounds.get(name).copied().unwrap_or_default());
        let permille = |part: Permille| percent(f64::from(part.thousandths()) / 1000.0);
        let load = self.loads.get(name);
        ClusterState {
            name: name.to_string(),
            addresses: texts(&cluster.addresses),
            hosts: cluster.hosts.iter().map(|host| self.host(host)).collect(),
            kubernetes: self.sources.get(name).map(|status| {
                let owner = format!("kubernetes:{name}/");
                let evidence = (self.found(name), load.copied());
                let warnings = self.warnings.iter().filter(|warning| warning.owner.starts_with(&owner));
                let warnings = warnings.map(|warning| refused(self.found(name), warning));
                let of_splits = split_problems(&self.published.configured, name);
                kubernetes_state(status, evidence, warnings.chain(of_splits))
            }),
            dns_name: cluster.dns_name.as_ref().map(ToString::to_string),
            region: cluster.location.as_ref().and_then(|location| location.region.clone()),
            capacity: cluster.capacity,
            target: bounds.map(|bounds| permille(bounds.target())),
            limit: bounds.map(|bounds| permille(bounds.limit())),
            load: load
                .map(|load| load.sources.iter().map(|source| load_state(self.operates, source)).collect())
                .unwrap_or_default(),
            warnings: load.map(|load| texts(&load.warnings)).unwrap_or_default(),
            gateway_versions: load.map(|load| load.versions.clone()).unwrap_or_default(),
            exhausted: load.is_some_and(|load| load.is_exhausted),
            drain: self.drains.get(name).map(|drain| DrainState {
                since: format!("{:.3}", drain.since),
                over: format!("{:.3}", drain.over),
                left: drain.left.map(percent),
            }),
            share: self.part(&name.clone().into()),
        }
    }

    /// Returns the part of the demand that load control sends to a backend, in percent.
    fn part(&self, of: &Backend) -> Option<f64> {
        let part = self.serving.runtime.shares()?.parts.get(of)?;
        Some(percent(f64::from(*part) / f64::from(u16::MAX)))
    }

    fn host(&self, host: &ClusterHost) -> HostState {
        let known = self.hosts.get(&host.name);
        HostState {
            name: host.name.to_string(),
            addresses: texts(&*host.addresses),
            resolved_at: known.and_then(|known| known.resolved_at).map(|at| at.to_string()),
            failure: known.and_then(|known| known.failure.clone()),
        }
    }

    fn pool(&self, pool: &Pool) -> PoolState {
        let adaptive = self.ttls.get(&pool.name).copied().unwrap_or_default();
        let ttl = pool.ttl_bounds.map_or(pool.ttl, |bounds| adaptive.ttl(pool.ttl, bounds));
        let members = pool.members.iter().zip(shares(pool, &self.answered, &self.arrived));
        PoolState {
            name: pool.name.to_string(),
            policy: pool.policy.to_string(),
            pinned: self.published.overrides.pinned(&pool.name, &self.published.configured).as_ref().map(pool_pin),
            ttl: ttl.secs(),
            ttl_reason: adaptive.reason().to_owned(),
            names: self.names.get(&pool.name).cloned().unwrap_or_default(),
            members: members.map(|(member, share)| self.member(pool, member, share)).collect(),
        }
    }

    fn member(&self, pool: &Pool, member: &Member, share: ShareState) -> MemberState {
        let addresses = self.desired.clusters.get(&member.cluster).map(|cluster| &cluster.addresses[..]);
        let addresses = addresses.unwrap_or_default().iter().map(|address| (member.cluster.clone(), *address));
        let schedule = self.serving.runtime.schedule(&self.serving.snapshot, &pool.name, &member.cluster);
        let configured = &self.published.configured;
        let eligibility = member_eligibility(self.serving, configured, &pool.name, &member.cluster);
        let origin = self.origins.get(&(&pool.name, &member.cluster)).copied();
        let found = self.found(&member.cluster);
        let ready = found.and_then(|found| {
            ready_endpoints(&member.cluster, found, &configured.merged.clusters, self.names_of(pool))
        });
        MemberState {
            cluster: member.cluster.to_string(),
            weight: member.weight.0,
            weight_factors: weight_factors(configured, pool, member, origin),
            weight_from: origin.map(|origin| WeightFrom {
                owner: origin.owner.to_string(),
                set: origin.set.to_string(),
                declared: origin.weight.map(|weight| weight.0),
                lease_weight: f64::from(origin.lease_weight.thousandths()) / 1000.0,
            }),
            tier: member.tier.number(),
            eligibility: eligibility_word(eligibility).to_owned(),
            schedule: schedule.map(ToString::to_string),
            share,
            addresses: addresses.map(|address| self.address(pool, &address)).collect(),
            ready_endpoints: ready,
            services: found.map_or_else(Vec::new, |found| {
                service_states(found, self.loads.get(&member.cluster).copied(), self.names_of(pool))
            }),
            service_load: member.service.as_ref().filter(|_| pool.is_by_service()).map(|service| {
                let report = self.loads.get(&member.cluster).and_then(|load| load.services.as_deref());
                service_load(service, report, self.part(&pool.backend(&member.cluster)))
            }),
        }
    }

    /// Returns what was found in a cluster.
    fn found(&self, cluster: &ClusterName) -> Option<&FoundCluster> {
        self.published.configured.looked_up.found.get(cluster).map(|found| &**found)
    }

    /// Returns the names that a pool answers.
    fn names_of(&self, pool: &Pool) -> impl Iterator<Item = &Name> {
        let snapshot = &self.serving.snapshot;
        snapshot.indices_of(&pool.name).flat_map(|place| &snapshot.pool_infos()[place].names)
    }

    /// Renders one address of a member. Of several targets, the best one is shown.
    fn address(&self, pool: &Pool, address: &ClusterAddress) -> AddressState {
        let targets: Vec<TargetIndex> = self.published.configured.uses.targets(&pool.name, address).collect();
        let best = targets.iter().copied().min_by_key(|target| self.serving.runtime.health(*target).eligibility());
        let health = best.map_or(Health::PENDING, |target| self.serving.runtime.health(target));
        let target = |target: TargetIndex| &self.serving.snapshot.targets()[target.0 as usize];
        let probe = best.and_then(|best| probe_state(self.desired, &pool.name, &address.0, target(best)));
        let reason = match best {
            None => "no name uses the pool, so it is not probed".to_owned(),
            Some(target) => self.reason(target, health, address, probe.as_ref()),
        };
        AddressState {
            address: address.1.to_string(),
            eligibility: word(health.eligibility()),
            reason,
            targets: targets.iter().map(|target| target.0 as usize).collect(),
            probe,
        }
    }

    fn reason(
        &self,
        target: TargetIndex,
        health: Health,
        address: &ClusterAddress,
        probe: Option<&ProbeState>,
    ) -> String {
        if let Some(reason) = self.published.denied.reason(target) {
            return format!("target not allowed: {reason}");
        }
        if let Some(action) = health.override_action() {
            return override_reason(action, &self.published.overrides, address);
        }
        let reason = self.probe_reason(target, health, probe);
        if !health.is_exhausted() {
            return reason;
        }
        let warnings = self.loads.get(&address.0).map(|load| texts(&load.warnings).join("; "));
        let warnings = warnings.filter(|warnings| !warnings.is_empty());
        format!("exhausted: {}; {reason}", warnings.as_deref().unwrap_or("its gateways drained or were overloaded"))
    }

    /// Returns the health status of a target; after a failed probe with the source of its monitor, and the cause.
    fn probe_reason(&self, target: TargetIndex, health: Health, probe: Option<&ProbeState>) -> String {
        let state = self.states.get(&self.serving.snapshot.targets()[target.0 as usize]);
        let status = match (health.status(), state) {
            (HealthStatus::Pending, _) => "not evaluated yet".to_owned(),
            (status, Some(state)) => format!("{status} since {}", Timestamp::from(state.since)),
            (status, None) => status.to_string(),
        };
        match state.and_then(|state| state.last_cause.as_ref()) {
            Some(text) => {
                let cause = cause(self.operates, text);
                format!("{status}: {}", probe.map_or_else(|| cause.clone(), |probe| probe.failure(&cause)))
            }
            None => status,
        }
    }

    fn targets(&self) -> Vec<state_wire::TargetState> {
        let numbers = (0..).map(TargetIndex);
        numbers.zip(self.serving.snapshot.targets()).map(|(number, target)| self.target(number, target)).collect()
    }

    fn target(&self, number: TargetIndex, target: &Target) -> state_wire::TargetState {
        let uses = &self.published.configured.uses;
        let (health, denied) = (self.serving.runtime.health(number), self.published.denied.reason(number));
        let state = state_wire::TargetState {
            address: target.address.to_string(),
            monitor: target.label.to_string(),
            clusters: texts(uses.clusters(number)),
            pools: texts(uses.pools(number).keys()),
            status: health.status().to_string(),
            override_action: health.override_action().filter(|_| denied.is_none()).map(|action| action.to_string()),
            not_allowed: denied.map(str::to_owned),
            ..state_wire::TargetState::default()
        };
        let Some(known) = self.states.get(target) else { return state };
        let moment = |at| Timestamp::from(at).to_string();
        let history = |entry: &HistoryEntry| state_wire::HistoryState {
            at: format!("{:.3}", Timestamp::from(entry.at)),
            to: entry.to.to_string(),
            cause: match entry.to {
                HealthStatus::Up => entry.cause.to_string(),
                _ => cause(self.operates, &entry.cause),
            },
        };
        state_wire::TargetState {
            since: moment(known.since),
            streak: known.streak,
            last_cause: known.last_cause.as_ref().map(|text| cause(self.operates, text)),
            last_probe: known.last_probe.map(moment),
            // The duration of a failure shows its cause, too: a refused connection, or a timeout.
            last_micros: known
                .last_duration
                .filter(|_| self.operates.0 || known.last_cause.is_none())
                .map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
            passes: known.passes,
            failures: known.failures,
            inconclusive: known.inconclusive,
            history: known.history.iter().map(history).collect(),
            ..state
        }
    }
}

/// Returns the action of an override with its reason and expiry. An address may be overridden because it shares a target with another one.
fn override_reason(action: OverrideAction, overrides: &OverrideTable, address: &ClusterAddress) -> String {
    match overrides.matching(address) {
        Some((spec, _)) => format!("override {action} until {}: {}", spec.expires, spec.reason),
        None => format!("override {action} of another address with the same target"),
    }
}
