//! The daemon on real configuration files, with targets on loopback that nothing or something answers on.

mod balance;
mod daemon;
mod intents;
mod latency;
mod load;
mod objects;
mod updates;
mod webhook;

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use fairway_config::{Environment, Source};
use tempfile::TempDir;

/// Longest wait for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A folder with a configuration.
struct Scene {
    folder: TempDir,
}

impl Scene {
    fn new(config: &str) -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        scene.write(config);
        scene
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("fairway.yaml")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn write(&self, config: &str) {
        fs::write(self.file(), config).unwrap();
    }
}

/// Two clusters in one pool, judged by `monitor`.
fn config(monitor: &str) -> String {
    format!(
        "version: 1
listen: {{ dns: [\"127.0.0.1:0\"], http: \"127.0.0.1:0\" }}
zones: [ {{ name: gslb.example, ns: [ {{ name: ns1.gslb.example, addresses: [192.0.2.53] }} ], contact: a@gslb.example }} ]
clusters:
  - {{ name: eu1, addresses: [127.0.0.1] }}
  - {{ name: us1, addresses: [127.0.0.2] }}
monitors: [ {{ name: gateway, {monitor} }} ]
pools: [ {{ name: shop, policy: failover, monitor: gateway, members: [ {{ cluster: eu1 }}, {{ cluster: us1 }} ] }} ]
names: [ {{ name: shop.gslb.example, pool: shop }} ]
"
    )
}

/// Waits until something holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "it did not come: {what}");
}

/// A loopback port that answers as long as the value lives.
fn gateway() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}
