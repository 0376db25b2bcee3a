//! A bounded ring of a few words an entry: one thread writes, one reads, neither waits.

use std::sync::atomic::{AtomicU64, Ordering};

/// `ENTRIES` entries of `WORDS` words; a full ring loses entries rather than time.
#[derive(Debug)]
pub(super) struct Ring<const ENTRIES: usize, const WORDS: usize> {
    /// Entries written, ever; only the writer moves it.
    head: AtomicU64,
    /// Entries read, ever; only the reader moves it.
    tail: AtomicU64,
    lost: AtomicU64,
    /// Allocated at start, so that the answer path never is the one to ask for memory.
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
    /// Entries that found the ring full.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Writes one entry: as many of `words` as an entry has; words that are not given stay what they were.
    #[inline]
    pub(super) fn push(&self, words: impl IntoIterator<Item = u64>) {
        let head = self.head.load(Ordering::Relaxed);
        // Acquire: the reader is done with the entry that is about to be overwritten.
        if head.wrapping_sub(self.tail.load(Ordering::Acquire)) >= ENTRIES as u64 {
            self.lost.store(self.lost.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return;
        }
        for (word, value) in self.entry(head).iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        // Release: the words above are seen by whoever sees the new head.
        self.head.store(head.wrapping_add(1), Ordering::Release);
    }

    /// Reads what was written before the call.
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
    fn a_full_ring_loses_what_comes_and_counts_it() {
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
    fn two_threads_lose_nothing_but_what_is_counted() {
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
