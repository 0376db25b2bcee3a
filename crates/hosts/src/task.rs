//! The task that looks up names when they are due.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use fairway_model::{HostAddresses, Name, SharedMap, Timestamp};
use tokio::{
    sync::{Notify, watch},
    task::{JoinHandle, JoinSet},
    time::{sleep_until, timeout},
};

use crate::{
    resolver::{Resolver, ResolverSettings},
    table::{Host, HostTable, Lookup, SavedHost},
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
    names: Arc<BTreeSet<Name>>,
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

    /// Looks up these names from now on, and forgets others.
    pub fn follow(&self, names: BTreeSet<Name>, settings: &ResolverSettings) {
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

    /// Waits until each name was looked up once, for at most this time. Returns false if there is no name.
    pub async fn first_look_up(&self, limit: Duration) -> bool {
        let wanted = Arc::clone(&self.wanted.borrow().names);
        let is_open = || {
            let known = self.known();
            let is_known =
                |name| known.get(name).is_some_and(|host| host.resolved_at.is_some() || host.failure.is_some());
            !wanted.iter().all(is_known)
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

    /// Publishes the addresses after a change of the table.
    fn publish(&self) {
        let addresses = self.table().addresses().clone();
        self.addresses.send_replace(addresses);
    }
}

struct Task {
    shared: Arc<Shared>,
    changes: watch::Receiver<Wanted>,
    wanted: Wanted,
    resolver: Resolver,
    /// Time since which the resolver is used.
    built: Instant,
    running: JoinSet<(Name, Lookup)>,
}

impl Task {
    fn new(shared: Arc<Shared>, changes: watch::Receiver<Wanted>) -> Self {
        let wanted = Wanted::default();
        let resolver = Resolver::new(&wanted.settings.servers);
        Self { shared, changes, wanted, resolver, built: Instant::now(), running: JoinSet::new() }
    }

    async fn run(mut self) {
        loop {
            self.begin_due();
            let is_full = self.running.len() >= CONCURRENT_MAX;
            let next = self.shared.table().next_due().filter(|_| !is_full);
            let due = async move {
                match next {
                    Some(next) => sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(Ok((name, lookup))) = self.running.join_next() => self.finish(&name, lookup),
                changed = self.changes.changed() => match changed {
                    Ok(()) => self.follow(),
                    Err(_) => return,
                },
                () = due => {}
            }
        }
    }

    fn begin_due(&mut self) {
        while self.running.len() < CONCURRENT_MAX {
            let Some(name) = self.shared.table().begin(Instant::now()) else { return };
            let resolver = self.resolver.clone();
            self.running.spawn(async move {
                let lookup = resolver.look_up(&name).await;
                (name, lookup)
            });
        }
    }

    fn follow(&mut self) {
        let wanted = self.changes.borrow_and_update().clone();
        if wanted.settings.servers != self.wanted.settings.servers {
            self.rebuild(&wanted.settings);
        }
        let had_addresses = self.shared.table().follow(&wanted.names, Instant::now());
        self.wanted = wanted;
        if had_addresses {
            self.shared.publish();
        }
    }

    fn finish(&mut self, name: &Name, lookup: Lookup) {
        let keep_for = self.wanted.settings.keep_for;
        let now = (Instant::now(), Timestamp::from(SystemTime::now()));
        tracing::debug!(host = %name, ttl_ms = lookup.ttl.as_millis(), answers = ?lookup.answers, "host name looked up");
        let mut table = self.shared.table();
        let before = table.hosts().get(name).map(Arc::clone).unwrap_or_default();
        let is_changed = table.finish(name, lookup, keep_for, now);
        let host = table.hosts().get(name).map(Arc::clone).unwrap_or_default();
        let is_one_of_few = table.failing() <= FAILING_LOGGED_MAX;
        drop(table);
        log(name, &before, &host, is_one_of_few);
        if is_changed {
            self.shared.publish();
        }
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
/// Time after which the system's configuration of resolvers is read again, if look-ups fail.
const REREAD_AFTER: Duration = Duration::from_secs(30);
/// Names that fail at the same time and have log lines.
const FAILING_LOGGED_MAX: usize = 20;
