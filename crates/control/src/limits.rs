//! Limits of all declared objects together: of their memory, their number, and the number of webhook owners.
//!
//! A batch that would bring the use over a limit is refused before it is committed. What reduces the use always passes, so that a server
//! that is over a limit is brought below it by deletions. Use is that of the objects that this server has received: servers that share a
//! store check their own writes, and serve all.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use arc_swap::ArcSwap;
use fairway_config::DeclaredLimits;
use fairway_store::objects::{Batch, OverLimit, StoreError};
use fairway_telemetry::usable_memory;

use super::declared::{Declared, Growth, Usage};

/// Keeps all declared objects within the limits.
pub struct Limiter {
    declared: Arc<ArcSwap<Declared>>,
    /// Returns the limits of the configuration in force.
    limits: OnceLock<LimitSource>,
    /// Limit of memory if the configuration has none.
    memory_default: u64,
    pending: Mutex<Pending>,
    levels: Mutex<[Level; 3]>,
    refused: [AtomicU64; 3],
}

/// Returns the limits in force.
type LimitSource = Box<dyn Fn() -> DeclaredLimits + Send + Sync>;

/// Growth that the received objects do not show yet.
#[derive(Debug, Default)]
struct Pending {
    next: u64,
    reservations: Vec<Reserved>,
}

#[derive(Debug)]
struct Reserved {
    id: u64,
    growth: Usage,
    /// Revision of the batch, once it is committed.
    revision: Option<u64>,
}

/// Use of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitUse {
    /// Key of the configuration.
    pub key: &'static str,
    /// Last word of the key: `memory`, `objects` or `owners`.
    pub name: &'static str,
    /// Present use.
    pub used: u64,
    /// Limit.
    pub limit: u64,
    /// Batches that were refused because of it since the start.
    pub refused: u64,
}

/// Use of a limit, as it is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    #[default]
    Normal,
    /// At least 90 %.
    Near,
    /// Over the limit, which was lowered.
    Over,
}

impl Level {
    /// Returns the next level. Between 85 % and 90 % it stays, so that use that varies there is not logged each time.
    fn next(self, used: u64, limit: u64) -> Self {
        let percent = u128::from(used) * 100;
        let reaches = |part: u128| percent >= u128::from(limit) * part;
        match () {
            () if used > limit => Self::Over,
            () if reaches(90) || (self > Self::Normal && reaches(85)) => Self::Near,
            () => Self::Normal,
        }
    }
}

impl Limiter {
    pub(crate) fn new(declared: Arc<ArcSwap<Declared>>) -> Self {
        Self {
            declared,
            limits: OnceLock::new(),
            // The rest is for zones, requests, a compilation in progress, which copies what it changes, and memory that the allocator
            // cannot give back.
            memory_default: usable_memory().map_or(MEMORY_FALLBACK, |bytes| bytes / 4),
            pending: Mutex::default(),
            levels: Mutex::default(),
            refused: Default::default(),
        }
    }

    /// Follows the limits of the configuration in force.
    pub(crate) fn configure(&self, limits: impl Fn() -> DeclaredLimits + Send + Sync + 'static) {
        // Called once, when the server has its store.
        let _ = self.limits.set(Box::new(limits));
        self.note();
    }

    fn limits(&self) -> DeclaredLimits {
        self.limits.get().map(|limits| limits()).unwrap_or_default()
    }

    /// Returns the limits and their use.
    pub fn uses(&self) -> [LimitUse; 3] {
        self.uses_of(self.declared.load().usage, &self.limits())
    }

