use fairway_model::{RecordSet, Ttl};
use proptest::prelude::*;

use super::*;
use crate::publish::{Affix, Claims, Policy, Unit};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn set(of: &str, rtype: Rtype, rdata: &[u8]) -> ProviderRecordSet {
    ProviderRecordSet::plain(RecordSet::new(name(of), rtype, Ttl::STEERED, [Box::from(rdata)]))
}

fn address(of: &str, last: u8) -> ProviderRecordSet {
    set(of, Rtype::A, &[192, 0, 2, last])
}

fn alias(of: &str) -> ProviderRecordSet {
    set(of, Rtype::CNAME, b"\x01t\x01x\x00")
}

fn txt_registry() -> Ownership {
    Ownership::Txt { affix: Affix::default(), owner: "us".to_owned(), key: None }
}

fn scope(zones: &[Name]) -> Scope<'_> {
    Scope { zones, types: None, set_identifiers: false }
}

/// A provider without failures.
#[derive(Clone, Debug, Default, PartialEq)]
struct Zone(BTreeMap<RecordSetKey, ProviderRecordSet>);

impl Zone {
    fn of(sets: impl IntoIterator<Item = ProviderRecordSet>) -> Self {
        Self(sets.into_iter().map(|set| (set.key(), set)).collect())
    }

    fn sorted(&self, wanted: &Wanted) -> Current {
        let keys = wanted.sets.iter().map(ProviderRecordSet::key).collect();
        txt_registry().sort(self.0.values().cloned().collect(), &Claims::new(), &keys)
    }

    fn plan(&self, wanted: &Wanted) -> Plan {
        plan(wanted, &self.sorted(wanted), scope(&[name("x.")]), &txt_registry())
    }

    fn units(&self, wanted: &Wanted) -> Vec<Unit> {
        let Plan { changes, kept, .. } = self.plan(wanted);
        txt_registry().units(changes, &kept, &self.sorted(wanted))
    }

    fn apply(&mut self, changes: &Changes) {
        for set in &changes.delete {
            self.0.remove(&set.key());
        }
        for set in changes.create.iter().chain(changes.update.iter().map(|update| &update.to)) {
            self.0.insert(set.key(), set.clone());
        }
    }

    fn sync(&mut self, wanted: &Wanted) {
        self.units(wanted).iter().for_each(|unit| self.apply(&unit.changes));
    }
}

fn wanted(sets: impl IntoIterator<Item = ProviderRecordSet>) -> Wanted {
    Wanted { sets: sets.into_iter().collect(), held: BTreeSet::new() }
}

#[test]
fn plan_creates_updates_keeps_and_deletes() {
    let mut zone = Zone::default();
    let first = wanted([address("a.x.", 1), address("b.x.", 1), address("c.x.", 1)]);
    zone.sync(&first);
    let next = wanted([address("b.x.", 2), address("c.x.", 1), address("d.x.", 1)]);
    let plan = zone.plan(&next);
    assert_eq!(plan.changes.create, [address("d.x.", 1)]);
    assert_eq!(plan.changes.update, [Update { from: address("b.x.", 1), to: address("b.x.", 2) }]);
    assert_eq!(plan.changes.delete, [address("a.x.", 1)]);
    assert_eq!(plan.kept, [address("c.x.", 1).key()]);
}

