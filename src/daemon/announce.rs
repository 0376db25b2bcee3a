//! Tells a URL when the daemon is ready, and when it no longer is.
//!
//! ```text
//! ready ──▶ try ── delivered ────────────▶ wait ── stopping ──▶ one try ──▶ end
//!            ▲ └── failed ── pause ──┐       ▲
//!            └── tries are left ─────┴ none ─┘        stopping cuts tries and pauses short
//! ```
//! A task of its own: neither start nor answers wait for it, and the end waits for that last try alone. It sends
//! one POST; the body of the answer is not read.

use std::{
    future::Future,
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

/// The task that tells; it is cut off when this is dropped.
#[derive(Debug)]
pub(crate) struct Announcer(JoinHandle<()>);

impl Drop for Announcer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Announcer {
    /// Tells that the daemon is ready, which it is, to whom the settings name; none if they name nobody.
    pub(crate) fn start(settings: &Settings, shared: &Arc<Shared>, clock: Clock) -> Option<Self> {
        let url = settings.callback.clone()?;
        let instance = settings.identity.id.clone().unwrap_or_else(host_name);
        let (readiness, last_try) = (shared.lifecycle.readiness.subscribe(), settings.drain_timeout.min(LAST_TRY_MAX));
        let shared = Arc::clone(shared);
        let client = Client::new(Options::new(TRY_MAX, 0));
        let attempt = move |ready, limit| {
            let message = message(ready, &instance, &clock().to_string());
            attempt(Arc::clone(&shared), client.clone(), url.clone(), message, limit)
        };
        Some(Self(tokio::spawn(tell(readiness, last_try, attempt))))
    }

    /// Waits for the last try, once readiness says that the daemon stops: a second, at most.
    pub(crate) async fn end(mut self) {
        // A task that failed has nothing more to tell.
        let _ = (&mut self.0).await;
    }
}

/// The order of things: `attempt` makes one try within its limit and tells whether the message was taken.
async fn tell<F, T>(mut readiness: watch::Receiver<Readiness>, last_try: Duration, attempt: F)
where
    F: Fn(bool, Duration) -> T,
    T: Future<Output = Result<(), Failure>>,
{
    let ready = async {
        tell_ready(&attempt).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        // Ends also where whoever would say so is gone.
        _ = readiness.wait_for(|readiness| *readiness == Readiness::Draining) => {}
        () = ready => {}
    }
    if let Err(Failure { to, error }) = attempt(false, last_try).await {
        tracing::warn!(to, error, ready = false, "ready callback failed");
    }
}

/// Tries until the message is taken, or until there have been enough tries. Told is what changes.
async fn tell_ready<F, T>(attempt: &F)
where
    F: Fn(bool, Duration) -> T,
    T: Future<Output = Result<(), Failure>>,
{
    for (failed, pause) in PAUSES.into_iter().map(Some).chain([None]).enumerate() {
        match attempt(true, TRY_MAX).await {
            Ok(()) if failed == 0 => return,
            Ok(()) => return tracing::info!(failed, "ready callback delivered after retries"),
            Err(Failure { to, error }) if pause.is_none() => {
                tracing::warn!(to, error, ready = true, failed, "ready callback given up");
            }
            Err(Failure { to, error }) if failed == 0 => {
                tracing::warn!(to, error, ready = true, "ready callback failed; retrying");
            }
            Err(_) => {}
        }
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }
}

/// What became of a try that was not taken.
#[derive(Debug)]
struct Failure {
    to: String,
    error: String,
}

/// Makes one try and counts it.
async fn attempt(
    shared: Arc<Shared>,
    client: Client,
    url: Url,
    message: String,
    limit: Duration,
) -> Result<(), Failure> {
    let to = url.authority().to_owned();
    let outcome = timeout(limit, deliver(&client, url, message)).await;
    let outcome = outcome.unwrap_or_else(|_| Err(HttpFailure::Timeout(limit).to_string()));
    let counts = &shared.counts;
    let counter = if outcome.is_ok() { &counts.callbacks_delivered } else { &counts.callbacks_failed };
    counter.fetch_add(1, Relaxed);
    outcome.map_err(|error| Failure { to, error })
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

/// Longest try while the daemon serves.
const TRY_MAX: Duration = Duration::from_secs(5);
/// Longest try while it stops, unless `drainTimeout` is shorter.
const LAST_TRY_MAX: Duration = Duration::from_secs(1);
/// Pauses between tries: six tries within a minute, as long as a receiver takes to be restarted.
const PAUSES: [Duration; 5] = {
    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }
    [secs(1), secs(2), secs(4), secs(8), secs(16)]
};

#[cfg(test)]
mod tests;
