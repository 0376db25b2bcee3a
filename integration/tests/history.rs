//! The change log against the states that were served: a random scenario with load control in virtual time, whose answers at random
//! times are explained once more from the log.

use std::{path::Path, sync::Arc, time::Duration};

use fairway_history::{Exactness, LogWriter, PastStates, files};
use fairway_model::{DesiredState, Name, Network, Rtype, Timestamp, Weight};
use fairway_whatif::simulate::{
    Rng, random, run_observed,
    scenario::{Deployment, Event, Scenario, Start},
};
use fairway_zones::{Explained, Snapshot, explain};

/// An explanation of the state that was served.
struct Sample {
    at: Timestamp,
    name: Name,
    client: Network,
    explained: Explained,
}

/// Returns a random scenario of these hours: gateways die and return, clusters are drained, reports are lost, the pool changes.
fn scenario(seed: u64, hours: u64) -> Scenario {
    let mut scenario = random::draw(seed, Start::Cold, &Deployment::one_server()).expect("a scenario");
    let mut rng = Rng::new(seed);
    scenario.length = Duration::from_secs(3_600 * hours);
    let mut other = scenario.pools[0].clone();
    for member in &mut other.members {
        member.weight = Weight(1 + (rng.fraction() * 100.0) as u16);
    }
    scenario.pools.push(other);
    let pools = scenario.pools.len();
    let mut at = Duration::ZERO;
    loop {
        at += Duration::from_secs_f64(rng.exponential(300.0));
        if at >= scenario.length {
            return scenario;
        }
        let cluster = (rng.fraction() * scenario.clusters.len() as f64) as usize;
        let (begin, end) = match (rng.fraction() * 4.0) as u8 {
            0 => (Event::Dies(cluster), Event::Returns(cluster)),
            1 => (Event::Drain(cluster), Event::Undrain(cluster)),
            2 => (Event::ReportsLost, Event::ReportsBack),
            _ => (Event::Pool(pools - 1), Event::Pool(0)),
        };
        scenario.events.push((at, begin));
        at += Duration::from_secs_f64(rng.exponential(200.0));
        scenario.events.push((at, end));
    }
}

/// Compares `count` answers of so many hours, and returns the bytes of the log.
fn compare(seed: u64, hours: u64, count: usize) -> u64 {
    println!("seed {seed}, {hours} h, {count} answers");
    let (scenario, folder) = (scenario(seed, hours), tempfile::tempdir().expect("a folder"));
    let mut rng = Rng::new(seed ^ 1);
    let mut times: Vec<f64> = (0..count).map(|_| rng.fraction() * scenario.length.as_secs_f64()).collect();
    times.sort_by(f64::total_cmp);
    let mut times = times.into_iter().map(|at| scenario.begins.plus(Duration::from_secs_f64(at))).peekable();
    let mut log = LogWriter::create(folder.path(), 1 << 30, scenario.begins).expect("a log");
    let (mut samples, mut states) = (Vec::new(), 0);
    let (mut last, mut present) = (None, None);
    run_observed(&scenario, seed, |observed| {
        let id = (observed.serving.snapshot.id(), observed.serving.runtime.id());
        if last != Some(id) {
            last = Some(id);
            states += 1;
            present = Some((observed.serving.clone(), Arc::clone(observed.desired)));
            log.add_state(observed.at, observed.desired, observed.serving, 0).expect("the log is written");
        }
        while times.next_if(|at| *at <= observed.at).is_some() {
            let explained = explain(observed.serving, observed.name, Rtype::A, Some(observed.client));
            samples.push(Sample { at: observed.at, name: observed.name.clone(), client: observed.client, explained });
        }
    });
    println!("{states} states, {} answers compared", samples.len());
    assert!(samples.len() > count / 2 && states > 10, "the scenario has queries and changes");
    let (serving, desired) = present.expect("a state");
    // Zone files, maps and latency tables are not in the log: those of the last state stand for the present ones.
    check((&serving.snapshot, &desired), folder.path(), &samples);
    files(folder.path()).expect("the folder").iter().map(|file| file.bytes).sum()
}

/// Explains each sample from the log.
fn check((snapshot, desired): (&Snapshot, &DesiredState), folder: &Path, samples: &[Sample]) {
    let mut past_states = PastStates::open(folder, samples[0].at).expect("the log reaches the first answer");
    for Sample { at, name, client, explained } in samples {
        past_states.go_to(*at).expect("a state");
        let past = past_states.compile(snapshot, desired).expect("it compiles");
        assert_eq!(past.exactness, Exactness::Exact, "at {at}");
        let again = explain(&past.serving, name, Rtype::A, Some(*client));
        assert_eq!(format!("{explained:?}"), format!("{again:?}"), "at {at} for {client}");
    }
}

#[test]
fn answers_of_the_past_are_explained_from_the_log_as_they_were() {
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock").subsec_nanos();
    compare(seed.into(), 1, 1_000);
}

/// The whole figure; prints the bytes of the log. Takes minutes with `--release`.
#[test]
#[ignore = "minutes; run it with --release --ignored --nocapture"]
fn a_hundred_thousand_answers_of_a_day_are_explained_as_they_were() {
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock").subsec_nanos();
    let bytes = compare(seed.into(), 24, 100_000);
    println!("{bytes} bytes for a day");
}
