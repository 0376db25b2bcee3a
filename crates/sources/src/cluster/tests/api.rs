//! An API server of this process: lists and watches of Services, EndpointSlices and Istio's kinds.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::pending,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll},
    time::Duration,
};

use fairway_model::SplitMix;
use hyper::{
    Request, Response, Uri,
    body::{Body, Bytes, Frame},
};
use kube::Client;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

/// The way in which an API server is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outage {
    /// It answers.
    #[default]
    None,
    /// Connections are lost and refused.
    Refused,
    /// Nothing is answered.
    Silent,
    /// Each request gets this status.
    Status(u16),
}

impl Outage {
    /// Draws an outage.
    pub(super) fn draw(random: &mut SplitMix) -> Self {
        match random.below(8) {
            0 | 1 => Self::Refused,
            2 | 3 => Self::Silent,
            number => Self::Status([401, 403, 500, 503][number as usize - 4]),
        }
    }
}

/// An API server.
#[derive(Default)]
pub(super) struct Api {
    state: Mutex<State>,
    /// Counts changes of the state.
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    version: u64,
    outage: Outage,
    /// Objects by the path of their list, namespace and name.
    objects: BTreeMap<(&'static str, String, String), Value>,
    /// List, version and line of each change.
    events: Vec<(&'static str, u64, String)>,
}

/// Paths of lists that have objects; all others are empty.
pub(super) const SERVICES: &str = "/api/v1/services";
pub(super) const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";
pub(super) const GATEWAYS: &str = "/apis/networking.istio.io/v1/gateways";
pub(super) const VIRTUAL_SERVICES: &str = "/apis/networking.istio.io/v1/virtualservices";

/// Resources of each group. Kinds that are not installed would be asked for again and again.
const RESOURCES: [&str; 11] = [
    "dnsendpoints",
    "gateways",
    "grpcroutes",
    "httproutes",
    "listenersets",
    "referencegrants",
    "tcproutes",
    "tlsroutes",
    "trafficsplits",
    "udproutes",
    "virtualservices",
];

impl Api {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Creates or replaces an object.
    pub(super) fn set(&self, list: &'static str, namespace: &str, name: &str, mut object: Value) {
        let mut state = self.state();
        state.version += 1;
        let version = state.version;
        for (key, value) in [("namespace", namespace), ("name", name), ("resourceVersion", &version.to_string())] {
            object["metadata"][key] = json!(value);
        }
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        let key = (list, namespace.to_owned(), name.to_owned());
        let event = if state.objects.insert(key, object.clone()).is_some() { "MODIFIED" } else { "ADDED" };
        state.events.push((list, version, format!("{}\n", json!({ "type": event, "object": object }))));
        drop(state);
        self.notify();
    }

    /// Deletes an object, if it exists.
    pub(super) fn remove(&self, list: &'static str, namespace: &str, name: &str) {
        let mut state = self.state();
        if let Some(mut object) = state.objects.remove(&(list, namespace.to_owned(), name.to_owned())) {
            state.version += 1;
            let version = state.version;
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            state.events.push((list, version, format!("{}\n", json!({ "type": "DELETED", "object": object }))));
        }
        drop(state);
        self.notify();
    }

    /// Begins or ends an outage.
    pub(super) fn fail(&self, outage: Outage) {
        self.state().outage = outage;
        self.notify();
    }

    pub(super) fn outage(&self) -> Outage {
        self.state().outage
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Returns a client of it.
    pub(super) fn client(self: Arc<Self>) -> Client {
        let answer = move |request: Request<kube::client::Body>| {
            let api = Arc::clone(&self);
            async move { api.answer(request.into_parts().0.uri).await }
        };
        Client::new(tower::service_fn(answer), "default")
    }

    async fn answer(self: Arc<Self>, uri: Uri) -> io::Result<Response<Lines>> {
        match self.outage() {
            Outage::None => {}
            Outage::Refused => return Err(io::ErrorKind::ConnectionRefused.into()),
            // The client gives up, or begins anew when this ends.
            Outage::Silent => {
                let mut changed = self.changed.subscribe();
                while self.outage() == Outage::Silent {
                    if changed.changed().await.is_err() {
                        pending::<Infallible>().await;
                    }
                }
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            Outage::Status(code) => return Ok(refusal(code)),
        }
        let query = uri.query().unwrap_or_default();
        let number = |name: &str| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse().ok()).unwrap_or_default()
        };
        let list = uri.path().to_owned();
        if list.starts_with("/apis/") && list.split('/').count() == 4 {
            let resource =
                |name| json!({ "name": name, "singularName": "", "namespaced": true, "kind": "", "verbs": [] });
            let resources = RESOURCES.map(resource);
            return Ok(whole(200, &json!({ "kind": "APIResourceList", "groupVersion": "", "resources": resources })));
        }
        if query.contains("sendInitialEvents") {
            return Ok(refusal(422));
        }
        if query.contains("watch=") {
            let (sender, lines) = mpsc::channel(16);
            let end = Instant::now() + Duration::from_secs(number("timeoutSeconds"));
            tokio::spawn(self.watch(list, number("resourceVersion"), end, sender));
            return Ok(Response::new(Lines(lines)));
        }
        let state = self.state();
        let objects = state.objects.iter().filter(|((of, ..), _)| **of == *list).map(|(_, object)| object);
        let items: Vec<_> = objects.collect();
        let metadata = json!({ "resourceVersion": state.version.to_string() });
        Ok(whole(200, &json!({ "kind": "List", "metadata": metadata, "items": items })))
    }

    /// Sends the changes of a list after a version, until this time.
    async fn watch(
        self: Arc<Self>,
        list: String,
        mut after: u64,
        end: Instant,
        lines: mpsc::Sender<io::Result<Bytes>>,
    ) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let (outage, events) = {
                let state = self.state();
                let is_new = |(of, version, _): &&(&str, u64, String)| **of == *list && *version > after;
                (state.outage, state.events.iter().filter(is_new).cloned().collect::<Vec<_>>())
            };
            match outage {
                Outage::None => {
                    for (_, version, event) in events {
                        after = version;
                        if lines.send(Ok(event.into())).await.is_err() {
                            return;
                        }
                    }
                }
                // Not even the end arrives.
                Outage::Silent => {}
                Outage::Refused | Outage::Status(_) => {
                    let _ = lines.send(Err(io::ErrorKind::ConnectionReset.into())).await;
                    return;
                }
            }
            tokio::select! {
                Ok(()) = changed.changed() => {}
                () = sleep_until(end), if outage != Outage::Silent => return,
                () = lines.closed() => return,
            }
        }
    }
}

/// A body that arrives in lines.
struct Lines(mpsc::Receiver<io::Result<Bytes>>);

impl Body for Lines {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(context).map(|line| line.map(|line| line.map(Frame::data)))
    }
}

fn whole(status: u16, body: &Value) -> Response<Lines> {
    let (sender, lines) = mpsc::channel(1);
    sender.try_send(Ok(body.to_string().into())).unwrap();
    Response::builder().status(status).body(Lines(lines)).unwrap()
}

fn refusal(code: u16) -> Response<Lines> {
    whole(code, &json!({ "kind": "Status", "status": "Failure", "message": "an outage", "code": code, "metadata": {} }))
}
