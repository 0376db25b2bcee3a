//! Five clusters, of which one is silent for an hour of virtual time. Their API servers are of this process.

mod api;

use std::{
    env,
    hash::{BuildHasher, RandomState},
    sync::Mutex,
};

use fairway_model::SplitMix;
use serde_json::{Value, json};
use tokio::time::sleep;

use self::api::{Api, GATEWAYS, Outage, SERVICES, SLICES, VIRTUAL_SERVICES};
use super::*;
use crate::holds::UnknownHealth;

const CLUSTERS: usize = 5;
/// Services of a cluster.
const COUNT: u64 = 8;
/// Time for which the first cluster is silent.
const SILENCE: Duration = Duration::from_secs(3_600);
/// Time between changes of the others.
const STEP: Duration = Duration::from_secs(30);
/// Steps after which the API server fails in another way.
const OUTAGE_STEPS: u64 = 4;

/// Publications of a cluster's task.
#[derive(Default)]
struct Published {
    found: Mutex<(usize, Arc<FoundCluster>)>,
    statuses: Mutex<Vec<SourceStatus>>,
}

impl Publish for Published {
    fn found(&self, _: &ClusterName, found: Arc<FoundCluster>) {
        let mut published = self.found.lock().unwrap();
        if published.1 != found {
            *published = (published.0 + 1, found);
        }
    }

    fn status(&self, _: &ClusterName, status: SourceStatus) {
        self.statuses.lock().unwrap().push(status);
    }

    fn health(&self) -> Arc<dyn TargetHealth> {
        Arc::new(UnknownHealth)
    }

    fn take_confirmed(&self, _: &ClusterName) -> BTreeSet<Arc<str>> {
        BTreeSet::new()
    }
}

impl Published {
    /// Returns the number of publications that changed something, and the last one.
    fn last(&self) -> (usize, Arc<FoundCluster>) {
        self.found.lock().unwrap().clone()
    }
}

/// A cluster with the task that reads it.
struct Scene {
    api: Arc<Api>,
    published: Arc<Published>,
    _settings: watch::Sender<ReadSettings>,
    _reports: watch::Sender<ServiceReports>,
}

impl Scene {
    /// Starts a cluster with a gateway and services; the last two of these are exposed by all clusters.
    fn start(number: usize) -> Self {
        let (api, published) = (Arc::new(Api::default()), Arc::new(Published::default()));
        give_address(&api, number, 1);
        api.set(
            GATEWAYS,
            "istio-system",
            "web",
            json!({ "spec": { "selector": { "istio": "ingressgateway" },
                "servers": [{ "port": { "number": 80, "name": "http", "protocol": "HTTP" }, "hosts": ["*"] }] } }),
        );
        for service in 0..COUNT {
            let own = service < COUNT - 2;
            expose(&api, service, &if own { format!("s{service}.c{number}") } else { format!("shared{service}") });
            set_endpoints(&api, service, 2);
        }
        let zones = Arc::new(BTreeSet::from(["gslb.example".parse().unwrap()]));
        let (settings, of_settings) = watch::channel(ReadSettings { zones, ..ReadSettings::default() });
        let (reports, of_reports) = watch::channel(ServiceReports::default());
        let name = ClusterName::new(&format!("c{number}")).unwrap();
        let inputs = (of_settings, of_reports);
        let mut task = ClusterTask::new(name, Arc::default(), Arc::clone(&published), inputs, None);
        let client = Arc::clone(&api).client();
        // As `run`, except that a kubeconfig cannot lead to an API server of this process.
        tokio::spawn(async move {
            loop {
                let why = task.read(client.clone()).await;
                task.fail(&why);
                task.pause(PAUSE_MIN).await;
            }
        });
        Self { api, published, _settings: settings, _reports: reports }
    }
}

fn give_address(api: &Api, cluster: usize, last: u64) {
    api.set(SERVICES, "istio-system", "istio-ingressgateway", json!({
            "metadata": { "labels": { "istio": "ingressgateway" } },
            "spec": { "type": "LoadBalancer", "selector": { "istio": "ingressgateway" }, "ports": [{ "port": 80 }, { "port": 15_021 }] },
            "status": { "loadBalancer": { "ingress": [{ "ip": format!("192.0.2.{}", 10 * cluster as u64 + last) }] } },
        }));
}

