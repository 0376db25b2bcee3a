//! Withdrawals in one cluster `eu1`. A name is `NAMESPACE/LABEL`, and its only service has the same text.

use fairway_contributions::Row;
use fairway_providers::Endpoint;
use proptest::prelude::*;

use super::*;
use crate::objects::{Kind, ObjectKey};

/// Health and endpoints of the names, by their text. All others are up, and have one endpoint and no other member.
#[derive(Clone, Debug, Default)]
struct World {
    down: BTreeSet<String>,
    without_endpoint: BTreeSet<String>,
    /// Names with other members, and whether one of these is healthy.
    others: BTreeMap<String, bool>,
    now: u64,
    settings: WithdrawalSettings,
}

impl TargetHealth for World {
    fn eligibility(&self, row: &ReadRow) -> Option<Eligibility> {
        Some(if self.down.contains(&*row.text) { Eligibility::Down } else { Eligibility::Up })
    }

    fn is_other_healthy(&self, row: &ReadRow) -> Option<bool> {
        self.others.get(&*row.text).copied()
    }
}

/// A cluster as its task sees it.
struct Cluster {
    world: World,
    names: SharedMap<Arc<str>, Arc<FoundName>>,
    holds: Holds,
}

fn text(namespace: &str, number: usize) -> String {
    format!("n{number}.{namespace}.test")
}

fn row(namespace: &str, text: &str) -> FoundRow {
    let endpoint = Endpoint {
        dns_name: text.to_owned(),
        record_type: "A".to_owned(),
        targets: vec!["192.0.2.1".to_owned()],
        set_identifier: "eu1".to_owned(),
        ..Endpoint::default()
    };
    FoundRow {
        owner: format!("kubernetes:eu1/{namespace}").into(),
        tenant: Arc::new(format!("namespace:eu1/{namespace}").parse().unwrap()),
        object: ObjectKey::new(Kind::VirtualService, namespace, "web"),
        row: Arc::new(ReadRow::new(Row { since: 1, endpoint, held: None })),
        ready: Some(1),
        split: None,
        services: Arc::default(),
    }
}

impl Cluster {
    fn new(names: &[(&str, usize)]) -> Self {
        let mut cluster =
            Self { world: World { now: 1_000, ..World::default() }, names: SharedMap::new(), holds: Holds::default() };
        for (namespace, count) in names {
            let names: Vec<_> = (0..*count).map(|number| (*namespace, number)).collect();
            cluster.declare(&names);
        }
        cluster
    }

