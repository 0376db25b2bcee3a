//! All clusters that are read, each by a task of its own: each fails alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use fairway_contributions::WithdrawalSettings;
use fairway_model::{Cluster, ClusterName, ContributionProblem, KubernetesApi, Name, ServiceReports, SharedMap};
use tokio::{sync::watch, task::AbortHandle, time::timeout};

use crate::{
    cluster::{ClusterTask, Publish, ReadSettings},
    events::{Events, Refusals},
    found::{Found, FoundCluster},
    holds::{TargetHealth, UnknownHealth},
    saved_wire,
    status::SourceStatus,
};

/// Clusters that are read, until it is dropped.
#[derive(Debug)]
pub struct Sources {
    shared: Arc<Shared>,
    tasks: Mutex<BTreeMap<ClusterName, Task>>,
    settings: watch::Sender<ReadSettings>,
}

/// The tasks of one cluster.
#[derive(Debug)]
struct Task {
    api: Arc<KubernetesApi>,
    reads: AbortHandle,
    /// `None` if no Events are written.
    events: Option<Events>,
}

#[derive(Debug)]
struct Shared {
    /// Findings in the clusters that are read.
    found: watch::Sender<Found>,
    statuses: Mutex<BTreeMap<ClusterName, SourceStatus>>,
    /// Clusters that this process has read once.
    read: watch::Sender<BTreeSet<ClusterName>>,
    /// Health of the targets of names; set once queries are answered.
    health: OnceLock<Arc<dyn TargetHealth>>,
    /// Owners whose held withdrawals are confirmed and not released yet.
    confirmed: Mutex<BTreeSet<Arc<str>>>,
}

impl Sources {
    /// Starts without a cluster. `saved` is the content of `kubernetes.json`, which stands for what clusters say until they are read.
    pub fn start(saved: Option<&[u8]>) -> Self {
        let decoded = saved.map(saved_wire::decode).transpose();
        let found = decoded.unwrap_or_else(|error| {
            tracing::warn!(%error, "kubernetes.json cannot be read; clusters are read anew");
            None
        });
        let shared = Shared {
            found: watch::Sender::new(found.unwrap_or_default()),
            statuses: Mutex::default(),
            read: watch::Sender::default(),
            health: OnceLock::new(),
            confirmed: Mutex::default(),
        };
        Self { shared: Arc::new(shared), tasks: Mutex::default(), settings: watch::Sender::default() }
    }

    /// Reads these clusters from now on, and forgets what was found in others. Names are found in these zones. Withdrawals are
    /// held for these times. Services for which the gateways of a cluster have no healthy endpoint, by `reports`, count as without one.
    pub fn follow<'a>(
        &self,
        clusters: &SharedMap<ClusterName, Cluster>,
        (zones, withdrawals): (impl Iterator<Item = &'a Name>, WithdrawalSettings),
        reports: &watch::Receiver<ServiceReports>,
    ) {
        let settings = ReadSettings { zones: Arc::new(zones.cloned().collect()), withdrawals };
        self.settings.send_if_modified(|known| {
            let is_changed = *known != settings;
            *known = settings;
            is_changed
        });
        let read = |cluster: &Cluster| Some((cluster.name.clone(), Arc::clone(cluster.kubernetes.as_ref()?)));
        let wanted: BTreeMap<ClusterName, Arc<KubernetesApi>> = clusters.values().filter_map(read).collect();
        let mut tasks = self.tasks();
        tasks.retain(|name, task| {
            let is_same = wanted.get(name) == Some(&task.api);
            if !is_same {
                task.reads.abort();
            }
            is_same
        });
        self.shared.forget_others(&wanted);
        for (name, api) in wanted {
            if tasks.contains_key(&name) {
                continue;
            }
            let saved = self.shared.found.borrow().get(&name).cloned();
            let (publisher, inputs) = (Arc::clone(&self.shared), (self.settings.subscribe(), reports.clone()));
            let task = ClusterTask::new(name.clone(), Arc::clone(&api), publisher, inputs, saved);
            let reads = tokio::spawn(task.run()).abort_handle();
            let events = api.events.then(|| Events::start(name.clone(), Arc::clone(&api)));
            tasks.insert(name, Task { api, reads, events });
        }
    }

