//! A sorted map whose versions share their parts: copying it costs one pointer per 64 entries, a change copies one part, and
//! the differences of two versions are found without comparing what they share. Different maps can share entries, too, so that
//! what is merged from several maps is in memory once.
//!
//! Why not a library: `rpds` 1.2 (MIT; `imbl` is MPL, which deny.toml does not allow) was measured against it with divan, 100,000
//! entries with keys of 24 bytes and values of 64, two cores, medians:
//!
//! | | this map | `rpds::RedBlackTreeMapSync` |
//! |---|---|---|
//! | build | 1.8 ms | 27 ms |
//! | copy and change one entry | 9 µs | 0.6 µs |
//! | differences of two versions | 1 µs | 1.2 ms, since all entries are compared |
//! | iterate | 0.27 ms | 1.14 ms |
//! | look up | 2.3 µs | 2.6 µs |
//! | memory | 8.1 MB | 14.4 MB |
//!
//! The figures of this map are from before entries were shared; they have not been measured since.
//!
//! A reload compares versions of up to a million names several times, which would take some 12 ms each with `rpds`; the bound
//! for a whole change is about a millisecond (bench/README.md).

use std::{borrow::Borrow, cmp::Ordering, collections::BTreeMap, fmt, iter, sync::Arc, vec};

/// A sorted map for many entries in many versions, each of which differs little from the previous one.
pub struct SharedMap<K, V> {
    /// Sorted parts, each with 1 to [`PART_MAX`] entries.
    parts: Vec<Part<K, V>>,
    length: usize,
}

type Entry<K, V> = Arc<(K, V)>;
type Part<K, V> = Arc<Vec<Entry<K, V>>>;

impl<K, V> SharedMap<K, V> {
    /// Returns an empty map.
    pub const fn new() -> Self {
        Self { parts: Vec::new(), length: 0 }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns true if the map is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns all entries in order.
    pub fn iter(&self) -> SharedMapIter<'_, K, V> {
        SharedMapIter { parts: &self.parts, at: 0, left: self.length }
    }

