//! The events that watchers pull: the last ones with their numbers, and the last state.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use axum::response::sse;
use tokio::sync::{Semaphore, watch};

use super::events::event;
use crate::state::Operates;
use fairway_api_types::{state_wire::Body, watch_wire::StateEvent};

/// Events for all watchers.
#[derive(Debug)]
pub(crate) struct Hub {
    /// First half of the ids. It differs from that of the previous process, so that ids of that process are recognised as lost.
    run: String,
    /// The events; a change wakes watchers.
    log: watch::Sender<EventLog>,
    /// A permit for each watcher.
    pub(super) permits: Arc<Semaphore>,
}

/// The last events, and the last state.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    /// Number of the newest event; 0 before the first.
    newest: u64,
    /// The last events, the newest last: for callers without and with the verb `operate`.
    events: VecDeque<[sse::Event; 2]>,
    /// The last state, and how many there were.
    state: StateEvent,
    states: u64,
}

/// Position of a watcher in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Number of the last event that it has.
    event: u64,
    /// Number of the last state that it has.
    state: u64,
    /// True if events after its last one are gone.
    is_lost: bool,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self {
            run: format!("{:08x}", RandomState::new().hash_one(0) as u32),
            log: watch::Sender::default(),
            permits: Arc::new(Semaphore::new(WATCHERS_MAX)),
        }
    }

    /// Adds an event under the next number. Callers without the verb `operate` get the restricted body.
    pub(super) fn publish<B: Body>(&self, name: &str, full: &B, restricted: &B) {
        self.log.send_modify(|log| {
            log.newest += 1;
            let id = self.id(log.newest);
            log.events.push_back([restricted, full].map(|body| event(name, Some(&id), body)));
            if log.events.len() > EVENTS_MAX {
                log.events.pop_front();
            }
        });
    }

    /// Replaces the state, if it differs from the last one.
    pub(super) fn publish_state(&self, state: &StateEvent) {
        self.log.send_if_modified(|log| {
            if log.states > 0 && log.state == *state {
                return false;
            }
            log.state = state.clone();
            log.states += 1;
            true
        });
    }

    /// Returns a receiver that changes whenever there is a new event or state.
    pub(super) fn changes(&self) -> watch::Receiver<EventLog> {
        self.log.subscribe()
    }

    /// Returns the position after the event with this id. It is lost if the id is of another run, or the event is no longer kept.
    pub(super) fn after(&self, id: &str) -> Position {
        let log = self.log.borrow();
        let number = id.split_once('.').filter(|(run, _)| *run == self.run).and_then(|(_, number)| number.parse().ok());
        match number {
            Some(event) if (log.oldest()..=log.newest).contains(&event) => Position { event, state: 0, is_lost: false },
            _ => Position { event: log.newest, state: 0, is_lost: true },
        }
    }

    /// Returns the position before the last `count` events.
    pub(super) fn recent(&self, count: usize) -> Position {
        let log = self.log.borrow();
        let back = count.min(log.events.len()) as u64;
        Position { event: log.newest - back, state: 0, is_lost: false }
    }

    /// Returns what a watcher does not have yet, and its position afterwards.
    pub(super) fn pull(&self, operates: Operates, position: Position) -> (Vec<sse::Event>, Position) {
        let log = self.log.borrow();
        let mut messages = Vec::new();
        let id = self.id(log.newest);
        if position.is_lost || position.event < log.oldest() {
            messages.push(event("reset", Some(&id), &StateEvent::default()));
        } else {
            // At most EVENTS_MAX, so it fits.
            let new = (log.newest - position.event) as usize;
            let events = log.events.iter().skip(log.events.len() - new);
            messages.extend(events.map(|both| both[usize::from(operates.0)].clone()));
        }
        if position.state < log.states {
            messages.push(event("state", Some(&id), &log.state));
        }
        (messages, Position { event: log.newest, state: log.states, is_lost: false })
    }

    fn id(&self, number: u64) -> String {
        format!("{}.{number}", self.run)
    }
}