    /// Writes Events about these contributions, which are not in the answers, and about held names to their clusters, if these have `events`.
    /// `found` is what they were read from.
    pub fn report<'a>(&self, found: &Found, refused: impl Iterator<Item = &'a ContributionProblem>) {
        let tasks = self.tasks();
        let with_events = || tasks.iter().filter_map(|(name, task)| Some((name, task.events.as_ref()?)));
        let mut refusals: BTreeMap<&str, (&FoundCluster, Refusals)> = with_events()
            .filter_map(|(name, _)| Some((name.as_str(), (&**found.get(name)?, Refusals::default()))))
            .collect();
        if refusals.is_empty() {
            return;
        }
        for problem in refused {
            let cluster = problem.owner.strip_prefix("kubernetes:").and_then(|owner| owner.split_once('/'));
            let Some((found, of_cluster)) = cluster.and_then(|(cluster, _)| refusals.get_mut(cluster)) else {
                continue;
            };
            found.objects_of(problem).for_each(|object| of_cluster.add(object, problem));
        }
        for (cluster, (found, of_cluster)) in &mut refusals {
            for (owner, held) in &*found.held {
                namespace_of(owner, cluster)
                    .into_iter()
                    .for_each(|namespace| of_cluster.add_held(namespace, held.note(owner)));
            }
        }
        for (name, events) in with_events() {
            events.set(refusals.remove(name.as_str()).map(|(_, refusals)| refusals).unwrap_or_default());
        }
    }

    /// Sets the source of the health of targets. Until then, no target counts as down.
    pub fn set_health(&self, health: Arc<dyn TargetHealth>) {
        // Called once, when queries are answered.
        let _ = self.shared.health.set(health);
    }

    /// Releases the withdrawals of an owner, `kubernetes:CLUSTER/NAMESPACE`, that are held, and waits until they are. Returns the number of
    /// names.
    pub async fn confirm(&self, owner: &str) -> usize {
        let count = |found: &Found| {
            let held = found.values().filter_map(|cluster| cluster.held.get(owner));
            held.map(|held| held.names).sum::<usize>()
        };
        let mut found = self.found();
        let names = count(&found.borrow_and_update());
        if names > 0 {
            self.shared.confirmed().insert(owner.into());
            // Later than that, the task of the cluster waits for an API server, and releases them afterwards.
            let _ = timeout(CONFIRM_MAX, found.wait_for(|found| count(found) == 0)).await;
        }
        names
    }

    fn tasks(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what was found, with every change.
    pub fn found(&self) -> watch::Receiver<Found> {
        self.shared.found.subscribe()
    }

    /// Waits until each cluster was read once, or has been read by the last process, for at most this time. Returns false if there is no
    /// cluster.
    pub async fn first_read(&self, limit: Duration) -> bool {
        let wanted: BTreeSet<ClusterName> = self.tasks().keys().cloned().collect();
        let known: BTreeSet<ClusterName> = self.shared.found.borrow().keys().cloned().collect();
        let mut read = self.shared.read.subscribe();
        let all = read.wait_for(|read| wanted.iter().all(|name| read.contains(name) || known.contains(name)));
        // Those that take longer follow while the server answers.
        let _ = timeout(limit, all).await;
        !wanted.is_empty()
    }

    /// Returns the status of each cluster.
    pub fn statuses(&self) -> BTreeMap<ClusterName, SourceStatus> {
        let mut statuses = self.shared.statuses().clone();
        for (name, task) in &*self.tasks() {
            let problem = task.events.as_ref().and_then(Events::problem);
            if let Some((status, problem)) = statuses.get_mut(name).zip(problem) {
                status.problems.insert(0, problem);
            }
        }
        statuses
    }

    /// Returns the content of `kubernetes.json` for the next process.
    pub fn saved(&self) -> Vec<u8> {
        let found = self.shared.found.borrow().clone();
        saved_wire::encode(&found)
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        tasks.values().for_each(|task| task.reads.abort());
    }
}

impl Shared {
    fn statuses(&self) -> MutexGuard<'_, BTreeMap<ClusterName, SourceStatus>> {
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn confirmed(&self) -> MutexGuard<'_, BTreeSet<Arc<str>>> {
        self.confirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes clusters that are no longer read.
    fn forget_others(&self, wanted: &BTreeMap<ClusterName, Arc<KubernetesApi>>) {
        self.statuses().retain(|name, _| wanted.contains_key(name));
        self.found.send_if_modified(|found| {
            let before = found.len();
            found.retain(|name, _| wanted.contains_key(name));
            found.len() < before
        });
    }
}

impl Publish for Shared {
    fn found(&self, cluster: &ClusterName, found: Arc<FoundCluster>) {
        self.found.send_if_modified(|all| {
            let is_changed = all.get(cluster) != Some(&found);
            if is_changed {
                all.insert(cluster.clone(), found);
            }
            is_changed
        });
        self.read.send_if_modified(|read| read.insert(cluster.clone()));
    }

    fn status(&self, cluster: &ClusterName, status: SourceStatus) {
        self.statuses().insert(cluster.clone(), status);
    }

    fn health(&self) -> Arc<dyn TargetHealth> {
        self.health.get().map_or_else(|| Arc::new(UnknownHealth) as Arc<dyn TargetHealth>, Arc::clone)
    }

    fn take_confirmed(&self, cluster: &ClusterName) -> BTreeSet<Arc<str>> {
        let is_of_it = |owner: &Arc<str>| namespace_of(owner, cluster.as_str()).is_some();
        self.confirmed().extract_if(.., is_of_it).collect()
    }
}

/// Returns the namespace of an owner in a cluster.
fn namespace_of<'a>(owner: &'a str, cluster: &str) -> Option<&'a str> {
    owner.strip_prefix("kubernetes:")?.strip_prefix(cluster)?.strip_prefix('/')
}

/// Time within which a confirmed withdrawal is released: the task of the cluster looks once a second.
const CONFIRM_MAX: Duration = Duration::from_secs(5);
