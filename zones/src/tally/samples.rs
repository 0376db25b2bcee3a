//! Samples of queries for the query log.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU32, Ordering},
};

use fairway_model::Network;

use super::{Tally, address_of, address_words, ring::Ring};
use crate::{
    client::{Client, Transport},
    wire::Rcode,
};

/// One sampled query, for the query log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Seconds since 1970, read once per batch.
    pub at: u64,
    /// Source address of the query.
    pub client: IpAddr,
    /// Client subnet of the query (RFC 7871).
    pub subnet: Option<Network>,
    /// Transport of the query.
    pub transport: Transport,
    /// Response code.
    pub rcode: u16,
    /// The response, cut at 512 octets. It repeats the question, unless that is malformed.
    pub response: Vec<u8>,
}

/// Maximum number of samples that wait for the reader.
const ENTRIES: usize = 256;
/// A head, and 512 octets of the response: the longest question, and eight addresses of either family.
const WORDS: usize = HEAD + 64;
/// Time, address and subnet in two words each, and one word of fields: octets of the response from bit 32, bit 31 if
/// there is a subnet, its length from bit 23, the response code from bit 8, bit 0 for a stream.
const HEAD: usize = 6;

/// Sampling rate, and the ring of samples.
#[derive(Debug, Default)]
pub(super) struct Samples {
    every: AtomicU32,
    count: AtomicU32,
    pub(super) ring: Ring<ENTRIES, WORDS>,
}

impl Tally {
    /// Samples one of every `every` queries for the query log. 0, the default, samples none.
    pub fn sample_every(&self, every: u32) {
        self.samples.every.store(every, Ordering::Relaxed);
    }

    /// Counts one query. True once in `every`, if the query is to be sampled.
    #[inline]
    pub(crate) fn is_sampled(&self) -> bool {
        let Samples { every, count, .. } = &self.samples;
        let every = every.load(Ordering::Relaxed);
        if every == 0 {
            return false;
        }
        let next = count.load(Ordering::Relaxed).wrapping_add(1);
        let due = next >= every;
        count.store(if due { 0 } else { next }, Ordering::Relaxed);
        due
    }

    /// Adds a sample. Kept off the path of queries that are not sampled.
    #[cold]
    #[inline(never)]
    pub(crate) fn sample(&self, client: &Client, subnet: Option<Network>, response: &[u8], rcode: Rcode, now: u64) {
        let response = &response[..response.len().min((WORDS - HEAD) * 8)];
        let stream = u64::from(client.transport == Transport::Tcp);
        let [high, low] = address_words(client.address);
        let [subnet_high, subnet_low] = subnet.map_or([0; 2], |network| address_words(network.address()));
        let length = subnet.map_or(0, |network| 1 << 31 | u64::from(network.length()) << 23);
        let meta = (response.len() as u64) << 32 | length | u64::from(rcode.0 & 0x7fff) << 8 | stream;
        let words = response.chunks(8).map(|chunk| {
            let mut octets = [0; 8];
            octets[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(octets)
        });
        self.samples.ring.push([now, high, low, subnet_high, subnet_low, meta].into_iter().chain(words));
    }

    /// Calls `each` with the samples since the last call. Only one thread may call it.
    ///
    /// Samples that find the ring full are lost and counted in [`Tallies::samples_lost`].
    ///
    /// [`Tallies::samples_lost`]: super::Tallies::samples_lost
    pub fn take_samples(&self, mut each: impl FnMut(Sample)) {
        self.samples.ring.drain(|entry| each(read(&entry)));
    }
}

fn read(entry: &[u64; WORDS]) -> Sample {
    let [at, high, low, subnet_high, subnet_low, meta, response @ ..] = entry;
    let mut response: Vec<u8> = response.iter().flat_map(|word| word.to_le_bytes()).collect();
    response.truncate((meta >> 32) as usize);
    Sample {
        at: *at,
        client: address_of([*high, *low]),
        subnet: (meta >> 31 & 1 == 1).then(|| Network::of(address_of([*subnet_high, *subnet_low]), (meta >> 23) as u8)),
        transport: if meta & 1 == 1 { Transport::Tcp } else { Transport::Udp },
        rcode: (meta >> 8) as u16 & 0x7fff,
        response,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        Client { address: "192.0.2.1".parse().unwrap(), port: 53000, transport: Transport::Tcp }
    }

    #[test]
    fn samples_are_read_in_order() {
        let tally = Tally::default();
        let packet = [&[0; 12][..], b"\x03www\x00\x00\x01\x00\x01"].concat();
        let subnet = Network::of("2001:db8::".parse().unwrap(), 56);
        tally.sample(&client(), Some(subnet), &packet, Rcode(3), 77);
        tally.sample(&client(), None, &[7; 600], Rcode(0), 78);
        let mut seen = vec![];
        tally.take_samples(|s| seen.push(s));
        assert_eq!(seen[0].response, packet);
        assert_eq!((seen[0].at, seen[0].rcode, seen[0].transport), (77, 3, Transport::Tcp));
        assert_eq!((seen[0].client, seen[0].subnet), (client().address, Some(subnet)));
        assert_eq!((seen[1].at, seen[1].subnet, seen[1].response.len()), (78, None, 512));
    }

    #[test]
    fn every_third_query_is_sampled() {
        let tally = Tally::default();
        assert!(!tally.is_sampled());
        tally.sample_every(3);
        let due: Vec<bool> = (0..6).map(|_| tally.is_sampled()).collect();
        assert_eq!(due, [false, false, true, false, false, true]);
    }
}
