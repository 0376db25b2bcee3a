//! The leader election of the servers that publish to one namespace: reads and writes the Lease, until it is stopped.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use fairway_providers::{
    dnsendpoint::Objects,
    publish::{Leadership, ProviderError},
};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff,
};
use kube::{Api, api::PostParams};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::lease::{Candidate, Observed, Step};
use crate::connection::{CONFLICT, Connection, Failure, Right};

/// Handle of an election. Dropping it releases the Lease.
pub(super) struct Election {
    shared: Arc<Shared>,
    /// Stops the task; `None` after that.
    task: tokio::sync::Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

struct Shared {
    leadership: watch::Sender<Leadership>,
    /// Time until which this server may begin to write.
    leads_until: Mutex<Option<Instant>>,
}

impl Election {
    /// Takes part in the election of the publisher of these objects, as `identity`.
    pub(super) fn start(connection: Arc<Connection>, objects: &Objects, identity: String) -> Self {
        let shared = Arc::new(Shared { leadership: watch::Sender::default(), leads_until: Mutex::default() });
        let (stop, stopped) = oneshot::channel();
        let task = Task {
            connection,
            namespace: objects.namespace.clone(),
            name: objects.prefix(),
            labels: objects.clone(),
            candidate: Candidate::new(identity),
            shared: Arc::clone(&shared),
            held: None,
            succeeded: None,
        };
        let task = tokio::spawn(task.run(stopped));
        Self { shared, task: tokio::sync::Mutex::new(Some((stop, task))) }
    }

    pub(super) fn leadership(&self) -> watch::Receiver<Leadership> {
        self.shared.leadership.subscribe()
    }

    /// Fails unless a write that begins now, and ends within [`WRITE_MAX`], ends before another server may lead.
    pub(super) fn check(&self) -> Result<(), ProviderError> {
        if self.shared.leads() {
            return Ok(());
        }
        match &*self.shared.leadership.borrow() {
            Leadership::Standby(leader) => Err(ProviderError::Standby(leader.clone())),
            Leadership::Failing(why) => Err(ProviderError::Unavailable(why.clone())),
            Leadership::Leader | Leadership::Pending => {
                Err(ProviderError::Unavailable("the Lease was not renewed in time".to_owned()))
            }
        }
    }

    /// Releases the Lease, and waits until that is done.
    pub(super) async fn end(&self) {
        if let Some((stop, task)) = self.task.lock().await.take() {
            drop(stop);
            // A failed task holds no Lease that it would renew.
            let _ = task.await;
        }
    }
}

impl Shared {
    fn leads(&self) -> bool {
        let until = self.leads_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn set(&self, leads_until: Option<Instant>, leadership: Leadership) {
        *self.leads_until.lock().unwrap_or_else(PoisonError::into_inner) = leads_until;
        self.leadership.send_if_modified(|now| {
            let is_changed = *now != leadership;
            *now = leadership;
            is_changed
        });
    }
}

struct Task {
    connection: Arc<Connection>,
    namespace: String,
    /// Name of the Lease.
    name: String,
    /// Source of its labels.
    labels: Objects,
    candidate: Candidate,
    shared: Arc<Shared>,
    /// The Lease as this server wrote it last, while it leads.
    held: Option<Lease>,
    /// Time of the last answer of the API server.
    succeeded: Option<Instant>,
}

impl Task {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            let pause = match timeout(ROUND_MAX, self.round()).await {
                Ok(Ok(pause)) => {
                    self.succeeded = Some(Instant::now());
                    pause
                }
                Ok(Err(failure)) => self.fail(failure.text),
                Err(_) => self.fail(self.connection.failure(0, "no answer about the Lease").text),
            };
            tokio::select! {
                () = sleep(pause) => {}
                // Also when the handle is dropped.
                _ = &mut stopped => break,
            }
        }
        let stopping = "this server has stopped publishing".to_owned();
        self.shared.set(None, Leadership::Standby(stopping));
        if let Some(lease) = self.held.take() {
            // If this fails, the Lease ends by itself.
            let _ = timeout(RELEASE_MAX, self.release(lease)).await;
        }
    }

