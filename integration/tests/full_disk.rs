//! An editor fills the disk of the declared objects with objects of a megabyte, as fast as the server takes them: writes are rejected with
//! the reason, also those of an ExternalDNS, acknowledged ones remain, answers continue, and a killed server starts with the full disk.
//! With free space, writes are accepted again. The disk is a small tmpfs in its own mount namespace, which needs root.
#![cfg(feature = "real")]

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fairway_access::TokenHash;
use fairway_integration::{
    load::{resolve, wait_answer},
    real::{Process, call, fairway_binary, free_port, head, http_get, wait_until},
};
use serde_json::json;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);
const EDITOR: &str = "token-of-the-editor";
const OWNER: &str = "token-of-external-dns";
/// Connections over which the editor writes.
const WRITERS: u32 = 8;
/// Record sets of an object, each with 32,000 octets that are written in hexadecimal digits: 1 MB.
const LARGE: usize = 16;

/// A mount namespace with a file system of some MiB at `data`.
struct Disk {
    folder: TempDir,
    holder: Process,
}

impl Disk {
    fn new(mebibytes: u32) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let data = folder.path().join("data");
        std::fs::create_dir(&data).expect("a folder");
        let script = format!("mount -t tmpfs -o size={mebibytes}m,mode=700 tmpfs {} && exec sleep 600", data.display());
        let mut command = Command::new("unshare");
        let holder = Process::start(command.args(["--mount", "sh", "-c", &script]), &folder.path().join("holder.log"));
        let disk = Self { folder, holder };
        wait_until("it is mounted", LIMIT, || disk.run("mountpoint", &["-q", &data.to_string_lossy()]));
        disk
    }

    /// Returns a command that sees the disk.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.pid())).arg(program);
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> bool {
        let mut command = self.command(Path::new(program));
        command.args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    fn grow(&self, mebibytes: u32) {
        let (size, data) = (format!("remount,size={mebibytes}m"), self.folder.path().join("data"));
        assert!(self.run("mount", &["-o", &size, &data.to_string_lossy()]), "it can be made larger");
    }

    fn serve(&self) -> Process {
        let mut command = self.command(fairway_binary());
        command.arg("serve").arg("--config").arg(self.folder.path().join("fairway.yaml"));
        command.arg("--data-dir").arg(self.folder.path().join("data")).env_remove("FAIRWAY_PARTS");
        Process::start(&mut command, &self.folder.path().join("fairway.log"))
    }
}

/// The listeners of the server.
#[derive(Clone, Copy)]
struct Server {
    dns: SocketAddr,
    http: SocketAddr,
    webhook: SocketAddr,
}

impl Server {
    fn new() -> Self {
        let [dns, http, webhook] = [(); 3].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
        Self { dns, http, webhook }
    }

