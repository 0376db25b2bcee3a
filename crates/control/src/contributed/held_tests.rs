//! Random schedules of two webhook clients, a pipeline, restarts and health in virtual time: no living name is emptied but by the rules.
//!
//! `FAIRWAY_SCHEDULES` sets the number of schedules, `FAIRWAY_SEED` the seed of the first one, which is drawn otherwise and printed.

mod pipeline;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, RandomState},
};

use fairway_config::WithdrawalSettings;
use fairway_contributions::{Evidence, Meaning, ReadRow, Release, RowChanges, Weighing};
use fairway_model::{Eligibility, Name, SplitMix, Timestamp};
use fairway_providers::{
    Endpoint,
    webhook_server::{Edits, Scope},
};
use fairway_store::objects::{Author, Change, Object};

use self::pipeline::{is_of_files, objects};
use super::parts::of_parts;
use crate::declared::Declared;

const OWNERS: [&str; 2] = ["east", "west"];
/// Number of the writer after the owners.
const PIPELINE: usize = 2;
/// Largest number of names.
const NAMES_MAX: usize = 14;
const STEPS: usize = 30;
/// Ten minutes, the time in which withdrawals are counted together.
const WINDOW: u64 = 600;

/// A writer, and the number of a name.
type Member = (usize, usize);

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn scope(owner: usize) -> Scope {
    Scope::owner(OWNERS[owner]).unwrap()
}

fn endpoint((owner, name): Member) -> Endpoint {
    Endpoint {
        dns_name: format!("n{name}.gslb.example"),
        record_type: "A".to_owned(),
        targets: vec![format!("10.0.{owner}.{name}")],
        ..Endpoint::default()
    }
}

fn number_of(name: &str) -> usize {
    name.trim_start_matches('n').split('.').next().unwrap().parse().unwrap()
}

fn member(owner: usize, row: &ReadRow) -> Member {
    (owner, number_of(&row.text))
}

/// Members whose targets are down, and the names to which the pipeline declares a member.
#[derive(Default)]
struct Answers {
    down: BTreeSet<Member>,
    piped: BTreeSet<usize>,
}

impl Evidence for Answers {
    fn eligibility(&self, row: &ReadRow) -> Option<Eligibility> {
        let Meaning::Addresses(addresses, _) = &row.meaning else { return None };
        let is_down = |(owner, name): &Member| addresses[0].to_string() == format!("10.0.{owner}.{name}");
        Some(if self.down.iter().any(is_down) { Eligibility::Down } else { Eligibility::Up })
    }

    fn is_declared_healthy(&self, name: &Name) -> Option<bool> {
        let name = number_of(&name.to_string());
        match self.piped.contains(&name) {
            true => Some(!self.down.contains(&(PIPELINE, name))),
            false => is_of_files(name).then_some(false),
        }
    }
}

/// A server in virtual time, and what its three writers did.
struct Schedule<'a> {
    seed: u64,
    random: SplitMix,
    names: usize,
    /// The objects of the pipeline.
    objects: &'a Declared,
    declared: Declared,
    answers: Answers,
    now: u64,
    /// Times at which a writer withdrew a name.
    log: Vec<(u64, Member)>,
    /// Earlier plans of each writer, which it may apply again.
    plans: [Vec<BTreeSet<usize>>; 3],
}

impl<'a> Schedule<'a> {
    fn new(seed: u64, objects: &'a Declared) -> Self {
        let mut random = SplitMix::new(seed);
        let names = [2, 3, 5, NAMES_MAX][below(&mut random, 4)];
        let (declared, answers) = (Declared::default(), Answers::default());
        Self { seed, random, names, objects, declared, answers, now: 1_000_000, log: vec![], plans: Default::default() }
    }

