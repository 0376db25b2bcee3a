//! Published weights: declared ones unchanged, balanced ones only after a large enough change, and seldom.
//!
//! Balancing moves shares with each report. But resolvers keep a provider's answer for a TTL, and providers limit the rate of writes. So
//! weights that only balancing moved are published once the share of a member differs by [`SHARE_STEP`], and at most once in [`PAUSE`] for
//! each name. Changed members and declared weights are published at once.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use fairway_model::{ClusterName, Name};

/// The weight of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberWeight {
    /// Cluster of the member.
    pub cluster: ClusterName,
    /// Declared weight; 1 if only standbys are up.
    pub weight: u16,
    /// Part of the demand that load control sends to the cluster, in 65535ths; `None` if its load is not controlled.
    pub part: Option<u16>,
}

/// The weights that were published last, by name.
#[derive(Debug, Default)]
pub struct PublishedWeights {
    /// Weights of the previous round.
    names: BTreeMap<Name, NameWeights>,
    /// Weights of this round.
    current: BTreeMap<Name, NameWeights>,
    is_waiting: bool,
}

/// The weights of one name.
#[derive(Clone, Debug)]
struct NameWeights {
    declared: Vec<(ClusterName, u16)>,
    published: Vec<u16>,
    at: Instant,
}

impl PublishedWeights {
    /// Returns the weights to publish for a name, at most `max` each, in the order of `members`.
    pub fn weights(&mut self, name: &Name, members: &[MemberWeight], max: u16, now: Instant) -> Vec<u16> {
        let declared: Vec<_> = members.iter().map(|member| (member.cluster.clone(), member.weight)).collect();
        let new = NameWeights { declared, published: scaled(members, max), at: now };
        let kept = match self.names.get(name).or_else(|| self.current.get(name)) {
            Some(before) if before.declared != new.declared => new,
            Some(before) if !differs(&before.published, &new.published) => before.clone(),
            Some(before) if now.saturating_duration_since(before.at) < PAUSE => {
                self.is_waiting = true;
                before.clone()
            }
            Some(_) | None => new,
        };
        let weights = kept.published.clone();
        self.current.insert(name.clone(), kept);
        weights
    }

    /// Ends a round, and drops names that were not member of it. Returns true if a weight waits for the end of its pause.
    pub fn end_round(&mut self) -> bool {
        self.names = std::mem::take(&mut self.current);
        std::mem::take(&mut self.is_waiting)
    }
}

/// Returns declared weights if nothing is balanced and none is over `max`. Otherwise scales them so that the heaviest is `max`; a weight that
/// is not 0 stays at least 1.
fn scaled(members: &[MemberWeight], max: u16) -> Vec<u16> {
    let is_balanced = members.iter().any(|member| member.part.is_some_and(|part| part > 0));
    if !is_balanced && members.iter().all(|member| member.weight <= max) {
        return members.iter().map(|member| member.weight).collect();
    }
    let sum = members.iter().map(|member| u64::from(member.weight)).sum::<u64>().max(1);
    let declared = |member: &MemberWeight| u64::from(member.weight) * u64::from(u16::MAX) / sum;
    let raw = |member: &MemberWeight| match member.part {
        Some(part) if is_balanced => u64::from(part),
        _ if is_balanced => declared(member),
        _ => member.weight.into(),
    };
    let raw: Vec<u64> = members.iter().map(raw).collect();
    let top = raw.iter().copied().max().unwrap_or(0).max(1);
    let scale = |raw: &u64| ((raw * u64::from(max) + top / 2) / top).max(u64::from(*raw > 0));
    raw.iter().map(|raw| u16::try_from(scale(raw)).unwrap_or(max)).collect()
}

/// Returns true if the share of a member differs by [`SHARE_STEP`] or more.
fn differs(before: &[u16], now: &[u16]) -> bool {
    let sum = |weights: &[u16]| weights.iter().copied().map(u64::from).sum::<u64>().max(1);
    let (sum_before, sum_now) = (sum(before), sum(now));
    let mut pairs = before.iter().zip(now);
    pairs.any(|(before, now)| {
        let share = |weight: u16, sum: u64| u64::from(weight) * 1_000 / sum;
        share(*before, sum_before).abs_diff(share(*now, sum_now)) >= SHARE_STEP
    })
}

