//! The narrow way of a reading gives what the wide one gives.

use std::sync::Arc;

use fairway_zones::{Snapshot, steer::SteerPool};
use serde_json::{Value, json};

use super::*;
use crate::{
    control::{
        configured::{Configured, Previous, Reading},
        declared::Declared,
    },
    store::objects::{Author, Key, Kind, Object},
};

/// Clusters, and a pool and a name that objects meet too. The second zone has a monitor of its own.
const FILES: &str = "version: 1
listen: { dns: [\"127.0.0.1:0\"] }
zones:
  - { name: gslb.example, ns: [ { name: ns1.gslb.example, addresses: [192.0.2.53] } ], contact: a@gslb.example }
  - { name: in.gslb.example, ns: [ { name: ns1.in.gslb.example, addresses: [192.0.2.53] } ], contact: a@gslb.example, monitor: second }
monitors: [ { name: first, type: tcp, port: 81 }, { name: second, type: tcp, port: 82 } ]
clusters:
  - { name: c0, addresses: [192.0.2.1] }
  - { name: c1, addresses: [192.0.2.2, \"2001:db8::2\"] }
  - { name: c2, addresses: [192.0.2.3] }
pools: [ { name: p0, policy: failover, monitor: first, members: [ { cluster: c0 }, { cluster: c1 }, { cluster: c2 } ] } ]
names: [ { name: n0.gslb.example, pool: p0 }, { name: n0.in.gslb.example, pool: p0 } ]
";

/// A reader of these files, and what it read.
fn read(scene: &Scene) -> (Reader, Previous) {
    let source = Source::Path(scene.file());
    let reader = Reader { source, environment: Arc::new(|_| None), declared: Arc::default() };
    let (configured, snapshot) = reader.read_here(What::Files, None, scene.now()).outcome.unwrap();
    (reader, Previous { configured: Arc::new(configured), snapshot: Arc::new(snapshot) })
}

fn change(declared: &mut Declared, kind: Kind, name: &str, value: Option<Value>) {
    let key = Key::new(kind, &[name]).unwrap();
    let at = Timestamp::from_secs(1);
    let object = |value: Value| Object {
        key: key.clone(),
        value: value.to_string().into_bytes().into(),
        revision: 1,
        generation: 1,
        created: at,
        changed: at,
        by: Author::default(),
    };
    declared.suppose(&key, value.map(object));
}

/// Small numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }
}

/// Puts a pool or a name, or takes one away; now and then something that does not fit.
fn edit(declared: &mut Declared, dice: &mut Dice) {
    let pool = format!("p{}", dice.below(5));
    let zone = ["gslb.example", "in.gslb.example", "deep.gslb.example"][dice.below(3) as usize];
    let name = format!("n{}.{zone}", dice.below(4));
    match dice.below(6) {
        0..=2 => {
            let (first, count) = (dice.below(3), 1 + dice.below(3));
            let cluster = |place: u64| {
                if dice.0.is_multiple_of(29) { "nowhere".to_owned() } else { format!("c{}", (first + place) % 3) }
            };
            let members: Vec<Value> =
                (0..count).map(|place| json!({"cluster": cluster(place), "weight": 1 + place})).collect();
            let mut value = json!({"name": pool, "policy": "weighted", "members": members});
            if dice.below(2) == 0 {
                value["monitor"] = json!(["first", "second"][dice.below(2) as usize]);
            }
            change(declared, Kind::Pool, &pool, Some(value));
        }
        3 | 4 => change(declared, Kind::Name, &name, Some(json!({"name": name, "pool": pool}))),
        _ if dice.below(2) == 0 => change(declared, Kind::Pool, &pool, None),
        _ => change(declared, Kind::Name, &name, None),
    }
}

/// What a snapshot says, whatever its numbers are.
fn told(configured: &Configured, snapshot: &Snapshot) -> Vec<String> {
    let uses = &configured.uses;
    let mut told = vec![format!("{:x}", snapshot.id())];
    for target in snapshot.targets() {
        let number = uses.number_of(target).unwrap();
        let sites: Vec<_> = uses.sites(number).collect();
        told.push(format!("{} {:?}: {sites:?} {:?}", target.address, target.monitor, uses.pools(number)));
    }
    for (pool, info) in snapshot.steer_pools().iter().zip(snapshot.pool_infos()) {
        let judged = |(number, cluster, target): (u8, &_, fairway_zones::TargetIndex)| {
            let target = &snapshot.targets()[target.0 as usize];
            format!("{number} {cluster} {} {:?}", target.address, target.monitor)
        };
        let members: Vec<String> = SteerPool::member_targets(pool).map(judged).collect();
        told.push(format!("{} {:?} {members:?}", info.name, info.names));
    }
    told.sort();
    told
}

#[test]
fn a_narrow_reading_is_a_wide_one() {
    let scene = Scene::new(FILES);
    let mut narrow_ones = 0;
    for seed in 0..40 {
        let (reader, mut before) = read(&scene);
        let (mut declared, mut dice) = (Declared::default(), Dice(seed));
        for step in 0..30 {
            (0..1 + dice.below(3)).for_each(|_| edit(&mut declared, &mut dice));
            reader.declared.store(Arc::new(declared.clone()));
            let Reading { touched, outcome, .. } = reader.read_here(What::Objects, Some(&before), scene.now());
            let wide = reader.compile(before.configured.files_again(), Some(&before.snapshot), scene.now());
            let ((ours, snapshot), (theirs, expected)) = (outcome.unwrap(), wide.unwrap());
            let context = format!("seed {seed}, step {step}");
            assert_eq!(ours.desired, theirs.desired, "{context}");
            assert_eq!((&ours.beside, &ours.conflicts), (&theirs.beside, &theirs.conflicts), "{context}");
            assert_eq!((&ours.left_out, ours.is_plain), (&theirs.left_out, theirs.is_plain), "{context}");
            assert_eq!(format!("{:?}", ours.warnings), format!("{:?}", theirs.warnings), "{context}");
            assert_eq!(told(&ours, &snapshot), told(&theirs, &expected), "{context}");
            let counted = super::super::changes::counted(&before.configured.desired, &ours.desired);
            if let Some(touched) = touched {
                narrow_ones += 1;
                let of = super::super::changes::counted_of(&touched, &before.configured.desired, &ours.desired);
                assert_eq!(of, counted, "{context}");
            }
            before = Previous { configured: Arc::new(ours), snapshot: Arc::new(snapshot) };
        }
    }
    assert!(narrow_ones > 400, "{narrow_ones} of 1200 were narrow");
}
