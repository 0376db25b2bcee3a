//! Publishing: derives the wanted record sets of each destination from what is served. Each publisher has a task.
//!
//! The serving state is checked twice a second. A change that does not concern publishing costs a comparison of ids. Publishers follow the
//! configuration and the DNS update records: one whose section or record changed is restarted, the others go on.

mod destinations;
mod members;
mod wanted;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use fairway_config::{Destination, ObjectPlace, PublishTo};
use fairway_http::Tls;
use fairway_intents::instance;
use fairway_providers::{
    PowerDns,
    dnsendpoint::{DnsEndpoints, Objects},
    etcd::Etcd,
    file::ZoneFile,
    http::Api,
    publish::{Notes, Provider, PublishedWeights, Publisher, Setup, Wanted},
    rfc2136::Rfc2136,
    webhook::Webhook,
};
use fairway_sources::{ClusterDnsEndpoints, process_identity};
use tokio::{sync::watch, task::JoinHandle, time::MissedTickBehavior};

pub use self::destinations::{DECLARED_MAX, publisher_of};
use self::{
    destinations::{DeclaredBy, destinations},
    wanted::Sources,
};
use super::{
    lifecycle::Readiness,
    shared::{Publishers, Shared},
};

/// A publisher with its task, which ends when this is dropped.
struct Running {
    declared_by: DeclaredBy,
    to: PublishTo,
    publisher: Publisher,
    wanted: watch::Sender<Option<Arc<Wanted>>>,
    task: JoinHandle<()>,
    weights: Arc<Mutex<PublishedWeights>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    fn start(declared_by: DeclaredBy, to: &PublishTo, data_dir: Option<PathBuf>) -> Self {
        let (wanted, wanted_in) = watch::channel(None);
        let PublishTo { name, rules, pacing, auto, .. } = to.clone();
        let notes = data_dir.map_or_else(Notes::default, |folder| {
            // Notes of records have a folder of their own, so that their names are distinct from those of the configuration.
            let folder = folder.join("publish");
            let folder = match declared_by {
                DeclaredBy::Config => folder,
                DeclaredBy::Record => folder.join("declared"),
            };
            Notes::at(folder.join(format!("{name}.json")))
        });
        let setup = Setup { name, rules, pacing, auto };
        let (publisher, task) = Publisher::new(setup, provider(declared_by, to), wanted_in, notes);
        Self { declared_by, to: to.clone(), publisher, wanted, task: tokio::spawn(task), weights: Arc::default() }
    }
}

fn provider(declared_by: DeclaredBy, to: &PublishTo) -> Box<dyn Provider> {
    match &to.destination {
        Destination::Rfc2136 { server, key, timeout } => {
            Box::new(Rfc2136 { server: *server, zones: to.rules.zones.clone(), key: key.clone(), timeout: *timeout })
        }
        Destination::PowerDns { url, key, timeout } => Box::new(PowerDns {
            api: Api::new(url.clone(), Tls::default(), Some(("x-api-key", key.clone())), *timeout),
            zones: to.rules.zones.clone(),
            timeout: *timeout,
        }),
        Destination::Etcd { prefix, etcd } => Box::new(Etcd::new(etcd.clone(), prefix.clone(), to.rules.zones.clone())),
        Destination::Webhook { url, authorization, tls, weights, timeout } => Box::new(Webhook {
            api: Api::new(
                url.clone(),
                tls.clone(),
                authorization.clone().map(|token| ("authorization", token)),
                *timeout,
            ),
            zones: to.rules.zones.clone(),
            weights: *weights,
            timeout: *timeout,
        }),
        Destination::DnsEndpoints { place, namespace, weights } => {
            // The name of a record's publisher has slashes, which a Kubernetes label must not have.
            let name = match declared_by {
                DeclaredBy::Config => to.name.clone(),
                DeclaredBy::Record => instance(&to.name),
            };
            let objects = Objects { name, namespace: namespace.clone(), weights: *weights };
            match place {
                ObjectPlace::Folder(folder) => Box::new(DnsEndpoints { folder: folder.clone(), objects }),
                ObjectPlace::Cluster(name, api) => {
                    let (name, api, identity) = (name.clone(), Arc::clone(api), process_identity());
                    Box::new(ClusterDnsEndpoints::start(name, api, objects, identity))
                }
            }
        }
        Destination::File(path) => Box::new(ZoneFile { path: path.clone() }),
    }
}

