//! The way to command the control task, from the API, signals and the demo.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use fairway_health::HealthTransition;
use fairway_model::{Cause, ClusterName, Name, Network, Override, PoolName, Rtype, SharedSet, Target};
use fairway_zones::{Explained, ServingState, TargetIndex};
use tokio::sync::{broadcast, mpsc, oneshot};

use super::{
    command::{Command, Trigger},
    configured::What,
    shared::{Readiness, Shared},
    status,
};
use fairway_api_types::state_wire::{OverrideState, ReloadReport, State};

/// A handle of the control task; clones command the same one.
#[derive(Clone, Debug)]
pub struct Control {
    /// What the control task publishes.
    pub shared: Arc<Shared>,
    /// Commands to the control task.
    pub commands: mpsc::Sender<Command>,
}

/// A flip that is in the answers now.
#[derive(Clone, Debug)]
pub struct AppliedTransition {
    /// The change of verdict.
    pub transition: HealthTransition,
    /// Clusters judged by the target.
    pub clusters: Vec<ClusterName>,
    /// Pools judged by it, in order: a hundred thousand where a gateway carries that many. Shared with the configuration in force.
    pub pools: SharedSet<PoolName>,
    /// When the answers began to follow it.
    pub applied: SystemTime,
}

/// An answer with everything that led to it, and why targets are down.
#[derive(Debug)]
pub struct ExplainedNow {
    /// The answer, and each step towards it.
    pub explained: Explained,
    view: Arc<ServingState>,
    causes: HashMap<Target, Cause>,
}

impl ExplainedNow {
    /// Returns why a target's last probe failed; `None` if it passed or none has completed.
    pub fn cause(&self, number: TargetIndex) -> Option<String> {
        let target = self.view.snapshot.targets().get(number.0 as usize)?;
        self.causes.get(target).map(ToString::to_string)
    }
}

/// Why a daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopping {
    /// SIGTERM or SIGINT.
    Signal,
    /// `POST /v1/stop`, or [`Control::stop`].
    Command,
}

impl Stopping {
    /// One word for the log.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Command => "command",
        }
    }
}

impl Control {
    /// Reads the configuration anew and waits for what becomes of it.
    pub async fn reload(&self) -> Result<ReloadReport, ControlError> {
        self.ask(|reply| Command::Reload { what: What::Files, asked_by: Trigger::Command, reply: Some(reply) }).await
    }

    /// Adds an override; returns once it is in force and on disk.
    pub async fn add_override(&self, new: Override) -> Result<OverrideState, ControlError> {
        self.ask(|reply| Command::AddOverride(new, None, reply)).await?
    }

    /// The same for a request that may be sent again: the override has this id, `KEY-REQUEST`. With one of the key in force, nothing is added.
    pub async fn add_override_once(&self, new: Override, id: String) -> Result<OverrideState, ControlError> {
        self.ask(|reply| Command::AddOverride(new, Some(id), reply)).await?
    }

    /// Removes an override that was added by command; returns once it is gone.
    pub async fn remove_override(&self, id: &str) -> Result<OverrideState, ControlError> {
        self.ask(|reply| Command::RemoveOverride(id.to_owned(), reply)).await?
    }

    /// Everything there is to show. The control task is not asked: it may be busy.
    pub async fn state(&self) -> Result<State, ControlError> {
        let serving = self.shared.serving.load();
        let states = self.shared.checker.states().await;
        let (loads, _) = self.shared.loads.states().await;
        let shared = Arc::clone(&self.shared);
        // 10,000 targets with their history take some milliseconds to write out.
        let render = move || status::render(&shared, &serving.serving, &serving.published, &states, &loads);
        tokio::task::spawn_blocking(render).await.map_err(|_| ControlError::Stopped)
    }

    /// Every flip from now on, once the answers follow it. A reader more than 1024 flips behind loses the oldest.
    pub fn transitions(&self) -> broadcast::Receiver<AppliedTransition> {
        self.shared.transitions.subscribe()
    }

    /// Asks the daemon to drain and end.
    pub fn stop(&self) {
        self.stop_for(Stopping::Command);
    }

