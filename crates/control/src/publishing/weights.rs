//! The weights that a provider is told: declared ones as they are, balanced ones only when they have moved far enough, and seldom.
//!
//! Balancing moves shares with each report; resolvers keep what a provider answered for a TTL, and providers bound how often they are
//! written to. So a weight that moved by balancing alone is published once some member's share is [`STEP`] away from what is
//! published, and a name at most once in [`PAUSE`]. Members that come or go, and declared weights, are published at once.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use fairway_model::{ClusterName, Name};

/// What falls to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its cluster.
    pub cluster: ClusterName,
    /// Its declared weight; 1 where only standbys are left.
    pub weight: u16,
    /// How much of it the cluster takes, in 65535ths.
    pub accepts: u16,
}

/// What was published last, by name.
#[derive(Debug, Default)]
pub(super) struct Shown {
    names: BTreeMap<Name, Kept>,
    seen: BTreeMap<Name, Kept>,
    waits: bool,
}

#[derive(Clone, Debug)]
struct Kept {
    declared: Vec<(ClusterName, u16)>,
    weights: Vec<u16>,
    at: Instant,
}

impl Shown {
    /// The weights to publish for a name, none over `max`, in the order of `parts`.
    pub(super) fn weights(&mut self, name: &Name, parts: &[Part], max: u16, now: Instant) -> Vec<u16> {
        let declared: Vec<_> = parts.iter().map(|part| (part.cluster.clone(), part.weight)).collect();
        let weights = scaled(parts, max);
        let fresh = Kept { declared, weights, at: now };
        let kept = match self.names.get(name).or_else(|| self.seen.get(name)) {
            Some(before) if before.declared != fresh.declared => fresh,
            Some(before) if !is_apart(&before.weights, &fresh.weights) => before.clone(),
            Some(before) if now.saturating_duration_since(before.at) < PAUSE => {
                self.waits = true;
                before.clone()
            }
            Some(_) | None => fresh,
        };
        let weights = kept.weights.clone();
        self.seen.insert(name.clone(), kept);
        weights
    }

    /// Ends a round: names that were not asked for are forgotten. Whether some weight waits for the end of its pause.
    pub(super) fn end_round(&mut self) -> bool {
        self.names = std::mem::take(&mut self.seen);
        std::mem::take(&mut self.waits)
    }
}

/// Declared weights as they are where nothing is balanced and all of them fit; else the heaviest is `max`. What has a share has 1 at least.
fn scaled(parts: &[Part], max: u16) -> Vec<u16> {
    let is_balanced = parts.iter().any(|part| part.accepts < u16::MAX) && parts.iter().any(|part| part.accepts > 0);
    if !is_balanced && parts.iter().all(|part| part.weight <= max) {
        return parts.iter().map(|part| part.weight).collect();
    }
    let accepts = |part: &Part| if is_balanced { u64::from(part.accepts) } else { 1 };
    let raw: Vec<u64> = parts.iter().map(|part| u64::from(part.weight) * accepts(part)).collect();
    let top = raw.iter().copied().max().unwrap_or(0).max(1);
    let scale = |raw: &u64| ((raw * u64::from(max) + top / 2) / top).max(u64::from(*raw > 0));
    raw.iter().map(|raw| u16::try_from(scale(raw)).unwrap_or(max)).collect()
}

/// Whether the share of some member differs by [`STEP`] or more.
fn is_apart(before: &[u16], now: &[u16]) -> bool {
    let sum = |weights: &[u16]| weights.iter().copied().map(u64::from).sum::<u64>().max(1);
    let (sum_before, sum_now) = (sum(before), sum(now));
    let mut pairs = before.iter().zip(now);
    pairs.any(|(before, now)| {
        let share = |weight: u16, sum: u64| u64::from(weight) * 1_000 / sum;
        share(*before, sum_before).abs_diff(share(*now, sum_now)) >= STEP
    })
}

