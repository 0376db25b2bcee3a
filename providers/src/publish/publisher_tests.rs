use std::collections::BTreeSet;

use fairway_model::{ProviderSet, RecordSet, Rtype, Ttl};

use super::*;
use crate::publish::{
    Affix, Bounds, Policy,
    memory::{Fault, Memory},
};

struct Shared(Arc<Memory>);

#[async_trait::async_trait]
impl Provider for Shared {
    fn limits(&self) -> Limits {
        self.0.limits()
    }

    async fn read(&self) -> Result<Vec<ProviderSet>, ProviderError> {
        self.0.read().await
    }

    async fn adjust(&self, wanted: Vec<ProviderSet>) -> Result<Vec<ProviderSet>, ProviderError> {
        self.0.adjust(wanted).await
    }

    async fn apply(&self, changes: &fairway_model::Changes) -> Result<(), ProviderError> {
        self.0.apply(changes).await
    }
}

fn address(of: &str, last: u8) -> ProviderSet {
    let rdata: Box<[u8]> = [192, 0, 2, last].into();
    ProviderSet::plain(RecordSet::new(of.parse().unwrap(), Rtype::A, Ttl::STEERED, [rdata]))
}

fn wish(count: u8) -> Option<Arc<Wanted>> {
    let sets = (0..count).map(|i| address(&format!("n{i}.x."), i)).collect();
    Some(Arc::new(Wanted { sets, held: BTreeSet::new() }))
}

struct Stage {
    memory: Arc<Memory>,
    wishes: watch::Sender<Option<Arc<Wanted>>>,
    publisher: Publisher,
}

fn stage(auto: bool) -> Stage {
    let memory = Arc::new(Memory::default());
    let (wishes, wishes_in) = watch::channel(None);
    let rules = Rules {
        zones: vec!["x.".parse().unwrap()],
        policy: Policy::Sync,
        ownership: Ownership::Txt { affix: Affix::default(), owner: "us".to_owned() },
        bounds: Bounds::default(),
    };
    let setup = Setup { name: "p".to_owned(), rules, pacing: Pacing::default(), auto };
    let (publisher, task) = Publisher::new(setup, Box::new(Shared(Arc::clone(&memory))), wishes_in, Notes::default());
    tokio::spawn(task);
    Stage { memory, wishes, publisher }
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
async fn what_the_provider_will_not_keep_is_told_once_and_not_deleted() {
    let stage = stage(true);
    stage.wishes.send_replace(wish(3));
    stage.published(3).await;
    let dropped: fairway_model::Name = "n1.x.".parse().unwrap();
    stage.memory.leave_out([dropped.clone(), "n3.x.".parse().unwrap()]);
    let before = stage.memory.applies();
    stage.wishes.send_replace(wish(4));
    stage.until("a condition", |status| status.conditions.values().any(|c| matches!(c, Condition::Refused(_)))).await;
    stage.published(3).await;
    assert!(stage.memory.sets().iter().any(|set| set.set.name == dropped), "what stands there stays");
    assert_eq!(stage.memory.applies(), before, "nothing is tried for it");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_what_is_wanted_is_there_within_a_second() {
    let stage = stage(true);
    let begun = Instant::now();
    stage.wishes.send_replace(wish(3));
    stage.published(3).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    // Each with its registry record.
    assert_eq!(stage.memory.sets().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_half_applied_batch_is_repaired_by_the_next_try() {
    let stage = stage(true);
    stage.memory.fail_after(0, Fault::Half);
    stage.wishes.send_replace(wish(5));
    stage.until("failed", |status| status.failures == 1).await;
    assert_eq!(stage.memory.sets().len(), 5);
    stage.memory.heal();
    stage.published(5).await;
    assert_eq!(stage.memory.sets().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn drift_is_found_and_repaired_by_a_resync() {
    let stage = stage(true);
    stage.wishes.send_replace(wish(3));
    stage.published(3).await;
    stage.memory.take(&address("n1.x.", 1).key());
    stage.memory.put(address("n2.x.", 99));
    let begun = Instant::now();
    stage.until("drift", |status| status.counts.drifted == 2).await;
    assert!(begun.elapsed() <= Duration::from_secs(601));
    assert!(stage.memory.sets().contains(&address("n2.x.", 2)) && stage.memory.sets().contains(&address("n1.x.", 1)));
}

#[tokio::test(start_paused = true)]
async fn a_wish_that_lost_most_names_deletes_nothing_until_it_is_meant() {
    let stage = stage(true);
    stage.wishes.send_replace(wish(10));
    stage.published(10).await;
    stage.wishes.send_replace(wish(2));
    stage.until("held back", |status| status.counts.deletions_refused == 8).await;
    assert!(stage.publisher.status().error.as_ref().is_some_and(|error| error.contains("--deletions 8")));
    assert_eq!(stage.memory.sets().len(), 20);
    assert_eq!(stage.publisher.draft(8).await.unwrap().changes.delete.len(), 8);
    stage.publisher.apply(8).await.unwrap();
    assert_eq!(stage.memory.sets().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn who_lies_on_reading_loses_nothing() {
    let stage = stage(true);
    stage.wishes.send_replace(wish(4));
    stage.published(4).await;
    stage.memory.fail_after(0, Fault::ReadsEmpty);
    stage.wishes.send_replace(wish(3));
    stage.until("two syncs", |status| status.counts.syncs >= 2).await;
    assert_eq!(stage.memory.sets().len(), 8, "nothing was deleted on an empty reading");
}

#[tokio::test(start_paused = true)]
async fn who_says_that_it_wrote_and_did_not_is_found_out_by_the_next_reading() {
    let stage = stage(true);
    stage.memory.fail_after(0, Fault::Lie);
    stage.wishes.send_replace(wish(3));
    stage.published(3).await;
    assert!(stage.memory.sets().is_empty());
    stage.until("found out", |status| status.counts.drifted == 3).await;
    stage.memory.heal();
    stage.until("found out again", |status| status.counts.drifted == 6).await;
    assert_eq!(stage.memory.sets().len(), 6, "each with its registry record");
}

#[tokio::test(start_paused = true)]
async fn without_auto_it_is_an_operator_who_publishes() {
    let stage = stage(false);
    stage.wishes.send_replace(wish(2));
    stage.until("looked", |status| status.counts.syncs == 1).await;
    assert!(stage.memory.sets().is_empty());
    assert!(stage.publisher.status().conditions.values().all(|condition| *condition == Condition::Waiting));
    assert_eq!(stage.publisher.apply(0).await.unwrap().changed, 4);
    assert_eq!(stage.memory.sets().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_delays_no_other_one() {
    let (hanging, good) = (stage(true), stage(true));
    hanging.memory.fail_after(0, Fault::Hang);
    for stage in [&hanging, &good] {
        stage.wishes.send_replace(wish(3));
    }
    let begun = Instant::now();
    good.published(3).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    hanging.until("given up", |status| status.error.as_deref() == Some("no answer within 10 s")).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_or_written_before_it_is_known_what_is_wanted() {
    let stage = stage(true);
    assert!(stage.publisher.apply(0).await.is_err() && stage.publisher.draft(0).await.is_err());
    assert_eq!(stage.memory.applies(), 0);
}
