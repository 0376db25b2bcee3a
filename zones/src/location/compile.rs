//! Compiles location rankings once for equal inputs. Pools with equal inputs share them.

use std::{
    collections::HashMap,
    hash::Hasher,
    sync::{Arc, LazyLock},
};

use fairway_model::{
    ClassLatencies, ClassRanks, ClientLocation, ClientPartition, DesiredState, EarthPoint, Latency, LocationRankings,
    Partition, Pool, Rank, StableHasher,
    ranking::{self, RankingInputs},
};
use indexmap::IndexSet;

/// Compiled location rankings with their inputs.
#[derive(Debug)]
pub(crate) struct CompiledRankings {
    /// Partition and ranks.
    pub(crate) location: LocationRankings,
    /// Hash, which is part of the snapshot's id.
    pub(crate) digest: u64,
    /// Number of ranks kept per class, if there were too many classes for all of them.
    pub(crate) depth: Option<u16>,
    /// Approximate size in bytes.
    pub(crate) octets: usize,
    pub(super) inputs: RankingInputs,
}

/// Location rankings of all pools, by their inputs.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankingCache {
    by_inputs: HashMap<RankingInputs, Arc<CompiledRankings>>,
    octets: usize,
}

/// The location rankings of all pools exceed [`RankingCache::OCTETS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

impl RankingCache {
    /// Maximum bytes of the location rankings of a snapshot: 1 GiB. Shared ones count once.
    pub(crate) const OCTETS_MAX: usize = 1 << 30;

    /// Returns the location rankings of a pool, or `None` if its policy has none. Reuses those of this snapshot or the
    /// `previous` one.
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
        let rankings = before
            .map_or_else(|| Arc::new(CompiledRankings::new(inputs.clone(), ClientPartition::CLASSES_MAX)), Arc::clone);
        let own = Arc::make_mut(self);
        own.admit(rankings.octets)?;
        own.by_inputs.insert(inputs, Arc::clone(&rankings));
        Ok(Some(rankings))
    }

    /// Counts bytes, up to the maximum.
    pub(super) fn admit(&mut self, octets: usize) -> Result<(), TooLarge> {
        self.octets = self.octets.saturating_add(octets);
        if self.octets > Self::OCTETS_MAX { Err(TooLarge) } else { Ok(()) }
    }

    /// Returns the number of different location rankings.
    pub(crate) fn count(&self) -> usize {
        self.by_inputs.len()
    }
}

impl CompiledRankings {
    /// Compiles location rankings, with one class for each different list of ranks.
    ///
    /// If there are too many classes, members with high ranks become equal, step by step, until the classes fit.
    pub(super) fn new(inputs: RankingInputs, classes_max: usize) -> Self {
        let compiled =
            DEPTHS.iter().find_map(|depth| Some((*depth, ClassBuilder::new(&inputs, *depth, classes_max).build()?)));
        let (depth, BuiltClasses { partition, ranks: classes, latencies }) =
            compiled.unwrap_or_else(|| unreachable!("without depth there are as many classes as preferences"));
        let mut rankings = vec![ClassRanks::new(inputs.members.len()); inputs.ranks.len()];
        for class in &classes {
            let parts = class.chunks(inputs.members.len().max(1)).chain(std::iter::repeat(&[][..]));
            rankings.iter_mut().zip(parts).for_each(|(ranking, part)| ranking.push(part));
        }
        let octets = partition.size_in_bytes()
            + classes.len() * inputs.members.len() * inputs.ranks.len() * size_of::<u16>()
            + latencies.size_in_bytes();
        Self {
            digest: digest(&partition, &classes),
            depth: Some(depth).filter(|depth| *depth != ClassRanks::LAST),
            location: LocationRankings {
                partition: ClientPartition::new(partition).unwrap_or_else(ClientPartition::everywhere),
                rankings,
                latencies,
            },
            octets,
            inputs,
        }
    }
}

/// Ranks that stay different, in the order of the attempts.
const DEPTHS: [u16; 7] = [ClassRanks::LAST, 16, 8, 4, 2, 1, 0];