#[test]
fn each_obstacle_is_reported() {
    let zones = [name("x.")];
    let them = "heritage=external-dns,external-dns/owner=them";
    let text = |of: &str, text: &str| set(of, Rtype::TXT, &[&[text.len() as u8], text.as_bytes()].concat());
    let zone = Zone::of([
        address("free.x.", 9),
        address("theirs.x.", 9),
        text("a-theirs.x.", them),
        text("a-taken.x.", "hello"),
        text("a-soon.x.", them),
        address("beside.x.", 9),
        alias("was.x."),
    ]);
    let weighted = ProviderRecordSet { set_identifier: "eu1".to_owned(), ..address("w.x.", 1) };
    let long = format!("{}.x.", "l".repeat(62));
    let cases = [
        (address("www.y.", 1), Obstacle::OutsideZones),
        (set("x.", Rtype::NS, b"\x02ns\x01x\x00"), Obstacle::OfTheZone),
        (set("a.x.", Rtype::DNSKEY, b"key"), Obstacle::OfTheZone),
        (weighted, Obstacle::SetIdentifier),
        (address("free.x.", 1), Obstacle::Unclaimed),
        (address("theirs.x.", 1), Obstacle::OfOther("them".to_owned())),
        (address("taken.x.", 1), Obstacle::CompanionTaken),
        (address("soon.x.", 1), Obstacle::OfOther("them".to_owned())),
        (alias("beside.x."), Obstacle::Alias),
        (address("was.x.", 1), Obstacle::Alias),
        (address("x.", 1), Obstacle::CompanionOutside),
        (address(&long, 1), Obstacle::CompanionOutside),
    ];
    for (set, obstacle) in cases {
        let wanted = wanted([set.clone()]);
        let plan = plan(&wanted, &zone.sorted(&wanted), scope(&zones), &txt_registry());
        assert_eq!((plan.refused, plan.changes), (vec![(set.key(), obstacle)], Changes::default()));
    }
    let few = Scope { types: Some(&[Rtype::A]), ..scope(&zones) };
    let six = wanted([set("six.x.", Rtype::AAAA, &[0; 16])]);
    assert_eq!(plan(&six, &zone.sorted(&six), few, &txt_registry()).refused[0].1, Obstacle::Type);
}

#[test]
fn obstacle_of_one_set_does_not_block_others() {
    let wanted =
        wanted([address("a.x.", 1), address("www.y.", 1), address("b.x.", 1), address("b.x.", 2), alias("a.x.")]);
    let plan = Zone::default().plan(&wanted);
    assert_eq!(plan.changes.create, [address("b.x.", 1)]);
    let refused: Vec<_> = plan.refused.into_iter().map(|(_, obstacle)| obstacle).collect();
    assert_eq!(refused, [Obstacle::Alias, Obstacle::OutsideZones, Obstacle::Twice, Obstacle::Alias]);
}

#[test]
fn held_name_keeps_its_sets() {
    let mut zone = Zone::default();
    zone.sync(&wanted([address("a.x.", 1), address("b.x.", 1)]));
    let before = zone.clone();
    let held = Wanted { sets: vec![address("b.x.", 1)], held: BTreeSet::from([name("A.x.")]) };
    assert!(zone.units(&held).is_empty());
    // A set without records does not ask for an empty answer.
    let mut empty = address("a.x.", 1);
    empty.set.rdatas = [].into();
    zone.sync(&wanted([empty, address("b.x.", 1)]));
    assert_eq!(zone, before);
}

#[test]
fn set_with_an_obstacle_is_not_deleted() {
    let mut zone = Zone::default();
    zone.sync(&wanted([address("a.x.", 1)]));
    let both = wanted([address("a.x.", 1), alias("a.x.")]);
    assert!(zone.plan(&both).changes.is_empty());
}

#[test]
fn address_is_replaced_by_a_cname_in_one_unit() {
    let mut zone = Zone::default();
    zone.sync(&wanted([address("a.x.", 1)]));
    let units = zone.units(&wanted([alias("a.x.")]));
    assert_eq!(units.len(), 1);
    // Each change includes a registry record.
    assert_eq!((units[0].changes.create.len(), units[0].changes.delete.len()), (2, 2));
}

#[test]
fn case_missing_ttl_and_added_fields_are_no_difference() {
    let want = alias("a.x.");
    let mut there = set("A.X.", Rtype::CNAME, b"\x01T\x01X\x00");
    there.set.ttl = Ttl::from_secs(0).unwrap();
    there.properties.insert("added".to_owned(), "by the provider".to_owned());
    assert!(is_alike(&want, &there));
    assert!(!is_alike(&there, &want));
    let mx = |preference| set("a.x.", Rtype::MX, &[0, preference, 1, b't', 0]);
    assert!(!is_alike(&mx(b'A'), &mx(b'a')));
}

#[test]
fn name_belongs_to_the_longest_zone() {
    let zones = [name("x."), name("sub.x.")];
    assert_eq!(zone_of(&zones, &name("a.sub.x.")), Some(&zones[1]));
    assert_eq!(zone_of(&zones, &name("a.y.")), None);
}