/// By how much of all traffic a share must have moved, in permille.
const STEP: u64 = 50;
/// Shortest time between two weights of a name that differ by balancing alone: two TTLs of steered names, after which what the change
/// before did is seen.
const PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(of: &[(u16, u16)]) -> Vec<Part> {
        let part = |(index, (weight, accepts)): (usize, &(u16, u16))| Part {
            cluster: ClusterName::new(&format!("c{index}")).unwrap(),
            weight: *weight,
            accepts: *accepts,
        };
        of.iter().enumerate().map(part).collect()
    }

    /// Balanced between two members of equal weight: the second takes so many thousandths.
    fn moved(thousandths: u32) -> Vec<Part> {
        parts(&[(1, u16::MAX), (1, (65_535 * thousandths / 1_000) as u16)])
    }

    const ALL: u16 = u16::MAX;

    #[test]
    fn declared_weights_are_published_as_they_are_where_they_fit() {
        assert_eq!(scaled(&parts(&[(60, ALL), (40, ALL), (0, ALL)]), 255), [60, 40, 0]);
        assert_eq!(scaled(&parts(&[(1_000, ALL), (500, ALL), (1, ALL)]), 255), [255, 128, 1]);
        assert_eq!(scaled(&parts(&[(1_000, ALL), (500, ALL)]), u16::MAX), [1_000, 500]);
    }

    #[test]
    fn what_clusters_do_not_accept_is_taken_from_their_weights() {
        assert_eq!(scaled(&moved(500), 255), [255, 127]);
        assert_eq!(scaled(&parts(&[(60, 0), (40, ALL)]), 255), [0, 255]);
        // Nobody takes anything: then the declared weights are as good as any.
        assert_eq!(scaled(&parts(&[(60, 0), (40, 0)]), 255), [60, 40]);
    }

    #[test]
    fn a_share_that_moves_a_little_writes_nothing_however_often() {
        let (name, start) = ("a.x.".parse().unwrap(), Instant::now());
        let mut shown = Shown::default();
        let mut changes = 0;
        let mut before = Vec::new();
        for round in 0..1_000u32 {
            let now = start + Duration::from_secs(u64::from(round));
            let weights = shown.weights(&name, &moved(900 + round % 100), 255, now);
            changes += usize::from(weights != before);
            before = weights;
            assert!(!shown.end_round());
        }
        assert_eq!(changes, 1);
    }

    #[test]
    fn a_share_that_swings_writes_once_a_pause_and_the_last_one_is_not_lost() {
        let (name, start) = ("a.x.".parse().unwrap(), Instant::now());
        let mut shown = Shown::default();
        let mut before = shown.weights(&name, &moved(1_000), 255, start);
        shown.end_round();
        let mut changes = 0;
        for second in 1..=600u32 {
            let now = start + Duration::from_secs(u64::from(second));
            let weights = shown.weights(&name, &moved(if second.is_multiple_of(2) { 200 } else { 1_000 }), 255, now);
            changes += usize::from(weights != before);
            before = weights;
            shown.end_round();
        }
        assert!((1..=10).contains(&changes), "{changes}");
        let mut shown = Shown::default();
        shown.weights(&name, &moved(1_000), 255, start);
        shown.end_round();
        assert_eq!(shown.weights(&name, &moved(200), 255, start + PAUSE / 2), [1, 1]);
        assert!(shown.end_round(), "it waits");
        assert_eq!(shown.weights(&name, &moved(200), 255, start + PAUSE), [255, 51]);
        assert!(!shown.end_round());
    }

    #[test]
    fn members_and_declared_weights_change_at_once() {
        let (name, now) = ("a.x.".parse().unwrap(), Instant::now());
        let mut shown = Shown::default();
        let mut said = |of: &[(u16, u16)]| {
            let weights = shown.weights(&name, &parts(of), 255, now);
            shown.end_round();
            weights
        };
        assert_eq!(said(&[(60, ALL), (40, ALL)]), [60, 40]);
        assert_eq!(said(&[(61, ALL), (40, ALL)]), [61, 40]);
        assert_eq!(said(&[(61, ALL)]), [61]);
        assert_eq!(said(&[(61, ALL), (40, ALL)]), [61, 40]);
    }
}
