//! What the demo plays on: a temporary folder with a real configuration, three gateways, and the real daemon on loopback.

use std::{
    fmt::Write as _,
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use fairway_model::Name;
use tempfile::TempDir;

use super::{
    envoy,
    gateway::{Gateway, Ports},
};
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

/// Period and timeout of the demo's probes. Servers take 10 s and 4 s by default; nobody wants to watch that.
pub(super) const PERIOD: Duration = Duration::from_millis(200);

/// The name that is shared by weight.
pub(super) fn shop() -> Name {
    Name::from_text(b"shop.demo.example.", None).expect("a valid literal")
}

/// The name that fails over.
pub(super) fn pay() -> Name {
    Name::from_text(b"pay.demo.example.", None).expect("a valid literal")
}

/// Name of the cluster with this address, or the address itself where the visitor has added one.
pub(super) fn cluster_of(address: Option<Ipv4Addr>) -> String {
    let Some(address) = address else { return "no address".to_owned() };
    let known = CLUSTERS.iter().find(|c| c.address == address);
    known.map_or_else(|| address.to_string(), |c| c.name.to_owned())
}

/// Everything that runs.
pub(super) struct Stage {
    /// The name server.
    pub(super) daemon: Daemon,
    /// The gateways, in the order of [`CLUSTERS`].
    pub(super) gateways: Vec<Gateway>,
    /// Where DNS is answered.
    pub(super) dns: SocketAddr,
    /// The server's HTTP listener.
    pub(super) http: SocketAddr,
    /// Ports of every gateway.
    pub(super) ports: Ports,
    /// The configuration file.
    pub(super) config: PathBuf,
    /// The server's data folder.
    pub(super) data_dir: PathBuf,
    // Removed with all it holds when the stage goes.
    _folder: TempDir,
}

impl Stage {
    /// Sets everything up; returns when the first query can be answered.
    pub(super) async fn set(with_envoy: bool, port: Option<u16>) -> anyhow::Result<Self> {
        let binary = with_envoy.then(envoy::binary).transpose()?;
        let folder = tempfile::Builder::new().prefix("fairway-demo-").tempdir();
        let folder = folder.context("no temporary folder can be made; name another place in TMPDIR")?;
        let ports = free_ports()?;
        let gateways = start_gateways(binary.as_deref(), folder.path(), ports).await?;
        let (dns, http) = (dns_address(port)?, http_address()?);
        let data_dir = folder.path().join("data");
        let config = folder.path().join("fairway.yaml");
        write(&folder.path().join("demo.example.zone"), ZONE)?;
        write(&config, &configuration(dns, http, &data_dir, ports.ready))?;
        let mut options = Options::new(Source::Path(config.clone()));
        options.signals = false;
        options.workers = Some(1); // it shares the machine with the gateways and with the demo's own client
        options.environment = Arc::new(|_| None);
        let daemon = Daemon::start(options).await.context("the name server does not start")?;
        Ok(Self { daemon, gateways, dns, http, ports, config, data_dir, _folder: folder })
    }

    /// The gateway of a cluster.
    pub(super) fn gateway(&mut self, cluster: &str) -> Option<&mut Gateway> {
        self.gateways.iter_mut().find(|g| g.cluster == cluster)
    }

    /// Ends everything in order: the server first, so that it sees no gateway die.
    pub(super) async fn end(mut self) {
        self.daemon.stop().await;
        for gateway in &mut self.gateways {
            // A process that cannot be ended here is killed when its handle goes.
            let _ = gateway.down().await;
        }
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text)
        .with_context(|| format!("{}: cannot be written; name another place in TMPDIR", path.display()))
}

async fn start_gateways(binary: Option<&Path>, folder: &Path, ports: Ports) -> anyhow::Result<Vec<Gateway>> {
    let mut gateways = Vec::new();
    for cluster in CLUSTERS {
        gateways.push(match binary {
            Some(binary) => Gateway::envoy(binary, folder, cluster.name, cluster.address, ports)?,
            None => Gateway::own(cluster.name, cluster.address, ports).await?,
        });
    }
    for gateway in &mut gateways {
        gateway.ready().await?;
    }
    Ok(gateways)
}

/// Ports that are free on all three addresses: those of istio-ingressgateway, else what the system offers.
fn free_ports() -> anyhow::Result<Ports> {
    let pick = |wanted: u16| -> anyhow::Result<u16> {
        let mut last = None;
        for port in std::iter::once(wanted).chain([0; 50]) {
            match bind_on_all(port) {
                Ok(port) => return Ok(port),
                Err(fault) => last = Some(fault),
            }
        }
        let Some(fault) = last else { bail!("no port was tried") };
        Err(fault).context(
            "the gateways need loopback addresses 127.0.1.1, 127.0.2.1 and 127.0.3.1; where the system has only 127.0.0.1, \
             add them first (macOS: `sudo ifconfig lo0 alias 127.0.1.1`, and so on)",
        )
    };
    Ok(Ports { data: pick(8080)?, ready: pick(15_021)?, stats: pick(15_090)?, admin: pick(15_000)? })
}

/// The port, or for 0 any, if it is free on the address of every gateway.
fn bind_on_all(port: u16) -> io::Result<u16> {
    let first = TcpListener::bind((CLUSTERS[0].address, port))?;
    let port = first.local_addr()?.port();
    for cluster in &CLUSTERS[1..] {
        TcpListener::bind((cluster.address, port))?;
    }
    Ok(port)
}

/// Where to answer DNS: the port asked for, or 5353, or any that is free for both UDP and TCP.
fn dns_address(port: Option<u16>) -> anyhow::Result<SocketAddr> {
    let free = |port: u16| -> io::Result<SocketAddr> {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let at = tcp.local_addr()?;
        UdpSocket::bind(at)?;
        Ok(at)
    };
    if let Some(port) = port {
        return free(port).with_context(|| format!("port {port} cannot be used; leave --port out to have one chosen"));
    }
    let found = std::iter::once(5_353).chain([0; 50]).find_map(|port| free(port).ok());
    found.context("no UDP and TCP port is free on 127.0.0.1; end what holds them")
}

fn http_address() -> anyhow::Result<SocketAddr> {
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|l| l.local_addr());
    free(8_053).or_else(|_| free(0)).context("no TCP port is free on 127.0.0.1; end what holds them")
}