    fn uses_of(&self, used: Usage, limits: &DeclaredLimits) -> [LimitUse; 3] {
        let [memory, objects, owners] = [0, 1, 2].map(|at: usize| self.refused[at].load(Relaxed));
        let of = |key: &'static str, used, limit, refused| {
            let name = key.rsplit('.').next().unwrap_or_default();
            LimitUse { key, name, used, limit, refused }
        };
        [
            of(OverLimit::MEMORY, used.memory, limits.memory.unwrap_or(self.memory_default), memory),
            of(OverLimit::OBJECTS, used.objects, limits.objects, objects),
            of(OverLimit::OWNERS, used.owners, limits.owners, owners),
        ]
    }

    /// Reserves what a batch adds, until its objects are received.
    ///
    /// # Errors
    /// [`StoreError::Full`] if the use would grow to more than a limit.
    pub(crate) fn reserve(self: &Arc<Self>, batch: &Batch) -> Result<Reservation, StoreError> {
        self.reserve_within(batch, &self.limits())
    }

    fn reserve_within(self: &Arc<Self>, batch: &Batch, limits: &DeclaredLimits) -> Result<Reservation, StoreError> {
        // Reads all values, so it is done before the lock is taken.
        let growth = Growth::of(batch, &self.declared.load()).net();
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let declared = self.declared.load();
        pending.reservations.retain(|of| of.revision.is_none_or(|revision| revision > declared.revision));
        let mut used = declared.usage;
        pending.reservations.iter().for_each(|of| used += of.growth);
        let added = [growth.memory, growth.objects, growth.owners];
        for (at, (LimitUse { key, used, limit, .. }, needed)) in
            self.uses_of(used, limits).into_iter().zip(added).enumerate()
        {
            if needed > 0 && used.saturating_add(needed) > limit {
                self.refused[at].fetch_add(1, Relaxed);
                return Err(StoreError::Full(OverLimit { key, limit, used, needed }));
            }
        }
        let id = pending.next;
        pending.next += 1;
        if growth != Usage::default() {
            pending.reservations.push(Reserved { id, growth, revision: None });
        }
        Ok(Reservation { limiter: Arc::clone(self), id })
    }

    /// Ends the reservations of committed batches: all objects were read anew, perhaps from a backup with lower revisions.
    pub(crate) fn listed(&self) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.reservations.retain(|of| of.revision.is_none());
    }

    /// Logs limits that the use has reached, left or exceeded since the last call.
    pub(crate) fn note(&self) {
        if self.limits.get().is_none() {
            return;
        }
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        for (level, LimitUse { key, used, limit, .. }) in levels.iter_mut().zip(self.uses()) {
            let before = std::mem::replace(level, level.next(used, limit));
            match (before, *level) {
                (Level::Normal | Level::Near, Level::Over) => {
                    tracing::error!(
                        key,
                        used,
                        limit,
                        "declared objects over a limit: only writes that reduce them are accepted"
                    );
                }
                (Level::Normal, Level::Near) => tracing::warn!(key, used, limit, "declared objects near a limit"),
                (Level::Near | Level::Over, Level::Normal) => {
                    tracing::info!(key, used, limit, "declared objects no longer near a limit");
                }
                _ => {}
            }
        }
    }
}

/// Growth that is reserved for a batch. Dropping it ends the reservation of a batch that was not committed.
pub(crate) struct Reservation {
    limiter: Arc<Limiter>,
    id: u64,
}

impl Reservation {
    /// Keeps the reservation until the revision is received.
    pub(crate) fn committed(self, revision: u64) {
        let mut pending = self.limiter.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of) = pending.reservations.iter_mut().find(|of| of.id == self.id) {
            of.revision = Some(revision);
        }
        // `self` is dropped next, which takes the lock.
        drop(pending);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut pending = self.limiter.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.reservations.retain(|of| of.id != self.id || of.revision.is_some());
    }
}

