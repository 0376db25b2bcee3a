//! Which TTL pools with bounds answer with: short at once where something is at risk, long only after long quiet.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::{Duration, Instant},
};

use fairway_health::balance::Caution;
use fairway_model::{AdaptiveTtl, Eligibility, PoolName, Risk, Timestamp};
use fairway_zones::{Chunks, PoolInfo, RuntimeState, Snapshot};

use super::balance::Balance;

/// The paces of pools that declare bounds.
#[derive(Debug, Default)]
pub struct Pacer {
    /// Places of these pools in the snapshot, in order.
    pub pools: BTreeSet<usize>,
    /// All pools of the snapshot.
    infos: Chunks<PoolInfo>,
    states: HashMap<PoolName, State>,
}

/// How one pool stands.
#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    pace: AdaptiveTtl,
    /// Since when nothing was at risk.
    quiet: Instant,
}

impl Pacer {
    /// Follows a snapshot: pools of the same name go on.
    pub fn follow(&mut self, snapshot: &Snapshot) {
        let infos = snapshot.pool_infos();
        // A change leaves most pools where they were.
        self.infos.unshared(infos).for_each(|place| _ = self.pools.remove(&place));
        self.pools.extend(infos.unshared(&self.infos).filter(|place| infos[*place].bounds.is_some()));
        self.infos = infos.clone();
        let named: HashSet<&PoolName> = self.pools.iter().map(|place| &infos[*place].name).collect();
        self.states.retain(|name, _| named.contains(name));
    }

    /// The runtime state with the paces of now, by the clock for spans and the one on the wall, if it differs.
    pub fn pace(
        &mut self,
        snapshot: &Snapshot,
        runtime: &RuntimeState,
        balance: &Balance,
        (now, wall): (Instant, Timestamp),
    ) -> Option<RuntimeState> {
        // A pool that is compiled twice has one pace: that of the worse of both.
        let mut risks: HashMap<&PoolName, (Option<Risk>, Duration, bool)> = HashMap::new();
        for place in &self.pools {
            let (info, pool) = (&snapshot.pool_infos()[*place], &snapshot.steer_pools()[*place]);
            let risk = risk(*place, snapshot, runtime, balance, wall);
            let own = Duration::from_secs(info.ttl.secs().max(1).into());
            let (known, ..) = risks.entry(&info.name).or_insert_with(|| (None, own, pool.is_balanced()));
            *known = [*known, risk].into_iter().flatten().min();
        }
        for (name, (risk, own, balanced)) in risks {
            let caution = if balanced { balance.caution() } else { Caution::Calm };
            let start = State { pace: AdaptiveTtl::Declared, quiet: now };
            let state = self.states.entry(name.clone()).or_insert(start);
            *state = state.next(risk, caution, own, now);
        }
        let of = |place: usize| {
            self.states.get(&snapshot.pool_infos()[place].name).map_or(AdaptiveTtl::Declared, |s| s.pace)
        };
        let differs = self.pools.iter().any(|place| runtime.pace(*place) != of(*place));
        differs.then(|| runtime.with_paces(snapshot, of))
    }
}

impl State {
    /// How it stands next: short at once, one step longer after so many quiet TTLs.
    fn next(self, risk: Option<Risk>, caution: Caution, own: Duration, now: Instant) -> Self {
        if let Some(risk) = risk {
            return Self { pace: AdaptiveTtl::Risky(risk), quiet: now };
        }
        let quiet = now.saturating_duration_since(self.quiet);
        let pace = match self.pace {
            AdaptiveTtl::Risky(_) if quiet < own * SHORT_FOR => AdaptiveTtl::Risky(Risk::Recent),
            _ if quiet >= own * LONG_AFTER && caution == Caution::Calm => AdaptiveTtl::Calm,
            _ => AdaptiveTtl::Declared,
        };
        Self { pace, ..self }
    }
}

/// The gravest risk of a pool, if there is one.
fn risk(place: usize, snapshot: &Snapshot, runtime: &RuntimeState, balance: &Balance, wall: Timestamp) -> Option<Risk> {
    let pool = &snapshot.steer_pools()[place];
    let of_member = pool.member_targets().filter_map(|(.., target)| match runtime.health(target).eligibility() {
        Eligibility::Out => Some(Risk::Drain),
        Eligibility::Down => Some(Risk::Down),
        Eligibility::Up | Eligibility::Unknown | Eligibility::Pending => None,
    });
    let exhausted = balance.exhausted().any(|cluster| pool.clusters().any(|member| member == cluster));
    let loaded = pool.is_balanced() && balance.caution() == Caution::Short;
    // An answer with the long TTL would be kept beyond the turn.
    let kept = Duration::from_secs(snapshot.pool_infos()[place].ttl_max().secs().into()) + LOOKED_EVERY;
    let turns = runtime.next_turn(pool).is_some_and(|turn| turn.since(wall) <= kept);
    let others =
        [exhausted.then_some(Risk::Drain), loaded.then_some(Risk::Load), turns.then_some(Risk::ScheduleTransition)];
    of_member.chain(others.into_iter().flatten()).min()
}

/// How often a risk is looked for at least.
const LOOKED_EVERY: Duration = Duration::from_secs(1);
/// TTLs of the pool's own that must be quiet until a short one ends.
const SHORT_FOR: u32 = 3;
/// And until the long one begins.
const LONG_AFTER: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_short_at_once_and_long_only_after_long_quiet() {
        let (own, start) = (Duration::from_secs(30), Instant::now());
        let after = |secs| start + Duration::from_secs(secs);
        let begun = State { pace: AdaptiveTtl::Declared, quiet: start };
        let next = |state: State, risk, secs| state.next(risk, Caution::Calm, own, after(secs));
        assert_eq!(next(begun, None, 299).pace, AdaptiveTtl::Declared);
        let calm = next(begun, None, 300);
        assert_eq!(calm.pace, AdaptiveTtl::Calm);
        let risky = next(calm, Some(Risk::Down), 400);
        assert_eq!(risky, State { pace: AdaptiveTtl::Risky(Risk::Down), quiet: after(400) });
        // A member that flaps keeps it short: each time begins anew.
        let lately = next(risky, None, 489);
        assert_eq!(lately.pace, AdaptiveTtl::Risky(Risk::Recent));
        assert_eq!(next(lately, Some(Risk::Down), 489).quiet, after(489));
        assert_eq!(next(lately, None, 490).pace, AdaptiveTtl::Declared);
        assert_eq!(next(next(lately, None, 490), None, 700).pace, AdaptiveTtl::Calm);
        // While acceptance moves, it is not calm.
        assert_eq!(calm.next(None, Caution::Ordinary, own, after(301)).pace, AdaptiveTtl::Declared);
    }
}
