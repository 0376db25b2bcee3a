//! How long a sync of the others takes beside providers that hang, fail, break off and lie: measured, not asserted.
//!
//!     cargo test -p fairway-integration --features real --test publish -- --ignored --nocapture beside

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_model::Rtype;
use fairway_providers::{
    MEDIA_TYPE,
    publish::{Provider, Publisher, Wanted},
};
use tokio::task::JoinSet;

use crate::{
    Wishes,
    etcd::etcd,
    publisher,
    scripted::{Act, Scripted, well},
    servers::{Updates, bind, powerdns, start},
    set,
};

/// Windows of each kind, in turns.
const WINDOWS: usize = 9;
/// Syncs of each provider in a window.
const SYNCS: usize = 12;

struct Stage {
    name: &'static str,
    publisher: Publisher,
    wishes: Wishes,
}

fn stage(name: &'static str, provider: impl Provider + 'static) -> Stage {
    let (publisher, wishes) = publisher(provider);
    Stage { name, publisher, wishes }
}

/// Fifty names, whose addresses change with each round.
fn wish(round: usize) -> Option<Arc<Wanted>> {
    let address = format!("203.0.113.{}", round % 250 + 1);
    let sets = (0..50).map(|n| set(&format!("n{n}"), Rtype::A, &[&address])).collect();
    Some(Arc::new(Wanted { sets, ..Wanted::default() }))
}

/// One that fails at each sync, as soon as it is asked again.
fn faulty(script: fn(&str, &str) -> Act) -> Stage {
    stage("faulty", Scripted::start(script).provider(Duration::from_secs(5)))
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures the delay of syncs beside faulty providers"]
async fn beside_providers_that_fail_the_others_are_as_fast() {
    let (bind, powerdns, etcd) = (start(bind), powerdns(), etcd());
    let good =
        [stage("bind", Updates(bind.at)), stage("powerdns", powerdns.provider.clone()), stage("etcd", etcd.provider())];
    let hangs = faulty(|_, _| Act::Hang);
    let fails = faulty(|_, _| Act::Say(500, "text/plain", "no".to_owned()));
    let cuts = faulty(|asked, body| match asked {
        "POST /records" => Act::Cut("cut".repeat(1_000)),
        _ => well(asked, body),
    });
    // It takes everything and shows something else.
    let lies = faulty(|asked, body| match asked {
        "GET /records" => {
            let one = r#"[{"dnsName":"other.pub.example","targets":["192.0.2.1"],"recordType":"A"}]"#;
            Act::Say(200, MEDIA_TYPE, one.to_owned())
        }
        _ => well(asked, body),
    });
    let faulty = [hangs, fails, cuts, lies];
    let mut round = 0;
    // medians[provider][0: alone, 1: beside the faulty ones], a value a window.
    let mut medians = vec![[Vec::new(), Vec::new()]; good.len()];
    for window in 0..=2 * WINDOWS {
        let is_beside = window % 2 == 0;
        let mut asking = JoinSet::new();
        for one in faulty.iter().filter(|_| is_beside) {
            one.wishes.send_replace(wish(window));
            let publisher = one.publisher.clone();
            asking.spawn(async move {
                loop {
                    // What becomes of it is in its status; it is asked again as fast as a publisher asks at its fastest.
                    let _ = publisher.apply(0).await;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            });
        }
        let mut times = vec![Vec::new(); good.len()];
        for _ in 0..SYNCS {
            round += 1;
            for (one, times) in good.iter().zip(&mut times) {
                one.wishes.send_replace(wish(round));
                let begun = Instant::now();
                let outcome = one.publisher.apply(1_000).await.unwrap_or_else(|error| panic!("{}: {error}", one.name));
                assert!(outcome.broken.is_none() && outcome.refused.is_empty(), "{}: {outcome:?}", one.name);
                times.push(begun.elapsed().as_secs_f64() * 1e3);
            }
        }
        // The first window warms up.
        for (medians, times) in medians.iter_mut().zip(&mut times).filter(|_| window > 0) {
            medians[usize::from(is_beside)].push(median(times));
        }
    }
    let syncs: Vec<_> = faulty.iter().map(|one| one.publisher.status().counts.syncs).collect();
    println!("syncs of the one that hangs, fails, breaks off, lies: {syncs:?}");
    assert!(syncs.iter().all(|syncs| *syncs > 0), "they were asked");
    for (one, [alone, beside]) in good.iter().zip(&mut medians) {
        let mut ratios: Vec<_> = alone.iter().zip(&*beside).map(|(alone, beside)| beside / alone).collect();
        let (ratio, alone, beside) = (median(&mut ratios), median(alone), median(beside));
        println!(
            "{}: {alone:.1} ms alone, {beside:.1} ms beside; ratio {ratio:.2} ({:.2} to {:.2} over {WINDOWS} pairs of windows)",
            one.name,
            ratios[0],
            ratios[WINDOWS - 1],
        );
    }
}
