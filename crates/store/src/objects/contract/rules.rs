//! Contract tests of reads and writes.

use std::sync::Arc;

use super::{
    super::{
        AUTHOR_MAX, Author, BATCH_BYTES_MAX, BATCH_MAX, Batch, Change, Expect, HISTORY_LIMITS, Key, Kind, ObjectStore,
        Prefix, REASON_MAX, StoreError, VALUE_MAX,
    },
    batch, commit_one, delete, key, put,
};

pub(in super::super) async fn expectation_is_compared_with_the_stored_revision(store: Arc<dyn ObjectStore>) {
    let created = commit_one(&*store, put("a", Expect::Absent, b"1")).await;
    let changed = commit_one(&*store, put("a", Expect::Revision(created), b"2")).await;
    let conflicts = [
        (Expect::Absent, "a", Some(changed)),
        (Expect::Revision(created), "a", Some(changed)),
        (Expect::Present, "none", None),
        (Expect::Revision(created), "none", None),
    ];
    for (expect, name, found) in conflicts {
        for change in [put(name, expect, b"3"), delete(name, expect)] {
            let result = store.commit(batch(1, vec![change])).await;
            assert_eq!(result, Err(StoreError::Conflict { key: key(name), expect, found }));
        }
    }
    assert_eq!(*store.read(&key("a")).await.unwrap().unwrap().value, *b"2");
    commit_one(&*store, put("a", Expect::Present, b"3")).await;
    commit_one(&*store, put("b", Expect::Anything, b"1")).await;
    commit_one(&*store, put("a", Expect::Anything, b"4")).await;
    commit_one(&*store, delete("a", Expect::Present)).await;
    commit_one(&*store, delete("b", Expect::Anything)).await;
    assert_eq!((store.read(&key("a")).await, store.read(&key("b")).await), (Ok(None), Ok(None)));
}

pub(in super::super) async fn batch_is_committed_completely_or_not_at_all(store: Arc<dyn ObjectStore>) {
    commit_one(&*store, put("a", Expect::Absent, b"1")).await;
    let before = store.list(&Prefix::everything(), None, 10).await.unwrap();
    let broken = vec![
        put("b", Expect::Absent, b"1"),
        delete("a", Expect::Present),
        put("c", Expect::Revision(before.revision), b"1"),
    ];
    let result = store.commit(batch(2, broken)).await;
    assert!(matches!(result, Err(StoreError::Conflict { .. })), "{result:?}");
    assert_eq!(store.list(&Prefix::everything(), None, 10).await.unwrap(), before);
    let whole = vec![put("b", Expect::Absent, b"1"), delete("a", Expect::Present), put("c", Expect::Absent, b"1")];
    let committed = store.commit(batch(3, whole)).await.unwrap();
    let after = store.list(&Prefix::everything(), None, 10).await.unwrap();
    assert_eq!(after.revision, committed.revision);
    assert!(after.objects.iter().all(|object| object.revision == committed.revision));
    let listed: Vec<_> = after.objects.into_iter().map(Some).collect();
    assert_eq!(committed.objects, [listed[0].clone(), None, listed[1].clone()]);
}

pub(in super::super) async fn list_returns_pages_in_key_order(store: Arc<dyn ObjectStore>) {
    let names = ["b", "a", "c-1", "c", "aa"];
    let changes = names.map(|name| put(name, Expect::Absent, name.as_bytes()));
    store.commit(batch(1, changes.to_vec())).await.unwrap();
    let pools = Prefix::new(Kind::Pool, &[]).unwrap();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(&pools, after.as_ref(), 2).await.unwrap();
        assert!(page.objects.len() == 2 || !page.more);
        seen.extend(page.objects.iter().map(|object| object.key.name().to_owned()));
        after = page.objects.last().map(|object| object.key.clone());
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, ["a", "aa", "b", "c", "c-1"]);
    // A deleted key is a valid start of the next page.
    commit_one(&*store, delete("b", Expect::Present)).await;
    let rest = store.list(&pools, Some(&key("b")), 5).await.unwrap();
    assert_eq!((rest.objects.len(), rest.objects[0].key.name(), rest.more), (2, "c", false));
    assert!(store.list(&pools, None, 0).await.unwrap().more);
}