#[test]
fn nothing_is_deleted_without_a_registry() {
    let zones = [name("x.")];
    let read = vec![address("a.x.", 9), address("b.x.", 9)];
    let want = wanted([address("a.x.", 1)]);
    let current = Ownership::Unknown.sort(read, &Claims::new(), &BTreeSet::from([address("a.x.", 1).key()]));
    let plan = plan(&want, &current, scope(&zones), &Ownership::Unknown);
    assert_eq!((plan.changes.update.len(), plan.changes.delete.len()), (1, 0));
}

#[test]
fn policy_filters_changes() {
    let mut zone = Zone::default();
    zone.sync(&wanted([address("a.x.", 1), address("b.x.", 1)]));
    let plan = zone.plan(&wanted([address("b.x.", 2), address("c.x.", 1)]));
    let counts = [Policy::Sync, Policy::UpsertOnly, Policy::CreateOnly].map(|policy| {
        let mut changes = plan.changes.clone();
        policy.filter(&mut changes);
        (changes.create.len(), changes.update.len(), changes.delete.len())
    });
    assert_eq!(counts, [(1, 1, 1), (1, 1, 0), (1, 0, 0)]);
}

/// A few names, so that wanted and foreign records collide.
fn any_set() -> impl Strategy<Value = ProviderRecordSet> {
    let owner =
        prop_oneof!["[a-d]\\.x\\.", "(a|cname|aaaa)-[a-d]\\.x\\.", Just("x.".to_owned()), Just("y.".to_owned())];
    (owner, 0..5u8, 0..4u8).prop_map(|(owner, kind, last)| match kind {
        0 => alias(&owner),
        1 => set(&owner, Rtype::AAAA, &[last; 16]),
        2 => set(&owner, Rtype::TXT, &[1, last]),
        _ => address(&owner, last),
    })
}

fn any_foreign() -> impl Strategy<Value = ProviderRecordSet> {
    let claimed = ("(a|cname|txt)-[a-d]\\.x\\.", "[a-b]").prop_map(|(owner, who)| {
        let text = format!("heritage=external-dns,external-dns/owner={who}");
        set(&owner, Rtype::TXT, &[&[text.len() as u8], text.as_bytes()].concat())
    });
    prop_oneof![3 => any_set(), 1 => claimed]
}

proptest! {
    /// After two syncs the plan is empty, for any wanted state and any records of others. The first sync is not always enough: a name may
    /// have been that of a registry record.
    #[test]
    fn applied_plan_leaves_an_empty_plan(
        foreign in prop::collection::vec(any_foreign(), 0..6),
        states in prop::collection::vec(prop::collection::vec(any_set(), 0..8), 1..5),
    ) {
        let mut zone = Zone::of(foreign);
        for sets in states {
            let state = wanted(sets);
            zone.sync(&state);
            zone.sync(&state);
            let again = zone.units(&state);
            prop_assert!(again.is_empty(), "{again:?}");
        }
    }

    /// Sets of others stay for any sequence of wanted states; once nothing is wanted, only they remain.
    #[test]
    fn foreign_sets_survive_any_sequence(
        foreign in prop::collection::vec(any_foreign(), 0..6),
        states in prop::collection::vec(prop::collection::vec(any_set(), 0..8), 1..5),
    ) {
        let before = Zone::of(foreign);
        let mut zone = before.clone();
        for sets in states {
            zone.sync(&wanted(sets));
            for (key, set) in &before.0 {
                prop_assert_eq!(zone.0.get(key), Some(set));
            }
        }
        zone.sync(&Wanted::default());
        prop_assert_eq!(zone, before);
    }

    /// The next sync repairs a change that was interrupted or applied twice.
    #[test]
    fn interrupted_and_repeated_batches_converge(
        states in prop::collection::vec(prop::collection::vec(any_set(), 0..8), 2..4),
        cut in 0..12usize,
    ) {
        let [mut whole, mut broken] = [Zone::default(), Zone::default()];
        for sets in states {
            let state = wanted(sets);
            whole.sync(&state);
            let units = broken.units(&state);
            for unit in units.iter().take(cut).chain(units.iter().take(cut)) {
                broken.apply(&unit.changes);
            }
            broken.sync(&state);
            broken.sync(&state);
            whole.sync(&state);
            prop_assert_eq!(&broken, &whole);
        }
    }
}
