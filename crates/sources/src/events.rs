//! Writes an Event about each object whose names are refused, and about each namespace with held names, so that the owner of the namespace sees
//! the reason. Only for clusters with `events: true`.
//!
//! Every server of a store writes: the name of an Event is a hash of object and note, so the API server refuses the second one. An Event is not
//! changed afterwards; the API server deletes it after an hour, and it is created again while the names are refused.

mod refusals;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use fairway_access::TokenHash;
use fairway_model::{ClusterName, KubernetesApi};
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
};
use tokio::{
    sync::watch,
    time::{Interval, MissedTickBehavior, interval, sleep_until},
};

pub(crate) use self::refusals::Refusals;
use self::refusals::{Next, Queue, Subject};
use crate::{
    connection::{CONFLICT, Connection, Failure, NOT_FOUND, Right},
    dnsendpoints::{FIELD_MANAGER, process_identity},
    objects::{Kind, ObjectKey},
    status::SourceProblem,
    watch::resource,
};

/// Events of one cluster. The task that writes them ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Events {
    refusals: watch::Sender<Refusals>,
    failure: Arc<Mutex<Option<String>>>,
}

impl Events {
    /// Starts without a refused name.
    pub(crate) fn start(cluster: ClusterName, api: Arc<KubernetesApi>) -> Self {
        let (refusals, received) = watch::channel(Refusals::default());
        let failure = Arc::default();
        let mut ticks = interval(REQUEST_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let writer = Writer {
            connection: Connection::new(cluster, api),
            failure: Arc::clone(&failure),
            resources: HashMap::new(),
            ticks,
        };
        tokio::spawn(writer.run(received));
        Self { refusals, failure }
    }

    /// Replaces the refused names.
    pub(crate) fn set(&self, refusals: Refusals) {
        self.refusals.send_if_modified(|known| {
            let is_changed = *known != refusals;
            *known = refusals;
            is_changed
        });
    }

    /// Returns the reason why Events are missing.
    pub(crate) fn problem(&self) -> Option<SourceProblem> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let message = failure.or_else(|| self.refusals.borrow().omission())?;
        Some(SourceProblem { object: "events".to_owned(), message })
    }
}

struct Writer {
    connection: Connection,
    failure: Arc<Mutex<Option<String>>>,
    /// Versions of kinds that the cluster serves, as far as they were needed.
    resources: HashMap<Kind, ApiResource>,
    ticks: Interval,
}

impl Writer {
    async fn run(mut self, mut refusals: watch::Receiver<Refusals>) {
        let mut queue = Queue::default();
        // An error: nobody sets refused names any more.
        while let Ok(is_changed) = refusals.has_changed() {
            if is_changed {
                queue.set(refusals.borrow_and_update().clone());
            }
            match queue.next(Instant::now()) {
                Next::Write(object, note) => {
                    let written = self.write(&object, &note).await;
                    let pause = if written.is_ok() { AGAIN } else { AFTER_FAILURE };
                    queue.defer(object, Instant::now() + pause);
                    self.set_failure(written.err().map(|failure| failure.text));
                }
                Next::Wait(until) => {
                    let until = until.unwrap_or_else(|| Instant::now() + AGAIN);
                    tokio::select! {
                        _ = refusals.changed() => refusals.mark_changed(),
                        () = sleep_until(until.into()) => {}
                    }
                }
            }
        }
    }

