//! Changes of a key, as long as this server reaches etcd.

use std::{sync::Arc, time::Duration};

use fairway_etcd::{Client, Watch};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Reports when a key must be read.
pub(super) struct Changes {
    client: Arc<Client>,
    key: Vec<u8>,
    ticks: Interval,
    watch: Option<Watch>,
}

impl Changes {
    pub(super) fn new(client: Arc<Client>, key: Vec<u8>) -> Self {
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { client, key, ticks, watch: None }
    }

    /// Starts a watch, if none is open. Call it before the key is read, so that no later change is missed.
    pub(super) async fn start(&mut self) {
        if self.watch.is_none() {
            self.watch = self.client.watch(&self.key).await.ok();
        }
    }

    /// Waits until the key has changed, at most `POLL_INTERVAL`. Cancel-safe.
    pub(super) async fn wait(&mut self) {
        if let Some(watch) = &mut self.watch {
            tokio::select! {
                _ = self.ticks.tick() => return,
                is_open = watch.changed() => if is_open { return },
            }
            self.watch = None;
        }
        self.ticks.tick().await;
    }
}

/// Interval of reading a key without a notification: a broken connection sends none.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(1);
