//! The task that reads one cluster: it connects, watches all kinds, and publishes what changed.
//!
//! What fails is not empty: the last good contribution stays while the API cannot be reached, and while a kind is not read yet.

mod names;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use fairway_contributions::WithdrawalSettings;
use fairway_model::{ClusterName, KubernetesApi, Name, ServiceReports, Timestamp};
use kube::Client;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::sleep_until,
};

use crate::{
    connect::connect,
    crd,
    found::{FoundCluster, FoundRow, HeldNames},
    graph::{GatewaySummary, Graph, Limits},
    holds::{Holds, TargetHealth},
    objects::{Body, Kind, Object, ObjectKey, Targets},
    status::{KindStatus, SourceProblem, SourceStatus},
    watch::{Message, WatchState, watch},
};

/// Destination of what a cluster's task publishes.
pub(crate) trait Publish: Send + Sync + 'static {
    /// Publishes what was found in a cluster.
    fn found(&self, cluster: &ClusterName, found: Arc<FoundCluster>);
    /// Publishes the status of a cluster's source.
    fn status(&self, cluster: &ClusterName, status: SourceStatus);
    /// Returns the health of the targets of names.
    fn health(&self) -> Arc<dyn TargetHealth>;
    /// Returns the owners in a cluster whose held withdrawals were confirmed since the last call.
    fn take_confirmed(&self, cluster: &ClusterName) -> BTreeSet<Arc<str>>;
}

/// Settings of the server for all clusters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReadSettings {
    /// The zones of this server; other names are counted and left out.
    pub zones: Arc<BTreeSet<Name>>,
    /// Times for which withdrawals are held.
    pub withdrawals: WithdrawalSettings,
}

/// The task that reads one cluster.
pub(crate) struct ClusterTask<P> {
    name: ClusterName,
    api: Arc<KubernetesApi>,
    publisher: Arc<P>,
    settings: watch::Receiver<ReadSettings>,
    /// Statistics of services at the gateways of all clusters.
    reports: watch::Receiver<ServiceReports>,
    graph: Graph,
    kinds: BTreeMap<Kind, WatchState>,
    /// Kinds that were listed completely at least once.
    listed: BTreeSet<Kind>,
    found: FoundCluster,
    /// Names that the last process found and that this one has not found yet.
    saved: BTreeSet<Arc<str>>,
    holds: Holds,
    /// True if something was found that is not published yet.
    is_changed: bool,
    /// True if something was read since the status was last published.
    is_status_due: bool,
    /// True if an object changed that may be a gateway.
    is_gateway_due: bool,
    /// Services for which the gateways have no healthy endpoint.
    without_endpoint: BTreeSet<Arc<str>>,
    /// The Service whose pods are those of the gateway.
    gateway_pods: Option<ObjectKey>,
    /// Names outside of the zones.
    outside: BTreeSet<Arc<str>>,
    status: SourceStatus,
    begun: Instant,
}

impl<P: Publish> ClusterTask<P> {
    /// Returns the task of a cluster. `saved` is what the last process found there.
    pub(crate) fn new(
        name: ClusterName,
        api: Arc<KubernetesApi>,
        publisher: Arc<P>,
        (settings, reports): (watch::Receiver<ReadSettings>, watch::Receiver<ServiceReports>),
        saved: Option<Arc<FoundCluster>>,
    ) -> Self {
        let found = saved.map(|saved| FoundCluster::clone(&saved)).unwrap_or_default();
        Self {
            name,
            api,
            publisher,
            settings,
            reports,
            graph: Graph::new(),
            kinds: BTreeMap::new(),
            listed: BTreeSet::new(),
            saved: found.names.keys().cloned().collect(),
            holds: Holds::new(&found.names),
            found,
            is_changed: false,
            is_status_due: true,
            is_gateway_due: true,
            without_endpoint: BTreeSet::new(),
            gateway_pods: None,
            outside: BTreeSet::new(),
            status: SourceStatus::default(),
            begun: Instant::now(),
        }
    }