    /// Reads the Lease, and writes it if this server may. Returns the pause until the next round.
    async fn round(&mut self) -> Result<Duration, Failure> {
        let leases = self.leases().await?;
        let read = leases.get_opt(&self.name);
        let lease = self.connection.answer(self.right("get"), REQUEST_MAX, read).await?;
        let now = Instant::now();
        let step = self.candidate.next(lease.as_ref().map(observed), now);
        if let Step::Wait(holder, until) = step {
            self.held = None;
            let (namespace, name, cluster) = (&self.namespace, &self.name, &self.connection.cluster);
            let leader = format!("{holder} publishes: it holds the Lease {namespace}/{name} of cluster {cluster}");
            if !matches!(&*self.shared.leadership.borrow(), Leadership::Standby(known) if *known == leader) {
                tracing::info!(event = "publishing", provider = self.labels.name, leader, "publisher became standby");
            }
            self.shared.set(None, Leadership::Standby(leader));
            return Ok(until.saturating_duration_since(now).clamp(AGAIN, RENEW_EVERY));
        }
        let written = self.write(&leases, lease, step == Step::Renew).await;
        match written {
            Ok(lease) => self.held = Some(lease),
            // Another server was faster, or somebody edited it.
            Err(Failure { code: CONFLICT, .. }) => return Ok(AGAIN),
            Err(failure) => return Err(failure),
        }
        if *self.shared.leadership.borrow() != Leadership::Leader {
            tracing::info!(
                event = "publishing",
                provider = self.labels.name,
                lease = self.name,
                "publisher became leader"
            );
        }
        self.shared.set(Some(now + LEADS_FOR), Leadership::Leader);
        Ok(RENEW_EVERY)
    }

    async fn write(&self, leases: &Api<Lease>, read: Option<Lease>, is_renewal: bool) -> Result<Lease, Failure> {
        let now = MicroTime(jiff::Timestamp::now());
        let is_new = read.is_none();
        let mut lease = read.unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(self.labels.labels()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        let spec = lease.spec.get_or_insert_default();
        if !is_renewal {
            spec.acquire_time = Some(now.clone());
            spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |count| count.saturating_add(1)));
        }
        spec.holder_identity = Some(self.candidate.identity().to_owned());
        spec.lease_duration_seconds = Some(DURATION_SECS);
        spec.renew_time = Some(now);
        self.put(leases, &lease, is_new).await
    }

    async fn release(&self, mut lease: Lease) -> Result<Lease, Failure> {
        // The version is that of the last write, so a Lease that another publisher of this process has taken over stays.
        lease.spec.get_or_insert_default().holder_identity = None;
        let leases = self.leases().await?;
        self.put(&leases, &lease, false).await
    }

    async fn put(&self, leases: &Api<Lease>, lease: &Lease, is_new: bool) -> Result<Lease, Failure> {
        let parameters = PostParams { field_manager: Some(super::FIELD_MANAGER.to_owned()), ..PostParams::default() };
        if is_new {
            let created = leases.create(&parameters, lease);
            self.connection.answer(self.right("create"), REQUEST_MAX, created).await
        } else {
            let replaced = leases.replace(&self.name, &parameters, lease);
            self.connection.answer(self.right("update"), REQUEST_MAX, replaced).await
        }
    }

    /// Publishes a failure once this server leads no longer, and the last answer is as old. Returns the pause until the next round.
    fn fail(&self, why: String) -> Duration {
        let is_known = self.succeeded.is_some_and(|at| at.elapsed() < LEADS_FOR);
        if !is_known && !self.shared.leads() {
            self.shared.set(None, Leadership::Failing(why));
        }
        AFTER_FAILURE
    }

    async fn leases(&self) -> Result<Api<Lease>, Failure> {
        Ok(Api::namespaced(self.connection.client().await?, &self.namespace))
    }

    fn right(&self, verb: &'static str) -> Right<'_> {
        Right { verb, resource: "leases", group: "coordination.k8s.io", namespace: &self.namespace }
    }
}

fn observed(lease: &Lease) -> Observed {
    let spec = lease.spec.clone().unwrap_or_default();
    let LeaseSpec { holder_identity, renew_time, lease_duration_seconds, .. } = spec;
    let duration = lease_duration_seconds.and_then(|secs| u64::try_from(secs).ok());
    Observed {
        holder: holder_identity.filter(|holder| !holder.is_empty()),
        renewed: renew_time.map_or_else(String::new, |time| time.0.to_string()),
        duration: duration.map_or(Duration::from_secs(DURATION_SECS as u64), Duration::from_secs),
    }
}

/// Duration of the Lease after a renewal: after this time without one another server takes over.
const DURATION_SECS: i32 = 15;
/// Pause between two renewals, and longest pause between two looks at the Lease of another server.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// Time after a renewal in which this server begins writes: two renewals may fail, and with [`WRITE_MAX`] the last write has ended before the
/// Lease has (10 + 4 < 15).
const LEADS_FOR: Duration = Duration::from_secs(10);
/// Longest time of a write.
pub(super) const WRITE_MAX: Duration = Duration::from_secs(4);
/// Longest time of a request about the Lease.
const REQUEST_MAX: Duration = Duration::from_secs(4);
/// Longest time of a round: connecting, and two requests.
const ROUND_MAX: Duration = Duration::from_secs(8);
/// Longest time of releasing the Lease.
const RELEASE_MAX: Duration = Duration::from_secs(2);
/// Shortest pause between two rounds.
const AGAIN: Duration = Duration::from_millis(500);
/// Pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
