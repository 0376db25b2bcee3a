//! Placements compiled once a shape, and shared by all pools of that shape.

use std::{
    collections::HashMap,
    hash::Hasher,
    sync::{Arc, LazyLock},
};

use fairway_model::{ClientLocation, DesiredState, Partition, Pool, Rank, StableHasher, StableMap};

use super::{distance::Point, rank, shape::Shape};
use crate::steer::{Placement, Rows, Territory};

/// A compiled placement, with what it came from.
#[derive(Debug)]
pub(crate) struct Placed {
    /// What the decision reads.
    pub(crate) placement: Placement,
    /// Equal placements have equal ones: part of the snapshot's id.
    pub(crate) digest: u64,
    /// How many ranks of each row were kept, where there were too many rows.
    pub(crate) depth: Option<u16>,
    /// Octets that it takes, about.
    pub(crate) octets: usize,
    pub(super) shape: Shape,
}

/// The placements of all pools, by shape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placements {
    by_shape: HashMap<Shape, Arc<Placed>>,
    octets: usize,
}

/// All placements together would take more than [`Placements::OCTETS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

impl Placements {
    /// Most octets that all placements of a snapshot take: 1 GiB. Those of one shape count once.
    pub(crate) const OCTETS_MAX: usize = 1 << 30;

    /// The placement of a pool; none if its policy does not go by place. One that was compiled before, for this snapshot or
    /// the `previous` one, is taken as it is. Others that share these see nothing of it.
    pub(crate) fn of(
        self: &mut Arc<Self>,
        desired: &DesiredState,
        pool: &Pool,
        previous: Option<&Self>,
    ) -> Result<Option<Arc<Placed>>, TooLarge> {
        let Some(shape) = Shape::of(desired, pool) else { return Ok(None) };
        if let Some(known) = self.by_shape.get(&shape) {
            return Ok(Some(Arc::clone(known)));
        }
        let before = previous.and_then(|previous| previous.by_shape.get(&shape));
        let placed = before.map_or_else(|| Arc::new(Placed::new(shape.clone())), Arc::clone);
        let own = Arc::make_mut(self);
        own.admit(placed.octets)?;
        own.by_shape.insert(shape, Arc::clone(&placed));
        Ok(Some(placed))
    }

    /// Counts the octets of one more, if there is room.
    pub(super) fn admit(&mut self, octets: usize) -> Result<(), TooLarge> {
        self.octets = self.octets.saturating_add(octets);
        if self.octets > Self::OCTETS_MAX { Err(TooLarge) } else { Ok(()) }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.by_shape.len()
    }
}

impl Placed {
    /// Compiles a shape: a row for each way the members stand anywhere. Where there are more ways than a territory has rows,
    /// members far down the order rank equal, the more of them the fewer ways are left.
    pub(super) fn new(shape: Shape) -> Self {
        Self::with_rows(shape, ROWS_MAX)
    }

    pub(super) fn with_rows(shape: Shape, rows_max: usize) -> Self {
        let compiled = DEPTHS.iter().find_map(|depth| Some((*depth, Sorter::new(&shape, *depth, rows_max).sort()?)));
        let (depth, (partition, rows)) =
            compiled.unwrap_or_else(|| unreachable!("without depth there are as many rows as preferences"));
        let mut rankings = vec![Rows::new(shape.sites.len()); shape.ranks.len()];
        for row in &rows {
            let parts = row.chunks(shape.sites.len().max(1)).chain(std::iter::repeat(&[][..]));
            rankings.iter_mut().zip(parts).for_each(|(ranking, part)| ranking.push(part));
        }
        let octets = partition.size_in_bytes() + rows.len() * shape.sites.len() * shape.ranks.len() * size_of::<u16>();
        Self {
            digest: digest(&partition, &rows),
            depth: Some(depth).filter(|depth| *depth != Rows::LAST),
            placement: Placement {
                territory: Territory::new(partition).unwrap_or_else(Territory::everywhere),
                rankings,
            },
            octets,
            shape,
        }
    }
}

