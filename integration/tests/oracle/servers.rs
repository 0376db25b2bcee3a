//! The other name servers, each with its own folder and loopback port and the smallest configuration that serves the zones without
//! recursion, rate limits or extra records.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use fairway_integration::{
    message::{Message, bit},
    query::Query,
    real::{Process, ask, fairway_binary, free_port, program, root, wait_until},
};
use fairway_model::{Name, Rtype};
use tempfile::TempDir;

/// The zones: `plain.test` is `own.test` without what gdnsd cannot read (DS, DNAME, CNAME loops).
pub(crate) const ZONES: [&str; 3] = ["own.test", "plain.test", "rich.test"];

/// A zone that all servers read.
pub(crate) struct Zone {
    /// Apex.
    pub(crate) origin: Name,
    name: &'static str,
    text: String,
}

impl Zone {
    /// Returns the zone with this name, one of [`ZONES`].
    pub(crate) fn new(name: &'static str) -> Self {
        let rich = root().join("crates/zonefile/testdata/rich.portable.zone");
        let own = root().join("integration/tests/oracle/own.zone");
        let text =
            fs::read_to_string(if name == "rich.test" { rich } else { own }).expect("the file is in the repository");
        let gdnsd_reads = |line: &&str| {
            !(line.contains(" DS ")
                || line.contains(" DNAME ")
                || line.starts_with("loop")
                || line.starts_with("itself"))
        };
        let text = match name {
            "plain.test" => text.lines().filter(gdnsd_reads).map(|line| format!("{line}\n")).collect(),
            _ => text,
        };
        let origin = Name::from_text(name.as_bytes(), Some(&Name::root())).expect("it is a name");
        Self { origin, name, text }
    }

    /// Returns the owners: the first word of each line, as these files are written.
    pub(crate) fn owners(&self) -> Vec<Name> {
        let words = self
            .text
            .lines()
            .filter(|line| !line.starts_with(['$', ';', ' ']))
            .filter_map(|line| line.split(' ').next());
        let owner = |word: &str| match word {
            "@" => self.origin.clone(),
            _ => Name::from_text(word.as_bytes(), Some(&self.origin)).expect("zone files have names"),
        };
        words.filter(|word| !word.is_empty()).map(owner).collect()
    }
}

/// A running server.
pub(crate) struct Server {
    /// Name in the table of differences.
    pub(crate) name: &'static str,
    /// Address of its DNS socket.
    pub(crate) dns: SocketAddr,
    process: Process,
    _folder: TempDir,
}

impl Server {
    /// True if it serves this zone.
    pub(crate) fn has(&self, zone: &Zone) -> bool {
        reads(self.name, zone.name)
    }
}

/// True if a server can read a zone file. PowerDNS rejects the generic form (RFC 3597) of types that it knows.
fn reads(server: &str, zone: &str) -> bool {
    match server {
        "gdnsd" => zone == "plain.test",
        "pdns_server" => zone != "rich.test",
        _ => true,
    }
}

