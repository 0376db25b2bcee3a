//! Everything that the demo runs: a temporary folder with a configuration, three gateways, and the daemon on loopback.

use std::{
    fmt::Write as _,
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use fairway_model::Name;
use tempfile::TempDir;
use tokio::sync::Mutex;

use super::gateway::{Gateway, GatewayAction, Ports};
use crate::daemon::{Daemon, Options};
use fairway_config::Source;

/// A cluster of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DemoCluster {
    /// Its name.
    pub(super) name: &'static str,
    /// Address of its gateway.
    pub(super) address: Ipv4Addr,
    /// Its weight in pool `shop`.
    pub(super) weight: u16,
}

/// The clusters, in the order in which pool `pay` prefers them.
pub(super) const CLUSTERS: [DemoCluster; 3] = [
    DemoCluster { name: "eu1", address: Ipv4Addr::new(127, 0, 1, 1), weight: 60 },
    DemoCluster { name: "us1", address: Ipv4Addr::new(127, 0, 2, 1), weight: 30 },
    DemoCluster { name: "ap1", address: Ipv4Addr::new(127, 0, 3, 1), weight: 10 },
];

/// Period and timeout of the probes. The defaults of 10 s and 4 s would be too slow to watch.
pub(super) const PERIOD: Duration = Duration::from_millis(200);

/// Returns the name of the weighted pool.
pub(super) fn shop() -> Name {
    Name::from_text(b"shop.demo.example.", None).expect("a valid literal")
}

/// Returns the name of the failover pool.
pub(super) fn pay() -> Name {
    Name::from_text(b"pay.demo.example.", None).expect("a valid literal")
}

/// Returns the name of the cluster with an address, or the address itself if the user has added the cluster.
pub(super) fn cluster_name(address: Option<Ipv4Addr>) -> String {
    let Some(address) = address else { return "no address".to_owned() };
    let known = CLUSTERS.iter().find(|c| c.address == address);
    known.map_or_else(|| address.to_string(), |c| c.name.to_owned())
}

/// The running server and gateways.
pub(super) struct Playground {
    /// The name server.
    pub(super) daemon: Daemon,
    /// The gateways, in the order of [`CLUSTERS`]. Commands of the user act on them as well.
    pub(super) gateways: Arc<Mutex<Vec<Gateway>>>,
    /// Address for DNS.
    pub(super) dns: SocketAddr,
    /// Address of the HTTP listener.
    pub(super) http: SocketAddr,
    /// Ports of every gateway.
    pub(super) ports: Ports,
    /// The configuration file.
    pub(super) config: PathBuf,
    /// The server's data folder.
    pub(super) data_dir: PathBuf,
    /// Removed on drop, with everything in it.
    _folder: TempDir,
}

impl Playground {
    /// Starts everything. Returns when the server answers queries.
    pub(super) async fn start(with_envoy: bool, port: Option<u16>) -> anyhow::Result<Self> {
        // The same path each time, as the manual has it; another one while a second demo runs.
        let folder = tempfile::Builder::new().prefix("fairway-demo").rand_bytes(0).tempdir();
        let folder = folder.or_else(|_| tempfile::Builder::new().prefix("fairway-demo-").tempdir());
        let folder = folder.context("cannot create a temporary folder; set TMPDIR to another folder")?;
        let ports = free_ports()?;
        let gateways = Arc::new(Mutex::new(start_gateways(with_envoy, folder.path(), ports).await?));
        let (dns, http) = (dns_address(port)?, http_address()?);
        let data_dir = folder.path().join("data");
        let config = folder.path().join("fairway.yaml");
        write(&folder.path().join("demo.example.zone"), ZONE)?;
        write(&config, &configuration(dns, http, &data_dir, ports.ready))?;
        let mut options = Options::new(Source::Path(config.clone()));
        options.signals = false;
        options.workers = Some(1); // the gateways and the client need the processor as well
        options.environment = Arc::new(|_| None);
        let daemon = Daemon::start(options).await.context("cannot start the name server")?;
        Ok(Self { daemon, gateways, dns, http, ports, config, data_dir, _folder: folder })
    }

    /// Stops everything, the server first: otherwise it would log that the gateways are down.
    pub(super) async fn stop(self) {
        self.daemon.stop().await;
        for gateway in &mut *self.gateways.lock().await {
            // A process that cannot be stopped here is killed when its handle is dropped.
            let _ = gateway.act(GatewayAction::Down).await;
        }
    }
}

/// Returns the gateway of a cluster.
pub(super) fn find<'a>(gateways: &'a mut [Gateway], cluster: &str) -> anyhow::Result<&'a mut Gateway> {
    let found = gateways.iter_mut().find(|gateway| gateway.cluster == cluster);
    found.with_context(|| format!("no gateway {cluster}; there are eu1, us1 and ap1"))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}; set TMPDIR to another folder", path.display()))
}

async fn start_gateways(with_envoy: bool, folder: &Path, ports: Ports) -> anyhow::Result<Vec<Gateway>> {
    let mut gateways = Vec::new();
    for DemoCluster { name, address, .. } in CLUSTERS {
        gateways.push(if with_envoy {
            Gateway::envoy(folder, name, address, ports)?
        } else {
            Gateway::in_process(name, address, ports).await?
        });
    }
    for gateway in &mut gateways {
        gateway.wait_until_ready().await?;
    }
    Ok(gateways)
}