    /// Returns all keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// Returns all values in the order of their keys.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    /// Returns the value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// Returns the entry of a key.
    pub fn get_key_value<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        let (part, Ok(at)) = self.find(key) else { return None };
        self.parts[part].get(at).map(pair)
    }

    /// Returns true if the map has the key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Returns the entries after a key, in order.
    pub fn after<'a>(&'a self, key: &K) -> impl Iterator<Item = (&'a K, &'a V)> + Clone + use<'a, K, V> {
        self.starting_at(&|known| known <= key)
    }

    /// Returns the entries in order, without those at the beginning whose keys `is_before` accepts. It must accept no key
    /// that follows one it rejects.
    pub fn starting_at<'a>(
        &'a self,
        is_before: &dyn Fn(&K) -> bool,
    ) -> impl Iterator<Item = (&'a K, &'a V)> + Clone + use<'a, K, V> {
        let part = self.parts.partition_point(|part| part.last().is_some_and(|last| is_before(&last.0)));
        let at = self.parts.get(part).map_or(0, |part| part.partition_point(|entry| is_before(&entry.0)));
        self.parts[part..].iter().flat_map(|part| part.iter()).skip(at).map(pair)
    }

    /// Returns the keys whose values differ from those of another map, each with the value here and the one there. Values that
    /// `is_same` accepts are equal; shared parts and entries are skipped.
    pub fn differences<'a>(
        &'a self,
        other: &'a Self,
        is_same: impl Fn(&V, &V) -> bool,
    ) -> Vec<(&'a K, Option<&'a V>, Option<&'a V>)> {
        let mut found = Vec::new();
        let (mut ours, mut theirs) = (self.iter(), other.iter());
        loop {
            ours.skip_shared(&mut theirs);
            let order = match (ours.peek(), theirs.peek()) {
                (None, None) => return found,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((our, _)), Some((their, _))) => our.cmp(their),
            };
            let our = if order.is_le() { ours.next() } else { None };
            let their = if order.is_ge() { theirs.next() } else { None };
            match (our, their) {
                (Some((_, our)), Some((_, their))) if std::ptr::eq(our, their) || is_same(our, their) => {}
                (our, their) => {
                    let key = our.or(their).map(|(key, _)| key);
                    found.extend(key.map(|key| (key, our.map(|it| it.1), their.map(|it| it.1))));
                }
            }
        }
    }

    /// Returns the part that a key is in or belongs in, and its index there.
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> (usize, Result<usize, usize>)
    where
        K: Borrow<Q>,
    {
        // Keys that are added in order belong at the end, so that is tried first.
        if let Some(last) = self.parts.last().filter(|last| last[last.len() - 1].0.borrow() < key) {
            return (self.parts.len() - 1, Err(last.len()));
        }
        let behind = self.parts.partition_point(|part| part[0].0.borrow() <= key);
        let Some(part) = behind.checked_sub(1) else { return (0, Err(0)) };
        (part, self.parts[part].binary_search_by(|entry| entry.0.borrow().cmp(key)))
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// Returns the value of a key, to change it; its part is copied if other versions share it.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (part, Ok(at)) = self.find(key) else { return None };
        Some(&mut Arc::make_mut(&mut Arc::make_mut(&mut self.parts[part])[at]).1)
    }

    /// Returns all values in the order of their keys, to change them; shared parts are copied.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.parts.iter_mut().flat_map(|part| Arc::make_mut(part).iter_mut().map(|entry| &mut Arc::make_mut(entry).1))
    }

    /// Sets the value of a key; returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.share(Arc::new((key, value))).map(|entry| Arc::unwrap_or_clone(entry).1)
    }

    /// Removes a key; returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (at, Ok(place)) = self.find(key) else { return None };
        let part = Arc::make_mut(&mut self.parts[at]);
        let (_, value) = Arc::unwrap_or_clone(part.remove(place));
        let left = part.len();
        self.length -= 1;
        if left == 0 {
            self.parts.remove(at);
        } else if self.parts.get(at + 1).is_some_and(|next| left + next.len() <= PART_MAX / 2) {
            let next = self.parts.remove(at + 1);
            Arc::make_mut(&mut self.parts[at]).extend(next.iter().cloned());
        }
        Some(value)
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    /// Returns the entries with these keys, shared with this map.
    pub fn selected<'k>(&self, keys: impl IntoIterator<Item = &'k K>) -> Self
    where
        K: 'k,
    {
        let mut selected = Self::new();
        for key in keys {
            if let (part, Ok(at)) = self.find(key) {
                selected.share(Arc::clone(&self.parts[part][at]));
            }
        }
        selected
    }

    /// Adds the entries of another map, in place of those with the same key, and shares them with it.
    pub fn append(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        } else {
            other.parts.iter().flat_map(|part| part.iter()).for_each(|entry| _ = self.share(Arc::clone(entry)));
        }
    }

    /// Adds the entries of another map whose keys are absent, and shares them with it. Returns its other entries.
    pub fn append_absent<'a>(&mut self, other: &'a Self) -> Vec<(&'a K, &'a V)> {
        if self.is_empty() {
            self.clone_from(other);
            return Vec::new();
        }
        let mut known = Vec::new();
        for entry in other.parts.iter().flat_map(|part| part.iter()) {
            match self.contains_key(&entry.0) {
                true => known.push(pair(entry)),
                false => _ = self.share(Arc::clone(entry)),
            }
        }
        known
    }

    /// Sets the entry of its key; returns the previous one.
    fn share(&mut self, entry: Entry<K, V>) -> Option<Entry<K, V>> {
        let (at, found) = self.find(&entry.0);
        if self.parts.is_empty() {
            self.parts.push(Arc::default());
        }
        let part = Arc::make_mut(&mut self.parts[at]);
        match found {
            Ok(place) => return Some(std::mem::replace(&mut part[place], entry)),
            Err(place) => part.insert(place, entry),
        }
        self.length += 1;
        if part.len() > PART_MAX {
            // Entries that are added in order leave full parts behind.
            let is_last = at + 1 == self.parts.len();
            let part = Arc::make_mut(&mut self.parts[at]);
            let rest = part.split_off(if is_last { PART_MAX } else { PART_MAX / 2 });
            part.shrink_to_fit();
            self.parts.insert(at + 1, Arc::new(rest));
        }
        None
    }
}