/// Difference of shares that is published, in permille of all traffic.
const SHARE_STEP: u64 = 50;
/// Shortest time between two weights of a name that only balancing moved: two TTLs of steered names (30 s), after which the effect of the
/// last change is measured.
const PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn members(of: &[(u16, Option<u16>)]) -> Vec<MemberWeight> {
        let member = |(index, (weight, part)): (usize, &(u16, Option<u16>))| MemberWeight {
            cluster: ClusterName::new(&format!("c{index}")).unwrap(),
            weight: *weight,
            part: *part,
        };
        of.iter().enumerate().map(member).collect()
    }

    /// Returns two members of equal weight, of which the second gets so many thousandths of the demand of the first.
    fn moved(thousandths: u32) -> Vec<MemberWeight> {
        members(&[(1, Some(30_000)), (1, Some((30 * thousandths) as u16))])
    }

    const ALL: Option<u16> = None;

    #[test]
    fn declared_weights_up_to_the_maximum_are_published_unchanged() {
        assert_eq!(scaled(&members(&[(60, ALL), (40, ALL), (0, ALL)]), 255), [60, 40, 0]);
        assert_eq!(scaled(&members(&[(1_000, ALL), (500, ALL), (1, ALL)]), 255), [255, 128, 1]);
        assert_eq!(scaled(&members(&[(1_000, ALL), (500, ALL)]), u16::MAX), [1_000, 500]);
    }

    #[test]
    fn weights_of_balanced_members_are_their_parts_of_the_demand() {
        assert_eq!(scaled(&moved(500), 255), [255, 128]);
        assert_eq!(scaled(&members(&[(60, Some(0)), (40, Some(65_535))]), 255), [0, 255]);
        assert_eq!(scaled(&members(&[(60, Some(20_000)), (40, ALL)]), 255), [195, 255], "as much as its weight");
        // If no cluster gets anything, the declared weights are used.
        assert_eq!(scaled(&members(&[(60, Some(0)), (40, Some(0))]), 255), [60, 40]);
    }

    #[test]
    fn small_changes_of_a_share_are_not_published() {
        let (name, start) = ("a.x.".parse().unwrap(), Instant::now());
        let mut published = PublishedWeights::default();
        let mut changes = 0;
        let mut before = Vec::new();
        for round in 0..1_000u32 {
            let now = start + Duration::from_secs(u64::from(round));
            let weights = published.weights(&name, &moved(900 + round % 100), 255, now);
            changes += usize::from(weights != before);
            before = weights;
            assert!(!published.end_round());
        }
        assert_eq!(changes, 1);
    }

    #[test]
    fn large_changes_of_a_share_are_published_once_a_pause_and_the_last_is_not_lost() {
        let (name, start) = ("a.x.".parse().unwrap(), Instant::now());
        let mut published = PublishedWeights::default();
        let mut before = published.weights(&name, &moved(1_000), 255, start);
        published.end_round();
        let mut changes = 0;
        for second in 1..=600u32 {
            let now = start + Duration::from_secs(u64::from(second));
            let weights =
                published.weights(&name, &moved(if second.is_multiple_of(2) { 200 } else { 1_000 }), 255, now);
            changes += usize::from(weights != before);
            before = weights;
            published.end_round();
        }
        assert!((1..=10).contains(&changes), "{changes}");
        let mut published = PublishedWeights::default();
        published.weights(&name, &moved(1_000), 255, start);
        published.end_round();
        assert_eq!(published.weights(&name, &moved(200), 255, start + PAUSE / 2), [255, 255]);
        assert!(published.end_round(), "a weight waits");
        assert_eq!(published.weights(&name, &moved(200), 255, start + PAUSE), [255, 51]);
        assert!(!published.end_round());
    }

    #[test]
    fn changed_members_and_declared_weights_are_published_at_once() {
        let (name, now) = ("a.x.".parse().unwrap(), Instant::now());
        let mut published = PublishedWeights::default();
        let mut weights = |of: &[(u16, Option<u16>)]| {
            let weights = published.weights(&name, &members(of), 255, now);
            published.end_round();
            weights
        };
        assert_eq!(weights(&[(60, ALL), (40, ALL)]), [60, 40]);
        assert_eq!(weights(&[(61, ALL), (40, ALL)]), [61, 40]);
        assert_eq!(weights(&[(61, ALL)]), [61]);
        assert_eq!(weights(&[(61, ALL), (40, ALL)]), [61, 40]);
    }
}