/// Finds ports that are free on all three addresses: those of istio-ingressgateway, else any.
fn free_ports() -> anyhow::Result<Ports> {
    let pick = |preferred: u16| -> anyhow::Result<u16> {
        let found = (0..50).fold(bind_on_all(preferred), |found, _| found.or_else(|_| bind_on_all(0)));
        found.context(
            "the gateways need the loopback addresses 127.0.1.1, 127.0.2.1 and 127.0.3.1; if the system has only 127.0.0.1, \
             add them (macOS: `sudo ifconfig lo0 alias 127.0.1.1`, and so on)",
        )
    };
    Ok(Ports { data: pick(8080)?, ready: pick(15_021)?, stats: pick(15_090)?, admin: pick(15_000)? })
}

/// Returns the port if it is free on the address of every gateway. Port 0 stands for any free port.
fn bind_on_all(port: u16) -> io::Result<u16> {
    let first = TcpListener::bind((CLUSTERS[0].address, port))?;
    let port = first.local_addr()?.port();
    for cluster in &CLUSTERS[1..] {
        TcpListener::bind((cluster.address, port))?;
    }
    Ok(port)
}

/// Returns an address for DNS that is free for UDP and TCP: with the given port, else 5353, else any.
fn dns_address(port: Option<u16>) -> anyhow::Result<SocketAddr> {
    let free = |port: u16| -> io::Result<SocketAddr> {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let at = tcp.local_addr()?;
        UdpSocket::bind(at)?;
        Ok(at)
    };
    if let Some(port) = port {
        return free(port).with_context(|| format!("cannot use port {port}; without --port, a free one is chosen"));
    }
    let found = std::iter::once(5_353).chain([0; 50]).find_map(|port| free(port).ok());
    found.context("no port of 127.0.0.1 is free for UDP and TCP; stop the processes that use them")
}

fn http_address() -> anyhow::Result<SocketAddr> {
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|l| l.local_addr());
    free(8_053).or_else(|_| free(0)).context("no TCP port of 127.0.0.1 is free; stop the processes that use them")
}

/// Returns the configuration, which the user is invited to edit.
fn configuration(dns: SocketAddr, http: SocketAddr, data_dir: &Path, ready: u16) -> String {
    let mut clusters = String::new();
    let mut shares = String::new();
    let mut order = String::new();
    for (index, DemoCluster { name, address, weight }) in CLUSTERS.into_iter().enumerate() {
        let tier = index + 1;
        let _ = writeln!(clusters, "  - {{ name: {name}, addresses: [{address}] }}");
        let _ = writeln!(shares, "      - {{ cluster: {name}, weight: {weight} }}");
        let _ = writeln!(order, "      - {{ cluster: {name}, tier: {tier} }}");
    }
    let data_dir = data_dir.display();
    let millis = PERIOD.as_millis();
    format!(
        "# The configuration of `fairway demo`. Edit and save it: the server reloads it.
version: 1
evidence: {{ challenge: false }}
listen: {{ dns: [\"{dns}\"], http: \"{http}\" }}
dataDir: \"{data_dir}\"

zones:
  - {{ name: demo.example, file: demo.example.zone }}

clusters:
{clusters}
# Much faster than the defaults (period 10s, timeout 4s, rise 3, fall 3), so that there is something to see.
monitors:
  - {{ name: gateway, type: http, port: {ready}, path: /healthz/ready, period: {millis}ms, timeout: {millis}ms, rise: 2, fall: 2 }}

pools:
  # Clients are distributed by weight. Each client network keeps its cluster while that is up.
  - name: shop
    policy: weighted
    ttl: 5s
    monitor: gateway
    members:
{shares}
  # All clients get the first cluster that is up.
  - name: pay
    policy: failover
    ttl: 5s
    monitor: gateway
    members:
{order}
names:
  - {{ name: shop.demo.example, pool: shop }}
  - {{ name: pay.demo.example, pool: pay }}
"
    )
}

/// Zone file with static names.
const ZONE: &str = "\
; The zone of `fairway demo`. Steered names are not here: their addresses come from the pools.
$ORIGIN demo.example.
$TTL 300
@     SOA  ns1 hostmaster 1 3600 600 604800 60
      NS   ns1
      TXT  \"This zone is served by fairway\"
ns1   A    127.0.0.1
www   A    192.0.2.80
      AAAA 2001:db8::80
; At a steered name only the addresses are steered. Other types come from this file.
shop  TXT  \"steered by weight: 60, 30, 10\"
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_loads_without_warnings() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("fairway.yaml");
        let (dns, http) = ("127.0.0.1:5353".parse().unwrap(), "127.0.0.1:8053".parse().unwrap());
        fs::write(&config, configuration(dns, http, &folder.path().join("data"), 15_021)).unwrap();
        fs::write(folder.path().join("demo.example.zone"), ZONE).unwrap();
        let loaded = fairway_config::load(&Source::Path(config), &|_| None).unwrap();
        assert_eq!(loaded.warnings, []);
        assert_eq!((loaded.desired.pools.len(), loaded.desired.names.len()), (2, 2));
        assert!(loaded.desired.names.contains_key(&shop()) && loaded.desired.names.contains_key(&pay()));
    }

    #[test]
    fn cluster_name_is_found_by_address() {
        assert_eq!(cluster_name(Some(Ipv4Addr::new(127, 0, 2, 1))), "us1");
        assert_eq!(cluster_name(Some(Ipv4Addr::new(192, 0, 2, 9))), "192.0.2.9");
        assert_eq!(cluster_name(None), "no address");
    }
}
