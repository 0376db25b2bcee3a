//! The third writer of the schedules: a pipeline that applies objects of the API with `--prune`, and is refused what looks like a mistake.
//!
//! Names with an even number are objects of the pipeline, each with a pool. Those with an odd number are of the files, without members of
//! their own: the pipeline declares their pools alone.

use std::collections::{BTreeMap, BTreeSet};

use fairway_config::WithdrawalSettings;
use fairway_model::{
    ClusterName, DesiredState, Eligibility, Member as PoolMember, Name, Policy, Pool, PoolName, SteeredName, Timestamp,
};
use fairway_store::objects::{Author, Key, Kind, Object};

use super::{Member, PIPELINE, Schedule, WINDOW, below};
use crate::{
    declared::Declared,
    pruned::{Answered, Prune},
};

const BY: &str = "token:ci";

/// Returns true if the files declare a name, without members.
pub(super) fn is_of_files(name: usize) -> bool {
    name % 2 == 1
}

fn name(number: usize) -> Name {
    format!("n{number}.gslb.example").parse().unwrap()
}

fn pool(number: usize) -> PoolName {
    PoolName::new(&format!("p{number}")).unwrap()
}

fn cluster((owner, number): Member) -> ClusterName {
    ClusterName::new(&format!("c{owner}-{number}")).unwrap()
}

/// Returns the keys of what the pipeline declares for a name.
fn keys(number: usize) -> impl Iterator<Item = Key> {
    let of = |kind, name: String| Key::new(kind, &[&name]).unwrap();
    let name = (!is_of_files(number)).then(|| of(Kind::Name, format!("n{number}.gslb.example")));
    name.into_iter().chain([of(Kind::Pool, format!("p{number}"))])
}