    fn config(&self) -> String {
        let [editor, owner] = [EDITOR, OWNER].map(TokenHash::of);
        head(self.dns, self.http)
            + &format!(
                "zones: [{{ name: gslb.example, ns: [ns1.example.net], contact: a@example.net, monitor: unchecked }}]
monitors: [{{ name: unchecked, type: always }}]
webhook: {{ listen: \"{}\", token: {owner} }}
access:
  tokens: [{{ name: editor, sha256: {editor} }}]
  limits: {{ perSecond: 10000, burst: 10000 }}
  grants: [{{ role: editor, to: [\"token:editor\"] }}]
  names: [{{ to: [\"owner:/\"], domains: [gslb.example] }}]
",
                self.webhook
            )
    }

    fn wait_ready(&self) {
        let opens = || http_get(self.http, "/readyz").is_some_and(|(status, _)| status == 200);
        wait_until("it is ready", LIMIT, || opens() && self.records().is_some());
    }

    /// Declares this many record sets at a name. Returns status and body.
    fn declare(&self, number: u32, sets: usize) -> (u16, String) {
        let data = format!("\\# 32000 {}", format!("{number:08x}").repeat(8_000));
        let set = |at| json!({"type": format!("TYPE{}", 65_280 + at), "ttl": "60s", "data": [data]});
        let name = format!("n{number}.gslb.example");
        let body = json!({"name": name, "sets": (0..sets).map(set).collect::<Vec<_>>()}).to_string();
        let request = format!("PUT /v1/records/{name}");
        call(self.http, &request, (EDITOR, "application/json"), &body, LIMIT).expect("it answers")
    }

    fn is_declared(&self, number: u32) -> bool {
        let request = format!("GET /v1/records/n{number}.gslb.example");
        call(self.http, &request, (EDITOR, ""), "", LIMIT).is_some_and(|(status, _)| status == 200)
    }

    /// Contributes a name as ExternalDNS does. Returns the status.
    fn contribute(&self, number: u32) -> u16 {
        let endpoint =
            json!({"dnsName": format!("hook{number}.gslb.example"), "recordType": "A", "targets": ["192.0.2.7"]});
        let body = json!({"create": [endpoint]}).to_string();
        let media_type = "application/external.dns.webhook+json;version=1";
        call(self.webhook, "POST /records", (OWNER, media_type), &body, LIMIT).expect("it answers").0
    }

    /// Returns what ExternalDNS sees; `None` if it gets no answer.
    fn records(&self) -> Option<String> {
        let reply = call(self.webhook, "GET /records", (OWNER, ""), "", LIMIT);
        reply.filter(|(status, _)| *status == 200).map(|(_, text)| text)
    }

    /// Checks that the acknowledged objects and names are stored and answered.
    fn expect_all(&self, objects: &BTreeSet<u32>, contributed: u32) {
        assert!(objects.iter().all(|number| self.is_declared(*number)));
        for number in 0..contributed {
            let name = format!("hook{number}.gslb.example");
            assert!(resolve(self.dns, &name).is_some_and(|reply| reply.is(&["192.0.2.7"])), "{name}");
            assert!(self.records().is_some_and(|records| records.contains(&name)), "{name}");
        }
    }
}

/// The editor fills the disk over several connections. Returns the numbers of the acknowledged objects.
fn fill(server: Server) -> BTreeSet<u32> {
    let (next, acknowledged, begun) = (AtomicU32::new(0), Mutex::new(BTreeSet::new()), Instant::now());
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                for sets in [LARGE, 1] {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        assert!(number < 1_000, "the disk is never full");
                        let (status, body) = server.declare(number, sets);
                        if !matches!(status, 200 | 201) {
                            assert!(status == 503 && body.contains("No space left on device"), "{status} {body}");
                            break;
                        }
                        acknowledged.lock().expect("nobody panics").insert(number);
                    }
                }
            });
        }
    });
    let acknowledged = acknowledged.into_inner().expect("nobody panics");
    println!("{} objects were stored in {:?}", acknowledged.len(), begun.elapsed());
    acknowledged
}

#[test]
fn full_disk_rejects_writes_loses_nothing_and_recovers() {
    let (disk, server) = (Disk::new(32), Server::new());
    std::fs::write(disk.folder.path().join("fairway.yaml"), server.config()).expect("the folder can be written");
    let mut process = disk.serve();
    server.wait_ready();
    assert_eq!(server.contribute(0), 204);
    wait_answer(server.dns, "hook0.gslb.example", &["192.0.2.7"], LIMIT);
    let objects = fill(server);
    assert!(objects.len() >= 10, "only {} fitted", objects.len());
    // Small writes may still find a place.
    let mut contributed = 1;
    let refused = loop {
        match server.contribute(contributed) {
            204 => contributed += 1,
            status => break status,
        }
        assert!(contributed < 100, "the disk is never full");
    };
    println!("then {contributed} names of ExternalDNS, and {refused}");
    assert!((500..600).contains(&refused), "ExternalDNS has to repeat the write: {refused}");
    server.expect_all(&objects, contributed);
    assert!(server.records().is_some_and(|records| !records.contains(&format!("hook{contributed}."))));

    // Killed with a full disk, it starts with everything that was acknowledged.
    process.signal("KILL");
    process.ended(LIMIT);
    process = disk.serve();
    server.wait_ready();
    server.expect_all(&objects, contributed);

    disk.grow(64);
    wait_until("ExternalDNS repeats its write", LIMIT, || server.contribute(contributed) == 204);
    wait_until("writes are taken again", LIMIT, || matches!(server.declare(2_000, LARGE).0, 200 | 201));
    server.expect_all(&objects, contributed + 1);
    process.signal("TERM");
    process.ended(LIMIT);
}