    /// Reads the cluster until the task is aborted.
    pub(crate) async fn run(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let why = match connect(&self.api).await {
                Ok(client) => {
                    let connected = Instant::now();
                    let why = self.read(client).await;
                    if connected.elapsed() > PAUSE_MAX {
                        pause = PAUSE_MIN;
                    }
                    why
                }
                Err(error) => error.to_string(),
            };
            self.fail(&why);
            self.pause(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Waits. Held withdrawals end also while the cluster cannot be read.
    async fn pause(&mut self, time: Duration) {
        let now = tokio::time::Instant::now;
        let end = now() + time;
        while now() < end {
            sleep_until(end.min(now() + STATUS_EVERY)).await;
            self.review_holds();
            self.publish_found();
        }
    }

    /// Watches all kinds. Returns why the credentials must be read again.
    async fn read(&mut self, client: Client) -> String {
        let (sender, mut messages) = mpsc::channel(MESSAGES_MAX);
        // Aborted when it is dropped.
        let mut watches = start_watches(&client, &sender);
        drop(sender);
        let mut batch = Vec::with_capacity(MESSAGES_MAX);
        let mut published = tokio::time::Instant::now();
        let mut is_due = false;
        let mut ticks = tokio::time::interval(STATUS_EVERY);
        loop {
            let publication = published + PUBLISHED_EVERY;
            tokio::select! {
                count = messages.recv_many(&mut batch, MESSAGES_MAX) => {
                    if count == 0 {
                        return "all watches ended".to_owned();
                    }
                    for message in batch.drain(..) {
                        if let Some(why) = self.take(message) {
                            watches.abort_all();
                            return why;
                        }
                    }
                    (is_due, self.is_status_due) = (true, true);
                }
                Ok(()) = self.settings.changed() => {
                    self.look_again();
                    is_due = true;
                }
                Ok(()) = self.reports.changed() => is_due |= self.follow_report(),
                () = sleep_until(publication), if is_due => {}
                _ = ticks.tick() => {
                    is_due |= self.status.read_at.is_none() | self.review_holds();
                    if std::mem::take(&mut self.is_status_due) {
                        self.publish_status();
                    }
                }
            }
            if is_due && published.elapsed() >= PUBLISHED_EVERY {
                self.publish();
                (is_due, published) = (false, tokio::time::Instant::now());
            }
        }
    }

    /// Takes a message. Returns the reason if the credentials are no longer valid.
    fn take(&mut self, message: Message) -> Option<String> {
        match message {
            Message::Changed(key, object) => {
                self.is_gateway_due |= match key.kind {
                    Kind::Service | Kind::Gateway => true,
                    Kind::EndpointSlice => self.is_of_gateway(&key, object.as_deref()),
                    _ => false,
                };
                self.apply(key, object.map(|object| *object));
            }
            Message::Listed(kind, keys) => {
                self.graph.retain(kind, &keys);
                self.is_gateway_due = true;
                self.listed.insert(kind);
            }
            Message::State(kind, state) => {
                let before = self.kinds.insert(kind, state.clone()).unwrap_or_default();
                let cluster = &self.name;
                match (&before, &state) {
                    (WatchState::Denied(_), WatchState::Denied(_))
                    | (WatchState::Failing(_), WatchState::Failing(_)) => {}
                    (_, WatchState::Denied(why)) => tracing::warn!(%cluster, %kind, %why, "kind cannot be read"),
                    (_, WatchState::Failing(why)) => {
                        tracing::warn!(%cluster, %kind, %why, "watch fails; what was read stays")
                    }
                    (WatchState::Failing(_) | WatchState::Denied(_), _) => {
                        tracing::info!(%cluster, %kind, "kind is read again")
                    }
                    _ => {}
                }
            }
            Message::Unauthorized(why) => return Some(format!("the credentials are not valid: {why}")),
        }
        None
    }

    /// Returns true if a slice may have pods of the gateway.
    fn is_of_gateway(&self, slice: &ObjectKey, object: Option<&Object>) -> bool {
        let Some(gateway) = &self.status.gateway else { return false };
        let service = match object {
            Some(Object { body: Body::EndpointSlice(slice), .. }) => slice.service.as_ref(),
            _ => None,
        };
        let is_other = |name: &Arc<str>| self.gateway_pods.as_ref().is_some_and(|pods| pods.name != *name);
        slice.namespace == gateway.namespace && !service.is_some_and(is_other)
    }

    /// Takes a change of an object. New objects over the limits are left out, and so are changes by which objects need more memory.
    fn apply(&mut self, key: ObjectKey, object: Option<Object>) {
        if object.as_ref().is_some_and(|object| self.graph.is_over(LIMITS, &key, object)) {
            if self.status.left_out == 0 {
                let Limits { objects, memory } = LIMITS;
                tracing::error!(cluster = %self.name, objects, memory, object = %key, "too many objects; further ones are left out");
            }
            self.status.left_out += 1;
            return;
        }
        self.graph.apply(key, object);
    }

    fn fail(&mut self, why: &str) {
        if self.status.failure.as_deref() != Some(why) {
            tracing::warn!(event = "kubernetes", cluster = %self.name, why, "cluster cannot be read; what was read stays");
        }
        self.status.failure = Some(why.into());
        self.publish_status();
    }

    /// Returns true if every kind was listed, or cannot be.
    fn is_complete(&self) -> bool {
        Kind::ALL.iter().all(|kind| {
            let is_out = matches!(self.kinds.get(kind), Some(WatchState::NotInstalled | WatchState::Denied(_)));
            self.listed.contains(kind) || is_out
        })
    }

    /// Takes the names of the last process that are gone: those whose objects are. Where a kind was not listed, its objects stay, and so do
    /// names of other objects that lead to it.
    fn take_gone(&mut self) -> BTreeSet<Arc<str>> {
        let is_all = Kind::ALL.iter().all(|kind| self.listed.contains(kind));
        let stays =
            |row: &FoundRow| !is_all && (!self.listed.contains(&row.object.kind) || self.graph.contains(&row.object));
        let is_gone = |text: &Arc<str>| {
            let found = self.found.names.get(&**text);
            found.is_none_or(|name| !name.rows.iter().any(stays)) || !self.graph.exposures(text).is_empty()
        };
        let gone: BTreeSet<Arc<str>> = self.saved.iter().filter(|text| is_gone(text)).cloned().collect();
        self.saved.retain(|text| !gone.contains(text));
        gone
    }

    /// Follows the statistics of services at the gateways. Returns true if names may have changed.
    fn follow_report(&mut self) -> bool {
        let report = self.reports.borrow_and_update().get(&self.name).cloned();
        let without: &BTreeSet<_> =
            report.as_ref().map_or(const { &BTreeSet::new() }, |report| &report.without_endpoint);
        let is_changed = *without != self.without_endpoint;
        if is_changed {
            for service in without.difference(&self.without_endpoint) {
                tracing::warn!(event = "kubernetes", cluster = %self.name, %service, "no gateway has a healthy endpoint of the service");
            }
            for service in self.without_endpoint.difference(without) {
                tracing::info!(event = "kubernetes", cluster = %self.name, %service, "gateways have healthy endpoints of the service again, or do not report it");
            }
            self.graph.set_without_endpoint(without);
            self.without_endpoint.clone_from(without);
        }
        is_changed
    }

    /// Considers all names again.
    fn look_again(&mut self) {
        self.outside.clear();
        let names: Vec<Arc<str>> = self.graph.names().cloned().collect();
        self.update(names.into_iter().chain(self.found.names.keys().cloned().collect::<Vec<_>>()).collect());
    }

    /// Publishes what changed, once enough was read to know it.
    fn publish(&mut self) {
        let is_complete = self.is_complete();
        if !is_complete && self.begun.elapsed() < FIRST_LIST_MAX || self.listed.is_empty() {
            return;
        }
        let mut changed = self.graph.take_changed();
        if std::mem::take(&mut self.is_gateway_due) && self.follow_gateway() {
            changed.extend(self.graph.names().cloned());
        }
        changed.retain(|text| !self.saved.contains(text));
        changed.append(&mut self.take_gone());
        self.update(changed);
        // A rule may get other backends without any other change of what is found.
        self.is_changed |= self.found.services.rules != self.graph.exposed().rules;
        self.found.services = self.graph.exposed().clone();
        let is_first = self.status.read_at.is_none();
        self.status.failure = None;
        self.status.read_at = Some(Timestamp::from(SystemTime::now()));
        self.is_changed |= is_first;
        self.publish_found();
        if is_first {
            self.publish_status();
        }
    }

    /// Follows the addresses of the ingress gateway. Returns true if they changed.
    fn follow_gateway(&mut self) -> bool {
        let gateways = self.graph.gateways();
        self.status.gateways = gateways.iter().map(|gateway| gateway.key.to_string()).collect();
        let mut services = gateways.clone();
        let chosen = choose_gateway(&self.api, gateways);
        self.status.gateway = chosen.as_ref().map(|gateway| gateway.key.clone());
        // A gateway that has just lost its address is not one without: its last addresses stay, and their probes decide.
        let Some(chosen) = chosen else { return false };
        // A Gateway of the Gateway API has the addresses of the Service that was made for it, which has the pods.
        services.retain(|of| of.key.kind == Kind::Service && of.key.namespace == chosen.key.namespace);
        let is_its = |of: &&GatewaySummary| of.key == chosen.key || of.targets == chosen.targets;
        let service = services.iter().filter(is_its).max_by_key(|of| of.key == chosen.key);
        let GatewaySummary { pods, has_status_port, .. } = service.unwrap_or(&chosen).clone();
        self.gateway_pods = service.map(|service| service.key.clone());
        self.is_changed |= self.found.pods != pods;
        self.found.pods = pods;
        let Targets { addresses, hosts } = &*chosen.targets;
        let is_changed = *addresses != self.found.addresses || *hosts != self.found.hosts;
        let had_status_port = std::mem::replace(&mut self.found.has_status_port, has_status_port);
        self.is_changed |= is_changed || had_status_port != has_status_port;
        (self.found.addresses, self.found.hosts) = (addresses.clone(), hosts.clone());
        is_changed
    }

    fn publish_status(&mut self) {
        let counts = self.graph.counts();
        let kind = |kind: &Kind| {
            let state = self.kinds.get(kind).cloned().unwrap_or_default();
            KindStatus { kind: *kind, state, objects: counts.get(kind).copied().unwrap_or_default() }
        };
        let is_failing = |state: &WatchState| matches!(state, WatchState::Denied(_) | WatchState::Failing(_));
        let is_any = self.status.failure.is_some() || self.kinds.values().any(is_failing);
        let since = || Some(Timestamp::from(SystemTime::now()));
        self.status.failing_since = if is_any { self.status.failing_since.or_else(since) } else { None };
        self.status.kinds = Kind::ALL.iter().map(kind).collect();
        self.status.objects_bytes = self.graph.memory();
        self.status.names = self.found.names.len();
        self.status.names_outside = self.outside.len();
        self.status.problems = self.graph.problems().into_iter().take(PROBLEMS_MAX).map(Into::into).collect();
        self.status.held_names = self.found.held.values().map(|held| held.names).sum();
        self.status.problems.splice(0..0, self.found.held.iter().take(PROBLEMS_MAX).map(held_problem));
        if self.status.left_out > 0 {
            let (left_out, Limits { objects, memory }) = (self.status.left_out, LIMITS);
            let message = format!(
                "{left_out} changes of objects over the limits of {objects} objects and {} MiB were left out",
                memory >> 20
            );
            self.status.problems.insert(0, SourceProblem { object: "cluster".to_owned(), message });
        }
        self.publisher.status(&self.name, self.status.clone());
    }
}

/// Returns the ingress gateway of a cluster: the configured one, else Istio's, if there is one or one has its usual name, else the only one.
/// Two gateways are two destinations, so none is guessed; a Gateway and the Service that was made for it have the same addresses, and are one.
fn choose_gateway(api: &KubernetesApi, mut gateways: Vec<GatewaySummary>) -> Option<GatewaySummary> {
    if let Some((namespace, name)) = &api.gateway {
        let is_it = |key: &ObjectKey| *key.namespace == **namespace && *key.name == **name;
        return gateways.into_iter().find(|gateway| is_it(&gateway.key));
    }
    if let Some(usual) = gateways.iter().position(|gateway| gateway.is_istio && &*gateway.key.name == ISTIO_NAME) {
        return Some(gateways.swap_remove(usual));
    }
    let is_istio = gateways.iter().any(|gateway| gateway.is_istio);
    gateways.retain(|gateway| gateway.is_istio == is_istio);
    let is_one = gateways.windows(2).all(|pair| pair[0].targets == pair[1].targets);
    gateways.into_iter().filter(|_| is_one).max_by_key(|gateway| gateway.hosts)
}

/// Returns what the status shows about the held names of an owner.
fn held_problem((owner, held): (&Arc<str>, &HeldNames)) -> SourceProblem {
    SourceProblem { object: format!("owner {owner}"), message: held.message(owner) }
}

fn start_watches(client: &Client, messages: &mpsc::Sender<Message>) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    macro_rules! start {
        ($($wire:ty),* $(,)?) => { $(watches.spawn(watch::<$wire>(client.clone(), messages.clone()));)* };
    }
    start![
        crd::Service,
        crd::EndpointSlice,
        crd::Ingress,
        crd::IstioGateway,
        crd::VirtualService,
        crd::Gateway,
        crd::ListenerSet,
        crd::HttpRoute,
        crd::GrpcRoute,
        crd::TlsRoute,
        crd::TcpRoute,
        crd::UdpRoute,
        crd::ReferenceGrant,
        crd::DnsEndpoint,
        crd::TrafficSplit,
    ];
    watches
}

/// Usual name of Istio's ingress gateway.
const ISTIO_NAME: &str = "istio-ingressgateway";
/// Messages that wait for the task; watches pause while there are more.
const MESSAGES_MAX: usize = 1024;
/// Shortest time between two publications; each causes a reload.
const PUBLISHED_EVERY: Duration = Duration::from_millis(20);
/// Time between two publications of the status.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// Time after which a cluster is published although some kinds are not listed.
const FIRST_LIST_MAX: Duration = Duration::from_secs(10);
/// Pauses after a failed connection.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Limits of one cluster. The 20,002 objects of `graph/tests/size.rs` have 248 bytes each, so 250,000 of them have 59 MiB: ordinary objects
/// are limited by their number. One object may have 1.5 MiB, the limit of etcd, so their memory has a limit, too: four times that.
const LIMITS: Limits = Limits { objects: 250_000, memory: 256 << 20 };
/// Problems that are shown of one cluster.
const PROBLEMS_MAX: usize = 100;
