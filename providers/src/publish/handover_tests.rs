use fairway_model::Ttl;

use super::*;
use crate::publish::{Affix, Claims, Plan, Scope, plan};

const NOW: u64 = 1_700_000_000;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn us() -> Ownership {
    of("us")
}

fn of(owner: &str) -> Ownership {
    Ownership::Txt { affix: Affix::default(), owner: owner.to_owned(), key: None }
}

fn set(of: &str, rtype: Rtype, rdata: &[u8]) -> ProviderRecordSet {
    ProviderRecordSet::plain(RecordSet::new(name(of), rtype, Ttl::STEERED, [Box::from(rdata)]))
}

fn address(of: &str, last: u8) -> ProviderRecordSet {
    set(of, Rtype::A, &[192, 0, 2, last])
}

fn text(of: &str, owner: &str) -> ProviderRecordSet {
    let text = format!("heritage=external-dns,external-dns/owner={owner},external-dns/resource=service/x/y");
    set(of, Rtype::TXT, &[&[text.len() as u8], text.as_bytes()].concat())
}

/// Record sets at the provider.
#[derive(Clone, Debug, PartialEq)]
struct Zone(BTreeMap<RecordSetKey, ProviderRecordSet>);

impl Zone {
    fn of(sets: impl IntoIterator<Item = ProviderRecordSet>) -> Self {
        Self(sets.into_iter().map(|set| (set.key(), set)).collect())
    }

    /// Returns a zone with a set of the other owner, one of a third owner, and one that is not wanted.
    fn usual() -> Self {
        let sets = [("a.x.", "them"), ("b.x.", "third"), ("c.x.", "them")];
        Self::of(sets.iter().flat_map(|(of, owner)| [address(of, 9), text(&format!("a-{of}"), owner)]))
    }

    fn current(&self, who: &Ownership) -> Current {
        who.sort(self.0.values().cloned().collect(), &Claims::new(), &BTreeSet::new())
    }

    fn apply(&mut self, units: &[Unit]) {
        for unit in units {
            unit.changes.delete.iter().for_each(|set| drop(self.0.remove(&set.key())));
            for set in unit.changes.create.iter().chain(unit.changes.update.iter().map(|update| &update.to)) {
                self.0.insert(set.key(), set.clone());
            }
        }
    }

    fn hand(&mut self, step: Step, now: u64) -> HandoverPlan {
        let handover = Handover {
            from: "them".to_owned(),
            names: BTreeSet::new(),
            step,
            after: Duration::from_secs(120),
            now: Timestamp::from_secs(now),
        };
        let plan = us().hand_over(&handover, &self.current(&us()), &wanted_state()).unwrap();
        let before = self.records();
        self.apply(&plan.units);
        assert_eq!(self.records(), before, "expected that no step changes the records of clients");
        plan
    }

    fn records(&self) -> Vec<ProviderRecordSet> {
        self.0.values().filter(|set| set.set.rtype != Rtype::TXT).cloned().collect()
    }

    fn plan(&self, who: &Ownership, wanted: &Wanted) -> Plan {
        let scope = Scope { zones: &[name("x.")], types: None, set_identifiers: false };
        plan(wanted, &self.current(who), scope, who)
    }

    fn owner(&self, who: &Ownership, of: &str) -> Owner {
        self.current(who).sets[&address(of, 9).key()].owner.clone()
    }
}

fn wanted_state() -> Wanted {
    Wanted { sets: vec![address("a.x.", 1), address("b.x.", 1)], held: BTreeSet::new() }
}

