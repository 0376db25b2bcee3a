//! Start, readiness and stop of the server.

use std::{
    sync::{Arc, OnceLock},
    time::{Instant, SystemTime},
};

use fairway_model::Timestamp;
use strum::IntoStaticStr;
use tokio::sync::watch;

/// Returns the time. Tests set it by hand.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Returns the clock of the system.
pub fn system_clock() -> Clock {
    Arc::new(|| SystemTime::now().into())
}

/// One moment, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// For durations.
    pub monotonic: Instant,
    /// For schedules and expiries; may be set back.
    pub wall: Timestamp,
}

/// Readiness of the server, as `/readyz` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The first round of probes is not complete.
    Starting,
    /// DNS is served.
    Ready,
    /// The server stops.
    Draining,
}

impl Readiness {
    /// Returns the reason for not being ready, or an empty text.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Starting => "the first round of probes is not complete",
            Self::Ready => "",
            Self::Draining => "fairway is stopping",
        }
    }
}

/// Reason of a stop, with the word for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Stopping {
    /// SIGTERM or SIGINT.
    Signal,
    /// `POST /v1/stop`, or [`Control::stop`](crate::Control::stop).
    Command,
}

/// A bound address.
#[derive(Clone, Debug)]
pub struct Listener {
    /// `dns` (UDP and TCP), `http`, `health`, `webhook` or `control`.
    pub kind: &'static str,
    /// Socket address, or the path of a Unix socket.
    pub address: String,
}

/// A protection of the process, such as the change to an unprivileged user.
#[derive(Clone, Debug)]
pub struct Protection {
    /// Name, for logs and metrics.
    pub name: &'static str,
    /// Reason why it is not active; `None` if it is.
    pub missing: Option<String>,
}

/// Start, readiness and stop of the server.
#[derive(Debug)]
pub struct Lifecycle {
    /// Name of the configuration, for messages.
    pub source: String,
    /// Start of the server.
    pub started: Timestamp,
    /// Bound addresses; set once all of them are bound.
    pub listeners: OnceLock<Vec<Listener>>,
    /// Protections of the process; set once they were checked.
    pub protections: OnceLock<Vec<Protection>>,
    /// Readiness.
    pub readiness: watch::Sender<Readiness>,
    /// Reason of the stop; `None` until one is requested.
    pub stopping: watch::Sender<Option<Stopping>>,
    /// Number of SIGHUPs received. Log files are opened again after each.
    pub hang_ups: watch::Sender<u64>,
}

impl Lifecycle {
    /// Returns the lifecycle of a server that starts now.
    pub(crate) fn starting(source: String) -> Self {
        Self {
            source,
            started: SystemTime::now().into(),
            listeners: OnceLock::new(),
            protections: OnceLock::new(),
            readiness: watch::channel(Readiness::Starting).0,
            stopping: watch::channel(None).0,
            hang_ups: watch::channel(0).0,
        }
    }
}