/// Most rows of a placement: their numbers have 16 bits.
pub(super) const ROWS_MAX: usize = Territory::ROWS_MAX;

/// How many ranks are told apart, one try after the other.
const DEPTHS: [u16; 7] = [Rows::LAST, 16, 8, 4, 2, 1, 0];

/// Sorts places and latencies into rows.
struct Sorter<'s> {
    shape: &'s Shape,
    depth: u16,
    rows_max: usize,
    /// Where the sites stand, for the ranking by distance.
    points: Vec<Option<Point>>,
    rows: Vec<Box<[u16]>>,
    numbers: StableMap<Box<[u16]>, u32>,
}

impl<'s> Sorter<'s> {
    fn new(shape: &'s Shape, depth: u16, rows_max: usize) -> Self {
        let points = shape.sites.iter().map(|site| site.coordinates.map(Point::from)).collect();
        Self { shape, depth, rows_max, points, rows: Vec::new(), numbers: StableMap::default() }
    }

    /// The partition into rows, and the rows; none if there are too many.
    fn sort(mut self) -> Option<(Partition, Vec<Box<[u16]>>)> {
        let shape = self.shape;
        let nowhere = ClientLocation::default();
        let places: Vec<&ClientLocation> = shape.map.iter().flat_map(|map| map.locations()).collect();
        let mut known: StableMap<(u32, u32), u32> = StableMap::default();
        let mut row = |place: u32, latencies: u32| {
            *known.entry((place, latencies)).or_insert_with(|| {
                let place = places.get(place as usize).copied().unwrap_or(&nowhere);
                self.number(place, latencies)
            })
        };
        let partition = match (&shape.map, &shape.latencies) {
            (Some(map), Some(table)) => map.partition().overlay(table.partition(), row),
            (Some(map), None) => map.partition().map(|place| row(place, 0)),
            (None, Some(table)) => table.partition().map(|latencies| row(0, latencies)),
            (None, None) => Partition::uniform(row(0, 0)),
        };
        (self.rows.len() <= self.rows_max).then_some((partition, self.rows))
    }

    /// The number of the row for a place and a row of the table of latencies.
    fn number(&mut self, place: &ClientLocation, latencies: u32) -> u32 {
        // Once there are too many nothing of it is used.
        if self.rows.len() > self.rows_max {
            return 0;
        }
        let ranks = self.ranks(place, latencies);
        let (next, rows) = (self.rows.len() as u32, &mut self.rows);
        *self.numbers.entry(ranks).or_insert_with_key(|ranks| {
            rows.push(ranks.clone());
            next
        })
    }

    /// How the members stand by each ranking, one after the other.
    fn ranks(&self, place: &ClientLocation, latencies: u32) -> Box<[u16]> {
        let Shape { ranks, sites, geo, tolerance, latencies: table, .. } = self.shape;
        let all = ranks.iter().flat_map(|ranking| match ranking {
            Rank::Geo => rank::geo(place, sites, geo),
            Rank::Nearest => rank::nearest(place, sites, &self.points, *tolerance),
            Rank::Latency { tolerance } => {
                rank::latency(table.as_ref().map_or(&[], |table| table.row(latencies)), sites, *tolerance)
            }
            Rank::Tier | Rank::Cost => vec![0; sites.len()],
        });
        let told = |rank: u16| rank == Rows::NEVER || (rank == Rows::LAST && self.depth > 0);
        all.map(|rank| if told(rank) { rank } else { rank.min(self.depth) }).collect()
    }
}

/// A hash of all that a placement says, the same on every machine.
fn digest(partition: &Partition, rows: &[Box<[u16]>]) -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| crate::hash::digest(b"placement"));
    let mut hasher = StableHasher::new(*SEED);
    for (start, value) in partition.starts() {
        hasher.write_u128(start);
        hasher.write_u32(value);
    }
    for rank in rows.iter().flat_map(|row| row.iter()) {
        hasher.write_u16(*rank);
    }
    hasher.finish()
}