fn pair<K, V>(entry: &Entry<K, V>) -> (&K, &V) {
    (&entry.0, &entry.1)
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> Self {
        Self { parts: self.parts.clone(), length: self.length }
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        let is_shared = |(ours, theirs)| Arc::ptr_eq(ours, theirs);
        let same_parts = self.parts.len() == other.parts.len() && self.parts.iter().zip(&other.parts).all(is_shared);
        self.length == other.length && (same_parts || self.iter().eq(other.iter()))
    }
}

impl<K: Eq, V: Eq> Eq for SharedMap<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SharedMap<K, V> {
    /// Of several entries with the same key the last one is used.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut entries: Vec<(K, V)> = entries.into_iter().collect();
        if !entries.is_sorted_by(|(one, _), (next, _)| one < next) {
            entries = entries.into_iter().collect::<BTreeMap<K, V>>().into_iter().collect();
        }
        let (length, mut entries) = (entries.len(), entries.into_iter().map(Arc::new));
        let part = |_| Arc::new(entries.by_ref().take(PART_MAX).collect::<Vec<_>>());
        Self { parts: (0..length.div_ceil(PART_MAX)).map(part).collect(), length }
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for SharedMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: Ord + Clone, V: Clone> Extend<(K, V)> for SharedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        if self.is_empty() {
            *self = entries.into_iter().collect();
        } else {
            for (key, value) in entries {
                self.insert(key, value);
            }
        }
    }
}

impl<K: Clone, V: Clone> IntoIterator for SharedMap<K, V> {
    type Item = (K, V);
    type IntoIter = iter::Map<vec::IntoIter<Entry<K, V>>, fn(Entry<K, V>) -> (K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        let entries: Vec<_> = self.parts.into_iter().flat_map(Arc::unwrap_or_clone).collect();
        entries.into_iter().map(Arc::unwrap_or_clone)
    }
}

impl<'a, K, V> IntoIterator for &'a SharedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = SharedMapIter<'a, K, V>;

    fn into_iter(self) -> SharedMapIter<'a, K, V> {
        self.iter()
    }
}

/// Iterator over the entries of a [`SharedMap`], in order.
#[derive(Debug)]
pub struct SharedMapIter<'a, K, V> {
    /// The current part and those after it.
    parts: &'a [Part<K, V>],
    /// The index in the current part.
    at: usize,
    left: usize,
}

impl<'a, K, V> SharedMapIter<'a, K, V> {
    fn peek(&self) -> Option<(&'a K, &'a V)> {
        let part = self.parts.first()?;
        part.get(self.at).or_else(|| self.parts.get(1)?.first()).map(pair)
    }

    /// Skips parts that both iterators are about to begin and that are shared.
    fn skip_shared(&mut self, other: &mut Self) {
        for walk in [&mut *self, &mut *other] {
            if walk.parts.first().is_some_and(|part| walk.at == part.len()) {
                (walk.parts, walk.at) = (&walk.parts[1..], 0);
            }
        }
        while let ([ours, our_rest @ ..], [theirs, their_rest @ ..], 0, 0) =
            (self.parts, other.parts, self.at, other.at)
            && Arc::ptr_eq(ours, theirs)
        {
            self.left -= ours.len();
            other.left -= ours.len();
            (self.parts, other.parts) = (our_rest, their_rest);
        }
    }
}

impl<K, V> Clone for SharedMapIter<'_, K, V> {
    fn clone(&self) -> Self {
        Self { parts: self.parts, at: self.at, left: self.left }
    }
}

impl<'a, K, V> Iterator for SharedMapIter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<(&'a K, &'a V)> {
        if self.at == self.parts.first()?.len() {
            (self.parts, self.at) = (&self.parts[1..], 0);
        }
        let entry = self.parts.first()?.get(self.at)?;
        self.at += 1;
        self.left -= 1;
        Some(pair(entry))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K, V> ExactSizeIterator for SharedMapIter<'_, K, V> {}