pub(in super::super) async fn prefix_lists_objects_below_it_only(store: Arc<dyn ObjectStore>) {
    let app = |project: &str, name: &str| {
        let key = Key::new(Kind::CompositeApp, &[project, name, "v1"]).unwrap();
        Change { key, expect: Expect::Absent, value: Some(b"{}".to_vec()) }
    };
    let mut changes = vec![app("p", "a"), app("p", "b"), app("pp", "a"), app("o", "a")];
    changes.push(put("p", Expect::Absent, b"{}"));
    store.commit(batch(1, changes)).await.unwrap();
    let count = async |prefix: Prefix| store.list(&prefix, None, 100).await.unwrap().objects.len();
    assert_eq!(count(Prefix::everything()).await, 5);
    assert_eq!(count(Prefix::new(Kind::CompositeApp, &[]).unwrap()).await, 4);
    assert_eq!(count(Prefix::new(Kind::CompositeApp, &["p"]).unwrap()).await, 2);
    assert_eq!(count(Prefix::new(Kind::CompositeApp, &["p", "b"]).unwrap()).await, 1);
    assert_eq!(count(Prefix::new(Kind::CompositeApp, &["q"]).unwrap()).await, 0);
    let before_it = Prefix::new(Kind::CompositeApp, &["p"]).unwrap();
    let from_outside = store.list(&before_it, Some(&key("p")), 100).await.unwrap();
    assert_eq!(from_outside.objects.len(), 0, "no object of the prefix comes after this key");
}

pub(in super::super) async fn equal_value_changes_nothing(store: Arc<dyn ObjectStore>) {
    let created = commit_one(&*store, put("a", Expect::Absent, b"1")).await;
    let before = store.read(&key("a")).await.unwrap();
    let again = store.commit(batch(99, vec![put("a", Expect::Revision(created), b"1")])).await.unwrap();
    assert_eq!((again.revision, &again.objects[0]), (created, &before));
    let of_none = store.commit(batch(99, vec![delete("b", Expect::Absent)])).await.unwrap();
    assert_eq!((of_none.revision, of_none.objects), (created, vec![None]));
    let of_nothing = store.commit(batch(99, vec![])).await.unwrap();
    assert_eq!((of_nothing.revision, of_nothing.objects), (created, vec![]));
    assert_eq!(store.read(&key("a")).await.unwrap(), before);
    assert_eq!(store.history(&key("a"), None, 10).await.unwrap().len(), 1);
    // In a batch that changes something else, it keeps its revision.
    let mixed = vec![put("a", Expect::Present, b"1"), put("b", Expect::Absent, b"1")];
    let mixed = store.commit(batch(99, mixed)).await.unwrap();
    assert_eq!((mixed.revision > created, &mixed.objects[0]), (true, &before));
}

pub(in super::super) async fn generation_counts_changes_and_restarts_with_a_new_object(store: Arc<dyn ObjectStore>) {
    let change = async |secs: u64, change: Change| {
        let object = store.commit(batch(secs, vec![change])).await.unwrap().objects.remove(0)?;
        assert_eq!(store.read(&object.key).await.unwrap(), Some(object.clone()));
        Some((object.generation, object.created.secs(), object.changed.secs(), object.by.identity))
    };
    let ann = || "ann".to_owned();
    assert_eq!(change(10, put("a", Expect::Absent, b"1")).await, Some((1, 10, 10, ann())));
    assert_eq!(change(20, put("a", Expect::Present, b"2")).await, Some((2, 10, 20, ann())));
    assert_eq!(change(30, put("a", Expect::Present, b"2")).await, Some((2, 10, 20, ann())));
    assert_eq!(change(40, delete("a", Expect::Present)).await, None);
    assert_eq!(change(50, put("a", Expect::Absent, b"2")).await, Some((1, 50, 50, ann())));
}