    /// Creates the Event of a subject, unless the subject is gone or has the Event.
    async fn write(&mut self, subject: &Subject, note: &str) -> Result<(), Failure> {
        let client = self.connection.client().await?;
        let namespace = subject.namespace();
        let event = match subject {
            Subject::Object(object) => {
                let Some(resource) = self.resource(&client, object).await? else { return Ok(()) };
                let Some(uid) = self.uid(&client, &resource, object).await? else { return Ok(()) };
                event(namespace, regarding_object(&resource, object, uid), REFUSED, note)
            }
            Subject::Namespace(namespace) => event(namespace, regarding_namespace(namespace), HELD, note),
        };
        self.ticks.tick().await;
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let events = Api::<Event>::namespaced(client, namespace);
        let right = Right { verb: "create", resource: "events", group: EVENTS_GROUP, namespace };
        match self.connection.answer(right, REQUEST_MAX, events.create(&parameters, &event)).await {
            // Another server was faster, or it is there since the last time.
            Ok(_) | Err(Failure { code: CONFLICT, .. }) => Ok(()),
            // The namespace is gone, and with it everybody who could read the Event.
            Err(Failure { code: NOT_FOUND, .. }) => Ok(()),
            Err(failure) if failure.text.contains("being terminated") => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Returns the version of a kind that the cluster serves.
    async fn resource(&mut self, client: &Client, object: &ObjectKey) -> Result<Option<ApiResource>, Failure> {
        if let Some(known) = self.resources.get(&object.kind) {
            return Ok(Some(known.clone()));
        }
        self.ticks.tick().await;
        let found = resource(client, object.kind);
        let found = self.connection.answer(right_to_list(object), REQUEST_MAX, found).await?;
        self.resources.extend(found.clone().map(|found| (object.kind, found)));
        Ok(found)
    }

    /// Returns the uid of an object, by which `kubectl describe` finds its Events. A list needs no right that the watches do not have.
    async fn uid(
        &mut self,
        client: &Client,
        resource: &ApiResource,
        object: &ObjectKey,
    ) -> Result<Option<String>, Failure> {
        self.ticks.tick().await;
        let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), &object.namespace, resource);
        let one = ListParams::default().fields(&format!("metadata.name={}", object.name));
        let listed = self.connection.answer(right_to_list(object), REQUEST_MAX, objects.list_metadata(&one)).await;
        if listed.is_err() {
            // The cluster may serve another version now.
            self.resources.remove(&object.kind);
        }
        Ok(listed?.items.into_iter().next().and_then(|found| found.metadata.uid))
    }

    fn set_failure(&self, now: Option<String>) {
        let mut known = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = now.as_ref().filter(|_| known.is_none()) {
            tracing::warn!(cluster = %self.connection.cluster, why, "event not written");
        }
        *known = now;
    }
}

fn right_to_list(object: &ObjectKey) -> Right<'_> {
    let (group, .., plural) = object.kind.resources()[0];
    Right { verb: "list", resource: plural, group, namespace: &object.namespace }
}

fn regarding_object(resource: &ApiResource, object: &ObjectKey, uid: String) -> ObjectReference {
    ObjectReference {
        api_version: Some(resource.api_version.clone()),
        kind: Some(resource.kind.clone()),
        namespace: Some(object.namespace.to_string()),
        name: Some(object.name.to_string()),
        uid: Some(uid),
        ..ObjectReference::default()
    }
}

/// Returns a reference without uid, since no right to read namespaces is asked for.
fn regarding_namespace(namespace: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Namespace".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(namespace.to_owned()),
        ..ObjectReference::default()
    }
}

/// Returns an Event with a reason and an action.
fn event(namespace: &str, regarding: ObjectReference, (reason, action): (&str, &str), note: &str) -> Event {
    let subject = regarding.uid.as_deref().unwrap_or(namespace);
    let hash = TokenHash::of(&format!("{subject} {reason} {note}")).to_string();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("fairway.{}", &hash[..32])),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some("Warning".to_owned()),
        reason: Some(reason.to_owned()),
        action: Some(action.to_owned()),
        note: Some(note.to_owned()),
        event_time: Some(MicroTime(jiff::Timestamp::now())),
        regarding: Some(regarding),
        reporting_controller: Some(FIELD_MANAGER.to_owned()),
        reporting_instance: Some(process_identity()),
        ..Event::default()
    }
}

/// API group of Events.
pub(crate) const EVENTS_GROUP: &str = "events.k8s.io";
/// Reason and action of Events about refused names.
const REFUSED: (&str, &str) = ("NameRefused", "Refuse");
/// Reason and action of Events about held names.
const HELD: (&str, &str) = ("WithdrawalHeld", "Hold");
/// Shortest time between two requests, so that at most five a second are made.
const REQUEST_EVERY: Duration = Duration::from_millis(200);
/// Longest time of a request.
const REQUEST_MAX: Duration = Duration::from_secs(4);
/// Time after which an Event is created again, if the API server has deleted it, or if the note is another one.
const AGAIN: Duration = Duration::from_secs(600);
/// Time after which an object whose Event could not be written is tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
