//! Ranks of a pool's members for a client location: one number per member, the lowest first.

use std::time::Duration;

use crate::{ClassRanks, ClientLocation, EarthPoint, Geo, Latency};

use super::inputs::MemberLocation;

/// Ranks by distance from the client, changed by the bias of each member.
///
/// Without coordinates, a client is at the members of its region, else at the middle of its country. If its location is
/// unknown, all members rank equal. Members without coordinates rank last.
pub fn nearest(
    place: &ClientLocation,
    members: &[MemberLocation],
    points: &[Option<EarthPoint>],
    tolerance: u32,
) -> Vec<u16> {
    let from: Vec<EarthPoint> = match (place.coordinates, &place.region) {
        (Some(coordinates), _) => vec![coordinates.into()],
        (None, Some(region)) => {
            members.iter().zip(points).filter(|(s, _)| s.is_in(region)).filter_map(|(_, p)| *p).collect()
        }
        (None, None) => Vec::new(),
    };
    let from = if from.is_empty() {
        place.country.and_then(|country| country.middle()).map(EarthPoint::from).into_iter().collect()
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

/// Ranks by the regions that clients of the location prefer. Other members rank last, or never if only those regions
/// are allowed.
pub fn geo(place: &ClientLocation, members: &[MemberLocation], geo: &Geo) -> Vec<u16> {
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

/// Ranks by measured latency. Members without a measurement rank last, and all rank equal without any measurement.
pub fn latency(class: &[Option<Latency>], members: &[MemberLocation], tolerance: Duration) -> Vec<u16> {
    let micros = |member: &MemberLocation| class.get(member.column?)?.map(|Latency(micros)| u64::from(micros));
    let known: Vec<_> = members.iter().map(micros).collect();
    if known.iter().all(Option::is_none) {
        return vec![0; members.len()];
    }
    by_measure(known, u64::try_from(tolerance.as_micros()).unwrap_or(u64::MAX))
}

/// Returns ranks from measures. Measures within the tolerance above the least of a rank have that rank. `None` ranks
/// last.
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
