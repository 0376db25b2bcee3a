//! Providers that hang, fail, break connections and lie do not delay the others.

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
    WantedSender,
    etcd::etcd,
    publisher,
    scripted::{Act, Scripted, well},
    servers::{Updates, bind, powerdns, start},
    set,
};

/// Number of syncs of each provider that works.
const SYNCS: usize = 12;
/// Limit of one sync: a quarter of the timeout of a hanging provider, and far more than a sync takes.
const SYNC_MAX: Duration = Duration::from_millis(1_250);

struct Stage {
    name: &'static str,
    publisher: Publisher,
    wanted: WantedSender,
}

fn stage(name: &'static str, provider: impl Provider + 'static) -> Stage {
    let (publisher, wanted) = publisher(provider);
    Stage { name, publisher, wanted }
}

/// Returns fifty names, whose addresses change with each round.
fn wanted_sets(round: usize) -> Option<Arc<Wanted>> {
    let address = format!("203.0.113.{}", round % 250 + 1);
    let sets = (0..50).map(|n| set(&format!("n{n}"), Rtype::A, &[&address])).collect();
    Some(Arc::new(Wanted { sets, ..Wanted::default() }))
}

/// A provider that fails at each sync, and is asked again at once.
fn faulty(script: fn(&str, &str) -> Act) -> Stage {
    stage("faulty", Scripted::start(script).provider(Duration::from_secs(5)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_providers_do_not_delay_others() {
    let (bind, powerdns, etcd) = (start(bind), powerdns(), etcd());
    let good =
        [stage("bind", Updates(bind.at)), stage("powerdns", powerdns.provider.clone()), stage("etcd", etcd.provider())];
    let hangs = faulty(|_, _| Act::Hang);
    let fails = faulty(|_, _| Act::Say(500, "text/plain", "no".to_owned()));
    let cuts = faulty(|asked, body| match asked {
        "POST /records" => Act::Cut("cut".repeat(1_000)),
        _ => well(asked, body),
    });
    // It accepts everything and returns something else.
    let lies = faulty(|asked, body| match asked {
        "GET /records" => {
            let one = r#"[{"dnsName":"other.pub.example","targets":["192.0.2.1"],"recordType":"A"}]"#;
            Act::Say(200, MEDIA_TYPE, one.to_owned())
        }
        _ => well(asked, body),
    });
    let faulty = [hangs, fails, cuts, lies];
    let mut failing = JoinSet::new();
    for one in &faulty {
        one.wanted.send_replace(wanted_sets(0));
        let publisher = one.publisher.clone();
        failing.spawn(async move {
            loop {
                // The result is in the status; the pause is the shortest one of a publisher.
                let _ = publisher.apply(0).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
    }
    for round in 1..=SYNCS {
        for one in &good {
            one.wanted.send_replace(wanted_sets(round));
            let begun = Instant::now();
            let outcome = one.publisher.apply(1_000).await.unwrap_or_else(|error| panic!("{}: {error}", one.name));
            let applied = &outcome.applied;
            assert!(applied.broken.is_none() && applied.refused.is_empty(), "{}: {outcome:?}", one.name);
            let took = begun.elapsed();
            assert!(took < SYNC_MAX, "{}: sync {round} took {took:?}, expected less than {SYNC_MAX:?}", one.name);
        }
    }
    // The hanging provider ends its first sync only after its timeout.
    let syncs = || faulty.iter().map(|one| one.publisher.status().counts.syncs).collect::<Vec<_>>();
    let each_ended_one = async {
        while syncs().contains(&0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), each_ended_one).await;
    assert!(waited.is_ok(), "every failing provider must have been asked meanwhile; syncs: {:?}", syncs());
}
