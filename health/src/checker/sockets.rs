//! Assigns sockets to due probes if there are fewer sockets than probes.
//!
//! Two lanes: targets that passed last, and suspects (failing, down, or without evidence), each of which may hang for a whole
//! timeout. Suspects get at most half of the sockets, and precede others below that. So thousands of dead targets neither
//! starve the healthy ones nor wait behind them.

use std::collections::VecDeque;

use tokio::time::Instant;

/// The lane of a target, by its last probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// The last probe passed, or there was none.
    Sound,
    /// The last probe did not pass.
    Suspect,
}

/// Sockets in use, and targets (by key `K`) that wait for one.
#[derive(Debug)]
pub(super) struct Sockets<K> {
    max: usize,
    used: [usize; 2],
    /// Due time and key, first come first served.
    waiting: [VecDeque<(Instant, K)>; 2],
}

impl<K: Copy> Sockets<K> {
    /// Returns `max` free sockets, at least one.
    pub(super) fn new(max: usize) -> Self {
        Self { max: max.max(1), used: [0; 2], waiting: [VecDeque::new(), VecDeque::new()] }
    }

    /// Adds a target to its queue.
    pub(super) fn queue(&mut self, lane: Lane, due: Instant, key: K) {
        self.waiting[lane as usize].push_back((due, key));
    }

    /// Assigns a socket to the next waiting target, if one is free for it.
    pub(super) fn take(&mut self) -> Option<(Lane, Instant, K)> {
        if self.used.iter().sum::<usize>() >= self.max {
            return None;
        }
        let suspects_max = self.max.div_ceil(2);
        let suspect = self.used[Lane::Suspect as usize] < suspects_max;
        let lanes = [(Lane::Suspect, suspect), (Lane::Sound, true)];
        let (lane, (due, key)) = lanes
            .into_iter()
            .filter(|(_, open)| *open)
            .find_map(|(lane, _)| Some((lane, self.waiting[lane as usize].pop_front()?)))?;
        self.used[lane as usize] += 1;
        Some((lane, due, key))
    }

    /// Releases a socket.
    pub(super) const fn release(&mut self, lane: Lane) {
        let used = &mut self.used[lane as usize];
        *used = used.saturating_sub(1);
    }

    /// Removes the waiting targets for which `keep` returns false.
    pub(super) fn retain(&mut self, keep: impl Fn(K) -> bool) {
        for lane in &mut self.waiting {
            lane.retain(|(_, key)| keep(*key));
        }
    }

    /// Returns the number of waiting targets.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full_of(lane: Lane, max: usize) -> Sockets<u32> {
        let mut sockets = Sockets::new(max);
        for key in 0..100 {
            sockets.queue(lane, Instant::now(), key);
        }
        sockets
    }

    fn taken(sockets: &mut Sockets<u32>) -> Vec<(Lane, u32)> {
        std::iter::from_fn(|| sockets.take()).map(|(lane, _, key)| (lane, key)).collect()
    }

    #[test]
    fn suspects_use_at_most_half_of_the_sockets() {
        assert_eq!(taken(&mut full_of(Lane::Sound, 10)).len(), 10);
        assert_eq!(taken(&mut full_of(Lane::Suspect, 10)).len(), 5);
        assert_eq!(taken(&mut full_of(Lane::Suspect, 1)), [(Lane::Suspect, 0)]);
    }

    #[test]
    fn suspects_precede_below_half_of_the_sockets() {
        let mut sockets = full_of(Lane::Sound, 4);
        taken(&mut sockets);
        sockets.queue(Lane::Suspect, Instant::now(), 1_000);
        sockets.release(Lane::Sound);
        assert_eq!(taken(&mut sockets), [(Lane::Suspect, 1_000)]);
        sockets.release(Lane::Sound);
        assert_eq!(taken(&mut sockets), [(Lane::Sound, 4)]);
        assert_eq!(sockets.waiting(), 95);
    }

    #[test]
    fn removed_target_gets_no_socket() {
        let mut sockets = full_of(Lane::Sound, 10);
        sockets.retain(|key| key == 7);
        assert_eq!(taken(&mut sockets), [(Lane::Sound, 7)]);
    }
}