/// The location classes of some rankings.
struct BuiltClasses {
    partition: Partition,
    /// Ranks of the members in each class, one ranking after the other.
    ranks: IndexSet<Box<[u16]>>,
    latencies: ClassLatencies,
}

/// Groups client locations and rows of the latency table into classes.
struct ClassBuilder<'s> {
    inputs: &'s RankingInputs,
    depth: u16,
    classes_max: usize,
    /// Coordinates of the members, for the ranking `nearest`.
    points: Vec<Option<EarthPoint>>,
    classes: IndexSet<Box<[u16]>>,
    /// For each class and member the sum of latencies in microseconds, and their number. Empty if load control does not need them.
    latencies: Vec<(u64, u32)>,
}

impl<'s> ClassBuilder<'s> {
    fn new(inputs: &'s RankingInputs, depth: u16, classes_max: usize) -> Self {
        let points = inputs.members.iter().map(|member| member.coordinates.map(EarthPoint::from)).collect();
        Self { inputs, depth, classes_max, points, classes: IndexSet::new(), latencies: Vec::new() }
    }

    /// Returns the classes. `None` if there are too many.
    fn build(mut self) -> Option<BuiltClasses> {
        let inputs = self.inputs;
        let nowhere = ClientLocation::default();
        let places: Vec<&ClientLocation> = inputs.map.iter().flat_map(|map| map.locations()).collect();
        let mut known: HashMap<(u32, u32), u32> = HashMap::default();
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
        let mean = |(sum, count): (u64, u32)| Some(Latency(sum.checked_div(count.into())? as u32)); // a mean of 32 bits
        let latencies = ClassLatencies::new(inputs.members.len(), self.latencies.into_iter().map(mean).collect());
        (self.classes.len() <= self.classes_max).then_some(BuiltClasses { partition, ranks: self.classes, latencies })
    }

    /// Returns the class for a location and a row of the latency table.
    fn number(&mut self, place: &ClientLocation, latencies: u32) -> u32 {
        // With too many classes the result is discarded anyway.
        if self.classes.len() > self.classes_max {
            return 0;
        }
        let ranks = self.ranks(place, latencies);
        let class = self.classes.insert_full(ranks).0;
        self.add_latencies(class, latencies);
        class as u32
    }

    /// Adds a row of the latency table to the means of a class.
    fn add_latencies(&mut self, class: usize, row: u32) {
        let Some(table) = self.inputs.latencies.as_ref().filter(|_| self.inputs.costs_by_latency) else { return };
        let count = self.inputs.members.len();
        if self.latencies.len() < (class + 1) * count {
            self.latencies.resize((class + 1) * count, (0, 0));
        }
        let means = &mut self.latencies[class * count..];
        for (mean, member) in means.iter_mut().zip(&self.inputs.members) {
            if let Some(Latency(micros)) = member.column.and_then(|column| *table.row(row).get(column)?) {
                *mean = (mean.0 + u64::from(micros), mean.1 + 1);
            }
        }
    }

    /// Returns the ranks of the members, one ranking after the other.
    fn ranks(&self, place: &ClientLocation, latencies: u32) -> Box<[u16]> {
        let RankingInputs { ranks, members, geo, tolerance, latencies: table, .. } = self.inputs;
        let all = ranks.iter().flat_map(|ranking| match ranking {
            Rank::Geo => ranking::geo(place, members, geo),
            Rank::Nearest => ranking::nearest(place, members, &self.points, *tolerance),
            Rank::Latency { tolerance } => {
                ranking::latency(table.as_ref().map_or(&[], |table| table.row(latencies)), members, *tolerance)
            }
            Rank::Tier | Rank::Cost => vec![0; members.len()],
        });
        let is_kept = |rank: u16| rank == ClassRanks::NEVER || (rank == ClassRanks::LAST && self.depth > 0);
        all.map(|rank| if is_kept(rank) { rank } else { rank.min(self.depth) }).collect()
    }
}

/// Returns a hash of partition and ranks that is equal on every server.
fn digest(partition: &Partition, classes: &IndexSet<Box<[u16]>>) -> u64 {
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
