//! A bounded ring of entries of a few words, with one writer and one reader. Neither waits.

use std::sync::atomic::{AtomicU64, Ordering};

/// A ring of `ENTRIES` entries of `WORDS` words. A full ring drops new entries, so that the writer never waits.
#[derive(Debug)]
pub(super) struct Ring<const ENTRIES: usize, const WORDS: usize> {
    /// Entries written in total. Only the writer changes it.
    head: AtomicU64,
    /// Entries read in total. Only the reader changes it.
    tail: AtomicU64,
    lost: AtomicU64,
    /// Allocated at the start, so that the answer path never allocates.
    words: Box<[AtomicU64]>,
}

impl<const ENTRIES: usize, const WORDS: usize> Default for Ring<ENTRIES, WORDS> {
    fn default() -> Self {
        Self {
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            words: (0..ENTRIES * WORDS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl<const ENTRIES: usize, const WORDS: usize> Ring<ENTRIES, WORDS> {
    /// Returns the number of entries that found the ring full.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Writes one entry. Words that are not given keep their previous value.
    #[inline]
    pub(super) fn push(&self, words: impl IntoIterator<Item = u64>) {
        let head = self.head.load(Ordering::Relaxed);
        // Acquire: the reader has finished with the entry that is overwritten.
        if head.wrapping_sub(self.tail.load(Ordering::Acquire)) >= ENTRIES as u64 {
            self.lost.store(self.lost.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return;
        }
        for (word, value) in self.entry(head).iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        // Release: a reader that sees the new head sees these words.
        self.head.store(head.wrapping_add(1), Ordering::Release);
    }

    /// Calls `each` with the entries written before the call.
    pub(super) fn drain(&self, mut each: impl FnMut([u64; WORDS])) {
        let head = self.head.load(Ordering::Acquire);
        let mut tail = self.tail.load(Ordering::Relaxed);
        while tail != head {
            let entry = self.entry(tail);
            each(std::array::from_fn(|word| entry[word].load(Ordering::Relaxed)));
            tail = tail.wrapping_add(1);
            self.tail.store(tail, Ordering::Release);
        }
    }

    fn entry(&self, number: u64) -> &[AtomicU64] {
        let start = (number % ENTRIES as u64) as usize * WORDS;
        &self.words[start..start + WORDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_ring_drops_and_counts_entries() {
        let ring = Ring::<4, 2>::default();
        (0..6).for_each(|n| ring.push([n, n + 100]));
        assert_eq!(ring.lost(), 2);
        let mut seen = vec![];
        ring.drain(|entry| seen.push(entry));
        assert_eq!(seen, [[0, 100], [1, 101], [2, 102], [3, 103]]);
        ring.push([9, 9]);
        ring.drain(|entry| seen.push(entry));
        assert_eq!(seen.last(), Some(&[9, 9]));
    }

    #[test]
    fn concurrent_writer_and_reader_lose_only_counted_entries() {
        let ring = Ring::<64, 1>::default();
        let mut seen = vec![];
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| (0..100_000).for_each(|n| ring.push([n])));
            while !writer.is_finished() {
                ring.drain(|[n]| seen.push(n));
            }
        });
        ring.drain(|[n]| seen.push(n));
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "in order, none twice");
        assert_eq!(seen.len() as u64 + ring.lost(), 100_000);
    }
}
