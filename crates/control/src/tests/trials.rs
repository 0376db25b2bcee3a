//! Writes that come while others are tried.

use fairway_model::PoolName;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::*;
use crate::{
    declared::Declared,
    trial::{Attempt, Tried},
};
use fairway_store::objects::{Author, Key, Kind, Object};

/// What is declared with one pool more.
fn with_pool(actor: &Actor, name: &str, body: Value) -> Attempt {
    let key = Key::new(Kind::Pool, &[name]).unwrap();
    let (at, by) = (Timestamp::from_secs(1), Author::default());
    let value = body.to_string().into_bytes().into();
    let object = Object { key: key.clone(), value, revision: 0, generation: 1, created: at, changed: at, by };
    let mut declared = Declared::clone(&actor.reader.declared.load());
    declared.suppose(&key, Some(object));
    Attempt { declared, written: Some(key) }
}

fn pool(name: &str, cluster: &str, weight: u16) -> Value {
    json!({"name": name, "policy": "failover", "members": [{"cluster": cluster, "weight": weight}]})
}

/// What came of attempts that were all there before the first was tried.
async fn at_once(actor: &Actor, attempts: Vec<Attempt>) -> Vec<Tried> {
    let asked = attempts.into_iter().map(|attempt| {
        let (reply, tried) = oneshot::channel();
        actor.try_objects(attempt, reply);
        tried
    });
    let asked: Vec<_> = asked.collect();
    let mut all = Vec::new();
    for tried in asked {
        all.push(tokio::time::timeout(PATIENCE, tried).await.unwrap().unwrap());
    }
    all
}

fn are_one(one: &Tried, other: &Tried) -> bool {
    Arc::ptr_eq(one.trial.as_ref().unwrap(), other.trial.as_ref().unwrap())
}

#[tokio::test]
async fn writes_of_different_objects_are_tried_together() {
    let scene = Scene::new(&silent());
    let (_control, actor) = scene.actor().await;
    let attempts = ["a", "b", "c"].map(|name| with_pool(&actor, name, pool(name, "eu1", 1)));
    let all = at_once(&actor, attempts.into()).await;
    assert!(all.iter().all(|tried| tried.faults.is_empty() && tried.left_out.is_empty()));
    assert!(are_one(&all[0], &all[1]) && are_one(&all[0], &all[2]));
    // Those that come later do not wait for ever.
    let later = at_once(&actor, vec![with_pool(&actor, "d", pool("d", "us1", 1))]).await;
    assert!(!are_one(&all[0], &later[0]));
}

#[tokio::test]
async fn a_fault_among_writes_is_told_to_its_own_alone() {
    let scene = Scene::new(&silent());
    let (_control, actor) = scene.actor().await;
    let attempts = [("a", "eu1"), ("b", "nowhere"), ("c", "us1")];
    let attempts = attempts.map(|(name, cluster)| with_pool(&actor, name, pool(name, cluster, 1)));
    let all = at_once(&actor, attempts.into()).await;
    let left_out: Vec<Vec<&str>> = all.iter().map(|tried| tried.left_out.keys().map(Key::as_str).collect()).collect();
    assert_eq!(left_out, [vec![], vec!["pool/b"], vec![]]);
    assert!(all.iter().all(|tried| tried.faults.is_empty()));
}

#[tokio::test]
async fn two_writes_of_one_object_are_tried_one_after_the_other() {
    let scene = Scene::new(&silent());
    let (_control, actor) = scene.actor().await;
    let (name, other) = (PoolName::new("a").unwrap(), PoolName::new("b").unwrap());
    let attempts = [(&name, 1), (&other, 1), (&name, 2)];
    let attempts = attempts.map(|(of, weight)| with_pool(&actor, of.as_str(), pool(of.as_str(), "eu1", weight)));
    let all = at_once(&actor, attempts.into()).await;
    assert!(are_one(&all[0], &all[1]) && !are_one(&all[0], &all[2]));
    // Nobody waits for those who have gone.
    let (reply, gone) = oneshot::channel();
    drop(gone);
    actor.try_objects(with_pool(&actor, "c", pool("c", "eu1", 1)), reply);
    let after = at_once(&actor, vec![with_pool(&actor, "d", pool("d", "eu1", 1))]).await;
    assert!(after[0].left_out.is_empty());
}
