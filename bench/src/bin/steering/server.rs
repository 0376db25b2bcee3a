//! The real server: its process, and its configuration for a scenario.

use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use fairway_api_types::client::{Client, Reach};
use fairway_model::Coordinates;
use fairway_whatif::simulate::{Population, scenario::Scenario};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use crate::gateway::Gateway;

/// The steered name.
pub(crate) const NAME: &str = "shop.live.test";
/// Longest time for a start or a stop.
const LIMIT: Duration = Duration::from_secs(20);

/// Returns the address of a cluster in answers (TEST-NET-1, RFC 5737).
pub(crate) fn address(cluster: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, cluster as u8 + 1)
}

/// Returns the first three octets of a client network. The last of the simulator's 200,000 is below 14.0.0.
pub(crate) const fn network(number: u32) -> [u8; 3] {
    [10 + (number >> 16) as u8, (number >> 8) as u8, number as u8]
}

/// Largest number of resolvers that query for the client networks, each with a socket: as many as balancing admits in the first TTL.
const SOURCES_MAX: usize = 1_024;

/// Shortest period of probes: a machine that delays an answer by a tenth of a second must not make one fail.
const PROBE_PERIOD_MIN: Duration = Duration::from_millis(250);

/// Returns the addresses of the resolvers: one for each client network of the start, as far as there are enough.
pub(crate) fn sources(population: &Population) -> impl Iterator<Item = Ipv4Addr> + use<> {
    let first = Ipv4Addr::new(127, 0, 1, 1).to_bits();
    (first..).take(population.at_start().min(SOURCES_MAX)).map(Ipv4Addr::from_bits)
}

/// A server with a folder of its own.
#[derive(Debug)]
pub(crate) struct Server {
    /// Address for DNS.
    pub(crate) address: SocketAddr,
    sources: Vec<Ipv4Addr>,
    program: PathBuf,
    folder: TempDir,
    child: Option<Child>,
}

impl Server {
    /// Starts a server, and waits until it answers.
    pub(crate) async fn start(
        program: &Path,
        scenario: &Scenario,
        population: &Population,
        gateways: &[Gateway],
    ) -> io::Result<Self> {
        let folder = TempDir::with_prefix("fairway-steering")?;
        let address = free_address()?;
        fs::write(folder.path().join("fairway.yaml"), config(scenario, population, gateways, address))?;
        let mut server =
            Self { address, sources: sources(population).collect(), program: program.to_owned(), folder, child: None };
        server.run().await?;
        Ok(server)
    }

    /// Returns a client of its control socket.
    pub(crate) fn client(&self) -> Client {
        Client::new(Reach::of_data_dir(&self.data()))
    }

    /// Restarts it, with or without its state.
    pub(crate) async fn restart(&mut self, kept: Kept) -> io::Result<()> {
        self.stop().await;
        if kept == Kept::Nothing {
            fs::remove_dir_all(self.data())?;
        }
        self.run().await
    }