#[test]
fn set_is_owned_only_after_the_second_step() {
    let mut zone = Zone::usual();
    let announced = zone.hand(Step::Announce, NOW);
    assert_eq!(announced.sets, [address("a.x.", 9).key()]);
    assert_eq!(announced.skipped.iter().map(|(key, _)| key.name.clone()).collect::<Vec<_>>(), [name("c.x.")]);
    // During the handover neither side changes the set, whatever it wants.
    assert_eq!(zone.owner(&us(), "a.x."), Owner::Coming("them".to_owned()));
    assert_eq!(zone.owner(&of("them"), "a.x."), Owner::Other("us".to_owned()));
    for (who, wanted) in [(us(), wanted_state()), (us(), Wanted::default()), (of("them"), Wanted::default())] {
        let changes = zone.plan(&who, &wanted).changes;
        let touched = changes.delete.iter().chain(changes.update.iter().map(|update| &update.from));
        assert!(!touched.map(|set| &set.set.name).any(|of| *of == name("a.x.")), "{changes:?}");
    }
    assert_eq!(zone.hand(Step::Finish, NOW + 119).sets, []);
    assert_eq!(zone.owner(&us(), "a.x."), Owner::Coming("them".to_owned()));
    assert_eq!(zone.hand(Step::Finish, NOW + 120).sets, [address("a.x.", 9).key()]);
    assert_eq!(zone.owner(&us(), "a.x."), Owner::Us);
    // Now the set is owned: it is updated in place.
    let changes = zone.plan(&us(), &wanted_state()).changes;
    assert_eq!(changes.update, [Update { from: address("a.x.", 9), to: address("a.x.", 1) }]);
    assert!(changes.delete.is_empty());
}

#[test]
fn aborted_handover_restores_every_byte() {
    let before = Zone::usual();
    let mut zone = before.clone();
    zone.hand(Step::Announce, NOW);
    assert_ne!(zone, before);
    zone.hand(Step::Abort, NOW + 1);
    assert_eq!(zone, before);
}

#[test]
fn repeated_or_early_step_changes_nothing() {
    let mut zone = Zone::usual();
    let before = zone.clone();
    for step in [Step::Finish, Step::Abort] {
        zone.hand(step, NOW);
        assert_eq!(zone, before);
    }
    zone.hand(Step::Announce, NOW);
    let announced = zone.clone();
    assert!(zone.hand(Step::Announce, NOW + 5).sets.is_empty());
    assert_eq!(zone, announced);
    zone.hand(Step::Finish, NOW + 500);
    let finished = zone.clone();
    for step in [Step::Announce, Step::Finish, Step::Abort] {
        zone.hand(step, NOW + 1_000);
        assert_eq!(zone, finished);
    }
}

#[test]
fn registry_record_without_a_type_is_superseded_and_restored() {
    let before = Zone::of([address("a.x.", 9), text("a.x.", "them")]);
    let mut zone = before.clone();
    assert_eq!(zone.hand(Step::Announce, NOW).sets.len(), 1);
    assert_eq!(zone.owner(&us(), "a.x."), Owner::Coming("them".to_owned()));
    zone.hand(Step::Abort, NOW);
    assert_eq!(zone, before);
    zone.hand(Step::Announce, NOW);
    zone.hand(Step::Finish, NOW + 120);
    assert_eq!(zone.owner(&us(), "a.x."), Owner::Us);
}

#[test]
fn only_named_sets_are_handed_over() {
    let zone = Zone::usual();
    let handover = Handover {
        from: "them".to_owned(),
        names: [name("b.x.")].into(),
        step: Step::Announce,
        after: Duration::ZERO,
        now: Timestamp::from_secs(NOW),
    };
    let plan = us().hand_over(&handover, &zone.current(&us()), &wanted_state()).unwrap();
    assert_eq!(plan, HandoverPlan::default());
}

#[test]
fn handover_needs_a_registry_and_another_owner() {
    let mut handover = Handover {
        from: "us".to_owned(),
        names: BTreeSet::new(),
        step: Step::Announce,
        after: Duration::ZERO,
        now: Timestamp::from_secs(NOW),
    };
    let current = Current::default();
    let result = |handover: &Handover, who: &Ownership| who.hand_over(handover, &current, &wanted_state());
    assert_eq!(result(&handover, &us()), Err(HandoverError::Ourselves("us".to_owned())));
    handover.from = "them".to_owned();
    assert_eq!(result(&handover, &Ownership::Store), Err(HandoverError::NoRegistry));
}
