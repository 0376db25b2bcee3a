use std::collections::BTreeSet;

use fairway_model::{Name, ProviderRecordSet, RecordSet, Rtype, Timestamp, Ttl};

use super::*;
use crate::publish::{
    Affix, Bounds, Obstacle, Policy, Step, SyncState,
    memory::{Failure, Memory},
};

struct Shared(Arc<Memory>, Option<watch::Receiver<Leadership>>);

#[async_trait::async_trait]
impl Provider for Shared {
    fn limits(&self) -> Limits {
        self.0.limits()
    }

    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        self.0.read().await
    }

    async fn adjust(&self, wanted: Vec<ProviderRecordSet>) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        self.0.adjust(wanted).await
    }

    async fn apply(&self, changes: &fairway_model::Changes) -> Result<(), ProviderError> {
        self.0.apply(changes).await
    }

    fn leadership(&self) -> Option<watch::Receiver<Leadership>> {
        self.1.clone()
    }
}

fn address(of: &str, last: u8) -> ProviderRecordSet {
    let rdata: Box<[u8]> = [192, 0, 2, last].into();
    ProviderRecordSet::plain(RecordSet::new(of.parse().unwrap(), Rtype::A, Ttl::STEERED, [rdata]))
}

fn wanted_sets(count: u8) -> Option<Arc<Wanted>> {
    let sets = (0..count).map(|i| address(&format!("n{i}.x."), i)).collect();
    Some(Arc::new(Wanted { sets, held: BTreeSet::new() }))
}

struct Stage {
    memory: Arc<Memory>,
    wanted: watch::Sender<Option<Arc<Wanted>>>,
    publisher: Publisher,
}

fn stage(auto: bool) -> Stage {
    stage_led(auto, None)
}

fn stage_led(auto: bool, leadership: Option<watch::Receiver<Leadership>>) -> Stage {
    let memory = Arc::new(Memory::default());
    let (wanted, updates) = watch::channel(None);
    let rules = Rules {
        zones: vec!["x.".parse().unwrap()],
        policy: Policy::Sync,
        ownership: Ownership::Txt { affix: Affix::default(), owner: "us".to_owned(), key: None },
        bounds: Bounds::default(),
    };
    let setup = Setup { name: "p".to_owned(), rules, pacing: Pacing::default(), auto };
    let (publisher, task) =
        Publisher::new(setup, Box::new(Shared(Arc::clone(&memory), leadership)), updates, Notes::default());
    tokio::spawn(task);
    Stage { memory, wanted, publisher }
}

impl Stage {
    async fn until(&self, what: &str, holds: impl Fn(&Status) -> bool) {
        let mut status = self.publisher.status.clone();
        let waited = tokio::time::timeout(Duration::from_secs(3_600), status.wait_for(|status| holds(status))).await;
        assert!(waited.is_ok_and(|status| status.is_ok()), "{what}: {:?}", self.publisher.status());
    }

    async fn published(&self, count: usize) {
        self.until("published", |status| status.behind_since.is_none() && status.owned == count).await;
    }
}

#[tokio::test(start_paused = true)]
async fn omitted_set_is_reported_and_not_deleted() {
    let stage = stage(true);
    stage.wanted.send_replace(wanted_sets(3));
    stage.published(3).await;
    let dropped: Name = "n1.x.".parse().unwrap();
    stage.memory.omit([dropped.clone(), "n3.x.".parse().unwrap()]);
    let before = stage.memory.applies();
    stage.wanted.send_replace(wanted_sets(4));
    stage
        .until("a condition", |status| {
            status.conditions.values().any(|c| c.condition == Condition::Hindered(Obstacle::Dropped))
        })
        .await;
    stage.published(3).await;
    assert!(stage.memory.sets().iter().any(|set| set.set.name == dropped), "expected the existing set to stay");
    assert_eq!(stage.memory.applies(), before, "expected no call for the omitted set");
}

#[tokio::test(start_paused = true)]
async fn standby_plans_and_changes_nothing_until_it_leads() {
    let (leader, leadership) = watch::channel(Leadership::Pending);
    let stage = stage_led(true, Some(leadership));
    stage.wanted.send_replace(wanted_sets(3));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(stage.publisher.status().state(), SyncState::Starting, "the election has not ended");
    let other = "b holds it".to_owned();
    leader.send_replace(Leadership::Standby(other.clone()));
    stage.until("standby", |status| status.standby.as_ref() == Some(&other)).await;
    let status = stage.publisher.status();
    assert_eq!((status.state(), status.owned, stage.memory.applies()), (SyncState::Standby, 0, 0));
    assert!(status.conditions.values().all(|set| set.condition == Condition::Waiting), "{status:?}");
    assert_eq!(stage.publisher.apply(0).await, Err(ProviderError::Standby(other.clone())));
    assert_eq!(stage.publisher.status().counts.failed, 0, "a refused order is no failure");
    leader.send_replace(Leadership::Leader);
    stage.published(3).await;
    assert_eq!(stage.publisher.status().standby, None);
    // The other server, which leads now, may see other clusters than this one.
    leader.send_replace(Leadership::Standby(other));
    stage.memory.take(&address("n1.x.", 1).key());
    stage.until("standby again", |status| status.state() == SyncState::Standby && status.owned == 2).await;
    assert_eq!(stage.publisher.status().counts.drifted, 0);
    leader.send_replace(Leadership::Failing("no Lease".to_owned()));
    stage.until("failing", |status| status.error.as_deref() == Some("no Lease") && status.failures > 0).await;
}

