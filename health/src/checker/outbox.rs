//! Health transitions that wait for a slow reader.
//!
//! The channel is bounded, and checking never waits for it. If it is full, transitions wait here, at most one per target: a
//! later one replaces the waiting one and keeps its old status. So the reader always gets the latest status of each target.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

use tokio::sync::mpsc::{Permit, Sender, error::TrySendError};

use super::HealthTransition;

/// Transitions of targets, which `K` identifies.
#[derive(Debug)]
pub(super) struct Outbox<K> {
    transitions: Sender<HealthTransition>,
    /// Transitions that wait, at most one per target; true if one of those that became one was about permission.
    waiting: HashMap<K, (HealthTransition, bool)>,
    /// Keys of `waiting` in order of arrival.
    order: VecDeque<K>,
}

impl<K: Copy + Eq + Hash> Outbox<K> {
    /// Returns an empty outbox for a channel.
    pub(super) fn new(transitions: Sender<HealthTransition>) -> Self {
        Self { transitions, waiting: HashMap::new(), order: VecDeque::new() }
    }

    /// Returns the channel, to wait for space in it.
    pub(super) fn channel(&self) -> Sender<HealthTransition> {
        self.transitions.clone()
    }

    /// Returns the number of waiting transitions.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Sends a transition now, or as soon as there is space.
    pub(super) fn push(&mut self, key: K, transition: HealthTransition) {
        let is_of_permission = !transition.is_allowed || transition.from == transition.to;
        if let Some((before, was_of_permission)) = self.waiting.get_mut(&key) {
            *before = HealthTransition { from: before.from, ..transition };
            *was_of_permission |= is_of_permission;
            return;
        }
        match self.transitions.try_send(transition) {
            Ok(()) => {}
            Err(TrySendError::Full(transition)) => {
                self.waiting.insert(key, (transition, is_of_permission));
                self.order.push_back(key);
            }
            Err(TrySendError::Closed(_)) => self.clear(),
        }
    }

    /// Sends the oldest waiting transition that still changes the status.
    pub(super) fn send(&mut self, permit: Permit<'_, HealthTransition>) {
        while let Some(key) = self.order.pop_front() {
            match self.waiting.remove(&key) {
                Some((transition, is_of_permission)) if transition.from != transition.to || is_of_permission => {
                    return permit.send(transition);
                }
                // The status returned to the one that the reader knows, or the target was removed.
                _ => {}
            }
        }
    }

    /// Removes the transition of a target that is no longer checked.
    pub(super) fn remove(&mut self, key: K) {
        if self.waiting.remove(&key).is_some() {
            self.order.retain(|other| *other != key);
        }
    }

    /// Removes all transitions, because the reader is gone.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use fairway_model::{Cause, Check, HealthStatus, Monitor, MonitorName, ProbeAddress, Target};
    use tokio::sync::mpsc::{self, Receiver};

    use super::*;

    fn transition(from: HealthStatus, to: HealthStatus) -> HealthTransition {
        let target = Target {
            address: ProbeAddress::Address([192, 0, 2, 1].into()),
            monitor: Monitor::new(Check::Always).into(),
            label: MonitorName::new("m").unwrap(),
        };
        HealthTransition { target, from, to, cause: Cause::new("test"), at: SystemTime::UNIX_EPOCH, is_allowed: true }
    }

    fn drain(outbox: &mut Outbox<u32>, reader: &mut Receiver<HealthTransition>) -> Vec<(HealthStatus, HealthStatus)> {
        let mut seen = vec![];
        loop {
            while let Ok(transition) = reader.try_recv() {
                seen.push((transition.from, transition.to));
            }
            if outbox.len() == 0 {
                return seen;
            }
            let channel = outbox.channel();
            outbox.send(channel.try_reserve().unwrap());
        }
    }

    #[test]
    fn slow_reader_gets_the_latest_status_of_every_target() {
        let (sender, mut reader) = mpsc::channel(1);
        let mut outbox = Outbox::new(sender);
        outbox.push(1, transition(HealthStatus::Pending, HealthStatus::Up));
        outbox.push(2, transition(HealthStatus::Pending, HealthStatus::Up));
        outbox.push(2, transition(HealthStatus::Up, HealthStatus::Down));
        outbox.push(3, transition(HealthStatus::Pending, HealthStatus::Down));
        assert_eq!(outbox.len(), 2);
        let expected = [
            (HealthStatus::Pending, HealthStatus::Up),
            (HealthStatus::Pending, HealthStatus::Down),
            (HealthStatus::Pending, HealthStatus::Down),
        ];
        assert_eq!(drain(&mut outbox, &mut reader), expected);
    }

    #[test]
    fn transition_that_was_reverted_is_not_sent() {
        let (sender, mut reader) = mpsc::channel(1);
        let mut outbox = Outbox::new(sender);
        outbox.push(1, transition(HealthStatus::Pending, HealthStatus::Up));
        for _ in 0..100 {
            outbox.push(2, transition(HealthStatus::Up, HealthStatus::Down));
            outbox.push(2, transition(HealthStatus::Down, HealthStatus::Up));
        }
        assert_eq!((outbox.len(), outbox.order.len()), (1, 1));
        assert_eq!(drain(&mut outbox, &mut reader), [(HealthStatus::Pending, HealthStatus::Up)]);
    }

    #[test]
    fn permission_that_changed_is_sent_though_the_status_did_not() {
        let (sender, mut reader) = mpsc::channel(1);
        let mut outbox = Outbox::new(sender);
        outbox.push(1, transition(HealthStatus::Pending, HealthStatus::Up));
        outbox.push(2, transition(HealthStatus::Down, HealthStatus::Down));
        let expected = [(HealthStatus::Pending, HealthStatus::Up), (HealthStatus::Down, HealthStatus::Down)];
        assert_eq!(drain(&mut outbox, &mut reader), expected);
    }

    #[test]
    fn transition_of_a_removed_target_is_not_sent() {
        let (sender, mut reader) = mpsc::channel(1);
        let mut outbox = Outbox::new(sender);
        outbox.push(1, transition(HealthStatus::Pending, HealthStatus::Up));
        outbox.push(2, transition(HealthStatus::Up, HealthStatus::Down));
        outbox.remove(2);
        assert_eq!(drain(&mut outbox, &mut reader).len(), 1);
    }

    #[test]
    fn closed_channel_clears_the_outbox() {
        let (sender, reader) = mpsc::channel(1);
        let mut outbox = Outbox::new(sender);
        outbox.push(1, transition(HealthStatus::Pending, HealthStatus::Up));
        outbox.push(2, transition(HealthStatus::Pending, HealthStatus::Up));
        drop(reader);
        outbox.push(3, transition(HealthStatus::Pending, HealthStatus::Up));
        assert_eq!(outbox.len(), 0);
    }
}