    /// Asks the daemon to drain and end; of several reasons the first counts.
    pub fn stop_for(&self, why: Stopping) {
        self.shared.stopping.send_if_modified(|asked| asked.is_none() && asked.replace(why).is_none());
    }

    /// Plays one query against what is served now, and tells how its answer came about.
    pub async fn explain(
        &self,
        name: &Name,
        rtype: Rtype,
        client: Option<Network>,
    ) -> Result<ExplainedNow, ControlError> {
        let states = self.shared.checker.states().await;
        let causes: HashMap<_, _> = states.into_iter().filter_map(|s| Some((s.target, s.last_cause?))).collect();
        let view = self.shared.serving.load();
        let name = name.clone();
        let explain = move || {
            let explained = fairway_zones::explain(&view, &name, rtype, client);
            ExplainedNow { explained, view: Arc::new(view.serving.clone()), causes }
        };
        tokio::task::spawn_blocking(explain).await.map_err(|_| ControlError::Stopped)
    }

    /// Whether to be asked.
    pub fn readiness(&self) -> Readiness {
        *self.shared.readiness.borrow()
    }

    /// Whether the control task runs.
    pub fn is_running(&self) -> bool {
        !self.commands.is_closed()
    }

    /// What the control task publishes.
    pub const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Waits until every flip so far is in the answers.
    pub async fn settle(&self) {
        // A task that has ended changes no answer any more.
        let _ = self.ask(Command::Settle).await;
    }

    /// Asks for a reload without waiting for it.
    pub async fn ask_reload(&self, what: What, asked_by: Trigger) {
        // A task that has ended needs no new configuration.
        let _ = self.commands.send(Command::Reload { what, asked_by, reply: None }).await;
    }

    pub(crate) async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, ControlError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| ControlError::Stopped)?;
        answer.await.map_err(|_| ControlError::Stopped)
    }
}

/// Why a command is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The control task has ended.
    #[error("fairway is stopping; ask again when it runs")]
    Stopped,
    /// A load that was pushed contradicts what is known.
    #[error("{0}")]
    LoadRefused(String),
    /// No cluster has this name.
    #[error("{0}")]
    NoSuchCluster(String),
    /// No table of latencies has this name.
    #[error("no table of latencies is called {0}; declare it in `latencies`, with a name and no file")]
    NoSuchTable(String),
    /// A table of latencies is read from a file.
    #[error("table {0} is read from its file; take `file` out of the configuration to push it here")]
    TableOfFile(String),
    /// A table that was pushed is at fault.
    #[error("latency table rejected, the previous one stays in use: {}", told(.0))]
    TableFaulty(Vec<String>),
    /// The configuration with a table that was pushed was refused.
    #[error("latency table rejected, the previous one stays in use; the configuration with it was rejected: {}", told(.0))]
    TableRefused(Vec<String>),
    /// A table that was pushed could not be made to last, so it is not in force.
    #[error("the table could not be written to the data folder, so it is not in force: {0}")]
    TableNotKept(String),
    /// There is no store to keep objects in.
    #[error("objects cannot be kept: {0}")]
    NoStore(String),
    /// An override of another request with the same key is in force.
    #[error("this Idempotency-Key was used with another request; give each request a key of its own")]
    KeyOfAnother,
    /// No override has this id.
    #[error("no override has the id {0}; `fairway status` lists them")]
    NoSuchOverride(String),
    /// The book is full.
    #[error("there are {} overrides already, the most; remove one first", super::book::OVERRIDES_MAX)]
    TooManyOverrides,
    /// It could not be made to last, so it is not in force.
    #[error("the override could not be written to the data folder, so it is not in force: {0}")]
    NotKept(String),
}

/// The first few of all faults.
fn told(faults: &[String]) -> String {
    let shown = faults.iter().take(FAULTS_TOLD).map(String::as_str).collect::<Vec<_>>().join("; ");
    let more = faults.len().saturating_sub(FAULTS_TOLD);
    if more > 0 { format!("{shown}; and {more} more") } else { shown }
}

/// Faults that one answer names.
const FAULTS_TOLD: usize = 10;
