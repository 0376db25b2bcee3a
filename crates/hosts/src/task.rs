//! The task that looks up names when they are due.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use fairway_model::{Cluster, ClusterName, HostAddresses, Name, SharedMap, Timestamp};
use tokio::{
    sync::{Notify, watch},
    task::{Id, JoinError, JoinHandle, JoinSet},
    time::{sleep_until, timeout},
};

use crate::{
    resolver::{Resolver, ResolverSettings},
    table::{Answer, Host, HostTable, Lookup, SavedHost},
};

/// Addresses of host names, kept up to date until it is dropped.
#[derive(Debug)]
pub struct Hosts {
    shared: Arc<Shared>,
    wanted: watch::Sender<Wanted>,
    task: JoinHandle<()>,
}

/// Names that the task looks up, and settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    /// Each with true if the files declare it.
    names: Arc<BTreeMap<Name, bool>>,
    settings: ResolverSettings,
}

#[derive(Debug)]
struct Shared {
    table: Mutex<HostTable>,
    addresses: watch::Sender<HostAddresses>,
    /// Notified after each look-up.
    looked_up: Notify,
}

impl Hosts {
    /// Starts without a name to look up. `saved` are used until they are looked up.
    pub fn start(saved: Vec<SavedHost>) -> Self {
        let table = HostTable::new(saved);
        let addresses = watch::Sender::new(table.addresses().clone());
        let shared = Arc::new(Shared { table: Mutex::new(table), addresses, looked_up: Notify::new() });
        let (wanted, changes) = watch::channel(Wanted::default());
        let task = tokio::spawn(Task::new(Arc::clone(&shared), changes).run());
        Self { shared, wanted, task }
    }

    /// Looks up the host names of these clusters from now on, and forgets others. `is_own` returns true for clusters of the files: a name of
    /// these stays the operator's, even if a tenant has it as well.
    pub fn follow_clusters<'a>(
        &self,
        clusters: impl Iterator<Item = &'a Cluster>,
        is_own: impl Fn(&ClusterName) -> bool,
        settings: &ResolverSettings,
    ) {
        let mut names: BTreeMap<Name, bool> = BTreeMap::new();
        for cluster in clusters.filter(|cluster| !cluster.hosts.is_empty()) {
            let is_own = is_own(&cluster.name);
            cluster.hosts.iter().for_each(|host| *names.entry(host.name.clone()).or_default() |= is_own);
        }
        self.wanted.send_if_modified(|wanted| {
            let is_changed = *wanted.names != names || wanted.settings != *settings;
            if is_changed {
                *wanted = Wanted { names: Arc::new(names), settings: settings.clone() };
            }
            is_changed
        });
    }

    /// Returns the addresses of all names that have some, with every change.
    pub fn addresses(&self) -> watch::Receiver<HostAddresses> {
        self.shared.addresses.subscribe()
    }

    /// Waits until each name was looked up once, or has addresses of the last process, for at most this time. Returns false if there is no
    /// name.
    pub async fn first_look_up(&self, limit: Duration) -> bool {
        let wanted = Arc::clone(&self.wanted.borrow().names);
        let is_open = || {
            let known = self.known();
            let is_known =
                |name| known.get(name).is_some_and(|host| host.resolved_at.is_some() || host.failure.is_some());
            !wanted.keys().all(is_known)
        };
        let all = async {
            loop {
                let next = self.shared.looked_up.notified();
                if !is_open() {
                    return;
                }
                next.await;
            }
        };
        // Those that take longer follow while the server answers.
        let _ = timeout(limit, all).await;
        self.shared.publish();
        !wanted.is_empty()
    }

    /// Returns what is known of each name that is looked up.
    pub fn known(&self) -> SharedMap<Name, Arc<Host>> {
        self.shared.table().hosts().clone()
    }

    /// Returns what the next process should know.
    pub fn saved(&self) -> Vec<SavedHost> {
        let known = self.known();
        let saved = known.iter().filter(|(_, host)| !host.addresses.is_empty()).filter_map(|(name, host)| {
            Some(SavedHost { name: name.clone(), addresses: host.addresses.to_vec(), resolved_at: host.resolved_at? })
        });
        saved.collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, HostTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the addresses, if they changed.
    fn publish(&self) {
        let addresses = self.table().addresses().clone();
        self.addresses.send_if_modified(|published| {
            let is_changed = *published != addresses;
            *published = addresses;
            is_changed
        });
    }
}

struct Task {
    shared: Arc<Shared>,
    changes: watch::Receiver<Wanted>,
    wanted: Wanted,
    resolver: Resolver,
    /// Time since which the resolver is used.
    built: Instant,
    running: JoinSet<Lookup>,
    /// The name of each, and true if the files declare it.
    names: HashMap<Id, (Name, bool)>,
    /// Number of names of tenants among them.
    running_of_tenants: usize,
    /// True if addresses changed that are not published yet.
    unpublished: bool,
    /// Time of the last publication.
    published: Instant,
}

impl Task {
    fn new(shared: Arc<Shared>, changes: watch::Receiver<Wanted>) -> Self {
        let wanted = Wanted::default();
        let resolver = Resolver::new(&wanted.settings.servers);
        let (running, now) = (JoinSet::new(), Instant::now());
        let published = now.checked_sub(PUBLISHED_EVERY).unwrap_or(now);
        Self {
            shared,
            changes,
            wanted,
            resolver,
            built: now,
            running,
            names: HashMap::new(),
            running_of_tenants: 0,
            unpublished: false,
            published,
        }
    }

