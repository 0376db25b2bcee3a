//! Dry runs of writes that come at the same time.

use fairway_model::PoolName;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::*;
use crate::{
    declared::Declared,
    dry_run::{DryRunRequest, DryRunResult},
};
use fairway_store::objects::{Author, Key, Kind, Object};

/// Returns a request for one more pool.
fn with_pool(actor: &Actor, name: &str, body: Value) -> DryRunRequest {
    let key = Key::new(Kind::Pool, &[name]).unwrap();
    let (at, by) = (Timestamp::from_secs(1), Author::default());
    let value = body.to_string().into_bytes().into();
    let object = Object { key: key.clone(), value, revision: 0, generation: 1, created: at, changed: at, by };
    let mut declared = Declared::clone(&actor.reloads.reader.declared.load());
    declared.put(&key, Some(object));
    DryRunRequest { declared, written: Some(key) }
}

fn pool(name: &str, cluster: &str, weight: u16) -> Value {
    json!({"name": name, "policy": "failover", "members": [{"cluster": cluster, "weight": weight}]})
}

/// Returns the results of requests that all wait before the first dry run.
async fn at_once(actor: &Actor, requests: Vec<DryRunRequest>) -> Vec<DryRunResult> {
    let replies = requests.into_iter().map(|request| {
        let (reply, result) = oneshot::channel();
        actor.dry_runs.start(request, reply);
        result
    });
    let replies: Vec<_> = replies.collect();
    let mut all = Vec::new();
    for result in replies {
        all.push(tokio::time::timeout(PATIENCE, result).await.unwrap().unwrap());
    }
    all
}

fn are_one(one: &DryRunResult, other: &DryRunResult) -> bool {
    Arc::ptr_eq(one.compiled.as_ref().unwrap(), other.compiled.as_ref().unwrap())
}

#[tokio::test]
async fn writes_of_different_objects_share_a_dry_run() {
    let scene = Scene::new(&silent());
    let (_control, actor) = scene.actor().await;
    let requests = ["a", "b", "c"].map(|name| with_pool(&actor, name, pool(name, "eu1", 1)));
    let all = at_once(&actor, requests.into()).await;
    assert!(all.iter().all(|result| result.errors.is_empty() && result.not_served.is_empty()));
    assert!(are_one(&all[0], &all[1]) && are_one(&all[0], &all[2]));
    // Later writes are not forgotten.
    let later = at_once(&actor, vec![with_pool(&actor, "d", pool("d", "us1", 1))]).await;
    assert!(!are_one(&all[0], &later[0]));
}

#[tokio::test]
async fn error_of_one_write_is_not_returned_to_others() {
    let scene = Scene::new(&silent());
    let (_control, actor) = scene.actor().await;
    let requests = [("a", "eu1"), ("b", "nowhere"), ("c", "us1")];
    let requests = requests.map(|(name, cluster)| with_pool(&actor, name, pool(name, cluster, 1)));
    let all = at_once(&actor, requests.into()).await;
    let rejected: Vec<Vec<&str>> =
        all.iter().map(|result| result.not_served.keys().map(Key::as_str).collect()).collect();
    assert_eq!(rejected, [vec![], vec!["pool/b"], vec![]]);
    assert!(all.iter().all(|result| result.errors.is_empty()));
}

#[tokio::test]
async fn two_writes_of_one_object_have_separate_dry_runs() {
    let scene = Scene::new(&silent());
    let (_control, actor) = scene.actor().await;
    let (name, other) = (PoolName::new("a").unwrap(), PoolName::new("b").unwrap());
    let requests = [(&name, 1), (&other, 1), (&name, 2)];
    let requests = requests.map(|(of, weight)| with_pool(&actor, of.as_str(), pool(of.as_str(), "eu1", weight)));
    let all = at_once(&actor, requests.into()).await;
    assert!(are_one(&all[0], &all[1]) && !are_one(&all[0], &all[2]));
    // A write whose caller has gone does not block the next one.
    let (reply, gone) = oneshot::channel();
    drop(gone);
    actor.dry_runs.start(with_pool(&actor, "c", pool("c", "eu1", 1)), reply);
    let after = at_once(&actor, vec![with_pool(&actor, "d", pool("d", "eu1", 1))]).await;
    assert!(after[0].not_served.is_empty());
}
