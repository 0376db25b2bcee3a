//! Refused names by object, held ones by namespace, and the order in which Events about them are written. Pure.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::Arc,
    time::Instant,
};

use fairway_model::ContributionProblem;

use crate::objects::ObjectKey;

/// The subject of an Event. Namespaces come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Subject {
    /// A namespace, with names that are held after their objects were deleted.
    Namespace(Arc<str>),
    /// An object whose names are refused.
    Object(ObjectKey),
}

/// Objects of one cluster whose names are refused, and namespaces whose names are held, with the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusals {
    by_namespace: BTreeMap<Arc<str>, BTreeMap<Subject, Reasons>>,
    objects: usize,
    /// Number of objects over the limits.
    omitted: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Reasons {
    /// The first one, with the name.
    first: String,
    /// Number of further ones.
    more: usize,
}

impl Refusals {
    /// Adds a reason of an object. Objects over the limits are counted.
    pub(crate) fn add(&mut self, object: &ObjectKey, problem: &ContributionProblem) {
        let is_full = self.objects >= OBJECTS_MAX;
        let of_namespace = self.by_namespace.entry(Arc::clone(&object.namespace)).or_default();
        let subject = Subject::Object(object.clone());
        if let Some(known) = of_namespace.get_mut(&subject) {
            known.more += 1;
        } else if is_full || of_namespace.len() >= OF_NAMESPACE_MAX {
            self.omitted += 1;
        } else {
            let first = format!("{}: {}", problem.name, problem.message);
            of_namespace.insert(subject, Reasons { first, more: 0 });
            self.objects += 1;
        }
    }

    /// Adds a namespace with held names.
    pub(crate) fn add_held(&mut self, namespace: &str, message: String) {
        let namespace: Arc<str> = namespace.into();
        let of_namespace = self.by_namespace.entry(Arc::clone(&namespace)).or_default();
        of_namespace.insert(Subject::Namespace(namespace), Reasons { first: message, more: 0 });
    }

    /// Returns a message if there are more objects than the limits.
    pub(crate) fn omission(&self) -> Option<String> {
        let Self { omitted, .. } = self;
        (*omitted > 0).then(|| {
            format!(
                "{omitted} refused claims have no Event: at most {OBJECTS_MAX} objects of a cluster and {OF_NAMESPACE_MAX} of a namespace have one"
            )
        })
    }
}

impl Reasons {
    /// Returns the note of the Event.
    fn note(&self) -> String {
        let end = match self.more {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let first = &self.first[..self.first.floor_char_boundary(NOTE_MAX - end.len())];
        format!("{first}{end}")
    }
}

/// The order in which Events are written: one of each namespace in turn, so that a namespace with many refused objects does not delay others.
#[derive(Debug, Default)]
pub(super) struct Queue {
    refusals: Refusals,
    /// Subjects with the time before which no Event about them is written.
    deferred: HashMap<Subject, Instant>,
    /// Namespace of the last Event.
    last: Arc<str>,
}

/// The next step of the task that writes Events.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Write an Event about this subject with this note.
    Write(Subject, String),
    /// Wait until this time; `None`: until names are refused.
    Wait(Option<Instant>),
}

impl Queue {
    pub(super) fn set(&mut self, refusals: Refusals) {
        self.refusals = refusals;
    }

    pub(super) fn next(&mut self, now: Instant) -> Next {
        self.deferred.retain(|_, until| *until > now);
        let after = (Bound::Excluded(Arc::clone(&self.last)), Bound::Unbounded);
        let all = &self.refusals.by_namespace;
        let in_turn = all.range(after).chain(all.range(..=Arc::clone(&self.last)));
        let mut due =
            in_turn.flat_map(|(_, objects)| objects).filter(|(object, _)| !self.deferred.contains_key(*object));
        match due.next() {
            Some((object, reasons)) => {
                self.last = Arc::clone(object.namespace());
                Next::Write(object.clone(), reasons.note())
            }
            None => Next::Wait(self.deferred.values().min().copied()),
        }
    }

    /// Writes no Event about a subject before this time.
    pub(super) fn defer(&mut self, subject: Subject, until: Instant) {
        self.deferred.insert(subject, until);
    }
}

impl Subject {
    /// Returns the namespace of the Event.
    pub(super) const fn namespace(&self) -> &Arc<str> {
        match self {
            Self::Namespace(namespace) => namespace,
            Self::Object(object) => &object.namespace,
        }
    }
}

/// Maximum number of objects of a cluster with an Event.
const OBJECTS_MAX: usize = 1_000;
/// Maximum number of objects of a namespace with an Event.
const OF_NAMESPACE_MAX: usize = 100;
/// Maximum number of bytes of a note, as the API server limits it.
const NOTE_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::objects::Kind;

    fn object(namespace: &str, number: usize) -> ObjectKey {
        ObjectKey::new(Kind::Service, namespace, format!("s{number}"))
    }

    fn refusals(objects: impl IntoIterator<Item = ObjectKey>, message: &str) -> Refusals {
        let mut refusals = Refusals::default();
        for object in objects {
            let problem = ContributionProblem {
                name: "a.example".into(),
                owner: format!("kubernetes:eu1/{}", object.namespace).into(),
                set: "eu1".into(),
                message: message.to_owned(),
                is_refused: true,
            };
            refusals.add(&object, &problem);
        }
        refusals
    }

    #[test]
    fn namespaces_take_turns_and_an_object_waits_after_its_event() {
        let mut queue = Queue::default();
        let start = Instant::now();
        assert_eq!(queue.next(start), Next::Wait(None));
        let mut all = refusals([object("evil", 1), object("evil", 2), object("evil", 1), object("shop", 1)], "no");
        all.add_held("evil", "2 names are held".to_owned());
        queue.set(all);
        let again = start + Duration::from_secs(600);
        let mut written = Vec::new();
        while let Next::Write(object, note) = queue.next(start) {
            let shown = match &object {
                Subject::Namespace(namespace) => format!("Namespace {namespace}"),
                Subject::Object(object) => object.to_string(),
            };
            written.push(format!("{shown} {note}"));
            queue.defer(object, again);
        }
        let expected = [
            "Namespace evil 2 names are held",
            "Service shop/s1 a.example: no",
            "Service evil/s1 a.example: no (and 1 more)",
            "Service evil/s2 a.example: no",
        ];
        assert_eq!(written, expected);
        // Another reason does not shorten the pause.
        queue.set(refusals([object("evil", 1)], "another reason"));
        assert_eq!(queue.next(start), Next::Wait(Some(again)));
        let first = Subject::Object(object("evil", 1));
        assert_eq!(queue.next(again), Next::Write(first, "a.example: another reason".to_owned()));
    }

    #[test]
    fn objects_over_the_limits_are_counted_and_notes_are_cut() {
        let evil = (0..150).map(|number| object("evil", number));
        let others = (0..950).map(|number| object(&format!("n{number}"), number));
        let many = refusals(evil.chain(others), "no");
        assert_eq!((many.objects, many.omitted), (1_000, 100));
        assert!(many.omission().unwrap().starts_with("100 refused claims have no Event"));
        let long = refusals([object("evil", 1), object("evil", 1)], &"é".repeat(1_000));
        let note = long.by_namespace["evil"][&Subject::Object(object("evil", 1))].note();
        assert!(note.len() <= NOTE_MAX && note.ends_with("é (and 1 more)"), "{}", note.len());
        assert_eq!(long.omission(), None);
    }
}