pub(in super::super) async fn history_has_author_time_and_reason_latest_first(store: Arc<dyn ObjectStore>) {
    commit_one(&*store, put("other", Expect::Absent, b"1")).await;
    let by = |who: &str, why: &str| Author { applied: who != "ann", ..Author::new(who, why) };
    let commit = async |secs, by: Author, change| {
        store.commit(Batch { by, ..batch(secs, vec![change]) }).await.unwrap().revision
    };
    let created = commit(10, by("ann", "new"), put("a", Expect::Absent, b"1")).await;
    let deleted = commit(20, by("bob", ""), delete("a", Expect::Present)).await;
    let again = commit(30, by("eve", "ticket \"8\""), put("a", Expect::Absent, b"2")).await;
    let all = store.history(&key("a"), None, 10).await.unwrap();
    let seen: Vec<_> =
        all.iter().map(|entry| (entry.revision, entry.at.secs(), entry.by.clone(), entry.value.as_deref())).collect();
    let first = (created, 10, by("ann", "new"), Some(&b"1"[..]));
    assert_eq!(
        seen,
        [(again, 30, by("eve", "ticket \"8\""), Some(&b"2"[..])), (deleted, 20, by("bob", ""), None), first]
    );
    assert_eq!(store.read(&key("a")).await.unwrap().map(|object| object.by), Some(by("eve", "ticket \"8\"")));
    assert_eq!(store.history(&key("a"), Some(again), 1).await.unwrap(), all[1..2]);
    assert_eq!(store.history(&key("a"), Some(created), 10).await.unwrap(), []);
    assert_eq!(store.history(&key("none"), None, 10).await.unwrap(), []);
}

pub(in super::super) async fn history_over_the_limit_keeps_the_latest_entries(store: Arc<dyn ObjectStore>) {
    commit_one(&*store, put("quiet", Expect::Absent, b"1")).await;
    let mut revisions = Vec::new();
    for turn in 0..HISTORY_LIMITS.per_key + 3 {
        revisions.push(commit_one(&*store, put("a", Expect::Anything, turn.to_string().as_bytes())).await);
    }
    let kept = store.history(&key("a"), None, usize::MAX).await.unwrap();
    let kept: Vec<_> = kept.iter().rev().map(|entry| entry.revision).collect();
    assert_eq!(kept, revisions[3..]);
    assert_eq!(
        store.history(&key("quiet"), None, 10).await.unwrap().len(),
        1,
        "the history of an unchanged object stays"
    );
    assert_eq!(store.read(&key("a")).await.unwrap().unwrap().generation, 103);
}

pub(in super::super) async fn batch_at_each_bound_is_accepted_and_over_it_rejected(store: Arc<dyn ObjectStore>) {
    let rejected = async |batch: Batch, word: &str| {
        let error = store.commit(batch).await.unwrap_err();
        assert!(matches!(&error, StoreError::Refused(reason) if reason.contains(word)), "{error}");
    };
    let value = |bytes: usize| vec![put("a", Expect::Anything, &vec![b'x'; bytes])];
    store.commit(batch(1, value(VALUE_MAX))).await.unwrap();
    rejected(batch(1, value(VALUE_MAX + 1)), "1048577 bytes").await;
    let author = |who: usize, why: usize| Author::new("w".repeat(who), "y".repeat(why));
    let by = |by| Batch { by, ..batch(1, value(1)) };
    store.commit(by(author(AUTHOR_MAX, REASON_MAX))).await.unwrap();
    rejected(by(author(AUTHOR_MAX + 1, 0)), "author has 257").await;
    rejected(by(author(0, REASON_MAX + 1)), "reason has 1025").await;
    let many = |count: usize| (0..count).map(|n| put(&format!("n{n}"), Expect::Absent, b"1")).collect::<Vec<_>>();
    assert_eq!(store.commit(batch(1, many(BATCH_MAX))).await.unwrap().objects.len(), BATCH_MAX);
    rejected(batch(1, many(BATCH_MAX + 1)), "10101 changes").await;
    rejected(batch(1, vec![put("a", Expect::Anything, b"1"), delete("a", Expect::Anything)]), "pool/a twice").await;
    let large =
        (0..=BATCH_BYTES_MAX / VALUE_MAX).map(|n| put(&format!("l{n}"), Expect::Absent, &vec![b'x'; VALUE_MAX]));
    rejected(batch(1, large.collect()), "bytes together").await;
}