    /// Stops it in good order; kills it after [`LIMIT`].
    pub(crate) async fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let is_stopping = self.client().stop().await.is_ok();
        if !is_stopping || timeout(LIMIT, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    async fn run(&mut self) -> io::Result<()> {
        let log = self.folder.path().join("log");
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("--config").arg(self.folder.path().join("fairway.yaml"));
        command.arg("--data-dir").arg(self.data());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?).kill_on_drop(true);
        let child = self.child.insert(command.spawn()?);
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
        socket.connect(self.address).await?;
        let (question, end, mut answer) = (fairway_bench::question(NAME, 1), Instant::now() + LIMIT, [0; 512]);
        loop {
            if let Some(status) = child.try_wait()? {
                let log = fs::read_to_string(&log).unwrap_or_default();
                return Err(io::Error::other(format!("the server ended during its start, {status}:\n{log}")));
            }
            if Instant::now() > end {
                return Err(io::Error::other(format!("the server does not answer within {LIMIT:?}")));
            }
            let _ = socket.send(&question).await;
            let answered = timeout(Duration::from_millis(10), socket.recv(&mut answer)).await;
            if matches!(answered, Ok(Ok(length)) if length > question.len() && answer[3] & 15 == 0) {
                return self.prove_sources().await;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Server {
    /// Sends a query over TCP from each resolver, which proves that it receives the answers: the resolvers stand for honest ones.
    async fn prove_sources(&self) -> io::Result<()> {
        let question = fairway_bench::question(NAME, 1);
        let packet = [&(question.len() as u16).to_be_bytes(), &question[..]].concat();
        for source in &self.sources {
            let socket = TcpSocket::new_v4()?;
            socket.bind((*source, 0).into())?;
            let mut stream = socket.connect(self.address).await?;
            stream.write_all(&packet).await?;
            timeout(LIMIT, stream.read_u16()).await??;
        }
        Ok(())
    }
}

/// State that a restart finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The data folder as it was left.
    State,
    /// An empty one.
    Nothing,
}

/// Returns an address whose port is free for UDP and TCP.
fn free_address() -> io::Result<SocketAddr> {
    for _ in 0..100 {
        let stream = TcpListener::bind("127.0.0.1:0")?;
        let address = stream.local_addr()?;
        if UdpSocket::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Returns latitude and longitude in degrees.
fn degrees(at: Coordinates) -> (f64, f64) {
    (f64::from(at.latitude()) / 1e6, f64::from(at.longitude()) / 1e6)
}

/// Returns the configuration of a server for a scenario.
fn config(scenario: &Scenario, population: &Population, gateways: &[Gateway], address: SocketAddr) -> String {
    let millis = |duration: Duration| format!("{}ms", duration.as_millis().max(50));
    let (every, probes) = (scenario.reports.every, &scenario.probes);
    let ttl = scenario.ttl.as_secs();
    let mut text = format!(
        "version: 1\nlisten: {{ dns: [\"{address}\"], http: \"off\" }}\nudp: {{ workers: 1 }}\nlog: {{ level: warn }}\nevidence: {{ challenge: false }}\n\
         zones: [ {{ name: live.test, ns: [ns.example.net] }} ]\n\
         load: [ {{ name: gw, type: prometheus, path: /stats/prometheus, period: {} }} ]\n\
         monitors: [ {{ name: gw, type: http, port: 80, path: /ready, period: {}, fall: {}, rise: {} }} ]\n\
         names: [ {{ name: {NAME}, pool: shop }} ]\nmaps:\n  - name: world\n    networks:\n",
        millis(every),
        millis(probes.period.max(PROBE_PERIOD_MIN)),
        probes.fall,
        probes.rise,
    );
    for (number, client) in (0..).zip(&population.networks) {
        let ([a, b, c], (north, east)) = (network(number), degrees(client.at));
        text += &format!("      - {{ network: {a}.{b}.{c}.0/24, latitude: {north:.6}, longitude: {east:.6} }}\n");
    }
    text += "clusters:\n";
    for (number, (cluster, gateway)) in scenario.clusters.iter().zip(gateways).enumerate() {
        let ((north, east), at, port) = (degrees(cluster.at), self::address(number), gateway.port);
        text += &format!(
            "  - {{ name: {}, addresses: [{at}], capacity: {}, load: gw, scrape: [\"127.0.0.1:{port}\"], \
             location: {{ latitude: {north:.6}, longitude: {east:.6} }} }}\n",
            cluster.name, cluster.capacity,
        );
    }
    text += &format!("pools:\n  - name: shop\n    policy: [nearest, load, weighted]\n    ttl: {ttl}s\n");
    text += "    monitor: gw\n    members:\n";
    for (cluster, gateway) in scenario.clusters.iter().zip(gateways) {
        let (name, weight, port) = (&cluster.name, cluster.capacity.min(65_535), gateway.port);
        text += &format!("      - {{ cluster: {name}, weight: {weight}, probe: \"127.0.0.1:{port}\" }}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use fairway_config::Source;
    use fairway_whatif::simulate::{self, Rng};

    use super::*;

    #[tokio::test]
    async fn configuration_of_every_scenario_is_valid() {
        let folder = TempDir::new().unwrap();
        let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let paths = fs::read_dir(scenarios).unwrap().map(|entry| entry.unwrap().path());
        // The scenarios of policies, in a subfolder, are for the simulator only.
        for path in paths.filter(|path| path.is_file()) {
            let scenario = simulate::read_file(&path).unwrap();
            let population = Population::new(&scenario, &mut Rng::new(1));
            let mut gateways = Vec::new();
            for _ in &scenario.clusters {
                gateways.push(Gateway::start(&scenario.reports, 1).await.unwrap());
            }
            let text = config(&scenario, &population, &gateways, "127.0.0.1:5300".parse().unwrap());
            let file = folder.path().join("fairway.yaml");
            fs::write(&file, text).unwrap();
            let errors = fairway_config::check(&Source::Path(file), &|_| None);
            assert!(errors.is_empty(), "{}: {errors:?}", path.display());
        }
    }

    #[test]
    fn client_networks_are_distinct() {
        assert_eq!(
            [network(0), network(255), network(256), network(65_536), network(199_999)],
            [[10, 0, 0], [10, 0, 255], [10, 1, 0], [11, 0, 0], [13, 13, 63]]
        );
    }
}
