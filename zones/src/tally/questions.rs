//! Counters of questions by zone and type.

use std::sync::atomic::Ordering::Relaxed;

use fairway_model::{Name, Rtype};

use super::{Counter, Tally};
use crate::{
    lookup::Found,
    snapshot::{Snapshot, TextLayer},
};

/// Types with a counter of their own. Others are counted together, in the place after these.
pub const COUNTED_TYPES: [Rtype; TYPES - 1] = [
    Rtype::A,
    Rtype::NS,
    Rtype::CNAME,
    Rtype::SOA,
    Rtype::PTR,
    Rtype::MX,
    Rtype::TXT,
    Rtype::AAAA,
    Rtype::SRV,
    Rtype::DS,
    Rtype::DNSKEY,
    Rtype::SVCB,
    Rtype::HTTPS,
    Rtype::ANY,
    Rtype::CAA,
];
/// Places of a zone: one per type, and one for all others.
const TYPES: usize = 16;
/// Row of names outside all zones.
pub(crate) const OUTSIDE: u8 = 0;
/// Row of zones beyond [`ZONES_COUNTED`].
pub(crate) const OTHER_ZONES: u8 = 1;
/// Maximum number of zones with a row of their own since the start.
const ZONES_COUNTED: usize = 254;
/// Counters of a thread: 32 KiB.
const PLACES: usize = (ZONES_COUNTED + 2) * TYPES;
/// Place of each type up to CAA (257), the highest that is counted.
static PLACE_OF_TYPE: [u8; 258] = {
    let (mut places, mut place) = ([TYPES as u8 - 1; 258], 0);
    while place < COUNTED_TYPES.len() {
        places[COUNTED_TYPES[place].0 as usize] = place as u8;
        place += 1;
    }
    places
};

/// Counters of one worker thread, allocated at the start.
#[derive(Debug)]
pub(super) struct Questions(Box<[Counter; PLACES]>);

impl Default for Questions {
    fn default() -> Self {
        Self(Box::new([const { Counter(std::sync::atomic::AtomicU64::new(0)) }; PLACES]))
    }
}

impl Questions {
    pub(super) fn add_to(&self, sums: &mut Vec<u64>) {
        sums.resize(PLACES, 0);
        sums.iter_mut().zip(&*self.0).for_each(|(sum, counter)| *sum += counter.0.load(Relaxed));
    }
}

impl Tally {
    /// Counts a question by the zone in which its name was found.
    #[inline(always)]
    pub(crate) fn question(&self, snapshot: &Snapshot, found: Found, rtype: Rtype) {
        let row = snapshot.row(found);
        let place = PLACE_OF_TYPE.get(usize::from(rtype.0)).map_or(TYPES - 1, |place| usize::from(*place) % TYPES);
        self.questions.0[usize::from(row) * TYPES + place].add(1);
    }
}

impl TextLayer {
    /// Gives each zone a row of counters: that which it had before, else the next free one.
    pub(crate) fn number_rows(&mut self, before: Option<&Self>) {
        self.rows = before.map(|before| before.rows.clone()).unwrap_or_default();
        for zone in &mut self.zones {
            let next = self.rows.len();
            zone.row = match self.rows.get(&zone.origin) {
                Some(row) => *row,
                None if next < ZONES_COUNTED => *self.rows.entry(zone.origin.clone()).or_insert(next as u8 + 2),
                None => OTHER_ZONES,
            };
        }
    }
}

impl Snapshot {
    /// Returns the zones with counters, and the index in [`Tallies::questions`](super::Tallies::questions) of the first one of
    /// each: one per type of [`COUNTED_TYPES`], and one for all other types. `Err` names what the first two rows stand for.
    pub fn question_rows(&self) -> impl Iterator<Item = (Result<&Name, &'static str>, usize)> {
        let zones = self.text.rows.iter().map(|(name, row)| (Ok(name), *row));
        let others = [(Err("outside"), OUTSIDE), (Err("other"), OTHER_ZONES)];
        others.into_iter().chain(zones).map(|(zone, row)| (zone, usize::from(row) * TYPES))
    }
}
