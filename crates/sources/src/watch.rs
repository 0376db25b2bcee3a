//! Watches the objects of one kind in one cluster.
//!
//! ```text
//! resource installed? ──no──► asked again later
//!        └─yes─► streaming list, or pages where the server has none ──► changes, resumed after each interruption; 410: listed again
//! ```
//! A failure sends a state and nothing else: what was read stays.

use std::{collections::HashSet, pin::pin, sync::Arc, time::Duration};

use futures_util::StreamExt;
use kube::{
    Api, Client, Error, ResourceExt,
    api::ApiResource,
    core::Status,
    runtime::{
        WatchStreamExt,
        watcher::{self, Config, Event},
    },
};
use tokio::{sync::mpsc::Sender, time::sleep};

use crate::{
    connect::shown,
    crd::{Wire, read},
    objects::{Kind, Object, ObjectKey},
};

/// Message of a watch.
#[derive(Debug)]
pub(crate) enum Message {
    /// An object as it is now; `None` if it was deleted.
    Changed(ObjectKey, Option<Box<Object>>),
    /// All objects of the kind were listed: these exist.
    Listed(Kind, HashSet<ObjectKey>),
    /// The watch is in another state.
    State(Kind, WatchState),
    /// The credentials are not valid, or no longer.
    Unauthorized(String),
}

/// State of the watch of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WatchState {
    /// The first list is not complete.
    #[default]
    Listing,
    /// Changes arrive.
    Watching,
    /// The cluster does not have the kind.
    NotInstalled,
    /// The credentials do not allow it, with the message of the API server.
    Denied(Arc<str>),
    /// Requests fail, with the reason.
    Failing(Arc<str>),
}

/// Watches one kind until the receiver of messages is gone.
pub(crate) async fn watch<W: Wire>(client: Client, messages: Sender<Message>) {
    let mut lists = Lists::Streaming;
    let mut missing = 0;
    loop {
        match resource(&client, W::KIND).await {
            Ok(Some(resource)) => {
                missing = 0;
                match watch_resource::<W>(&client, &resource, lists, &messages).await {
                    End::Closed => return,
                    End::Removed => {}
                    End::NoStreaming => {
                        lists = Lists::Pages;
                        continue;
                    }
                }
            }
            Ok(None) => {
                missing += 1;
                // An API server that starts may lack a kind for a moment.
                let gone = (missing == MISSING_MAX).then(|| Message::Listed(W::KIND, HashSet::new()));
                let state = Message::State(W::KIND, WatchState::NotInstalled);
                for message in std::iter::once(state).chain(gone) {
                    if messages.send(message).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                let status = if let Error::Api(status) = &error { Some(&**status) } else { None };
                if messages.send(failure(W::KIND, status, &error)).await.is_err() {
                    return;
                }
            }
        }
        sleep(jittered(NOT_INSTALLED_AGAIN)).await;
    }
}

/// Form in which the first list is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    Streaming,
    /// In pages: API servers before 1.32 refuse streaming lists.
    Pages,
}

/// End of a watch.
enum End {
    /// Nobody receives the messages.
    Closed,
    /// The kind was removed, or has other versions.
    Removed,
    /// The API server refuses streaming lists.
    NoStreaming,
}

