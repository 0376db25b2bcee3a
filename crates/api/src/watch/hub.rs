//! What watchers pull from: the last events with their numbers, and the last mark of the state.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Semaphore, watch};

use crate::watch_wire::{Message, StateEvent};

/// Events and marks, for all watchers.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Tells this process' events from those of the one before: the first half of an id.
    run: String,
    kept: Mutex<Kept>,
    /// Counts what was put down, so that watchers wake.
    news: watch::Sender<u64>,
    /// A place for each watcher.
    pub(super) places: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Number of the newest event; 0 before the first.
    newest: u64,
    /// The last events, the newest last.
    events: VecDeque<Message>,
    /// The last mark, and how many there were.
    mark: StateEvent,
    marks: u64,
}

/// Where a watcher is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the last event that it has.
    seen: u64,
    /// The mark that it has.
    marks: u64,
    /// Whether events are gone that it should have had.
    lost: bool,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self {
            run: format!("{:08x}", RandomState::new().hash_one(0) as u32),
            kept: Mutex::default(),
            news: watch::channel(0).0,
            places: Arc::new(Semaphore::new(WATCHERS_MAX)),
        }
    }

    /// Puts an event down under the next number.
    pub(super) fn tell(&self, event: &'static str, body: &impl fairway_api_types::state_wire::Body) {
        {
            let mut kept = self.kept();
            kept.newest += 1;
            let id = self.id(kept.newest);
            kept.events.push_back(Message::new(event, Some(&id), body));
            if kept.events.len() > KEPT {
                kept.events.pop_front();
            }
        }
        self.news.send_modify(|count| *count += 1);
    }

    /// Puts a mark down, if it differs from the last one.
    pub(super) fn mark(&self, mark: &StateEvent) {
        {
            let mut kept = self.kept();
            if kept.marks > 0 && kept.mark == *mark {
                return;
            }
            kept.mark = mark.clone();
            kept.marks += 1;
        }
        self.news.send_modify(|count| *count += 1);
    }

    /// Wakes whoever has something new to pull.
    pub(super) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// The place after the event with this id: of one that is not kept, or of another run, nobody knows what came since.
    pub(super) fn after(&self, id: &str) -> Place {
        let kept = self.kept();
        let number = id.split_once('.').filter(|(run, _)| *run == self.run).and_then(|(_, number)| number.parse().ok());
        match number {
            Some(seen) if (kept.oldest()..=kept.newest).contains(&seen) => Place { seen, marks: 0, lost: false },
            _ => Place { seen: kept.newest, marks: 0, lost: true },
        }
    }

    /// The place before the last `recent` events that are kept.
    pub(super) fn recent(&self, recent: usize) -> Place {
        let kept = self.kept();
        let back = recent.min(kept.events.len()) as u64;
        Place { seen: kept.newest - back, marks: 0, lost: false }
    }

    /// What is new to a watcher, ready to be sent, and where it is then.
    pub(super) fn pull(&self, place: Place) -> (Vec<Message>, Place) {
        let kept = self.kept();
        let mut out = Vec::new();
        let id = self.id(kept.newest);
        let lost = place.lost || place.seen < kept.oldest();
        if lost {
            out.push(Message::new("reset", Some(&id), &StateEvent::default()));
        } else {
            // At most KEPT, so it fits.
            let back = (kept.newest - place.seen) as usize;
            out.extend(kept.events.iter().skip(kept.events.len() - back).cloned());
        }
        if place.marks < kept.marks {
            out.push(Message::new("state", Some(&id), &kept.mark));
        }
        (out, Place { seen: kept.newest, marks: kept.marks, lost: false })
    }

    fn id(&self, number: u64) -> String {
        format!("{}.{number}", self.run)
    }

    /// Nothing that is done under this lock can leave it half done.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Number of the newest event that is not kept any more.
    fn oldest(&self) -> u64 {
        self.newest - self.events.len() as u64
    }
}

/// Events kept for who comes back: under 40 kB each at their bounds, a kilobyte as a rule.
pub(super) const KEPT: usize = 256;
/// Watchers at once, on both listeners together: a quarter of the places of the HTTP listener.
pub(super) const WATCHERS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(hub: &Hub, place: Place) -> (Vec<&'static str>, Place) {
        let (messages, place) = hub.pull(place);
        (messages.into_iter().map(|message| message.event).collect(), place)
    }

    fn mark(generation: u64) -> StateEvent {
        StateEvent { generation, ..StateEvent::default() }
    }

    #[test]
    fn a_watcher_pulls_each_event_once_and_the_last_mark_alone() {
        let hub = Hub::new();
        let place = hub.recent(0);
        hub.mark(&mark(1));
        hub.tell("transition", &mark(0));
        hub.mark(&mark(2));
        let (events, place) = texts(&hub, place);
        assert_eq!(events, ["transition", "state"]);
        hub.mark(&mark(2));
        assert_eq!(texts(&hub, place), (vec![], place), "an equal mark is no news");
    }

    #[test]
    fn who_comes_back_gets_what_came_after_the_id_it_names() {
        let hub = Hub::new();
        hub.tell("transition", &mark(0));
        let (messages, _) = hub.pull(hub.recent(1));
        let id = messages[0].id.clone().unwrap();
        hub.tell("reload", &mark(0));
        assert_eq!(texts(&hub, hub.after(&id)).0, ["reload"]);
        assert_eq!(texts(&hub, hub.recent(5)).0, ["transition", "reload"]);
    }

    #[test]
    fn an_id_of_another_run_and_one_that_makes_no_sense_are_told_to_look_anew() {
        let hub = Hub::new();
        hub.tell("transition", &mark(0));
        for id in ["00.1", "", ".", "x.y.z", &format!("{}.2", hub.run), &format!("{}.-1", hub.run)] {
            assert_eq!(texts(&hub, hub.after(id)).0, ["reset"], "{id:?}");
        }
    }

    #[test]
    fn of_more_events_than_are_kept_a_slow_watcher_is_told_that_some_are_gone() {
        let hub = Hub::new();
        let (first, second) = (hub.recent(0), {
            hub.tell("transition", &mark(0));
            hub.recent(0)
        });
        (0..KEPT).for_each(|_| hub.tell("transition", &mark(0)));
        assert_eq!(texts(&hub, second).0.len(), KEPT, "all that it lacks is kept");
        let (events, place) = texts(&hub, first);
        assert_eq!(events, ["reset"]);
        hub.tell("transition", &mark(0));
        assert_eq!(texts(&hub, place).0, ["transition"], "and it goes on from there");
        assert_eq!(hub.kept().events.len(), KEPT);
    }
}
