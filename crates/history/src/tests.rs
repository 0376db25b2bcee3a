//! Random states, written and compiled again; limits of the log; damaged files.

use std::{fs, path::Path, sync::Arc};

use fairway_model::{
    AdaptiveTtl, Check, Cluster, ClusterName, DesiredState, DownAnswer, Health, HealthStatus, HttpCheck, Member,
    Monitor, MonitorName, Name, NamedTimeZone, OverrideAction, Policy, Pool, PoolName, RecordSet, Rtype, Schedule,
    ScheduleWindow, Secret, SplitMix, SteeredName, TimeOfDay, Timestamp, Ttl, TtlBounds, Weekdays, WeeklyHours, Weight,
    ZoneSpec,
};
use fairway_zones::{RuntimeState, ServerOptions, ServingState, compile};

use crate::{
    EventRange, Exactness, LogWriter, PastStates, events, files,
    record_wire::{Change, Ids},
    recorder::State,
};

const LARGE: u64 = 1 << 30;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn below(rng: &mut SplitMix, bound: u64) -> u64 {
    rng.bits() % bound
}

/// Returns a random pool, with what the runtime state has memories and times of.
fn pool(rng: &mut SplitMix, number: u64) -> Pool {
    let policy = if below(rng, 2) == 0 { Policy::WEIGHTED } else { Policy::FAILOVER };
    let schedule = below(rng, 3) == 0;
    let mut pool = Pool::new(PoolName::new(&format!("p{number}")).unwrap(), Policy { schedule, ..policy });
    pool.down = [DownAnswer::All, DownAnswer::LastGood, DownAnswer::FallbackAddresses(vec![[192, 0, 2, 99].into()])]
        [below(rng, 3) as usize]
        .clone();
    if below(rng, 3) == 0 {
        let [short, long] = [5, 300].map(|secs| Ttl::from_secs(secs).unwrap());
        pool.ttl_bounds = Some(TtlBounds { short, long });
    }
    pool.monitor = (below(rng, 2) == 0).then(|| MonitorName::new("probe").unwrap());
    for cluster in 0..=below(rng, 4) {
        let mut member = Member::new(ClusterName::new(&format!("c{cluster}")).unwrap());
        member.weight = Weight(1 + below(rng, 100) as u16);
        if schedule && below(rng, 2) == 0 {
            let zone = NamedTimeZone::new(jiff::tz::TimeZone::get("Europe/Berlin").unwrap()).unwrap();
            let hours = [8, 18].map(|hour| TimeOfDay::new(hour, 0).unwrap());
            let weekly = WeeklyHours::new(Weekdays::ALL, hours[0], hours[1], zone).unwrap();
            member.schedule = Schedule::new(vec![ScheduleWindow::new(Some(weekly), None, None).unwrap()]);
        }
        pool.members.push(member);
    }
    pool
}

fn start() -> DesiredState {
    let mut desired = DesiredState::default();
    desired.zones.insert(name("h.test"), ZoneSpec::new(name("h.test")));
    for number in 0..5u8 {
        let cluster = ClusterName::new(&format!("c{number}")).unwrap();
        desired.clusters.insert(cluster.clone(), Cluster::new(cluster, vec![[192, 0, 2, number].into()]));
    }
    let mut check = HttpCheck::get(8080, "/ready");
    check.headers.push(("authorization".to_owned(), Secret::new("Bearer word")));
    desired.monitors.insert(MonitorName::new("probe").unwrap(), Arc::new(Monitor::new(Check::Http(check))));
    desired
}

/// Adds, replaces or removes a pool with its name, or a record.
fn change(rng: &mut SplitMix, desired: &mut DesiredState) {
    let number = below(rng, 6);
    let steered = name(&format!("n{number}.h.test"));
    if below(rng, 4) == 0 {
        let key = (name("t.h.test"), Rtype::TXT);
        if desired.records.remove(&key).is_none() {
            let text = format!("\x04n{:03}", below(rng, 1000)).into_bytes().into_boxed_slice();
            desired.records.insert(key.clone(), RecordSet::new(key.0, key.1, RecordSet::TTL_USUAL, [text]));
        }
        return;
    }
    let pool = pool(rng, number);
    if below(rng, 3) == 0 {
        desired.pools.remove(&pool.name);
        desired.names.remove(&steered);
        return;
    }
    desired.names.insert(steered.clone(), SteeredName { name: steered, pool: pool.name.clone(), ttl: None });
    desired.pools.insert(pool.name.clone(), pool);
}

