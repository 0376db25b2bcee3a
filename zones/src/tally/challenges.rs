//! Challenges: answers that ask a source to come over TCP, since it has not shown that it receives our answers.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use fairway_model::mix;

use super::{Tally, demand::source_word};
use crate::client::{Draw, Now};

/// Sources that were challenged today, by a part of their hash. Two with the same place replace each other, so a table that an
/// attacker fills prevents no challenge; then a source may be challenged again.
const PLACES: usize = 4096;

/// The table, with one writer. A place has the hash of a source, and in its last 16 bits the day.
#[derive(Debug)]
pub(super) struct Challenges(Box<[AtomicU64]>);

impl Default for Challenges {
    fn default() -> Self {
        Self((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }
}

/// True for one query in 1,024, at random.
#[inline]
pub(crate) fn is_drawn(draw: Draw) -> bool {
    // Draws are consecutive numbers.
    mix(draw.0 ^ SEED) & 1023 == 0
}

impl Tally {
    /// Returns true if the source was not challenged today, and notes that it is. Counts the challenge.
    pub(crate) fn challenge(&self, source: IpAddr, now: Now) -> bool {
        let hash = mix(source_word(source) ^ SEED);
        let (place, noted) = (&self.challenges.0[hash as usize % PLACES], hash >> 16 << 16 | day(now));
        let is_due = place.load(Relaxed) != noted;
        place.store(noted, Relaxed);
        self.challenged.add(u64::from(is_due));
        is_due
    }
}

/// Returns the number of the day; never 0, which is an empty place.
fn day(now: Now) -> u64 {
    (now.0 / 86_400) % 0xffff + 1
}

/// So that the draw and the table have nothing in common with other uses of the numbers.
const SEED: u64 = 0x6368_616c_6c65_6e67;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tallies;

    fn source(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn source_is_challenged_once_a_day() {
        let tally = Tally::default();
        let day = 86_400;
        assert!(tally.challenge(source(1), Now(day)));
        assert!(!tally.challenge(source(1), Now(2 * day - 1)));
        assert!(tally.challenge(source(2), Now(day)));
        assert!(tally.challenge(source(1), Now(2 * day)));
        let mut sum = Tallies::default();
        tally.add_to(&mut sum);
        assert_eq!(sum.challenges, 3);
    }

    #[test]
    fn full_table_prevents_no_challenge() {
        let tally = Tally::default();
        (0..100_000).for_each(|number| _ = tally.challenge(source(number), Now(0)));
        assert!(tally.challenge(source(1 << 30), Now(0)));
    }

    #[test]
    fn at_most_one_query_in_a_thousand_is_drawn() {
        for start in [0, 1 << 40, u64::MAX - (1 << 21)] {
            let drawn = (0..1u64 << 20).filter(|number| is_drawn(Draw(start + number))).count();
            assert!((900..=1_048).contains(&drawn), "{drawn} of {} are about one in 1,024", 1 << 20);
        }
    }
}
