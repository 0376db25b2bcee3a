//! A server in this process without sockets: the control task, a store in a folder of memory, the API and the webhook.

use std::{path::Path, sync::Arc, time::SystemTime};

use axum::Router;
use fairway_api::{Api, metrics::Metrics};
use fairway_config::Source;
use fairway_control::{
    Control, configured::Compiled, contributed::ContributionLedger, objects, reader::Reader, reloads::ReloadScope,
    start::Parts,
};
use fairway_model::Timestamp;
use fairway_providers::webhook_server::{EndpointStore, router};
use fairway_store::DataFolder;
use fairway_telemetry::traces::Traces;
use tempfile::TempDir;
use tokio::{io::DuplexStream, runtime::Runtime, sync::mpsc};

/// The running server.
pub(crate) struct Server {
    /// Its threads.
    pub(crate) runtime: Runtime,
    /// Connections to the API.
    pub(crate) connections: mpsc::Sender<DuplexStream>,
    /// Routes of the webhook.
    pub(crate) webhook: Router,
    /// Ends the listeners when it is dropped.
    _api: Api,
    /// Removed when it is dropped.
    _folder: TempDir,
}

/// Nothing is probed: targets over the API and the webhook are denied. Limits keep what is declared small, so that the memory is flat.
const CONFIG: &str = "\
version: 1
zones: [{ name: gslb.test, ns: [ns1.example.net], monitor: unchecked }]
monitors: [{ name: unchecked, type: always }]
clusters: [{ name: eu1, addresses: [192.0.2.1], capacity: 100 }, { name: us1, addresses: [192.0.2.2] }]
pools: [{ name: shop, policy: weighted, monitor: unchecked, members: [{ cluster: eu1 }, { cluster: us1 }] }]
names: [{ name: shop.gslb.test, pool: shop }]
health: { networks: { deny: [\"0.0.0.0/0\", \"::/0\"] } }
webhook: { listen: \"127.0.0.1:8888\" }
limits: { memory: 4MiB, objects: 1000, owners: 8 }
";

impl Server {
    /// Starts it.
    pub(crate) fn start() -> Result<Self, String> {
        let shared_memory = Path::new("/dev/shm");
        let folder = if shared_memory.is_dir() { TempDir::new_in(shared_memory) } else { TempDir::new() };
        let folder = folder.map_err(|error| error.to_string())?;
        let runtime = Runtime::new().map_err(|error| error.to_string())?;
        let (control, ledger) = runtime.block_on(start(folder.path()))?;
        let webhook = {
            let (store, check) = (Arc::clone(&ledger) as Arc<dyn EndpointStore>, Arc::new(|_: &_, _: &_| Ok(true)));
            router(store, Arc::default(), check, false)
        };
        let guard = runtime.enter();
        let mut api = Api::new(&control, Arc::<Metrics>::default());
        let (connections, streams) = mpsc::channel(1);
        api.serve_streams(streams);
        drop(guard);
        Ok(Self { runtime, connections, webhook, _api: api, _folder: folder })
    }
}

/// Starts the control task with its store, as `serve` does.
async fn start(folder: &Path) -> Result<(Control, Arc<ContributionLedger>), String> {
    let file = folder.join("fairway.yaml");
    std::fs::write(&file, CONFIG).map_err(|error| error.to_string())?;
    let now = Timestamp::from(SystemTime::now());
    let reader = Reader::new(Source::Path(file), Arc::new(|_| None));
    let reading = reader.read_here(ReloadScope::Files, None, now);
    let Compiled { configured, snapshot, .. } = reading.outcome.map_err(|errors| format!("{errors:?}"))?;
    let data = DataFolder::open(&folder.join("data")).map_err(|error| error.to_string())?;
    let objects = objects::at_start(&configured.settings, Some(&data), &reader.declared).await;
    let (configured, snapshot) = objects::with_objects(&reader, configured, snapshot, now);
    let parts = Parts {
        reader,
        folder: None,
        clock: Arc::new(|| SystemTime::now().into()),
        logs: None,
        fingerprint: reading.fingerprint.unwrap_or_default(),
        listeners: vec![],
        hosts: fairway_hosts::Hosts::start(vec![]),
        sources: fairway_sources::Sources::start(None),
        history: Default::default(),
    };
    let (control, actor, _) = parts.start(configured, snapshot, data.read_state(), Traces::default()).await;
    let _ = control.set_objects(objects);
    tokio::spawn(actor.run());
    let ledger = Arc::<ContributionLedger>::default();
    ledger.open(&control);
    Ok((control, ledger))
}