fn expose(api: &Api, service: u64, host: &str) {
    let name = format!("s{service}");
    api.set(SERVICES, "shop", &name, json!({ "spec": { "ports": [{ "port": 80 }] } }));
    api.set(
        VIRTUAL_SERVICES,
        "shop",
        &name,
        json!({ "spec": { "hosts": [format!("{host}.gslb.example")], "gateways": ["istio-system/web"],
            "http": [{ "route": [{ "destination": { "host": name, "port": { "number": 80 } } }] }] } }),
    );
}

fn set_endpoints(api: &Api, service: u64, ready: u64) {
    let endpoint = |part| json!({ "addresses": [format!("10.0.{service}.{part}")], "conditions": { "ready": true } });
    let endpoints: Vec<Value> = (0..ready).map(endpoint).collect();
    api.set(SLICES, "shop", &format!("s{service}"), json!({ "metadata": { "labels": { "kubernetes.io/service-name": format!("s{service}") } }, "addressType": "IPv4",
            "endpoints": endpoints, "ports": [{ "port": 8_080 }] }));
}

/// Changes an object of a cluster.
fn change(api: &Api, cluster: usize, random: &mut SplitMix) {
    let service = random.below(COUNT);
    match random.below(8) {
        0..4 => set_endpoints(api, service, random.below(4)),
        4 | 5 => expose(api, service, &format!("new{}", random.below(1_000))),
        6 => api.remove(VIRTUAL_SERVICES, "shop", &format!("s{service}")),
        _ => give_address(api, cluster, random.below(9)),
    }
}

#[tokio::test(start_paused = true)]
async fn cluster_that_is_silent_for_an_hour_stays_as_it_was() {
    let seed = env::var("FAIRWAY_SEED").map_or_else(|_| RandomState::new().hash_one(0), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = SplitMix::new(seed);
    let clusters: Vec<_> = (0..CLUSTERS).map(Scene::start).collect();
    sleep(Duration::from_secs(30)).await;
    let before: Vec<_> = clusters.iter().map(|cluster| cluster.published.last()).collect();
    let statuses = || {
        clusters.iter().map(|cluster| cluster.published.statuses.lock().unwrap().last().cloned()).collect::<Vec<_>>()
    };
    assert!(before.iter().all(|(_, found)| found.names.len() == COUNT as usize), "{:#?}", statuses());
    let silent = &clusters[0];
    silent.published.statuses.lock().unwrap().clear();

    let begun = tokio::time::Instant::now();
    for step in 0..SILENCE.as_secs() / STEP.as_secs() {
        if step % OUTAGE_STEPS == 0 {
            silent.api.fail(Outage::draw(&mut random));
        }
        for (number, cluster) in clusters.iter().enumerate() {
            // The first one changes too, which nobody sees.
            change(&cluster.api, number, &mut random);
        }
        sleep(STEP).await;
        let now = silent.published.last();
        assert_eq!(now.0, before[0].0, "seed {seed}, {:?}: {:?}", begun.elapsed(), silent.api.outage());
        assert_eq!(now.1, before[0].1, "seed {seed}, {:?}: {:?}", begun.elapsed(), silent.api.outage());
    }
    assert!(begun.elapsed() >= SILENCE);
    for (cluster, (count, _)) in clusters.iter().zip(&before).skip(1) {
        assert!(cluster.published.last().0 > count + 20, "seed {seed}: the others are followed meanwhile");
    }
    let statuses = std::mem::take(&mut *silent.published.statuses.lock().unwrap());
    assert!(statuses.iter().any(|status| status.failing_since.is_some()), "seed {seed}: {statuses:#?}");
    assert!(statuses.iter().all(|status| status.names == COUNT as usize), "seed {seed}: {statuses:#?}");

    // What changed meanwhile is read when the silence ends.
    silent.api.fail(Outage::None);
    set_endpoints(&silent.api, 0, 7);
    expose(&silent.api, 0, "again");
    sleep(Duration::from_secs(120)).await;
    let (_, found) = silent.published.last();
    let ready = found.names.get("again.gslb.example").map(|name| name.rows[0].ready);
    assert_eq!(ready, Some(Some(7)), "seed {seed}: {found:#?}");
}