/// A sorted set whose versions share their parts, as those of a [`SharedMap`].
pub type SharedSet<K> = SharedMap<K, ()>;

/// Largest number of entries of a part. A change copies one part, and a copy of the map one pointer per part, so a larger
/// part makes changes slower and copies faster. The figures at the top of this file are measured with 64.
const PART_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(map: &SharedMap<u64, u64>, expected: &BTreeMap<u64, u64>) {
        assert!(map.iter().eq(expected) && map.keys().eq(expected.keys()) && map.values().eq(expected.values()));
        assert_eq!(
            (map.len(), map.is_empty(), map.iter().len()),
            (expected.len(), expected.is_empty(), expected.len())
        );
        assert!(map.parts.iter().all(|part| (1..=PART_MAX).contains(&part.len())));
    }

    #[test]
    fn every_version_equals_a_plain_map() {
        let mut random = crate::SplitMix::new(7);
        let mut number = |below| random.below(below);
        for (range, steps) in [(50, 400), (3_000, 4_000)] {
            let (mut map, mut plain) = (SharedMap::new(), BTreeMap::new());
            let mut versions = Vec::new();
            for step in 0..steps {
                let (key, value) = (number(range), number(5));
                // The map grows first and is nearly empty at the end.
                if number(steps) > step || number(4) == 0 {
                    assert_eq!(map.insert(key, value), plain.insert(key, value));
                } else {
                    let key = plain.range(key..).next().map_or(key, |(key, _)| *key);
                    assert_eq!(map.remove(&key), plain.remove(&key));
                }
                assert_eq!((map.get(&key), map.contains_key(&key)), (plain.get(&key), plain.contains_key(&key)));
                assert!(map.after(&key).eq(plain.range(key + 1..)));
                if step % 97 == 0 {
                    versions.push((map.clone(), plain.clone()));
                }
            }
            versions.push((map, plain));
            for (one, plain) in &versions {
                check(one, plain);
                assert_eq!(*one, plain.clone().into_iter().collect());
                for (other, others) in &versions {
                    let keys: std::collections::BTreeSet<_> = plain.keys().chain(others.keys()).collect();
                    let expected = keys.into_iter().map(|key| (key, plain.get(key), others.get(key)));
                    let expected: Vec<_> = expected.filter(|(_, ours, theirs)| ours != theirs).collect();
                    assert_eq!(one.differences(other, |a, b| a == b), expected);
                    assert_eq!(one == other, expected.is_empty());
                }
            }
        }
    }

    #[test]
    fn entries_in_order_fill_parts_and_the_last_of_equal_keys_is_used() {
        let map: SharedMap<u64, u64> = (0..1_000).map(|n| (n, n)).collect();
        assert_eq!(map.parts.len(), 1_000usize.div_ceil(PART_MAX));
        let mut one_by_one = SharedMap::new();
        (0..1_000).for_each(|n| _ = one_by_one.insert(n, n));
        assert_eq!((one_by_one.parts.len(), &one_by_one), (map.parts.len(), &map));
        assert_eq!(SharedMap::from([(2, 1), (1, 1), (2, 3)]).iter().collect::<Vec<_>>(), [(&1, &1), (&2, &3)]);
    }

    #[test]
    fn change_copies_one_part_and_differences_compare_only_that() {
        let before: SharedMap<u64, u64> = (0..10_000).map(|n| (n, n)).collect();
        let mut after = before.clone();
        *after.get_mut(&4_711).unwrap() = 0;
        let shared = before.parts.iter().zip(&after.parts).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(shared, before.parts.len() - 1);
        let comparisons = std::cell::Cell::new(0);
        let found = after.differences(&before, |a, b| {
            comparisons.set(comparisons.get() + 1);
            a == b
        });
        assert_eq!(found, [(&4_711, Some(&0), Some(&4_711))]);
        assert!(comparisons.get() <= PART_MAX, "compared {} entries", comparisons.get());
    }
}
