//! The ready callback: a POST to a URL when the daemon is ready, and when it stops.
//!
//! ```text
//! ready ──▶ try ── delivered ────────────▶ wait ── stopping ──▶ one try ──▶ end
//!            ▲ └── failed ── pause ──┐       ▲
//!            └── tries are left ─────┴ none ─┘        stopping ends tries and pauses
//! ```
//! It runs in a task of its own: neither the start nor answers wait for it, and the stop waits for the last try only. The body of the
//! response is not read.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use fairway_http::{
    Client, Failure as HttpFailure, Method, Options, Request, Url,
    header::{CONTENT_TYPE, HeaderValue},
};
use tokio::{sync::watch, task::JoinHandle, time::timeout};

use fairway_config::Settings;
use fairway_control::{Readiness, Shared, lifecycle::Clock};

/// The task of the callback. Dropping it aborts the task.
#[derive(Debug)]
pub(crate) struct Announcer(JoinHandle<()>);

impl Drop for Announcer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Announcer {
    /// Starts the task. The daemon must be ready. Returns `None` if the settings have no callback.
    pub(crate) fn start(settings: &Settings, shared: &Arc<Shared>, clock: Clock) -> Option<Self> {
        let url = settings.callback.clone()?;
        let instance = settings.identity.id.clone().unwrap_or_else(host_name);
        let (readiness, last_try) = (shared.lifecycle.readiness.subscribe(), settings.drain_timeout.min(LAST_TRY_MAX));
        let shared = Arc::clone(shared);
        let client = Client::new(Options::new(TRY_MAX, 0));
        let to = url.authority().to_owned();
        let attempt = move |ready, limit| {
            let message = message(ready, &instance, &clock().to_string());
            attempt(Arc::clone(&shared), client.clone(), url.clone(), message, limit)
        };
        Some(Self(tokio::spawn(announce(readiness, to, last_try, attempt))))
    }

    /// Waits for the last try, for a second at most. Readiness must be `Draining`.
    pub(crate) async fn end(mut self) {
        // An error means that the task panicked; there is nothing to wait for.
        let _ = (&mut self.0).await;
    }
}

/// Announces readiness, then the stop. `attempt` makes one try, given readiness and a time limit; its error is a text for the log.
async fn announce(
    mut readiness: watch::Receiver<Readiness>,
    to: String,
    last_try: Duration,
    attempt: impl AsyncFn(bool, Duration) -> Result<(), String>,
) {
    let ready = async {
        announce_ready(&to, &attempt).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        // An error means that the sender is gone: the daemon stops as well.
        _ = readiness.wait_for(|readiness| *readiness == Readiness::Draining) => {}
        () = ready => {}
    }
    if let Err(error) = attempt(false, last_try).await {
        tracing::warn!(to, error, ready = false, "ready callback failed");
    }
}

/// Tries until the message is delivered, or until no try is left. Logs the first failure and the end, not each try.
async fn announce_ready(to: &str, attempt: &impl AsyncFn(bool, Duration) -> Result<(), String>) {
    for (failed, pause) in PAUSES.into_iter().map(Some).chain([None]).enumerate() {
        match attempt(true, TRY_MAX).await {
            Ok(()) if failed == 0 => return,
            Ok(()) => return tracing::info!(failed, "ready callback delivered after retries"),
            Err(error) if pause.is_none() => {
                tracing::warn!(to, error, ready = true, failed, "ready callback given up");
            }
            Err(error) if failed == 0 => {
                tracing::warn!(to, error, ready = true, "ready callback failed; retrying");
            }
            Err(_) => {}
        }
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Makes one try and counts it.
async fn attempt(
    shared: Arc<Shared>,
    client: Client,
    url: Url,
    message: String,
    limit: Duration,
) -> Result<(), String> {
    let outcome = timeout(limit, deliver(&client, url, message)).await;
    let outcome = outcome.unwrap_or_else(|_| Err(HttpFailure::Timeout(limit).to_string()));
    let counts = &shared.counts;
    let counter = if outcome.is_ok() { &counts.callbacks_delivered } else { &counts.callbacks_failed };
    counter.fetch_add(1, Relaxed);
    outcome
}

async fn deliver(client: &Client, url: Url, message: String) -> Result<(), String> {
    let request = Request { body: message.into_bytes(), ..Request::new(Method::POST, url) };
    let request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let status = client.send_for_status(request).await.map_err(|error| error.to_string())?;
    if status.is_success() { Ok(()) } else { Err(format!("status {status}, expected 2xx")) }
}

fn message(ready: bool, instance: &str, time: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    serde_json::json!({ "ready": ready, "instance": instance, "version": version, "time": time }).to_string()
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Time limit of a try while the daemon serves.
const TRY_MAX: Duration = Duration::from_secs(5);
/// Time limit of the try during a stop, unless `drainTimeout` is shorter.
const LAST_TRY_MAX: Duration = Duration::from_secs(1);
/// Pauses between tries. 1 + 2 + 4 + 8 + 16 s and six tries of 5 s cover a minute, in which a receiver can restart.
const PAUSES: [Duration; 5] = {
    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }
    [secs(1), secs(2), secs(4), secs(8), secs(16)]
};

#[cfg(test)]
mod tests;