/// Random states one after the other.
struct States {
    rng: SplitMix,
    at: Timestamp,
    desired: DesiredState,
    last: Option<ServingState>,
}

impl States {
    fn new(seed: u64) -> Self {
        Self { rng: SplitMix::new(seed), at: Timestamp::from_secs(1_900_000_000), desired: start(), last: None }
    }

    fn timed(&mut self) -> (Timestamp, State) {
        let state = self.next();
        (self.at, state)
    }

    fn next(&mut self) -> State {
        let Self { rng, at, desired, last } = self;
        *at = at.plus(std::time::Duration::from_secs(1 + below(rng, 4_000)));
        let text = "$TTL 60\n@ IN SOA ns h 1 1 1 1 1\n@ IN NS ns\nns IN A 192.0.2.53\n";
        let mut random = |_| {
            let status = [HealthStatus::Up, HealthStatus::Down, HealthStatus::Unknown][below(rng, 3) as usize];
            Health::new(status, (below(rng, 5) == 0).then_some(OverrideAction::Drain))
        };
        let serving = match last.take() {
            Some(before) if random(()).status() == HealthStatus::Up => {
                let targets = (0..before.snapshot.targets().len() as u32).map(fairway_zones::TargetIndex);
                let changes: Vec<_> = targets.map(|target| (target, random(()))).collect();
                let runtime = before.runtime.with(&before.snapshot, &changes);
                let runtime = runtime.at(&before.snapshot, *at).unwrap_or(runtime);
                ServingState { snapshot: before.snapshot, runtime: Arc::new(runtime) }
            }
            before => {
                change(&mut *rng, desired);
                let (zone, _) =
                    fairway_zonefile::read_zone(
                        &name("h.test"),
                        "h.test",
                        text.as_bytes(),
                        &mut |_| Err(String::new()),
                    );
                let previous = before.as_ref().map(|before| &*before.snapshot);
                let (snapshot, _) = compile(desired, &[zone], &ServerOptions::default(), previous).unwrap();
                let health = |_| Health::new(HealthStatus::Up, None);
                let runtime = match &before {
                    Some(before) => RuntimeState::after(&snapshot, (&before.snapshot, &before.runtime), *at, health),
                    None => RuntimeState::new_at(&snapshot, *at, health),
                };
                let runtime = runtime.with_adaptive_ttls(&snapshot, |place| match place % 2 {
                    0 => AdaptiveTtl::Calm,
                    _ => AdaptiveTtl::Declared,
                });
                ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) }
            }
        };
        *last = Some(serving.clone());
        State { desired: Arc::new(desired.clone()), serving }
    }
}

fn add(log: &mut LogWriter, at: Timestamp, state: &State, skipped: u32) {
    log.add_state(at, &state.desired, &state.serving, skipped).unwrap();
}

/// Expects that the log has each state, exactly.
fn expect_states(folder: &Path, states: &[(Timestamp, State)]) {
    let (_, present) = states.last().unwrap();
    let mut past_states = PastStates::open(folder, states[0].0).unwrap();
    for (at, state) in states {
        past_states.go_to(*at).unwrap();
        let past = past_states.compile(&present.serving.snapshot, &present.desired).unwrap();
        assert_eq!(past.exactness, Exactness::Exact, "at {at}");
        assert_eq!(past.serving.runtime.id(), state.serving.runtime.id());
    }
}

#[test]
fn random_states_are_read_as_they_were_written() {
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos().into();
    println!("seed {seed}");
    let folder = tempfile::tempdir().unwrap();
    let mut random = States::new(seed);
    let states: Vec<_> = (0..300).map(|_| random.timed()).collect();
    let mut log = LogWriter::create(folder.path(), LARGE, states[0].0).unwrap();
    states.iter().for_each(|(at, state)| add(&mut log, *at, state, 0));
    expect_states(folder.path(), &states);
}