#[tokio::test(start_paused = true)]
async fn outdated_plan_changes_nothing_and_the_present_one_is_applied() {
    let stage = stage(false);
    stage.wanted.send_replace(wanted_sets(3));
    let seen = stage.publisher.draft(0).await.unwrap().id();
    stage.wanted.send_replace(wanted_sets(4));
    assert_eq!(stage.publisher.apply_plan(0, seen).await, Err(ProviderError::OutdatedPlan), "others are wanted now");
    assert_eq!((stage.memory.applies(), stage.publisher.status().failures), (0, 0));
    let seen = stage.publisher.draft(0).await.unwrap().id();
    assert_eq!(seen.to_string().parse(), Ok(seen));
    let outcome = stage.publisher.apply_plan(0, seen).await.unwrap();
    assert_eq!((outcome.applied.sets, stage.memory.sets().len()), (8, 8));
    stage.wanted.send_replace(wanted_sets(5));
    let seen = stage.publisher.draft(0).await.unwrap().id();
    stage.memory.put(address("n1.x.", 99));
    assert_eq!(stage.publisher.apply_plan(0, seen).await, Err(ProviderError::OutdatedPlan), "a record changed there");
}

#[tokio::test(start_paused = true)]
async fn change_is_published_within_a_second() {
    let stage = stage(true);
    let begun = Instant::now();
    stage.wanted.send_replace(wanted_sets(3));
    stage.published(3).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    // Three sets, each with a registry record.
    assert_eq!(stage.memory.sets().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn half_applied_batch_is_completed_by_the_next_sync() {
    let stage = stage(true);
    stage.memory.fail_after(0, Failure::Half);
    stage.wanted.send_replace(wanted_sets(5));
    stage.until("failed", |status| status.failures == 1).await;
    assert_eq!(stage.memory.sets().len(), 5);
    stage.memory.recover();
    stage.published(5).await;
    assert_eq!(stage.memory.sets().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn drift_is_repaired_by_a_resync() {
    let stage = stage(true);
    stage.wanted.send_replace(wanted_sets(3));
    stage.published(3).await;
    stage.memory.take(&address("n1.x.", 1).key());
    stage.memory.put(address("n2.x.", 99));
    let begun = Instant::now();
    stage.until("drift", |status| status.counts.drifted == 2).await;
    assert!(begun.elapsed() <= Duration::from_secs(601));
    assert!(stage.memory.sets().contains(&address("n2.x.", 2)) && stage.memory.sets().contains(&address("n1.x.", 1)));
}

#[tokio::test(start_paused = true)]
async fn too_many_deletions_wait_for_an_operator() {
    let stage = stage(true);
    stage.wanted.send_replace(wanted_sets(10));
    stage.published(10).await;
    stage.wanted.send_replace(wanted_sets(2));
    stage.until("rejected deletions", |status| status.counts.deletions_refused == 8).await;
    assert!(stage.publisher.status().error.as_ref().is_some_and(|error| error.contains("--deletions 8")));
    assert_eq!(stage.memory.sets().len(), 20);
    assert_eq!(stage.publisher.draft(8).await.unwrap().changes.delete.len(), 8);
    stage.publisher.apply(8).await.unwrap();
    assert_eq!(stage.memory.sets().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn empty_read_deletes_nothing() {
    let stage = stage(true);
    stage.wanted.send_replace(wanted_sets(4));
    stage.published(4).await;
    stage.memory.fail_after(0, Failure::ReadsEmpty);
    stage.wanted.send_replace(wanted_sets(3));
    stage.until("two syncs", |status| status.counts.syncs >= 2).await;
    assert_eq!(stage.memory.sets().len(), 8, "expected no deletion after an empty read");
}

#[tokio::test(start_paused = true)]
async fn false_success_is_found_by_the_next_sync() {
    let stage = stage(true);
    stage.memory.fail_after(0, Failure::Lie);
    stage.wanted.send_replace(wanted_sets(3));
    stage.published(3).await;
    assert!(stage.memory.sets().is_empty());
    stage.until("found out", |status| status.counts.drifted == 3).await;
    stage.memory.recover();
    stage.until("found out again", |status| status.counts.drifted == 6).await;
    assert_eq!(stage.memory.sets().len(), 6, "expected three sets with their registry records");
}

#[tokio::test(start_paused = true)]
async fn without_auto_an_operator_publishes() {
    let stage = stage(false);
    stage.wanted.send_replace(wanted_sets(2));
    stage.until("looked", |status| status.counts.syncs == 1).await;
    assert!(stage.memory.sets().is_empty());
    assert!(stage.publisher.status().conditions.values().all(|one| one.condition == Condition::Waiting));
    assert_eq!(stage.publisher.apply(0).await.unwrap().applied.sets, 4);
    assert_eq!(stage.memory.sets().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn hanging_provider_does_not_delay_others() {
    let (hanging, good) = (stage(true), stage(true));
    hanging.memory.fail_after(0, Failure::Hang);
    for stage in [&hanging, &good] {
        stage.wanted.send_replace(wanted_sets(3));
    }
    let begun = Instant::now();
    good.published(3).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    hanging.until("given up", |status| status.error.as_deref() == Some("no answer within 10 s")).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_before_the_wanted_state_is_known() {
    let stage = stage(true);
    assert!(stage.publisher.apply(0).await.is_err() && stage.publisher.draft(0).await.is_err());
    assert_eq!(stage.memory.applies(), 0);
}

/// Sets of another owner, with their registry records.
fn theirs(memory: &Memory, count: u8) {
    for i in 0..count {
        memory.put(address(&format!("n{i}.x."), 99));
        let text = b"\x2fheritage=external-dns,external-dns/owner=theirs";
        let set = RecordSet::new(
            format!("a-n{i}.x.").parse().unwrap(),
            Rtype::TXT,
            Ttl::STEERED,
            [Box::from(text[..].as_ref())],
        );
        memory.put(ProviderRecordSet::plain(set));
    }
}

#[tokio::test(start_paused = true)]
async fn sets_of_another_owner_are_taken_over_and_then_updated() {
    let stage = stage(true);
    theirs(&stage.memory, 3);
    stage.wanted.send_replace(wanted_sets(3));
    stage.until("refused", |status| status.conditions.len() == 3).await;
    assert_eq!(stage.publisher.status().owned, 0);
    let step = |step| Handover {
        from: "theirs".to_owned(),
        names: BTreeSet::new(),
        step,
        after: Duration::ZERO,
        now: Timestamp::from_secs(1),
    };
    let before = stage.memory.applies();
    assert_eq!(stage.publisher.draft_hand_over(&step(Step::Announce)).await.unwrap().sets.len(), 3);
    assert_eq!(stage.memory.applies(), before, "expected no call for a draft");
    stage.publisher.hand_over(step(Step::Announce)).await.unwrap();
    let syncs = stage.publisher.status().counts.syncs;
    stage.until("a sync in between", |status| status.counts.syncs > syncs).await;
    assert!(stage.memory.sets().contains(&address("n1.x.", 99)), "expected the set to stay during the handover");
    stage.publisher.hand_over(step(Step::Finish)).await.unwrap();
    stage.published(3).await;
    assert!(stage.memory.sets().contains(&address("n1.x.", 1)));
}

#[tokio::test(start_paused = true)]
async fn status_has_times_of_conditions_and_of_the_next_sync() {
    let stage = stage(true);
    stage.wanted.send_replace(wanted_sets(2));
    stage.published(2).await;
    let first = stage.publisher.status();
    stage.until("the next look", |status| status.counts.syncs > first.counts.syncs).await;
    let second = stage.publisher.status();
    assert_eq!(first.conditions, second.conditions, "expected unchanged conditions to keep their time");
    stage.until("it is status", |status| status.due_at.is_some()).await;
    // The time of a rejected set is that of its first rejection.
    theirs(&stage.memory, 3);
    stage.wanted.send_replace(wanted_sets(3));
    stage.until("refused", |status| status.conditions.len() == 3).await;
    let refused = stage.publisher.status().conditions[&address("n2.x.", 2).key()].clone();
    assert!(
        matches!(refused.condition, Condition::Hindered(Obstacle::OfOther(_)))
            && refused.since >= first.synced_at.unwrap()
    );
}

#[tokio::test(start_paused = true)]
async fn only_the_changed_weight_is_written() {
    let stage = stage(true);
    let weighted = |of: [(&str, u8, &str); 2]| {
        let set = |(cluster, last, weight): (&str, u8, &str)| ProviderRecordSet {
            set_identifier: cluster.to_owned(),
            properties: [("aws/weight".to_owned(), weight.to_owned())].into(),
            ..address("w.x.", last)
        };
        Some(Arc::new(Wanted { sets: of.map(set).to_vec(), held: BTreeSet::new() }))
    };
    stage.wanted.send_replace(weighted([("eu1", 1, "60"), ("us1", 2, "40")]));
    stage.published(2).await;
    // Each set has a registry record with the same set identifier.
    let sets = stage.memory.sets();
    let count = |rtype, cluster: &str| {
        sets.iter().filter(|set| set.set.rtype == rtype && set.set_identifier == cluster).count()
    };
    for cluster in ["eu1", "us1"] {
        assert_eq!((count(Rtype::A, cluster), count(Rtype::TXT, cluster)), (1, 1), "{sets:?}");
    }
    let written = stage.publisher.status().counts.changed;
    stage.wanted.send_replace(weighted([("eu1", 1, "60"), ("us1", 2, "20")]));
    stage.until("the weight is there", |status| status.counts.changed == written + 1).await;
    let weight = stage.memory.sets().into_iter().find(|set| set.set_identifier == "us1" && set.set.rtype == Rtype::A);
    assert_eq!(weight.unwrap().properties["aws/weight"], "20");
}
