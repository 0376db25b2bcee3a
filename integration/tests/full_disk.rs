//! The disk of the declared objects is full: writes are rejected with the reason, acknowledged ones remain, answers continue. With free
//! space, writes are accepted again. The disk is a small tmpfs in its own mount namespace, which needs root.
#![cfg(feature = "real")]

use std::{
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use fairway_integration::{
    load::resolve,
    real::{Process, fairway_binary, free_port, head, http_get, wait_until},
};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);

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

/// Declares some 40 kB at a name; returns the whole answer.
fn declare(http: SocketAddr, number: u32) -> String {
    let text = format!("{number:0240}");
    let all = vec![format!(r#"\"{text}\""#); 160].join(" ");
    let body = format!(
        r#"{{"name": "n{number}.gslb.example", "sets": [{{"type": "TXT", "ttl": "60s", "data": ["{all}"]}}]}}"#
    );
    let mut command = Command::new("curl");
    command.args(["-s", "-i", "-m", "60", "-X", "PUT", "-H", "content-type: application/json", "-d", &body]);
    let output =
        command.arg(format!("http://{http}/v1/records/n{number}.gslb.example")).output().expect("curl is here");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn is_there(http: SocketAddr, number: u32) -> bool {
    http_get(http, &format!("/v1/records/n{number}.gslb.example")).is_some_and(|(status, _)| status == 200)
}

#[test]
fn full_disk_rejects_writes_loses_nothing_and_recovers() {
    let disk = Disk::new(6);
    let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let zone = "zones: [{ name: gslb.example, ns: [ns1.example.net], contact: a@example.net }]\n";
    std::fs::write(disk.folder.path().join("fairway.yaml"), head(dns, http) + zone).expect("the folder can be written");
    let ready =
        || wait_until("it is ready", LIMIT, || http_get(http, "/readyz").is_some_and(|(status, _)| status == 200));
    let mut server = disk.serve();
    ready();
    let mut acknowledged = 0;
    let refused = loop {
        let said = declare(http, acknowledged + 1);
        if !said.starts_with("HTTP/1.1 2") {
            break said;
        }
        acknowledged += 1;
        assert!(acknowledged < 1_000, "the disk is never full");
    };
    println!("{acknowledged} records of 40 kB fitted");
    assert!(acknowledged >= 10, "only {acknowledged} fitted");
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("application/problem+json"), "{refused}");
    assert!(refused.contains("No space left on device"), "{refused}");
    assert!((1..=acknowledged).all(|number| is_there(http, number)));
    assert!(resolve(dns, "gslb.example").is_some_and(|reply| reply.rcode == 0), "answers go on");

    // Killed with a full disk, it starts with all acknowledged objects.
    server.signal("KILL");
    server.ended(LIMIT);
    server = disk.serve();
    ready();
    assert!((1..=acknowledged).all(|number| is_there(http, number)));

    disk.grow(64);
    wait_until("writes are taken again", LIMIT, || declare(http, acknowledged + 1).starts_with("HTTP/1.1 2"));
    assert!((1..=acknowledged + 1).all(|number| is_there(http, number)));
    server.signal("TERM");
    server.ended(LIMIT);
}
