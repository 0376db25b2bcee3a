//! A configuration in a folder of its own, for tests of the control task and of the daemon, which includes this file.

use std::{fs, net::TcpListener, path::PathBuf, time::Duration};

use tempfile::TempDir;

/// Longest wait for an event that must come.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// A folder with a configuration and a data folder.
pub(super) struct ConfigFolder(pub(super) TempDir);

impl ConfigFolder {
    pub(super) fn new(config: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write(config);
        folder
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.path().join("fairway.yaml")
    }

    pub(super) fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    pub(super) fn write(&self, config: &str) {
        fs::write(self.file(), config).unwrap();
    }
}

/// Returns a configuration with two clusters in one pool, probed by `monitor`.
pub(super) fn config(monitor: &str) -> String {
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

/// Waits until a condition is true.
pub(super) async fn until(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_true().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "expected within {PATIENCE:?}: {what}");
}

/// Returns a loopback listener, which accepts connections as long as it lives, and its port.
pub(super) fn gateway() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}