/// Returns the objects of the pipeline, parsed once for all schedules.
pub(super) fn objects() -> Declared {
    let object = |key: Key, value: String| Object {
        key,
        value: value.into_bytes().into(),
        revision: 1,
        generation: 1,
        created: Timestamp::from_secs(1),
        changed: Timestamp::from_secs(1),
        by: Author::new(BY, ""),
    };
    let all = (0..super::NAMES_MAX).flat_map(|number| {
        keys(number).map(move |key| match key.kind() {
            Kind::Name => object(key, format!(r#"{{"name": "n{number}.gslb.example", "pool": "p{number}"}}"#)),
            _ => {
                let cluster = cluster((PIPELINE, number));
                let members = format!(r#"[{{"cluster": "{cluster}"}}]"#);
                object(key, format!(r#"{{"name": "p{number}", "policy": "weighted", "members": {members}}}"#))
            }
        })
    });
    Declared::new(1, all.collect::<Vec<_>>())
}

/// Returns the names with these members, as all writers together declare them.
fn desired(names: usize, members: &BTreeSet<Member>) -> DesiredState {
    let mut desired = DesiredState::default();
    for number in 0..names {
        let own = members.iter().filter(|of| of.1 == number);
        let own: Vec<_> = own.map(|of| PoolMember::new(cluster(*of))).collect();
        if own.is_empty() && !is_of_files(number) {
            continue;
        }
        desired.names.insert(name(number), SteeredName { name: name(number), pool: pool(number), ttl: None });
        desired.pools.insert(pool(number), Pool { members: own, ..Pool::new(pool(number), Policy::FAILOVER) });
    }
    desired
}

impl Schedule<'_> {
    /// The pipeline makes its objects those of a plan, unless that looks like a mistake; sometimes it repeats the command with
    /// `--allow-removals`.
    pub(super) fn prune(&mut self) {
        let plan = self.new_plan(PIPELINE);
        let is_changed = |of: &usize| plan.contains(of) != self.answers.piped.contains(of);
        let changed: Vec<Key> = (0..self.names).filter(is_changed).flat_map(keys).collect();
        let mut after = self.declared.clone();
        for key in &changed {
            let is_planned = plan.iter().any(|number| keys(*number).any(|of| of == *key));
            if is_planned { after.take_from(self.objects, key) } else { after.put(key, None) }
        }
        let deleted: Vec<&Key> = changed.iter().filter(|key| after.get(key).is_none()).collect();
        let (members, others) = (self.all_members(), self.all_members().into_iter().filter(|of| of.0 != PIPELINE));
        let members_after: BTreeSet<Member> = others.chain(plan.iter().map(|name| (PIPELINE, *name))).collect();
        let kept: Vec<Key> = plan.iter().flat_map(|number| keys(*number)).collect();
        let (was, will_be) = (desired(self.names, &members), desired(self.names, &members_after));
        let prune = Prune {
            by: BY,
            at: Timestamp::from_secs(self.now),
            before: &self.declared,
            deleted,
            after: &after,
            kept: kept.iter().collect(),
            desired: &will_be,
        };
        let health: BTreeMap<_, _> = members.iter().map(|of| (cluster(*of), self.health(of))).collect();
        let health = |_: &PoolName, cluster: &ClusterName| health.get(cluster).copied();
        let answered = Answered { settings: WithdrawalSettings::default(), desired: &was, health: &health };
        // A request that deletes nothing is not weighed.
        let weighed = if prune.deleted.is_empty() { Ok(vec![]) } else { prune.weigh(&answered) };
        let mistake = self.mistake(&plan, &members, &members_after);
        let is_confirmed = weighed.is_err() && below(&mut self.random, 3) == 0;
        assert_eq!(weighed.is_err(), mistake.is_some(), "{:?}, {mistake:?}: {plan:?}", weighed.err());
        let Ok(removed) = weighed.or_else(|_| if is_confirmed { Ok(vec![]) } else { Err(()) }) else { return };
        if !is_confirmed {
            let gone = self.gone(&members, &members_after).into_iter().map(|name| (self.now, (PIPELINE, name)));
            self.log.extend(gone.collect::<Vec<_>>());
        }
        self.declared = after;
        self.answers.piped = plan;
        self.commit(removed);
    }

    fn health(&self, of: &Member) -> Eligibility {
        if self.answers.down.contains(of) { Eligibility::Down } else { Eligibility::Up }
    }

    /// Returns the objects' names that nothing declares any more and that had a living member.
    fn gone(&self, before: &BTreeSet<Member>, after: &BTreeSet<Member>) -> BTreeSet<usize> {
        let has = |all: &BTreeSet<Member>, name: usize| all.iter().any(|of| of.1 == name);
        let lived = |name: usize| before.iter().any(|of| of.1 == name && !self.answers.down.contains(of));
        let was_piped = |name: &usize| self.answers.piped.contains(name) && !is_of_files(*name);
        (0..self.names).filter(was_piped).filter(|name| !has(after, *name) && lived(*name)).collect()
    }

    /// Returns the reason why a prune has to be refused; `None` if it must not be.
    fn mistake(&self, plan: &BTreeSet<usize>, before: &BTreeSet<Member>, after: &BTreeSet<Member>) -> Option<String> {
        let gone = self.gone(before, after);
        let is_served = |name: usize| after.iter().any(|of| of.1 == name);
        let loses = |name: &usize| self.answers.piped.contains(name) && !plan.contains(name);
        let recent = self.log.iter().filter(|(at, of)| of.0 == PIPELINE && self.now - at < WINDOW).map(|(_, of)| of.1);
        let recent = recent.filter(|name| !is_served(*name) && !loses(name));
        let all: BTreeSet<usize> = recent.chain(gone.iter().copied()).collect();
        let kept = plan.iter().filter(|name| !is_of_files(**name)).count();
        if !gone.is_empty() && ((kept == 0 && all.len() >= 2) || all.len() > 10.max((all.len() + kept) / 5)) {
            return Some(format!("{all:?} would go, and {kept} stay"));
        }
        let lives =
            |members: &BTreeSet<Member>, name| members.iter().any(|of| of.1 == name && !self.answers.down.contains(of));
        let stays = |name: &usize| is_served(*name) || is_of_files(*name);
        let mut orphans = (0..self.names).filter(loses).filter(stays);
        let orphan = orphans.find(|name| lives(before, *name) && !lives(after, *name))?;
        Some(format!("n{orphan} would have no healthy member"))
    }
}