/// Limit of memory if that of the machine cannot be read: a quarter of the memory of a small one.
const MEMORY_FALLBACK: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use fairway_model::Timestamp;
    use fairway_store::objects::{Author, Change, Expect, Key, Kind, Object};

    use super::*;

    fn key(kind: Kind, names: &[&str]) -> Key {
        Key::new(kind, names).unwrap()
    }

    fn object(key: &Key, value: &str, revision: u64) -> Object {
        let (created, changed) = (Timestamp::from_secs(0), Timestamp::from_secs(0));
        let value = value.as_bytes().into();
        Object { key: key.clone(), value, revision, generation: 1, created, changed, by: Author::default() }
    }

    fn batch(changes: &[(&Key, Option<&str>)]) -> Batch {
        let change = |(key, value): &(&Key, Option<&str>)| Change {
            key: (*key).clone(),
            expect: Expect::Anything,
            value: value.map(|text| text.as_bytes().to_vec()),
        };
        Batch { changes: changes.iter().map(change).collect(), by: Author::default(), at: Timestamp::from_secs(0) }
    }

    /// A server that has received these objects.
    fn limiter(objects: &[(&Key, &str)]) -> Arc<Limiter> {
        let objects = objects.iter().map(|(key, value)| object(key, value, 1));
        Arc::new(Limiter::new(Arc::new(ArcSwap::from_pointee(Declared::new(1, objects)))))
    }

    fn limits(memory: u64, objects: u64, owners: u64) -> DeclaredLimits {
        DeclaredLimits { memory: Some(memory), objects, owners }
    }

    fn refused(limiter: &Arc<Limiter>, batch: &Batch, limits: &DeclaredLimits) -> Option<&'static str> {
        match limiter.reserve_within(batch, limits) {
            Ok(_) => None,
            Err(StoreError::Full(over)) => Some(over.key),
            Err(other) => panic!("{other}"),
        }
    }

    /// Returns a stored part with rows of these types.
    fn rows(types: &[&str], held: &str) -> String {
        let row = |rtype: &&str| format!(r#"{{"since":1,"endpoint":{{"dnsName":"a","recordType":"{rtype}"}}{held}}}"#);
        format!(r#"{{"rows":[{}]}}"#, types.iter().map(row).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn batch_over_a_limit_is_refused_by_that_limit() {
        let [pool, other] = ["a", "b"].map(|name| key(Kind::Pool, &[name]));
        let [east, west] = ["east", "west"].map(|owner| key(Kind::Contribution, &[owner, "000"]));
        let part = rows(&["TXT"], "");
        let limiter = limiter(&[(&pool, "{}"), (&east, &part)]);
        let Usage { memory, objects, owners } = limiter.declared.load().usage;
        assert_eq!((objects, owners), (2, 1));
        let ample = limits(u64::MAX, 100, 100);
        let added = batch(&[(&other, Some("{}"))]);
        assert_eq!(refused(&limiter, &added, &ample), None);
        assert_eq!(refused(&limiter, &added, &limits(memory, 100, 100)), Some(OverLimit::MEMORY));
        assert_eq!(refused(&limiter, &added, &limits(u64::MAX, 2, 100)), Some(OverLimit::OBJECTS));
        let newcomer = batch(&[(&west, Some(&part))]);
        assert_eq!(refused(&limiter, &newcomer, &limits(u64::MAX, 100, 1)), Some(OverLimit::OWNERS));
        let more = batch(&[(&key(Kind::Contribution, &["east", "001"]), Some(&part))]);
        assert_eq!(refused(&limiter, &more, &limits(u64::MAX, 100, 1)), None);
        assert_eq!(limiter.uses_of(Usage::default(), &ample).map(|of| of.refused), [1, 1, 1]);
    }

    #[test]
    fn write_that_shrinks_passes_over_the_limit() {
        let [pool, other] = ["a", "b"].map(|name| key(Kind::Pool, &[name]));
        let part = key(Kind::Contribution, &["east", "000"]);
        let limiter = limiter(&[(&pool, r#"{"x":1}"#), (&part, &rows(&["A", "TXT"], ""))]);
        let none = limits(1, 1, 1);
        let held = r#","held":{"at":1764169028,"rule":"lastHealthyMember"}"#;
        for changes in [
            &[(&pool, None)][..],
            &[(&pool, Some("{}"))],
            &[(&pool, None), (&other, Some("{}"))],
            &[(&part, Some(&*rows(&["TXT"], "")))],
            &[(&part, Some(&*rows(&["A", "TXT"], held)))],
            &[(&key(Kind::Contributor, &["east"]), Some("{}"))],
            &[(&key(Kind::IdempotencyRecord, &["r"]), Some("{}"))],
            &[(&key(Kind::Overrides, &["all"]), Some("[]"))],
        ] {
            assert_eq!(refused(&limiter, &batch(changes), &none), None, "{changes:?}");
        }
        assert_eq!(refused(&limiter, &batch(&[(&pool, Some(r#"{"x":12}"#))]), &none), Some(OverLimit::MEMORY));
    }

    #[test]
    fn batch_counts_until_it_is_received_or_failed() {
        let [a, b] = ["a", "b"].map(|name| key(Kind::Pool, &[name]));
        let limiter = limiter(&[]);
        let (first, second, one) = (batch(&[(&a, Some("{}"))]), batch(&[(&b, Some("{}"))]), limits(u64::MAX, 1, 1));
        let reservation = limiter.reserve_within(&first, &one).unwrap();
        assert_eq!(refused(&limiter, &second, &one), Some(OverLimit::OBJECTS), "being committed");
        drop(reservation);
        let reservation = limiter.reserve_within(&second, &one).unwrap();
        reservation.committed(2);
        assert_eq!(refused(&limiter, &first, &one), Some(OverLimit::OBJECTS), "committed, not received");
        // Received, and deleted again.
        limiter.declared.store(Arc::new(Declared::new(3, [])));
        assert_eq!(refused(&limiter, &first, &one), None);
    }

    #[test]
    fn use_follows_every_change() {
        let keys =
            [key(Kind::Pool, &["a"]), key(Kind::Contribution, &["e", "0"]), key(Kind::Contribution, &["e", "1"])];
        let value = rows(&["A", "AAAA", "TXT"], "");
        let mut declared = Declared::default();
        keys.iter().for_each(|key| declared.put(key, Some(object(key, &value, 1))));
        assert_eq!(declared.usage, Declared::new(1, keys.iter().map(|key| object(key, &value, 1))).usage);
        assert_eq!((declared.usage.objects, declared.usage.owners), (7, 1));
        declared.put(&keys[1], Some(object(&keys[1], "{}", 2)));
        assert_eq!((declared.usage.objects, declared.usage.owners), (4, 1));
        keys.iter().for_each(|key| declared.put(key, None));
        assert_eq!(declared.usage, Usage::default());
    }

    #[test]
    fn level_changes_at_90_and_below_85_percent() {
        let mut level = Level::default();
        let uses = [89, 90, 86, 101, 100, 84, 86];
        let levels = uses.map(|used| {
            level = level.next(used, 100);
            level
        });
        use Level::{Near, Normal, Over};
        assert_eq!(levels, [Normal, Near, Near, Over, Near, Normal, Normal]);
    }
}