    fn weighing<T>(&self, owner: usize, of: impl FnOnce(&Weighing<'_>) -> T) -> T {
        let settings = WithdrawalSettings::default();
        let (declared, evidence, scope) = (&self.declared, &self.answers, scope(owner));
        of(&Weighing { rows: declared, scope: &scope, evidence, settings, now: self.now })
    }

    /// Returns the members of both owners: contributed and not held, held with the time.
    fn members(&self) -> (BTreeSet<Member>, BTreeMap<Member, u64>) {
        let (mut live, mut held) = (BTreeSet::new(), BTreeMap::new());
        for owner in 0..2 {
            for row in self.declared.rows_of(&scope(owner)) {
                match row.row.held {
                    None => _ = live.insert(member(owner, row)),
                    Some(hold) => _ = held.insert(member(owner, row), hold.at),
                }
            }
        }
        (live, held)
    }

    /// Returns the members of all writers, with those that are held.
    fn all_members(&self) -> BTreeSet<Member> {
        let (live, held) = self.members();
        let piped = self.answers.piped.iter().map(|name| (PIPELINE, *name));
        live.into_iter().chain(held.into_keys()).chain(piped).collect()
    }

    fn apply(&mut self, owner: usize, changes: &RowChanges) {
        self.commit(of_parts(changes, &self.declared, &scope(owner), self.now).unwrap());
    }

    fn commit(&mut self, changes: Vec<Change>) {
        for Change { key, value, .. } in changes {
            let revision = self.declared.revision + 1;
            let at = Timestamp::from_secs(self.now);
            let object = value.map(|value| Object {
                key: key.clone(),
                value: value.into(),
                revision,
                generation: 1,
                created: at,
                changed: at,
                by: Author::default(),
            });
            self.declared.put(&key, object);
            self.declared.revision = revision;
        }
    }

    /// Returns a plan of a writer: a random one, an empty one, or an old one.
    fn new_plan(&mut self, writer: usize) -> BTreeSet<usize> {
        let plan = match below(&mut self.random, 4) {
            0 => BTreeSet::new(),
            1 if !self.plans[writer].is_empty() => {
                let old = below(&mut self.random, self.plans[writer].len());
                self.plans[writer][old].clone()
            }
            _ => (0..self.names).filter(|_| below(&mut self.random, 3) > 0).collect(),
        };
        self.plans[writer].push(plan.clone());
        plan
    }

    /// An owner makes its contributions those of a plan.
    fn plan(&mut self, owner: usize) {
        let plan = self.new_plan(owner);
        let all_before = self.all_members();
        let before = self.members().0;
        let mut edits = Edits::new();
        for name in 0..self.names {
            let row = endpoint((owner, name));
            match (before.contains(&(owner, name)), plan.contains(&name)) {
                (false, true) => _ = edits.insert(row.key(), Some(row)),
                (true, false) => _ = edits.insert(row.key(), None),
                _ => {}
            }
        }
        let changes = self.weighing(owner, |weighing| weighing.changes(&edits));
        self.apply(owner, &changes);
        let (after, all_after) = (self.members().0, self.all_members());
        assert_eq!(after.iter().filter(|of| of.0 == owner).map(|of| of.1).collect::<BTreeSet<_>>(), plan, "accepted");
        let gone: Vec<Member> = before.difference(&after).copied().collect();
        self.log.extend(gone.iter().map(|of| (self.now, *of)));
        let are_many = self.withdrew_many(owner, plan.len(), &after);
        for name in 0..self.names {
            let is_living = |of: &Member| of.1 == name && !self.answers.down.contains(of);
            let (lived, still) = (all_before.iter().any(is_living), all_after.iter().any(is_living));
            let is_only = !is_of_files(name) && !all_after.iter().any(|of| of.1 == name);
            assert!(!lived || still || (is_only && !are_many), "{} emptied n{name}: {plan:?}", OWNERS[owner]);
        }
    }

    /// Returns true if an owner withdrew all of its names, or many, in ten minutes.
    fn withdrew_many(&self, owner: usize, kept: usize, live: &BTreeSet<Member>) -> bool {
        let recent = self.log.iter().filter(|(at, of)| of.0 == owner && self.now - at < WINDOW);
        let names = recent.filter(|(_, of)| !live.contains(of)).map(|(_, of)| of.1).collect::<BTreeSet<_>>();
        (kept == 0 && names.len() >= 2) || names.len() > 10.max((names.len() + kept) / 5)
    }

    /// Releases what is due. Each release must have a reason.
    fn release(&mut self, owner: usize) {
        let releases = self.weighing(owner, |weighing| weighing.releases());
        let (live, held) = self.members();
        let piped = self.answers.piped.iter().map(|name| (PIPELINE, *name));
        let live: BTreeSet<Member> = live.into_iter().chain(piped).collect();
        for ((text, ..), release) in &releases.due {
            let name = number_of(text);
            let of = (owner, name);
            let is_due = match release {
                Release::Down => self.answers.down.contains(&of),
                Release::Expired => self.now - held[&of] >= 3_600,
                Release::Replaced => live.iter().any(|other| other.1 == name && !self.answers.down.contains(other)),
                Release::Confirmed => false,
            };
            assert!(is_due, "{of:?} was released as {release:?}");
        }
        self.apply(owner, &RowChanges::from(releases));
    }

    fn confirm(&mut self, owner: usize) {
        let scope = scope(owner);
        let rows = self.declared.rows_of(&scope).filter(|row| row.row.held.is_some());
        let keys: Vec<_> = rows.map(|row| row.row.endpoint.key()).collect();
        // What an operator confirmed is no mistake, and no longer counts.
        let held = self.members().1;
        self.log.retain(|(_, of)| of.0 != owner || !held.contains_key(of));
        self.apply(owner, &RowChanges::removing(keys));
        assert!(self.members().1.keys().all(|of| of.0 != owner));
    }

    fn restart(&mut self) {
        self.declared = Declared::new(
            self.declared.revision,
            self.declared.all().map(std::borrow::Cow::into_owned).collect::<Vec<_>>(),
        );
    }

    fn step(&mut self) {
        let owner = below(&mut self.random, 2);
        match below(&mut self.random, 24) {
            0..10 => self.plan(owner),
            20..24 => self.prune(),
            10..13 => self.now += 1 + below(&mut self.random, 900) as u64,
            13 => self.now += 40_000,
            14 | 15 => {
                let of = (below(&mut self.random, 3), below(&mut self.random, self.names));
                if !self.answers.down.remove(&of) {
                    self.answers.down.insert(of);
                }
            }
            16 => self.confirm(owner),
            17 => self.restart(),
            _ => {}
        }
        self.release(0);
        self.release(1);
    }
}

impl Drop for Schedule<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the schedule of FAIRWAY_SEED={} failed", self.seed);
        }
    }
}

fn below(random: &mut SplitMix, bound: usize) -> usize {
    random.below(bound as u64) as usize
}

#[test]
fn no_schedule_of_three_writers_empties_a_living_name() {
    let count = number("FAIRWAY_SCHEDULES").unwrap_or(2_000);
    let first = number("FAIRWAY_SEED").unwrap_or_else(|| RandomState::new().hash_one(()) >> 1);
    println!("{count} schedules from FAIRWAY_SEED={first}");
    let objects = objects();
    for seed in (0..count).map(|number| first.wrapping_add(number)) {
        let mut schedule = Schedule::new(seed, &objects);
        for _ in 0..STEPS {
            schedule.step();
        }
    }
}
