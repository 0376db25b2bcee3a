//! Challenges: answers that ask a source to come over TCP, since it has not shown that it receives our answers.

use std::{
    array,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use fairway_model::mix;

use super::{Tally, demand::source_word};
use crate::client::{Draw, Now};

/// Groups of sources by their hash. In a full group one of today's sources is replaced, so a table that an attacker fills prevents no
/// challenge, but a source may be challenged again: about 1 % of 30,000 sources a day.
const GROUPS: usize = 8_192;
const GROUP: usize = 8;

/// Sources that were challenged today. All workers share one table, so that a source is challenged once and not once per worker;
/// they use it for one query in 1,024.
///
/// The hash has a random key: nobody can choose sources that replace another.
#[derive(Debug)]
struct Challenges {
    hasher: RandomState,
    /// Hash of a source, and in its last 16 bits the day.
    groups: Box<[[AtomicU64; GROUP]]>,
}

static CHALLENGES: LazyLock<Challenges> = LazyLock::new(Challenges::default);

impl Default for Challenges {
    fn default() -> Self {
        let groups = (0..GROUPS).map(|_| array::from_fn(|_| AtomicU64::new(0))).collect();
        Self { hasher: RandomState::new(), groups }
    }
}

impl Challenges {
    /// Returns true if the source was not challenged today, and notes that it is.
    fn is_due(&self, source: IpAddr, now: Now) -> bool {
        let hash = self.hasher.hash_one(source_word(source));
        let (group, today) = (&self.groups[hash as usize % GROUPS], day(now));
        let noted = hash >> 16 << 16 | today;
        let found = group.each_ref().map(|entry| entry.load(Relaxed));
        if found.contains(&noted) {
            return false;
        }
        let free = found.iter().position(|entry| entry & 0xffff != today);
        let place = free.unwrap_or((hash >> 13) as usize % GROUP);
        // Another worker that was faster may have challenged this source.
        group[place].compare_exchange(found[place], noted, Relaxed, Relaxed).is_ok()
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
        let is_due = CHALLENGES.is_due(source, now);
        self.challenged.add(u64::from(is_due));
        is_due
    }
}

/// Returns the number of the day; never 0, which is an empty place.
fn day(now: Now) -> u64 {
    (now.0 / 86_400) % 0xffff + 1
}

/// So that the draw has nothing in common with other uses of the numbers.
const SEED: u64 = 0x6368_616c_6c65_6e67;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tallies;

    fn source(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn source_is_challenged_once_a_day_by_all_workers() {
        let (first, second, day) = (Tally::default(), Tally::default(), 86_400);
        assert!(first.challenge(source(1), Now(day)));
        assert!(!second.challenge(source(1), Now(2 * day - 1)));
        assert!(second.challenge(source(2), Now(day)));
        assert!(second.challenge(source(1), Now(2 * day)));
        let mut sum = Tallies::default();
        [first, second].iter().for_each(|tally| tally.add_to(&mut sum));
        assert_eq!(sum.challenges, 3);
    }

    #[test]
    fn thirty_thousand_sources_are_challenged_once_a_day() {
        let challenges = Challenges::default();
        let due = || (0..30_000).filter(|number| challenges.is_due(source(*number), Now(0))).count();
        assert_eq!(due(), 30_000);
        let again = (0..10).map(|_| due()).sum::<usize>();
        println!("{again} of 300,000 were challenged again");
        assert!(again < 10 * 900, "{again} of 300,000 were challenged again");
    }

    #[test]
    fn full_table_prevents_no_challenge() {
        let challenges = Challenges::default();
        (0..200_000).for_each(|number| _ = challenges.is_due(source(number), Now(0)));
        assert!(challenges.is_due(source(1 << 30), Now(0)));
    }

    #[test]
    fn at_most_one_query_in_a_thousand_is_drawn() {
        for start in [0, 1 << 40, u64::MAX - (1 << 21)] {
            let drawn = (0..1u64 << 20).filter(|number| is_drawn(Draw(start + number))).count();
            assert!((900..=1_048).contains(&drawn), "{drawn} of {} are about one in 1,024", 1 << 20);
        }
    }
}