    async fn run(mut self) {
        loop {
            self.begin_due();
            let is_full = self.running.len() >= CONCURRENT_MAX;
            let next = self.shared.table().next_due(self.running_of_tenants < OF_TENANTS_MAX).filter(|_| !is_full);
            let publication = self.unpublished.then_some(self.published + PUBLISHED_EVERY);
            let due = async move {
                match next.into_iter().chain(publication).min() {
                    Some(next) => sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(ended) = self.running.join_next_with_id() => self.end(ended),
                changed = self.changes.changed() => match changed {
                    Ok(()) => self.follow(),
                    Err(_) => return,
                },
                () = due => {}
            }
            if self.unpublished && self.published.elapsed() >= PUBLISHED_EVERY {
                self.shared.publish();
                (self.unpublished, self.published) = (false, Instant::now());
            }
        }
    }

    /// Takes a look-up that ended, also by a panic.
    fn end(&mut self, ended: Result<(Id, Lookup), JoinError>) {
        let (id, lookup) = ended.unwrap_or_else(|error| {
            let failed = || Answer::Failed("the look-up ended early".to_owned());
            (error.id(), Lookup { answers: [failed(), failed()], ttl: Duration::ZERO })
        });
        if let Some((name, is_own)) = self.names.remove(&id) {
            self.running_of_tenants -= usize::from(!is_own);
            self.finish(&name, is_own, lookup);
        }
    }

    fn begin_due(&mut self) {
        while self.running.len() < CONCURRENT_MAX {
            let with_tenants = self.running_of_tenants < OF_TENANTS_MAX;
            let Some((name, is_own)) = self.shared.table().begin(Instant::now(), with_tenants) else { return };
            self.running_of_tenants += usize::from(!is_own);
            let resolver = self.resolver.clone();
            let look_up = {
                let name = name.clone();
                async move { resolver.look_up(&name).await }
            };
            let id = self.running.spawn(look_up).id();
            self.names.insert(id, (name, is_own));
        }
    }

    fn follow(&mut self) {
        let wanted = self.changes.borrow_and_update().clone();
        if wanted.settings.servers != self.wanted.settings.servers {
            self.rebuild(&wanted.settings);
        }
        let had_addresses = self.shared.table().follow(&wanted.names, Instant::now());
        self.wanted = wanted;
        self.unpublished |= had_addresses;
    }

    fn finish(&mut self, name: &Name, is_own: bool, lookup: Lookup) {
        let keep_for = self.wanted.settings.keep_for;
        let now = (Instant::now(), Timestamp::from(SystemTime::now()));
        tracing::debug!(host = %name, ttl_ms = lookup.ttl.as_millis(), answers = ?lookup.answers, "host name looked up");
        let mut table = self.shared.table();
        let before = table.hosts().get(name).map(Arc::clone).unwrap_or_default();
        let is_changed = table.finish(name, lookup, keep_for, now);
        let host = table.hosts().get(name).map(Arc::clone).unwrap_or_default();
        let is_one_of_few = table.failing() <= FAILING_LOGGED_MAX;
        drop(table);
        // Those of tenants could fill the log.
        if is_own {
            log(name, &before, &host, is_one_of_few);
        }
        self.unpublished |= is_changed;
        self.shared.looked_up.notify_waiters();
        // The system's resolvers may have changed since the configuration of the system was read.
        if host.failure.is_some() && self.wanted.settings.servers.is_empty() && self.built.elapsed() > REREAD_AFTER {
            let settings = self.wanted.settings.clone();
            self.rebuild(&settings);
        }
    }

    fn rebuild(&mut self, settings: &ResolverSettings) {
        self.resolver = Resolver::new(&settings.servers);
        self.built = Instant::now();
    }
}

/// Logs what changed. If many names fail at once, the resolver does, and a line for each would say no more than the first ones.
fn log(name: &Name, before: &Host, host: &Host, is_one_of_few: bool) {
    let texts = |host: &Host| host.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    if before.addresses != host.addresses {
        tracing::info!(host = %name, addresses = texts(host), before = texts(before), "addresses of a host name changed");
    }
    match (&before.failure, &host.failure) {
        (None, Some(why)) if is_one_of_few => {
            let kept = host.addresses.len();
            tracing::warn!(host = %name, why, kept, "host name cannot be resolved; its last good addresses stay");
        }
        (Some(_), None) if is_one_of_few => tracing::info!(host = %name, "host name is resolved again"),
        _ => {}
    }
}

/// Maximum number of look-ups at once.
const CONCURRENT_MAX: usize = 64;
/// Maximum number of those of names of tenants, whose authoritative servers may be slow on purpose.
const OF_TENANTS_MAX: usize = 48;
/// Shortest time between two publications of changes. Each causes a reload, and names of tenants may change with each look-up.
const PUBLISHED_EVERY: Duration = Duration::from_millis(100);
/// Time after which the system's configuration of resolvers is read again, if look-ups fail.
const REREAD_AFTER: Duration = Duration::from_secs(30);
/// Names that fail at the same time and have log lines.
const FAILING_LOGGED_MAX: usize = 20;
