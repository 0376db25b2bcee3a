//! Placements compiled once a shape, and shared by all pools of that shape.

use std::{
    collections::HashMap,
    hash::Hasher,
    sync::{Arc, LazyLock},
};

use fairway_model::{ClientLocation, DesiredState, Partition, Pool, Rank, StableHasher, StableMap};

use super::{distance::Point, inputs::RankingInputs, rank};
use crate::steer::{ClassRanks, ClientPartition, LocationRankings};

/// A compiled placement, with what it came from.
#[derive(Debug)]
pub(crate) struct CompiledRankings {
    /// What the decision reads.
    pub(crate) location: LocationRankings,
    /// Equal placements have equal ones: part of the snapshot's id.
    pub(crate) digest: u64,
    /// How many ranks of each row were kept, where there were too many rows.
    pub(crate) depth: Option<u16>,
    /// Octets that it takes, about.
    pub(crate) octets: usize,
    pub(super) inputs: RankingInputs,
}

/// The placements of all pools, by shape.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankingCache {
    by_inputs: HashMap<RankingInputs, Arc<CompiledRankings>>,
    octets: usize,
}

/// All placements together would take more than [`RankingCache::OCTETS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

impl RankingCache {
    /// Most octets that all placements of a snapshot take: 1 GiB. Those of one shape count once.
    pub(crate) const OCTETS_MAX: usize = 1 << 30;

    /// The placement of a pool; none if its policy does not go by place. One that was compiled before, for this snapshot or
    /// the `previous` one, is taken as it is. Others that share these see nothing of it.
    pub(crate) fn of(
        self: &mut Arc<Self>,
        desired: &DesiredState,
        pool: &Pool,
        previous: Option<&Self>,
    ) -> Result<Option<Arc<CompiledRankings>>, TooLarge> {
        let Some(inputs) = RankingInputs::of(desired, pool) else { return Ok(None) };
        if let Some(known) = self.by_inputs.get(&inputs) {
            return Ok(Some(Arc::clone(known)));
        }
        let before = previous.and_then(|previous| previous.by_inputs.get(&inputs));
        let placed = before.map_or_else(|| Arc::new(CompiledRankings::new(inputs.clone())), Arc::clone);
        let own = Arc::make_mut(self);
        own.admit(placed.octets)?;
        own.by_inputs.insert(inputs, Arc::clone(&placed));
        Ok(Some(placed))
    }

    /// Counts the octets of one more, if there is room.
    pub(super) fn admit(&mut self, octets: usize) -> Result<(), TooLarge> {
        self.octets = self.octets.saturating_add(octets);
        if self.octets > Self::OCTETS_MAX { Err(TooLarge) } else { Ok(()) }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.by_inputs.len()
    }
}

impl CompiledRankings {
    /// Compiles a shape: a row for each way the members stand anywhere. Where there are more ways than a territory has rows,
    /// members far down the order rank equal, the more of them the fewer ways are left.
    pub(super) fn new(inputs: RankingInputs) -> Self {
        Self::with_classes(inputs, CLASSES_MAX)
    }

    pub(super) fn with_classes(inputs: RankingInputs, classes_max: usize) -> Self {
        let compiled =
            DEPTHS.iter().find_map(|depth| Some((*depth, ClassBuilder::new(&inputs, *depth, classes_max).build()?)));
        let (depth, (partition, classes)) =
            compiled.unwrap_or_else(|| unreachable!("without depth there are as many classes as preferences"));
        let mut rankings = vec![ClassRanks::new(inputs.members.len()); inputs.ranks.len()];
        for class in &classes {
            let parts = class.chunks(inputs.members.len().max(1)).chain(std::iter::repeat(&[][..]));
            rankings.iter_mut().zip(parts).for_each(|(ranking, part)| ranking.push(part));
        }
        let octets =
            partition.size_in_bytes() + classes.len() * inputs.members.len() * inputs.ranks.len() * size_of::<u16>();
        Self {
            digest: digest(&partition, &classes),
            depth: Some(depth).filter(|depth| *depth != ClassRanks::LAST),
            location: LocationRankings {
                partition: ClientPartition::new(partition).unwrap_or_else(ClientPartition::everywhere),
                rankings,
            },
            octets,
            inputs,
        }
    }
}

