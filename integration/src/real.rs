//! Real programs and the real server: starts them, waits for them, ends them, and records which part was used.
//!
//! Processes end when their handle is dropped, by id. Every wait is for a stated event, with a limit.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    net::{SocketAddr, TcpListener, UdpSocket},
    ops::Range,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the repository").to_owned()
}

/// Returns the path of the server's program, built again if its sources changed, or that of the variable `TESTED_FAIRWAY`.
pub fn fairway_binary() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(built) = std::env::var_os("TESTED_FAIRWAY") {
            return built.into();
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--package", "fairway"]).current_dir(root());
        // Cargo gives tests these variables. ring's build script depends on them, so with them everything that uses ring is built again.
        for (name, _) in
            std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            build.env_remove(name);
        }
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        if cfg!(feature = "real") {
            // With the profile and features of the tests, or half of the crates would be built twice.
            build.args(["--features", "fairway-store/real"]);
        }
        let built = build.status();
        assert!(built.is_ok_and(|status| status.success()), "cargo build --package fairway failed");
        // The program of this test is in DIR/deps/.
        let own = std::env::current_exe().expect("a test has a program");
        own.parent().and_then(Path::parent).expect("DIR/deps/test").join("fairway")
    })
}

/// Returns a port of loopback that is free for UDP and TCP, and that this process has not returned before: an earlier caller may not
/// have opened its port yet.
///
/// The kernel gives no such port to a client (`ip_local_port_range` begins at 32,768). A port of that range may become the source port
/// of some tool before the server opens it, and with `SO_REUSEPORT` even while it is open; the tool then receives its own query.
/// Ports that tests have fixed are below 25,000.
pub fn free_port() -> u16 {
    static NEXT: Mutex<u16> = Mutex::new(0);
    const RANGE: Range<u16> = 25_000..32_000;
    let mut next = NEXT.lock().expect("nobody panics with it");
    if *next == 0 {
        // Two test programs at the same time begin at different ports.
        *next = RANGE.start + (std::process::id() % u32::from(RANGE.end - RANGE.start)) as u16;
    }
    loop {
        let port = *next;
        *next = if port + 1 == RANGE.end { RANGE.start } else { port + 1 };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Waits until `check` holds, checked every 5 ms; fails with `what` after `limit`.
pub fn wait_until(what: &str, limit: Duration, mut check: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !check() {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Sets a flag when it is dropped, also by a failed assertion: threads that a scope waits for then end, too.
#[derive(Debug)]
pub struct SetAtEnd<'a>(pub &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Records that a test used a real part; `integration/run` fails for a part that no test used.
pub fn used(part: &str) {
    let folder = root().join("target/realparts-used");
    let _ = fs::create_dir_all(&folder);
    let test = std::thread::current().name().unwrap_or("main").to_owned();
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(folder.join(part)) {
        let _ = writeln!(file, "{test}");
    }
}

/// Returns the folder of built parts: `FAIRWAY_PARTS`, else `.parts` in the repository.
pub fn parts() -> PathBuf {
    std::env::var_os("FAIRWAY_PARTS").map_or_else(|| root().join(".parts"), PathBuf::from)
}

/// Returns the path of a program; fails with the command that installs it.
pub fn program(part: &str, name: &str) -> PathBuf {
    used(part);
    let own = parts().join("bin").join(name);
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&dirs).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = std::iter::once(own).chain(dirs.map(|dir| dir.join(name))).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is not on this machine; integration/run gets it"))
}

/// A running program; it ends when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program; its output goes to `log`.
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let file = File::create(log).expect("the log can be written");
        let both = file.try_clone().expect("a descriptor is free");
        let child = command.stdin(Stdio::null()).stdout(file).stderr(both).spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, log: log.to_owned() }
    }

    /// Starts a program with these sockets as descriptors 3 and 4, as a service manager passes them (sd_listen_fds(3)).
    pub fn start_activated(command: &Command, passed: [OwnedFd; 2], log: &Path) -> Self {
        let [third, fourth] = passed.map(Stdio::from);
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec 3<&0 4<&1 0</dev/null 1>&2; LISTEN_FDS=2 LISTEN_PID=$$ exec \"$@\"", "sh"]);
        shell.arg(command.get_program()).args(command.get_args()).env_remove("FAIRWAY_PARTS");
        let file = File::create(log).expect("the log can be written");
        let child = shell.stdin(third).stdout(fourth).stderr(file).spawn().expect("sh is everywhere");
        Self { child, log: log.to_owned() }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its processor time, to a hundredth of a second (proc_pid_stat(5): utime and stime in clock ticks).
    pub fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("it runs");
        let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
        let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().expect("a number"));
        Duration::from_millis(ticks.sum::<u64>() * 10)
    }

    /// Sends a signal by name: `TERM`, `HUP`, `STOP`, `CONT`, `KILL`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -s {name} {}", self.pid());
    }

    /// Waits for its end; fails with its log after `limit`.
    pub fn ended(&mut self, limit: Duration) -> ExitStatus {
        let mut status = None;
        let log = self.log.clone();
        let end = Instant::now() + limit;
        while status.is_none() {
            assert!(Instant::now() < end, "still running after {limit:?}: {}", tail(&log));
            status = self.child.try_wait().expect("it is our child");
            std::thread::park_timeout(Duration::from_millis(5));
        }
        status.expect("the loop ends with one")
    }

    /// True if it has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns its output.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().rev().take(20).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// The server, running with its own configuration in its own folder.