/// Follows the serving state until the server stops. Nothing is published before the first round of probes is complete, since no health
/// status is known until then.
pub async fn follow(shared: Arc<Shared>) {
    let (mut running, mut all): (Vec<Running>, Vec<(DeclaredBy, PublishTo)>) = (Vec::new(), Vec::new());
    let mut seen = (0, 0);
    let mut next_check = None;
    let mut tick = tokio::time::interval(CHECK_PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if *shared.lifecycle.readiness.borrow() != Readiness::Ready {
            continue;
        }
        let current = shared.serving.load();
        let published = Arc::clone(&current.published);
        // Pointers cannot be compared: a freed state may have the same address. The id and the number are unique.
        let now = (current.runtime.id(), published.number);
        let is_due = next_check.is_some_and(|at| Instant::now() >= at);
        if now == seen && !is_due {
            continue;
        }
        if now.1 != seen.1 {
            all = destinations(&published.configured);
        }
        seen = now;
        if !running.iter().map(|one| (one.declared_by, &one.to)).eq(all.iter().map(|(by, to)| (*by, to))) {
            running = restarted(running, &all, published.configured.settings.data_dir.clone());
            shared.publishers.store(Arc::new(publishers(&running)));
        }
        if running.is_empty() {
            continue;
        }
        let one = |one: &Running| (one.to.clone(), one.publisher.limits().weights, Arc::clone(&one.weights));
        let inputs: Vec<_> = running.iter().map(one).collect();
        // A million names take a while, so this runs on a thread that may block.
        let derive = move || {
            let wanted = |(to, form, weights): &(PublishTo, _, Arc<Mutex<PublishedWeights>>)| {
                let (configured, state) = (&*published.configured, &current.serving);
                let sources = Sources { configured, state, weights: *form, now: Instant::now() };
                let mut weights = weights.lock().unwrap_or_else(PoisonError::into_inner);
                (wanted::wanted(to, sources, &mut weights), weights.end_round())
            };
            inputs.iter().map(wanted).collect::<Vec<_>>()
        };
        let Ok(derived) = tokio::task::spawn_blocking(derive).await else { continue };
        // A weight that waits for its pause is due without any other change.
        next_check = derived.iter().any(|(_, waits)| *waits).then(|| Instant::now() + WAITING_PERIOD);
        for (one, (new, _)) in running.iter().zip(derived) {
            one.wanted.send_if_modified(|wanted| {
                let is_new = wanted.as_deref() != Some(&new);
                if is_new {
                    *wanted = Some(Arc::new(new));
                }
                is_new
            });
        }
    }
}

fn publishers(running: &[Running]) -> Publishers {
    let of = |by: DeclaredBy| running.iter().filter(move |one| one.declared_by == by).map(|one| one.publisher.clone());
    Publishers { configured: of(DeclaredBy::Config).collect(), declared: of(DeclaredBy::Record).collect() }
}

/// Returns the publishers of all destinations. Those whose destination did not change go on.
fn restarted(
    running: Vec<Running>,
    destinations: &[(DeclaredBy, PublishTo)],
    data_dir: Option<PathBuf>,
) -> Vec<Running> {
    let mut left = running;
    let mut next = Vec::with_capacity(destinations.len());
    for (declared_by, to) in destinations {
        let at = left.iter().position(|one| one.to == *to && one.declared_by == *declared_by);
        next.push(match at {
            Some(at) => left.swap_remove(at),
            None => Running::start(*declared_by, to, data_dir.clone()),
        });
    }
    next
}

/// Period of checks of the serving state.
const CHECK_PERIOD: Duration = Duration::from_millis(500);
/// Period of checks while a weight waits for the end of its pause.
const WAITING_PERIOD: Duration = Duration::from_secs(5);