#[test]
fn oldest_files_are_deleted_and_each_begins_with_a_whole_state() {
    let folder = tempfile::tempdir().unwrap();
    let (mut random, limit) = (States::new(7), 64 << 10);
    let mut log = LogWriter::create(folder.path(), limit, random.at).unwrap();
    let mut states = Vec::new();
    for number in 0..3_000 {
        let state = random.next();
        add(&mut log, random.at, &state, 0);
        log.add_event(random.at, &format!(r#"{{"number":{number}}}"#)).unwrap();
        states.push((random.at, state));
    }
    let kept = files(folder.path()).unwrap();
    assert!(kept.len() > 2, "{kept:?}");
    assert!(kept.iter().map(|file| file.bytes).sum::<u64>() <= limit, "{kept:?}");
    let error = PastStates::open(folder.path(), states[0].0).err().unwrap().to_string();
    assert!(error.contains("the change log begins at"), "{error}");
    let first = states.iter().position(|(at, _)| PastStates::open(folder.path(), *at).is_ok()).unwrap();
    expect_states(folder.path(), &states[first..]);
    let numbers = |newest| {
        let range = EventRange { since: 0, until: u64::MAX, limit: 3, newest };
        events(folder.path(), range, |_, event| Some(String::from_utf8(event.to_vec()).unwrap())).unwrap()
    };
    assert_eq!(numbers(true), [2997, 2998, 2999].map(|number| format!(r#"{{"number":{number}}}"#)));
    assert_eq!(numbers(false).len(), 3);
    assert_ne!(numbers(false)[0], r#"{"number":0}"#, "the oldest events are gone");
}

#[test]
fn times_without_a_recorded_state_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = States::new(3);
    let mut log = LogWriter::create(folder.path(), LARGE, random.at).unwrap();
    let first = random.next();
    let begin = random.at;
    add(&mut log, begin, &first, 0);
    let mut second = random.next();
    while second.is_same(&first) {
        second = random.next();
    }
    add(&mut log, random.at, &second, 2);
    let skipped = |at| {
        let mut past_states = PastStates::open(folder.path(), at).unwrap();
        past_states.go_to(at).unwrap();
        past_states.compile(&second.serving.snapshot, &second.desired).unwrap().skipped
    };
    assert_eq!((skipped(begin), skipped(random.at)), (2, 0));
}

#[test]
fn record_that_a_crash_cut_off_hides_none_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = States::new(5);
    let mut log = LogWriter::create(folder.path(), LARGE, random.at).unwrap();
    let state = random.next();
    add(&mut log, random.at, &state, 0);
    let whole = files(folder.path()).unwrap()[0].clone();
    log.add_event(random.at, r#"{"cut":"off"}"#).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&whole.path).unwrap();
    file.set_len(fs::metadata(&whole.path).unwrap().len() - 1).unwrap();
    expect_states(folder.path(), &[(random.at, state)]);
    let range = EventRange { since: 0, until: u64::MAX, limit: 10, newest: true };
    assert!(events(folder.path(), range, |_, _| Some(())).unwrap().is_empty());
}

#[test]
fn limit_that_is_too_small_for_a_state_is_an_error_and_keeps_events() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = States::new(5);
    let mut log = LogWriter::create(folder.path(), 300, random.at).unwrap();
    let state = random.next();
    let error = log.add_state(random.at, &state.desired, &state.serving, 0).unwrap_err().to_string();
    assert!(error.contains("history.bytes is too small"), "{error}");
    assert!(log.add_state(random.at, &state.desired, &state.serving, 0).is_err());
    log.add_event(random.at, "{}").unwrap();
}

/// The form of a state. If this fails, a type of the model changed: raise `FORMAT`, then change the sum here.
#[test]
fn form_of_a_state_belongs_to_its_format() {
    let mut random = States::new(11);
    let mut sum = crc32fast::Hasher::new();
    for _ in 0..40 {
        let (state, ids) = (random.next(), Ids::default());
        sum.update(&postcard::to_stdvec(&Change { ids, ..state.change_since(None, 0) }).unwrap());
    }
    assert_eq!(sum.finalize(), 3_856_354_517);
}