#[derive(Debug)]
pub struct Fairway {
    /// The process.
    pub process: Process,
    /// The folder: `fairway.yaml`, zone files, `data/`.
    pub folder: TempDir,
    /// Address of DNS.
    pub dns: SocketAddr,
    /// Address of HTTP.
    pub http: SocketAddr,
}

impl Fairway {
    /// Starts it with a `fairway.yaml` of free ports and `config`, and with these further files; waits until it is
    /// ready.
    pub fn start(config: &str, files: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("the folder can be written");
        }
        write_config(folder.path(), dns, http, config);
        Self::start_in(folder, dns, http)
    }

    /// Starts it with further keys of the section `listen`.
    pub fn start_with(listen: &str, config: &str) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let head = head(dns, http).replace(" }\n", &format!("{listen} }}\n"));
        fs::write(folder.path().join("fairway.yaml"), head + config).expect("the folder can be written");
        Self::start_in(folder, dns, http)
    }

    /// Starts it with the `fairway.yaml` of a folder; waits until it is ready.
    pub fn start_in(folder: TempDir, dns: SocketAddr, http: SocketAddr) -> Self {
        let process = Process::start(&mut serve(folder.path()), &folder.path().join("fairway.log"));
        let mut server = Self { process, folder, dns, http };
        server.wait_ready();
        server
    }

    /// Returns a command of the same program for this server's data folder: `override add …`, `reload`.
    pub fn command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(fairway_binary());
        command.args(arguments).arg("--data-dir").arg(self.folder.path().join("data"));
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Returns the rights in a Kubernetes cluster that `fairway rbac` prints for its configuration.
    pub fn rbac(&self, cluster: &str) -> String {
        let mut command = Command::new(fairway_binary());
        let output = command.args(["rbac", cluster, "--config"]).arg(self.folder.path().join("fairway.yaml")).output();
        let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Returns `/metrics`; fails without an answer.
    pub fn metrics(&self) -> String {
        http_get(self.http, "/metrics").filter(|(status, _)| *status == 200).expect("/metrics answers").1
    }

    /// Returns the sum of a metric over all rows that contain `part`, such as `fairway_health_transitions_total` and `to="down"`.
    pub fn metric(&self, name: &str, part: &str) -> f64 {
        let text = self.metrics();
        let rows = text.lines().filter_map(|line| {
            let labels = line.strip_prefix(name)?;
            let fits = labels.starts_with(['{', ' ']) && labels.contains(part);
            fits.then(|| labels.rsplit(' ').next()?.parse::<f64>().ok()).flatten()
        });
        rows.sum()
    }

    /// Starts a second process with the same folder and further arguments such as `--replace`.
    pub fn start_beside(&self, arguments: &[&str]) -> Process {
        Process::start(serve(self.folder.path()).args(arguments), &self.folder.path().join("beside.log"))
    }

    /// Replaces the configuration, except its first lines; the running process detects the change, or gets SIGHUP.
    pub fn write_config(&self, config: &str) {
        write_config(self.folder.path(), self.dns, self.http, config);
    }

    /// Waits until `/readyz` returns 200.
    pub fn wait_ready(&mut self) {
        let (http, end) = (self.http, Instant::now() + Duration::from_secs(30));
        while http_get(http, "/readyz").is_none_or(|(status, _)| status != 200) {
            assert!(self.process.is_running(), "fairway ended: {}", tail(&self.process.log));
            assert!(Instant::now() < end, "not ready in 30 s: {}", tail(&self.process.log));
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }
}

/// Returns the command that serves the `fairway.yaml` of a folder, with `data/` next to it.
pub fn serve(folder: &Path) -> Command {
    let mut command = Command::new(fairway_binary());
    // Removes the variables of the tests; the server warns about unknown ones.
    command.env_remove("FAIRWAY_PARTS");
    command.arg("serve").arg("--config").arg(folder.join("fairway.yaml")).arg("--data-dir").arg(folder.join("data"));
    command
}

/// Returns the first lines of each configuration: version and listeners.
pub fn head(dns: SocketAddr, http: SocketAddr) -> String {
    format!("version: 1\nlisten: {{ dns: [\"{dns}\"], http: \"{http}\" }}\n")
}

fn write_config(folder: &Path, dns: SocketAddr, http: SocketAddr, config: &str) {
    let text = head(dns, http) + config;
    let next = folder.join(".fairway.yaml.next");
    fs::write(&next, text)
        .and_then(|()| fs::rename(&next, folder.join("fairway.yaml")))
        .expect("the folder can be written");
}

/// Sends an HTTP GET; returns status and body, or `None` without an answer.
pub fn http_get(server: SocketAddr, path: &str) -> Option<(u16, String)> {
    http(server, "GET", path)
}

/// Sends an HTTP request without a body; returns status and body, or `None` without an answer.
pub fn http(server: SocketAddr, method: &str, path: &str) -> Option<(u16, String)> {
    let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
    exchanged(server, &format!("{method} {path}"), length, "", ANSWER_MAX)
}

/// Sends an HTTP request with a JSON body; returns status and body, or `None` without an answer.
pub fn http_json(server: SocketAddr, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let head = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    exchanged(server, &format!("{method} {path}"), &head, body, ANSWER_MAX)
}

/// Sends an HTTP request ("PUT /v1/pools/a") with a body of a media type, and with a token unless that is empty. Returns status and body, or
/// `None` without an answer within `limit`.
pub fn call(
    server: SocketAddr,
    request: &str,
    (token, media_type): (&str, &str),
    body: &str,
    limit: Duration,
) -> Option<(u16, String)> {
    let token = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    let head = format!("{token}Content-Type: {media_type}\r\nContent-Length: {}\r\n", body.len());
    exchanged(server, request, &head, body, limit)
}

/// Longest wait for an answer, where a test names none.
const ANSWER_MAX: Duration = Duration::from_secs(5);

fn exchanged(server: SocketAddr, what: &str, head: &str, body: &str, limit: Duration) -> Option<(u16, String)> {
    use std::io::Read;
    let mut stream = std::net::TcpStream::connect_timeout(&server, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(limit)).ok()?;
    write!(stream, "{what} HTTP/1.1\r\nHost: {server}\r\n{head}Connection: close\r\n\r\n{body}").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let status = text.split(' ').nth(1)?.parse().ok()?;
    Some((status, text.split_once("\r\n\r\n")?.1.to_owned()))
}

/// Sends a query over UDP; returns `None` if no answer arrives within a second.
pub fn ask(server: SocketAddr, packet: &[u8]) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    socket.send_to(packet, server).ok()?;
    let mut reply = vec![0; 65_535];
    let (length, _) = socket.recv_from(&mut reply).ok()?;
    reply.truncate(length);
    (reply.get(..2) == packet.get(..2)).then_some(reply)
}