impl Drop for Server {
    /// Sends SIGTERM before the kill: some servers have children, which they end themselves.
    fn drop(&mut self) {
        if !self.process.is_running() {
            return;
        }
        self.process.signal("TERM");
        let end = Instant::now() + Duration::from_secs(5);
        while self.process.is_running() && Instant::now() < end {
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }
}

/// Starts all servers, Fairway first.
pub(crate) fn start_all() -> Vec<Server> {
    let setups: [(&'static str, Setup); 6] = [
        ("fairway", fairway),
        ("nsd", nsd),
        ("knotd", knot),
        ("named", bind),
        ("pdns_server", powerdns),
        ("gdnsd", gdnsd),
    ];
    setups.map(|(name, setup)| start(name, setup)).into()
}

/// Writes a configuration for a port into a folder that has the zone files, and returns the command.
type Setup = fn(&Path, u16) -> Command;

fn start(name: &'static str, setup: Setup) -> Server {
    let folder = TempDir::new().expect("a temporary folder");
    for zone in ZONES.map(Zone::new) {
        fs::write(folder.path().join(zone.name), &zone.text).expect("the folder can be written");
    }
    let port = free_port();
    let dns = SocketAddr::from(([127, 0, 0, 1], port));
    let mut command = setup(folder.path(), port);
    let mut process = Process::start(&mut command, &folder.path().join("log"));
    for zone in ZONES.map(Zone::new) {
        let query = Query::new(zone.origin.clone(), Rtype::SOA).encode();
        if !reads(name, zone.name) {
            continue;
        }
        wait_until("the server has its zones", Duration::from_secs(60), || {
            assert!(process.is_running(), "{name} ended: {}", process.output());
            let reply = ask(dns, &query).and_then(|reply| Message::decode(&reply).ok());
            reply.is_some_and(|reply| reply.header.has(bit::AA) && reply.sections[0].len() == 1)
        });
    }
    Server { name, dns, process, _folder: folder }
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).expect("the folder can be written");
}

fn fairway(folder: &Path, port: u16) -> Command {
    let zones = ZONES.map(|zone| format!("{{ name: {zone}, file: {zone} }}")).join(", ");
    let text = format!("version: 1\nlisten: {{ dns: [\"127.0.0.1:{port}\"], http: \"off\" }}\nzones: [ {zones} ]\n");
    write(folder, "fairway.yaml", &text);
    let mut command = Command::new(fairway_binary());
    command.arg("serve").arg("--config").arg(folder.join("fairway.yaml")).arg("--data-dir").arg(folder.join("data"));
    command
}

fn nsd(folder: &Path, port: u16) -> Command {
    let shown = folder.display();
    let zones = ZONES.map(|zone| format!("zone:\n  name: {zone}\n  zonefile: {zone}\n")).concat();
    let text = format!(
        "server:\n  ip-address: 127.0.0.1@{port}\n  server-count: 1\n  username: \"\"\n  chroot: \"\"\n  zonesdir: \"{shown}\"\n  \
         database: \"\"\n  pidfile: \"{shown}/nsd.pid\"\n  xfrdfile: \"{shown}/xfrd.state\"\n  zonelistfile: \"{shown}/zone.list\"\n  \
         xfrdir: \"{shown}\"\n  rrl-ratelimit: 0\n  rrl-whitelist-ratelimit: 0\n  minimal-responses: yes\n\
         remote-control:\n  control-enable: no\n{zones}"
    );
    write(folder, "nsd.conf", &text);
    let mut command = Command::new(program("nsd", "nsd"));
    command.arg("-d").arg("-c").arg(folder.join("nsd.conf"));
    command
}

fn knot(folder: &Path, port: u16) -> Command {
    let shown = folder.display();
    let zone = |zone| {
        format!(
            "  - domain: {zone}\n    storage: {shown}\n    file: {zone}\n    zonefile-load: whole\n    journal-content: none\n    \
             semantic-checks: off\n"
        )
    };
    let text = format!(
        "server:\n  listen: 127.0.0.1@{port}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n  rundir: {shown}\n\
         database:\n  storage: {shown}/db\nlog:\n  - target: stderr\n    any: warning\nzone:\n{}",
        ZONES.map(zone).concat()
    );
    write(folder, "knot.conf", &text);
    fs::create_dir(folder.join("db")).expect("the folder can be written");
    let mut command = Command::new(program("knotd", "knotd"));
    command.arg("-c").arg(folder.join("knot.conf"));
    command
}

fn bind(folder: &Path, port: u16) -> Command {
    let shown = folder.display();
    let zones = ZONES
        .map(|zone| format!("zone \"{zone}\" {{ type primary; file \"{zone}\"; check-names ignore; }};\n"))
        .concat();
    let text = format!(
        "options {{ directory \"{shown}\"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no;\n\
         pid-file \"{shown}/named.pid\"; session-keyfile \"{shown}/session.key\"; lock-file none; dnssec-validation no; notify no;\n\
         minimal-responses yes; zero-no-soa-ttl no; querylog no; }};\ncontrols {{ }};\n{zones}"
    );
    write(folder, "named.conf", &text);
    let mut command = Command::new(program("named", "named"));
    command.args(["-f", "-n", "1", "-U", "1", "-c"]).arg(folder.join("named.conf"));
    command
}

fn powerdns(folder: &Path, port: u16) -> Command {
    let shown = folder.display();
    let zone = |zone| format!("zone \"{zone}\" {{ type master; file \"{shown}/{zone}\"; }};\n");
    write(folder, "zones.conf", &ZONES.map(zone).concat());
    let text = format!(
        "launch=bind\nbind-config={shown}/zones.conf\nlocal-address=127.0.0.1\nlocal-port={port}\nsocket-dir={shown}\n\
         daemon=no\nguardian=no\nsetuid=\nsetgid=\ncache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\nreceiver-threads=1\n\
         distributor-threads=1\nloglevel=3\nlog-dns-queries=no\nsecurity-poll-suffix=\n8bit-dns=yes\ndname-processing=yes\n"
    );
    write(folder, "pdns.conf", &text);
    let mut command = Command::new(program("pdns_server", "pdns_server"));
    command.arg(format!("--config-dir={shown}"));
    command
}

fn gdnsd(folder: &Path, port: u16) -> Command {
    let shown = folder.display();
    for sub in ["zones", "run", "state"] {
        fs::create_dir(folder.join(sub)).expect("the folder can be written");
    }
    fs::copy(folder.join("plain.test"), folder.join("zones/plain.test")).expect("the folder can be written");
    let text = format!(
        "options => {{ listen => 127.0.0.1:{port}, udp_threads => 1, tcp_threads => 1, run_dir => {shown}/run,\n  \
         state_dir => {shown}/state }}\n"
    );
    write(folder, "config", &text);
    let mut command = Command::new(program("gdnsd", "gdnsd"));
    command.arg("-c").arg(folder).arg("start");
    command
}
