//! A bounded ring of sampled queries: one thread writes, one reads, neither waits.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use super::address_words;
use crate::{Client, Transport};

/// One sampled query, for the query log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Seconds since 1970, as coarse as the batch's clock.
    pub at: u64,
    /// Who asked.
    pub client: IpAddr,
    /// How.
    pub transport: Transport,
    /// Response code.
    pub rcode: u16,
    /// The question as it came: name in wire form, type, class. Cut at 272 octets, so never for a valid one.
    pub question: Vec<u8>,
}

/// Entries of the ring; a full ring loses samples rather than time.
const ENTRIES: usize = 256;
/// A head of four words, and 272 octets of question (255 + 4, rounded up).
const WORDS: usize = 4 + 34;

#[derive(Debug)]
pub(super) struct Ring {
    every: AtomicU32,
    count: AtomicU32,
    /// Entries written, ever; only the writer moves it.
    head: AtomicU64,
    /// Entries read, ever; only the reader moves it.
    tail: AtomicU64,
    lost: AtomicU64,
    /// Allocated at start, so that the answer path never is the one to ask for memory.
    words: Box<[AtomicU64]>,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            every: AtomicU32::new(0),
            count: AtomicU32::new(0),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            words: (0..ENTRIES * WORDS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Ring {
    pub(super) fn sample_every(&self, every: u32) {
        self.every.store(every, Ordering::Relaxed);
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Counts one query; true once in `every`.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let every = self.every.load(Ordering::Relaxed);
        if every == 0 {
            return false;
        }
        let count = self.count.load(Ordering::Relaxed).wrapping_add(1);
        let due = count >= every;
        self.count.store(if due { 0 } else { count }, Ordering::Relaxed);
        due
    }

    pub(super) fn push(&self, client: &Client, packet: &[u8], question_end: usize, rcode: u16, now: u64) {
        let head = self.head.load(Ordering::Relaxed);
        // Acquire: the reader is done with the entry that is about to be overwritten.
        if head.wrapping_sub(self.tail.load(Ordering::Acquire)) >= ENTRIES as u64 {
            self.lost.store(self.lost.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return;
        }
        let entry = self.entry(head);
        let question = packet.get(12..question_end).unwrap_or(&[]);
        let question = &question[..question.len().min((WORDS - 4) * 8)];
        let stream = u64::from(client.transport == Transport::Tcp);
        let [high, low] = address_words(client.address);
        let meta = (question.len() as u64) << 32 | u64::from(rcode) << 8 | stream;
        for (word, value) in entry.iter().zip([now, high, low, meta]) {
            word.store(value, Ordering::Relaxed);
        }
        for (word, chunk) in entry[4..].iter().zip(question.chunks(8)) {
            let mut octets = [0; 8];
            octets[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(octets), Ordering::Relaxed);
        }
        // Release: the words above are seen by whoever sees the new head.
        self.head.store(head.wrapping_add(1), Ordering::Release);
    }

    pub(super) fn drain(&self, mut each: impl FnMut(Sample)) {
        let head = self.head.load(Ordering::Acquire);
        let mut tail = self.tail.load(Ordering::Relaxed);
        while tail != head {
            each(read(self.entry(tail)));
            tail = tail.wrapping_add(1);
            self.tail.store(tail, Ordering::Release);
        }
    }

    fn entry(&self, number: u64) -> &[AtomicU64] {
        let start = (number % ENTRIES as u64) as usize * WORDS;
        &self.words[start..start + WORDS]
    }
}

fn read(entry: &[AtomicU64]) -> Sample {
    let word = |i: usize| entry[i].load(Ordering::Relaxed);
    let meta = word(3);
    let mut question: Vec<u8> = (4..WORDS).flat_map(|i| word(i).to_le_bytes()).collect();
    question.truncate((meta >> 32) as usize);
    let address = Ipv6Addr::from_bits(u128::from(word(1)) << 64 | u128::from(word(2)));
    Sample {
        at: word(0),
        client: IpAddr::V6(address).to_canonical(),
        transport: if meta & 1 == 1 { Transport::Tcp } else { Transport::Udp },
        rcode: (meta >> 8) as u16,
        question,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        Client { address: "192.0.2.1".parse().unwrap(), port: 53000, transport: Transport::Tcp }
    }

    #[test]
    fn what_is_pushed_is_read_in_order() {
        let ring = Ring::default();
        let packet = [&[0; 12][..], b"\x03www\x00\x00\x01\x00\x01"].concat();
        ring.push(&client(), &packet, packet.len(), 3, 77);
        ring.push(&client(), &packet, 12, 0, 78);
        let mut seen = vec![];
        ring.drain(|s| seen.push(s));
        assert_eq!(seen[0].question, &packet[12..]);
        assert_eq!((seen[0].at, seen[0].rcode, seen[0].transport), (77, 3, Transport::Tcp));
        assert_eq!(seen[0].client, client().address);
        assert_eq!((seen[1].at, seen[1].question.len()), (78, 0));
    }

    #[test]
    fn a_full_ring_loses_samples_and_counts_them() {
        let ring = Ring::default();
        for _ in 0..ENTRIES + 5 {
            ring.push(&client(), &[0; 12], 12, 0, 0);
        }
        assert_eq!(ring.lost(), 5);
        let mut count = 0;
        ring.drain(|_| count += 1);
        assert_eq!(count, ENTRIES);
    }

    #[test]
    fn one_in_so_many_is_due() {
        let ring = Ring::default();
        assert!(!ring.is_due());
        ring.sample_every(3);
        let due: Vec<bool> = (0..6).map(|_| ring.is_due()).collect();
        assert_eq!(due, [false, false, true, false, false, true]);
    }
}
