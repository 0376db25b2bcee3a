//! Publishing: carries what is served across to the publishers, a task each.
//!
//! It looks at what is served twice a second; what does not change what is published costs a comparison of pointers. Publishers follow
//! the configuration and the records of where to publish: one whose section or record changed begins anew, the others go on.

mod declared;
mod members;
mod wanted;
mod weights;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use fairway_http::{Tls, Url};
use fairway_model::Secret;
use fairway_providers::{
    PowerDns,
    dnsendpoint::DnsEndpoints,
    etcd::Etcd,
    file::ZoneFile,
    http::Api,
    publish::{Notes, Provider, Publisher, Setup, Wanted},
    rfc2136::Rfc2136,
    webhook::Webhook,
};
use tokio::{sync::watch, task::JoinHandle, time::MissedTickBehavior};

pub use self::declared::{DECLARED_MAX, asked};
use self::{wanted::Served, weights::Shown};
use super::shared::{Readiness, Shared};
use fairway_config::{Destination, PublishTo};
use fairway_intents::instance;

/// A publisher with its task, which ends when this is dropped.
struct Running {
    to: PublishTo,
    publisher: Publisher,
    wishes: watch::Sender<Option<Arc<Wanted>>>,
    task: JoinHandle<()>,
    shown: Arc<Mutex<Shown>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    fn start(to: &PublishTo, data_dir: Option<PathBuf>) -> Self {
        let (wishes, wishes_in) = watch::channel(None);
        let PublishTo { name, rules, pacing, auto, .. } = to.clone();
        let notes = data_dir.map_or_else(Notes::default, |folder| Notes::at(notes_at(&folder, &name)));
        let setup = Setup { name, rules, pacing, auto };
        let (publisher, task) = Publisher::new(setup, provider(to), wishes_in, notes);
        Self { to: to.clone(), publisher, wishes, task: tokio::spawn(task), shown: Arc::default() }
    }
}

/// The file for notes of a publisher. Those of records have a slash in their names, and a folder for themselves: no other file is called so.
fn notes_at(folder: &Path, name: &str) -> PathBuf {
    let folder = folder.join("publish");
    let folder = if name.contains('/') { folder.join("declared") } else { folder };
    folder.join(format!("{name}.json"))
}

fn provider(to: &PublishTo) -> Box<dyn Provider> {
    match &to.destination {
        Destination::Rfc2136 { server, key, timeout } => {
            Box::new(Rfc2136 { server: *server, zones: to.rules.zones.clone(), key: key.clone(), timeout: *timeout })
        }
        Destination::PowerDns { url, key, timeout } => Box::new(PowerDns {
            api: api(url, &Tls::default(), Some(("x-api-key", key.clone())), *timeout),
            zones: to.rules.zones.clone(),
            timeout: *timeout,
        }),
        Destination::Etcd { prefix, etcd } => Box::new(Etcd::new(etcd.clone(), prefix.clone(), to.rules.zones.clone())),
        Destination::Webhook { url, authorization, tls, weights, timeout } => Box::new(Webhook {
            api: api(url, tls, authorization.clone().map(|token| ("authorization", token)), *timeout),
            zones: to.rules.zones.clone(),
            weights: *weights,
            timeout: *timeout,
        }),
        Destination::DnsEndpoints { folder, namespace, weights } => Box::new(DnsEndpoints {
            folder: folder.clone(),
            // The name of a record's publisher is no label.
            name: if to.name.contains('/') { instance(&to.name) } else { to.name.clone() },
            namespace: namespace.clone(),
            weights: *weights,
        }),
        Destination::File(path) => Box::new(ZoneFile { path: path.clone() }),
    }
}

fn api(url: &Url, tls: &Tls, secret: Option<(&'static str, Secret)>, timeout: Duration) -> Api {
    Api::new(url.clone(), tls.clone(), secret, timeout)
}

/// Follows what is served, and what is to be published of it, until the daemon stops. Nothing is published before the first round of
/// probes is done: until then nobody knows who is up.
pub async fn follow(shared: Arc<Shared>) {
    let (mut running, mut places): (Vec<Running>, Vec<PublishTo>) = (Vec::new(), Vec::new());
    let mut seen = (0, 0);
    let mut again = None;
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if *shared.readiness.borrow() != Readiness::Ready {
            continue;
        }
        let serving = shared.serving.load();
        let published = Arc::clone(&serving.published);
        // What was seen may be freed and its place be taken; the id of a view is in its conditions, and a generation counts.
        let now = (serving.runtime.id(), published.generation);
        let is_due = again.is_some_and(|at| Instant::now() >= at);
        if now == seen && !is_due {
            continue;
        }
        if now.1 != seen.1 {
            places = declared::places(&published.configured);
        }
        seen = now;
        if !running.iter().map(|one| &one.to).eq(&places) {
            running = restarted(running, &places, published.configured.settings.data_dir.clone());
            let publishers = running.iter().map(|one| one.publisher.clone()).collect();
            shared.publishers.store(Arc::new(publishers));
        }
        if running.is_empty() {
            continue;
        }
        let one = |one: &Running| (one.to.clone(), one.publisher.limits().weights, Arc::clone(&one.shown));
        let all_places: Vec<_> = running.iter().map(one).collect();
        // Of a million names this takes a while: not on a thread that others wait for.
        let all = move || {
            let wish = |(to, weights, shown): &(PublishTo, _, Arc<Mutex<Shown>>)| {
                let (configured, view) = (&*published.configured, &serving.serving);
                let served = Served { configured, view, weights: *weights, now: Instant::now() };
                let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
                (wanted::wanted(to, served, &mut shown), shown.end_round())
            };
            all_places.iter().map(wish).collect::<Vec<_>>()
        };
        let Ok(all) = tokio::task::spawn_blocking(all).await else { continue };
        // A weight that waits for its time is looked at again though nothing changes.
        again = all.iter().any(|(_, waits)| *waits).then(|| Instant::now() + LOOK_AGAIN);
        for (one, (wanted, _)) in running.iter().zip(all) {
            one.wishes.send_if_modified(|wish| {
                let is_new = wish.as_deref() != Some(&wanted);
                if is_new {
                    *wish = Some(Arc::new(wanted));
                }
                is_new
            });
        }
    }
}

/// Those that are wanted: whoever is as it was goes on.
fn restarted(running: Vec<Running>, wanted: &[PublishTo], data_dir: Option<PathBuf>) -> Vec<Running> {
    let mut left = running;
    let mut next = Vec::with_capacity(wanted.len());
    for to in wanted {
        let place = left.iter().position(|one| one.to == *to);
        next.push(place.map_or_else(|| Running::start(to, data_dir.clone()), |place| left.swap_remove(place)));
    }
    next
}

/// How often it is looked at what is served.
const LOOK: Duration = Duration::from_millis(500);
/// How soon it is looked again at weights that wait.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