async fn watch_resource<W: Wire>(
    client: &Client,
    resource: &ApiResource,
    lists: Lists,
    messages: &Sender<Message>,
) -> End {
    let api: Api<W> = Api::all_with(client.clone(), resource);
    let config = Config::default().timeout(WATCH_SECONDS);
    let config = if lists == Lists::Streaming { config.streaming_lists() } else { config };
    let mut events = pin!(watcher::watcher(api, config).default_backoff());
    let mut listed = HashSet::new();
    let mut state = WatchState::Listing;
    while let Some(event) = events.next().await {
        let mut now = WatchState::Watching;
        let message = match event {
            Ok(Event::Init) => {
                listed.clear();
                now = state.clone();
                None
            }
            Ok(Event::InitApply(object)) => {
                now = WatchState::Listing;
                let changed = changed(object);
                if let Some(Message::Changed(key, _)) = &changed {
                    listed.insert(key.clone());
                }
                changed
            }
            Ok(Event::InitDone) => Some(Message::Listed(W::KIND, std::mem::take(&mut listed))),
            Ok(Event::Apply(object)) => changed(object),
            Ok(Event::Delete(object)) => key::<W>(&object).map(|key| Message::Changed(key, None)),
            Err(error) if lists == Lists::Streaming && refuses_streaming(&error) => return End::NoStreaming,
            Err(error) if status(&error).is_some_and(|status| status.code == 404) => return End::Removed,
            // Too old to be resumed: the next event begins a new list.
            Err(error) if status(&error).is_some_and(|status| status.code == 410) => None,
            Err(error) => {
                let message = failure(W::KIND, status(&error), &error);
                if let Message::State(_, failing) = &message {
                    now = failing.clone();
                }
                Some(message)
            }
        };
        let is_state = matches!(message, Some(Message::State(..)));
        let changed = (now != state && !is_state).then(|| Message::State(W::KIND, now.clone()));
        state = now;
        for message in message.into_iter().chain(changed) {
            if messages.send(message).await.is_err() {
                return End::Closed;
            }
        }
    }
    End::Removed
}

fn key<W: Wire>(object: &W) -> Option<ObjectKey> {
    let (namespace, name) = (object.namespace()?, object.name_any());
    Some(ObjectKey { kind: W::KIND, namespace: namespace.into(), name: name.into() })
}

fn changed<W: Wire>(object: W) -> Option<Message> {
    let (key, object) = read(object)?;
    Some(Message::Changed(key, Some(Box::new(object))))
}

/// Returns the version of a kind that the cluster serves, the preferred one of several.
pub(crate) async fn resource(client: &Client, kind: Kind) -> Result<Option<ApiResource>, Error> {
    for (group, version, name, plural) in kind.resources() {
        let api_version = if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") };
        let resource = ApiResource {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
            api_version: api_version.clone(),
            kind: (*name).to_owned(),
            plural: (*plural).to_owned(),
        };
        // The API server always has these.
        if group.is_empty() || group.ends_with(".k8s.io") && matches!(kind, Kind::EndpointSlice | Kind::Ingress) {
            return Ok(Some(resource));
        }
        match client.list_api_group_resources(&api_version).await {
            Ok(list) if list.resources.iter().any(|of| of.name == *plural) => return Ok(Some(resource)),
            Ok(_) => {}
            Err(Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Returns the answer of the API server that an error is about.
fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::WatchError(status)
        | watcher::Error::InitialListFailed(Error::Api(status))
        | watcher::Error::WatchStartFailed(Error::Api(status))
        | watcher::Error::WatchFailed(Error::Api(status)) => Some(status),
        _ => None,
    }
}

fn refuses_streaming(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(Error::Api(status)) if matches!(status.code, 400 | 422))
}

/// Returns the message about a failed request, with the answer of the API server, if there was one.
fn failure(kind: Kind, status: Option<&Status>, error: &dyn std::error::Error) -> Message {
    match status {
        Some(status) if status.code == 401 => Message::Unauthorized(status.message.clone()),
        Some(status) if status.code == 403 => Message::State(kind, WatchState::Denied((*status.message).into())),
        _ => Message::State(kind, WatchState::Failing(shown(error).into())),
    }
}

/// Returns a time with up to a quarter more, so that many clusters do not ask at once.
fn jittered(time: Duration) -> Duration {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    time + time * (now.subsec_nanos() % 250) / 1_000
}

/// Longest duration of one watch request, in seconds. A connection that is lost without a sign is noticed 5 s later.
const WATCH_SECONDS: u32 = 60;
/// Number of answers without a kind, one after the other, after which its objects are gone.
const MISSING_MAX: u32 = 5;
/// Time between two questions whether a kind is installed.
const NOT_INSTALLED_AGAIN: Duration = Duration::from_secs(15);