/// Most rows of a placement: their numbers have 16 bits.
pub(super) const CLASSES_MAX: usize = ClientPartition::CLASSES_MAX;

/// How many ranks are told apart, one try after the other.
const DEPTHS: [u16; 7] = [ClassRanks::LAST, 16, 8, 4, 2, 1, 0];

/// Sorts places and latencies into rows.
struct ClassBuilder<'s> {
    inputs: &'s RankingInputs,
    depth: u16,
    classes_max: usize,
    /// Where the sites stand, for the ranking by distance.
    points: Vec<Option<Point>>,
    classes: Vec<Box<[u16]>>,
    numbers: StableMap<Box<[u16]>, u32>,
}

impl<'s> ClassBuilder<'s> {
    fn new(inputs: &'s RankingInputs, depth: u16, classes_max: usize) -> Self {
        let points = inputs.members.iter().map(|member| member.coordinates.map(Point::from)).collect();
        Self { inputs, depth, classes_max, points, classes: Vec::new(), numbers: StableMap::default() }
    }

    /// The partition into rows, and the rows; none if there are too many.
    fn build(mut self) -> Option<(Partition, Vec<Box<[u16]>>)> {
        let inputs = self.inputs;
        let nowhere = ClientLocation::default();
        let places: Vec<&ClientLocation> = inputs.map.iter().flat_map(|map| map.locations()).collect();
        let mut known: StableMap<(u32, u32), u32> = StableMap::default();
        let mut class = |place: u32, latencies: u32| {
            *known.entry((place, latencies)).or_insert_with(|| {
                let place = places.get(place as usize).copied().unwrap_or(&nowhere);
                self.number(place, latencies)
            })
        };
        let partition = match (&inputs.map, &inputs.latencies) {
            (Some(map), Some(table)) => map.partition().overlay(table.partition(), class),
            (Some(map), None) => map.partition().map(|place| class(place, 0)),
            (None, Some(table)) => table.partition().map(|latencies| class(0, latencies)),
            (None, None) => Partition::uniform(class(0, 0)),
        };
        (self.classes.len() <= self.classes_max).then_some((partition, self.classes))
    }

    /// The number of the row for a place and a row of the table of latencies.
    fn number(&mut self, place: &ClientLocation, latencies: u32) -> u32 {
        // Once there are too many nothing of it is used.
        if self.classes.len() > self.classes_max {
            return 0;
        }
        let ranks = self.ranks(place, latencies);
        let (next, classes) = (self.classes.len() as u32, &mut self.classes);
        *self.numbers.entry(ranks).or_insert_with_key(|ranks| {
            classes.push(ranks.clone());
            next
        })
    }

    /// How the members stand by each ranking, one after the other.
    fn ranks(&self, place: &ClientLocation, latencies: u32) -> Box<[u16]> {
        let RankingInputs { ranks, members, geo, tolerance, latencies: table, .. } = self.inputs;
        let all = ranks.iter().flat_map(|ranking| match ranking {
            Rank::Geo => rank::geo(place, members, geo),
            Rank::Nearest => rank::nearest(place, members, &self.points, *tolerance),
            Rank::Latency { tolerance } => {
                rank::latency(table.as_ref().map_or(&[], |table| table.row(latencies)), members, *tolerance)
            }
            Rank::Tier | Rank::Cost => vec![0; members.len()],
        });
        let told = |rank: u16| rank == ClassRanks::NEVER || (rank == ClassRanks::LAST && self.depth > 0);
        all.map(|rank| if told(rank) { rank } else { rank.min(self.depth) }).collect()
    }
}

/// A hash of all that a placement says, the same on every machine.
fn digest(partition: &Partition, classes: &[Box<[u16]>]) -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| crate::hash::digest(b"placement"));
    let mut hasher = StableHasher::new(*SEED);
    for (start, value) in partition.starts() {
        hasher.write_u128(start);
        hasher.write_u32(value);
    }
    for rank in classes.iter().flat_map(|class| class.iter()) {
        hasher.write_u16(*rank);
    }
    hasher.finish()
}