impl EventLog {
    /// Returns the number of the newest event that is no longer kept.
    fn oldest(&self) -> u64 {
        self.newest - self.events.len() as u64
    }
}

/// Maximum number of events that are kept for watchers that reconnect: mostly about 1 kB each, at most 40 kB.
pub(super) const EVENTS_MAX: usize = 256;
/// Maximum number of watchers of both listeners together: a quarter of the connections of the HTTP listener.
pub(super) const WATCHERS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the events that a watcher gets, and its position afterwards.
    fn pull(hub: &Hub, position: Position) -> (Vec<String>, Position) {
        let (events, position) = hub.pull(Operates(true), position);
        (events.iter().map(|event| field(event, "event")).collect(), position)
    }

    /// Returns a field of an event, which shows its text in its debug form.
    fn field(event: &sse::Event, name: &str) -> String {
        let text = format!("{event:?}");
        let (_, rest) = text.split_once(&format!("{name}: ")).unwrap();
        rest.split('\\').next().unwrap().to_owned()
    }

    fn state(configuration: u64) -> StateEvent {
        StateEvent { configuration, ..StateEvent::default() }
    }

    #[test]
    fn watcher_pulls_each_event_once_and_only_the_last_state() {
        let hub = Hub::new();
        let position = hub.recent(0);
        hub.publish_state(&state(1));
        hub.publish("transition", &state(0), &state(0));
        hub.publish_state(&state(2));
        let (events, position) = pull(&hub, position);
        assert_eq!(events, ["transition", "state"]);
        hub.publish_state(&state(2));
        assert_eq!(pull(&hub, position), (Vec::<String>::new(), position), "an equal state is no event");
    }

    #[test]
    fn watcher_without_the_verb_operate_gets_the_restricted_event() {
        let hub = Hub::new();
        hub.publish("transition", &state(7), &state(3));
        let data = |operates| format!("{:?}", hub.pull(Operates(operates), hub.recent(1)).0[0]);
        let configuration = |number: u64| format!("configuration\\\":{number}");
        assert!(data(true).contains(&configuration(7)) && !data(true).contains(&configuration(3)), "{}", data(true));
        assert!(data(false).contains(&configuration(3)) && !data(false).contains(&configuration(7)), "{}", data(false));
    }

    #[test]
    fn reconnecting_watcher_gets_the_events_after_its_last_id() {
        let hub = Hub::new();
        hub.publish("transition", &state(0), &state(0));
        let (events, _) = hub.pull(Operates(true), hub.recent(1));
        let id = field(&events[0], "id");
        hub.publish("reload", &state(0), &state(0));
        assert_eq!(pull(&hub, hub.after(&id)).0, ["reload"]);
        assert_eq!(pull(&hub, hub.recent(5)).0, ["transition", "reload"]);
    }

    #[test]
    fn id_of_another_run_or_invalid_id_gets_a_reset() {
        let hub = Hub::new();
        hub.publish("transition", &state(0), &state(0));
        for id in ["00.1", "", ".", "x.y.z", &format!("{}.2", hub.run), &format!("{}.-1", hub.run)] {
            assert_eq!(pull(&hub, hub.after(id)).0, ["reset"], "{id:?}");
        }
    }

    #[test]
    fn watcher_that_is_more_than_256_events_behind_gets_a_reset() {
        let hub = Hub::new();
        let first = hub.recent(0);
        hub.publish("transition", &state(0), &state(0));
        let second = hub.recent(0);
        (0..EVENTS_MAX).for_each(|_| hub.publish("transition", &state(0), &state(0)));
        assert_eq!(pull(&hub, second).0.len(), EVENTS_MAX, "256 events behind, all are kept");
        let (events, position) = pull(&hub, first);
        assert_eq!(events, ["reset"]);
        hub.publish("transition", &state(0), &state(0));
        assert_eq!(pull(&hub, position).0, ["transition"], "the stream continues after the reset");
        assert_eq!(hub.log.borrow().events.len(), EVENTS_MAX);
    }
}