    fn with_evidence<T>(&self, use_it: impl FnOnce(&Evidence<'_>) -> T) -> T {
        let world = &self.world;
        let ready = |row: &FoundRow| Some(u32::from(!world.without_endpoint.contains(&*row.row.text)));
        use_it(&Evidence { health: world, ready: &ready, settings: world.settings, now: world.now })
    }

    fn replace(&mut self, text: &Arc<str>, now: Option<FoundName>) {
        let before = self.names.get(&**text).cloned();
        self.holds.follow(text, before.as_deref(), now.as_ref());
        match now {
            Some(now) => _ = self.names.insert(Arc::clone(text), Arc::new(now)),
            None => _ = self.names.remove(&**text),
        }
    }

    fn declare(&mut self, names: &[(&str, usize)]) {
        for (namespace, number) in names {
            let text: Arc<str> = text(namespace, *number).into();
            let now = FoundName { rows: [row(namespace, &text)].into() };
            let (now, gone) = withdraw(self.names.get(&*text).map(|name| &**name), Some(now));
            assert!(gone.is_empty());
            self.replace(&text, now);
        }
    }

    /// Deletes the objects of names in one batch.
    fn delete(&mut self, names: &[(&str, usize)]) {
        let mut withdrawn = Vec::new();
        for (namespace, number) in names {
            let name: Arc<str> = text(namespace, *number).into();
            let (now, rows) = withdraw(self.names.get(&*name).map(|name| &**name), None);
            let declared_by = owners(now.as_ref()).into_iter().cloned().collect();
            withdrawn.push(Withdrawn { name: Arc::clone(&name), rows, declared_by });
            self.replace(&name, now);
        }
        let mut holds = std::mem::take(&mut self.holds);
        let held = self.with_evidence(|evidence| holds.weigh(withdrawn, evidence));
        self.holds = holds;
        for (text, rows) in held {
            let known = self.names.get(&*text).cloned();
            self.replace(&text, Some(with_rows(known.as_deref(), rows)));
        }
    }

    fn release(&mut self, confirmed: &[&str]) -> Vec<(String, Release)> {
        let confirmed = confirmed.iter().map(|owner| Arc::from(*owner)).collect();
        let due = self.with_evidence(|evidence| self.holds.due(&self.names, &confirmed, evidence));
        let mut released = Vec::new();
        for (text, owner, release) in due {
            let name = self.names.get(&*text).unwrap();
            let rows: Box<[FoundRow]> =
                name.rows.iter().filter(|row| !(row.is_held() && row.owner == owner)).cloned().collect();
            self.replace(&text, (!rows.is_empty()).then_some(FoundName { rows }));
            released.push((text.to_string(), release));
        }
        released
    }

    fn has(&self, namespace: &str, number: usize) -> bool {
        self.names.contains_key(&*text(namespace, number))
    }

    fn held(&self) -> usize {
        let summary = self.holds.summary(&self.names);
        assert_eq!(summary, Holds::new(&self.names).summary(&self.names));
        summary.values().map(|held| held.names).sum()
    }
}

const SHOP: &str = "shop";

#[test]
fn one_name_of_several_and_an_only_name_are_withdrawn_at_once() {
    let mut cluster = Cluster::new(&[(SHOP, 3), ("pay", 1), ("other", 3)]);
    cluster.delete(&[(SHOP, 0)]);
    cluster.delete(&[("pay", 0)]);
    assert!(!cluster.has(SHOP, 0) && !cluster.has("pay", 0));
    assert_eq!((cluster.held(), cluster.names.len()), (0, 5));
}

#[test]
fn all_names_of_a_namespace_are_held_also_those_that_were_deleted_a_moment_before() {
    let mut cluster = Cluster::new(&[(SHOP, 2), ("other", 3)]);
    cluster.delete(&[(SHOP, 0)]);
    assert!(!cluster.has(SHOP, 0));
    cluster.delete(&[(SHOP, 1)]);
    assert!(cluster.has(SHOP, 0) && cluster.has(SHOP, 1));
    let summary = cluster.holds.summary(&cluster.names);
    let of_shop = &summary["kubernetes:eu1/shop"];
    assert_eq!((of_shop.names, &*of_shop.first, of_shop.since), (2, "n0.shop.test", 1_000));
    // What is declared again is no longer held.
    cluster.declare(&[(SHOP, 1)]);
    assert_eq!((cluster.held(), cluster.names.get("n1.shop.test").unwrap().rows.len()), (1, 1));
    assert_eq!(cluster.release(&["kubernetes:eu1/shop"]), [("n0.shop.test".to_owned(), Release::Confirmed)]);
    assert_eq!((cluster.held(), cluster.has(SHOP, 0)), (0, false));
}

#[test]
fn name_that_was_deleted_minutes_before_does_not_come_back() {
    let mut cluster = Cluster::new(&[(SHOP, 2), ("other", 3)]);
    cluster.delete(&[(SHOP, 0)]);
    cluster.world.now += 61;
    cluster.delete(&[(SHOP, 1)]);
    assert!(!cluster.has(SHOP, 0) && cluster.has(SHOP, 1));
    let mut cluster = Cluster::new(&[(SHOP, 2), ("other", 3)]);
    cluster.delete(&[(SHOP, 0)]);
    cluster.world.now += 601;
    cluster.delete(&[(SHOP, 1)]);
    assert_eq!(cluster.held(), 0);
}

#[test]
fn names_of_many_namespaces_are_held_if_they_are_many_of_the_cluster() {
    let namespaces: Vec<String> = (0..30).map(|number| format!("team{number}")).collect();
    let all: Vec<(&str, usize)> = namespaces.iter().map(|namespace| (&**namespace, 1)).collect();
    let mut cluster = Cluster::new(&all);
    for (at, namespace) in namespaces.iter().enumerate().take(10) {
        cluster.delete(&[(namespace, 0)]);
        assert_eq!((cluster.held(), cluster.names.len()), (0, 29 - at));
    }
    cluster.delete(&[("team10", 0)]);
    assert_eq!((cluster.held(), cluster.names.len()), (11, 30));
}

#[test]
fn names_without_endpoint_or_with_a_target_that_is_down_are_withdrawn_at_once() {
    let mut cluster = Cluster::new(&[(SHOP, 3), ("other", 3)]);
    cluster.world.without_endpoint = [text(SHOP, 0), text(SHOP, 1)].into();
    cluster.world.down = [text(SHOP, 2)].into();
    cluster.delete(&[(SHOP, 0), (SHOP, 1), (SHOP, 2)]);
    assert_eq!((cluster.held(), cluster.names.len()), (0, 3));
}

#[test]
fn held_names_leave_once_their_endpoints_are_gone_their_target_is_down_or_the_time_is_over() {
    let mut cluster = Cluster::new(&[(SHOP, 3), ("other", 3)]);
    cluster.delete(&[(SHOP, 0), (SHOP, 1), (SHOP, 2)]);
    assert_eq!((cluster.held(), cluster.release(&[])), (3, vec![]));
    cluster.world.without_endpoint = [text(SHOP, 0)].into();
    cluster.world.down = [text(SHOP, 1)].into();
    let down = |number| (text(SHOP, number), Release::Down);
    assert_eq!(cluster.release(&[]), [down(0), down(1)]);
    cluster.world.now += 24 * 3_600 - 1;
    assert_eq!(cluster.release(&[]), []);
    cluster.world.now += 1;
    assert_eq!(cluster.release(&[]), [(text(SHOP, 2), Release::Expired)]);
    assert_eq!(cluster.names.len(), 3);
}

#[test]
fn last_healthy_member_is_held_until_another_one_is_healthy() {
    for (others, is_held) in [(None, false), (Some(true), false), (Some(false), true)] {
        let mut cluster = Cluster::new(&[(SHOP, 3)]);
        cluster.world.others.extend(others.map(|healthy| (text(SHOP, 0), healthy)));
        cluster.delete(&[(SHOP, 0)]);
        assert_eq!(cluster.has(SHOP, 0), is_held, "{others:?}");
        if is_held {
            assert_eq!(cluster.release(&[]), []);
            cluster.world.others = [(text(SHOP, 0), true)].into();
            assert_eq!(cluster.release(&[]), [(text(SHOP, 0), Release::Replaced)]);
        }
    }
}

#[test]
fn times_of_zero_hold_nothing() {
    let mut cluster = Cluster::new(&[(SHOP, 3)]);
    cluster.world.settings = WithdrawalSettings { hold_for: Duration::ZERO, hold_last_for: Duration::ZERO };
    cluster.world.others = [(text(SHOP, 0), false)].into();
    cluster.delete(&[(SHOP, 0), (SHOP, 1), (SHOP, 2)]);
    assert_eq!(cluster.names.len(), 0);
    assert!(cluster.holds.recent.is_empty());
}

#[test]
fn names_over_the_limit_of_a_namespace_are_withdrawn_at_once() {
    let mut cluster = Cluster::new(&[(SHOP, OF_OWNER_MAX + 3), ("other", 3)]);
    let names: Vec<_> = (0..OF_OWNER_MAX + 3).map(|number| (SHOP, number)).collect();
    cluster.delete(&names[..OF_OWNER_MAX]);
    assert_eq!(cluster.held(), OF_OWNER_MAX);
    cluster.delete(&names[OF_OWNER_MAX..]);
    cluster.delete(&[("other", 0), ("other", 1), ("other", 2)]);
    assert_eq!(cluster.held(), OF_OWNER_MAX + 3, "those of another namespace are held");
    assert!((0..3).all(|number| !cluster.has(SHOP, OF_OWNER_MAX + number) && cluster.has("other", number)));
}

#[test]
fn member_that_another_namespace_declares_is_not_held() {
    let cluster = Cluster::new(&[(SHOP, 2)]);
    let name: Arc<str> = text(SHOP, 0).into();
    let before = cluster.names.get(&*name).cloned();
    let now = FoundName { rows: [row("shop2", &name)].into() };
    let (now, gone) = withdraw(before.as_deref(), Some(now));
    assert_eq!((now.unwrap().rows.len(), gone.len()), (1, 0));
}

proptest! {
    /// Objects of healthy names are deleted and created again in random batches: at no time are more names gone than a mistake may
    /// take, and no name that is declared is held.
    #[test]
    fn random_deletions_never_take_more_names_than_the_limit(
        batches in prop::collection::vec((0_u64..40, any::<bool>(), prop::collection::vec((0_usize..3, 0_usize..30), 1..12)), 1..40),
        counts in prop::array::uniform3(1_usize..30),
    ) {
        let namespaces = ["a", "b", "c"];
        let names: Vec<_> = namespaces.into_iter().zip(counts).collect();
        let mut cluster = Cluster::new(&names);
        let all = cluster.names.len();
        let mut deleted: BTreeMap<String, u64> = BTreeMap::new();
        for (pause, is_deleted, batch) in batches {
            cluster.world.now += pause;
            let name = |(namespace, number): (usize, usize)| (names[namespace].0, number % names[namespace].1);
            let mut batch: Vec<_> = batch.into_iter().map(name).collect();
            batch.sort_unstable();
            batch.dedup();
            if is_deleted {
                let now = cluster.world.now;
                batch.iter().for_each(|(namespace, number)| _ = deleted.entry(text(namespace, *number)).or_insert(now));
                cluster.delete(&batch);
            } else {
                batch.iter().for_each(|(namespace, number)| _ = deleted.remove(&text(namespace, *number)));
                cluster.declare(&batch);
            }
            cluster.held();
            for (name, found) in cluster.names.iter() {
                prop_assert_eq!(found.rows.len(), 1);
                prop_assert_eq!(found.rows[0].is_held(), deleted.contains_key(&**name));
            }
            let recent = deleted.iter().filter(|(name, at)| cluster.world.now - **at < 600 && !cluster.names.contains_key(&***name)).count();
            prop_assert!(recent <= 10.max(all / 5), "{recent} of {all} names are gone");
        }
    }
}
