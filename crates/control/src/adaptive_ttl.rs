//! Adaptive TTLs of pools with bounds: short at once while something is at risk, long only after a long calm.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::{Duration, Instant},
};

use fairway_model::{AdaptiveTtl, Eligibility, PoolName, Risk, Timestamp, chunks::Chunks};
use fairway_steering::balancer::RiskLevel;
use fairway_zones::{PoolInfo, RuntimeState, Snapshot};

use super::{balance::Balance, lifecycle::Moment};

/// The TTLs of pools that declare bounds.
#[derive(Debug, Default)]
pub(crate) struct AdaptiveTtls {
    /// Numbers of these pools in the snapshot, in order.
    pub(crate) pools: BTreeSet<usize>,
    /// All pools of the snapshot.
    infos: Chunks<PoolInfo>,
    states: HashMap<PoolName, TtlState>,
}

/// The TTL of one pool.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TtlState {
    ttl: AdaptiveTtl,
    /// End of the last risk.
    calm_since: Instant,
}

/// The risk of a pool, which its TTL depends on.
struct PoolRisk {
    /// The gravest risk; `None` if there is none.
    risk: Option<Risk>,
    /// Its declared TTL.
    declared: Duration,
    /// The risk level of balancing.
    level: RiskLevel,
}

impl AdaptiveTtls {
    /// Switches to a new snapshot. Pools of the same name keep their TTL.
    pub(crate) fn follow(&mut self, snapshot: &Snapshot) {
        let infos = snapshot.pool_infos();
        // A change leaves most pools where they were.
        for number in self.infos.unshared(infos) {
            self.pools.remove(&number);
        }
        self.pools.extend(infos.unshared(&self.infos).filter(|number| infos[*number].bounds.is_some()));
        self.infos = infos.clone();
        let named: HashSet<&PoolName> = self.pools.iter().map(|number| &infos[*number].name).collect();
        self.states.retain(|name, _| named.contains(name));
    }

    /// Returns the runtime state with the current TTLs, or `None` if none differs.
    pub(crate) fn with_ttls(
        &mut self,
        snapshot: &Snapshot,
        runtime: &RuntimeState,
        balance: &Balance,
        now: Moment,
    ) -> Option<RuntimeState> {
        // A pool that is compiled several times has one TTL: that of its gravest risk.
        let mut risks: HashMap<&PoolName, PoolRisk> = HashMap::new();
        for number in &self.pools {
            let (info, pool) = (&snapshot.pool_infos()[*number], &snapshot.steer_pools()[*number]);
            let risk = gravest_risk(*number, snapshot, runtime, balance, now.wall);
            let known = risks.entry(&info.name).or_insert_with(|| PoolRisk {
                risk: None,
                declared: Duration::from_secs(info.ttl.secs().max(1).into()),
                level: if pool.is_balanced() { balance.risk_level() } else { RiskLevel::Calm },
            });
            known.risk = [known.risk, risk].into_iter().flatten().min();
        }
        for (name, risk) in risks {
            let start = TtlState { ttl: AdaptiveTtl::Declared, calm_since: now.monotonic };
            let state = self.states.entry(name.clone()).or_insert(start);
            *state = state.next(&risk, now.monotonic);
        }
        let ttl = |number: usize| {
            let state = self.states.get(&snapshot.pool_infos()[number].name);
            state.map_or(AdaptiveTtl::Declared, |state| state.ttl)
        };
        let differs = self.pools.iter().any(|number| runtime.adaptive_ttl(*number) != ttl(*number));
        differs.then(|| runtime.with_adaptive_ttls(snapshot, ttl))
    }
}

impl TtlState {
    /// Returns the next TTL: short at once, and one step longer after enough calm.
    fn next(self, pool: &PoolRisk, now: Instant) -> Self {
        if let Some(risk) = pool.risk {
            return Self { ttl: AdaptiveTtl::Risky(risk), calm_since: now };
        }
        let calm = now.saturating_duration_since(self.calm_since);
        let ttl = match self.ttl {
            AdaptiveTtl::Risky(_) if calm < pool.declared * SHORT_TTLS => AdaptiveTtl::Risky(Risk::Recent),
            _ if calm >= pool.declared * LONG_AFTER_TTLS && pool.level == RiskLevel::Calm => AdaptiveTtl::Calm,
            _ => AdaptiveTtl::Declared,
        };
        Self { ttl, ..self }
    }
}

/// Returns the gravest risk of a pool.
fn gravest_risk(
    number: usize,
    snapshot: &Snapshot,
    runtime: &RuntimeState,
    balance: &Balance,
    now: Timestamp,
) -> Option<Risk> {
    let pool = &snapshot.steer_pools()[number];
    let of_members = pool.member_targets().filter_map(|(.., target)| match runtime.health(target).eligibility() {
        Eligibility::Exhausted | Eligibility::Out => Some(Risk::Drain),
        Eligibility::Down => Some(Risk::Down),
        Eligibility::Up | Eligibility::Unknown | Eligibility::Pending => None,
    });
    let is_loaded = pool.is_balanced() && balance.risk_level() == RiskLevel::Short;
    // Caches would keep an answer with the long TTL beyond the schedule transition.
    let kept = Duration::from_secs(snapshot.pool_infos()[number].ttl_max().secs().into()) + CHECK_PERIOD;
    let is_scheduled = runtime.next_schedule_change(pool).is_some_and(|transition| transition.since(now) <= kept);
    let others = [is_loaded.then_some(Risk::Load), is_scheduled.then_some(Risk::ScheduleTransition)];
    of_members.chain(others.into_iter().flatten()).min()
}

/// Longest time between two checks of the risks: the tick of the control task.
const CHECK_PERIOD: Duration = Duration::from_secs(1);
/// Time without risk that ends a short TTL, in declared TTLs. A member that changes its status more often than that keeps the TTL short.
const SHORT_TTLS: u32 = 3;
/// Time without risk that begins a long TTL, in declared TTLs.
const LONG_AFTER_TTLS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttl_is_short_at_once_and_long_only_after_long_calm() {
        let (declared, start) = (Duration::from_secs(30), Instant::now());
        let after = |secs| start + Duration::from_secs(secs);
        let begun = TtlState { ttl: AdaptiveTtl::Declared, calm_since: start };
        let pool = |risk| PoolRisk { risk, declared, level: RiskLevel::Calm };
        let next = |state: TtlState, risk, secs| state.next(&pool(risk), after(secs));
        assert_eq!(next(begun, None, 299).ttl, AdaptiveTtl::Declared);
        let calm = next(begun, None, 300);
        assert_eq!(calm.ttl, AdaptiveTtl::Calm);
        let risky = next(calm, Some(Risk::Down), 400);
        assert_eq!(risky, TtlState { ttl: AdaptiveTtl::Risky(Risk::Down), calm_since: after(400) });
        // A member that flaps keeps the TTL short: each risk restarts the calm.
        let recent = next(risky, None, 489);
        assert_eq!(recent.ttl, AdaptiveTtl::Risky(Risk::Recent));
        assert_eq!(next(recent, Some(Risk::Down), 489).calm_since, after(489));
        assert_eq!(next(recent, None, 490).ttl, AdaptiveTtl::Declared);
        assert_eq!(next(next(recent, None, 490), None, 700).ttl, AdaptiveTtl::Calm);
        // While shares move, there is no calm.
        let moving = PoolRisk { level: RiskLevel::Ordinary, ..pool(None) };
        assert_eq!(calm.next(&moving, after(301)).ttl, AdaptiveTtl::Declared);
    }
}