/// The configuration that the visitor is invited to edit.
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
        "# The configuration of `fairway demo`. Edit and save it: the server reads it again by itself.
version: 1
listen: {{ dns: [\"{dns}\"], http: \"{http}\" }}
dataDir: \"{data_dir}\"

zones:
  - {{ name: demo.example, file: demo.example.zone }}

clusters:
{clusters}
# Far quicker than the defaults (period 10s, timeout 4s, rise 3, fall 3), so that there is something to see.
monitors:
  - {{ name: gateway, type: http, port: {ready}, path: /healthz/ready, period: {millis}ms, timeout: {millis}ms, rise: 2, fall: 2 }}

pools:
  # Clients are shared by weight; each client network keeps its cluster while that is up.
  - name: shop
    policy: weighted
    ttl: 5s
    monitor: gateway
    members:
{shares}
  # Everybody gets the first that is up.
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

/// The zone: static names beside the steered ones.
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
; TXT at a steered name: its addresses are steered, all else is the file's.
shop  TXT  \"steered by weight: 60, 30, 10\"
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_of_the_demo_has_no_fault() {
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
    fn clusters_are_known_by_their_address() {
        assert_eq!(cluster_of(Some(Ipv4Addr::new(127, 0, 2, 1))), "us1");
        assert_eq!(cluster_of(Some(Ipv4Addr::new(192, 0, 2, 9))), "192.0.2.9");
        assert_eq!(cluster_of(None), "no address");
    }
}
