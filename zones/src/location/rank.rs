//! How a pool's members stand for a client of a place: one number a member, the lower the sooner.

use std::time::Duration;

use fairway_model::{ClientLocation, Geo, Latency};

use super::{distance::Point, inputs::MemberLocation};
use crate::steer::ClassRanks;

/// By distance from the client, as each site's bias has it.
///
/// A client is where its coordinates are; without them where the sites of its region are, and without those in the middle of
/// its country. Of whom nothing is known all sites are equally far; sites without a location come last.
pub(super) fn nearest(
    place: &ClientLocation,
    members: &[MemberLocation],
    points: &[Option<Point>],
    tolerance: u32,
) -> Vec<u16> {
    let from: Vec<Point> = match (place.coordinates, &place.region) {
        (Some(coordinates), _) => vec![coordinates.into()],
        (None, Some(region)) => {
            members.iter().zip(points).filter(|(s, _)| s.is_in(region)).filter_map(|(_, p)| *p).collect()
        }
        (None, None) => Vec::new(),
    };
    let from = if from.is_empty() {
        place.country.and_then(|country| country.middle()).map(Point::from).into_iter().collect()
    } else {
        from
    };
    if from.is_empty() {
        return vec![0; members.len()];
    }
    let distances = members.iter().zip(points).map(|(member, point)| {
        let metres = from.iter().filter_map(|from| Some(from.metres_to((*point)?))).min();
        metres.map(|metres| member.bias.of(metres))
    });
    by_measure(distances.collect(), tolerance.into())
}

/// By the regions that clients of the place prefer; sites of other regions, or of none, come last, or never where clients of the
/// place are to get no others.
pub(super) fn geo(place: &ClientLocation, members: &[MemberLocation], geo: &Geo) -> Vec<u16> {
    let (_, regions) = geo.regions(place);
    if regions.is_empty() {
        return vec![0; members.len()];
    }
    let others = if geo.is_only(place) { ClassRanks::NEVER } else { ClassRanks::LAST };
    let rank = |member: &MemberLocation| {
        let at = regions.iter().position(|region| member.is_in(region));
        at.and_then(|at| u16::try_from(at).ok()).unwrap_or(others)
    };
    members.iter().map(rank).collect()
}

/// By measured latency; sites for which none is known come last, and all are equal where none is known at all.
pub(super) fn latency(class: &[Option<Latency>], members: &[MemberLocation], tolerance: Duration) -> Vec<u16> {
    let micros = |member: &MemberLocation| class.get(member.column?)?.map(|Latency(micros)| u64::from(micros));
    let known: Vec<_> = members.iter().map(micros).collect();
    if known.iter().all(Option::is_none) {
        return vec![0; members.len()];
    }
    by_measure(known, u64::try_from(tolerance.as_micros()).unwrap_or(u64::MAX))
}

/// Ranks from measures: what is at most the tolerance above the least of a rank is of that rank. What has none comes last.
fn by_measure(measures: Vec<Option<u64>>, tolerance: u64) -> Vec<u16> {
    let mut order: Vec<_> = measures.iter().enumerate().filter_map(|(at, measure)| Some(((*measure)?, at))).collect();
    order.sort_unstable();
    let mut ranks = vec![ClassRanks::LAST; measures.len()];
    let (mut rank, mut least) = (0, order.first().map_or(0, |(measure, _)| *measure));
    for (measure, at) in order {
        if measure - least > tolerance {
            (rank, least) = (rank + 1, measure);
        }
        ranks[at] = rank;
    }
    ranks
}
