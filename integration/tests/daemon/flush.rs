//! A write is acknowledged only after the flush: strace sees no 2xx before the disk has flushed the batch of the write.
//!
//! A kill cannot show this, because the system keeps what the process has written. The order of strace's lines can: a thread stops at
//! the start and at the end of each system call until its line is written.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
    thread,
};

use fairway_integration::real::{Fairway, Process, http_get, program, wait_until};
use serde_json::json;

use super::{LIMIT, once::ask};

/// Concurrent clients, and writes per client; afterwards all objects are deleted one after the other.
const CLIENTS: usize = 8;
const WRITES: usize = 20;
const ZONE: &str = "zones: [{ name: gslb.example, ns: [ns1.example.net] }]\n";
const STORE: &str = "objects.redb>";

/// Flushed data up to a line of the trace. A batch is flushed twice: first its content, then the commit record.
#[derive(Default)]
struct Seen {
    /// Per thread: data written and not yet being flushed, and data of the flush in progress.
    written: BTreeMap<String, BTreeSet<String>>,
    flushing: BTreeMap<String, BTreeSet<String>>,
    /// Data flushed once; the commit record is written and flushed next.
    held: BTreeSet<String>,
    flushed: BTreeSet<String>,
    /// Number of flushes since the last acknowledgement.
    flushes: usize,
    made: usize,
    deleted: usize,
}

impl Seen {
    /// Processes one line: `THREAD CALL(…) = RESULT`, or two lines if others are in between.
    fn see(&mut self, line: &str) {
        let (thread, call) = line.split_once(' ').expect("a line begins with its thread");
        let (thread, call) = (thread.to_owned(), call.trim_start());
        let is_flush = call.starts_with("fdatasync(") || call.starts_with("fsync(");
        if is_flush && call.contains(STORE) {
            let own = self.written.remove(&thread).unwrap_or_default();
            self.flushing.insert(thread.clone(), own);
            if call.ends_with("= 0") {
                self.has_flushed(&thread);
            }
        } else if call.starts_with("<... fdatasync resumed") || call.starts_with("<... fsync resumed") {
            assert!(call.ends_with("= 0"), "{call}");
            self.has_flushed(&thread);
        } else if call.starts_with("pwrite") && call.contains(STORE) {
            self.written.entry(thread).or_default().extend(markers(call));
        } else if call.contains("HTTP/1.1 201") {
            let marker = markers(call).next().expect("it tells where the object is");
            assert!(self.flushed.contains(&marker), "{marker} was acknowledged before it was flushed");
            self.made += 1;
            self.flushes = 0;
        } else if call.contains("HTTP/1.1 204") {
            assert!(self.flushes > 1, "a deletion was acknowledged before it was flushed");
            self.deleted += 1;
            self.flushes = 0;
        }
    }

    fn has_flushed(&mut self, thread: &str) {
        if let Some(own) = self.flushing.remove(thread) {
            self.flushed.extend(std::mem::replace(&mut self.held, own));
            self.flushes += 1;
        }
    }
}

/// Returns the names of written objects in a line.
fn markers(line: &str) -> impl Iterator<Item = String> {
    line.match_indices("marker").filter_map(|(at, _)| line.get(at..at + 10)).map(str::to_owned)
}

#[test]
fn write_is_acknowledged_only_after_the_flush() {
    let server = Fairway::start(ZONE, &[]);
    let calls = server.folder.path().join("calls");
    let mut command = Command::new(program("strace", "strace"));
    // As many bytes of each call as the largest page that the store writes.
    command.args([
        "-qq",
        "-f",
        "-y",
        "-s",
        "65536",
        "-e",
        "trace=fdatasync,fsync,pwrite64,pwritev,write,writev,sendto,sendmsg",
    ]);
    command.arg("-o").arg(&calls).args(["-p", &server.process.pid().to_string()]);
    let mut strace = Process::start(&mut command, &server.folder.path().join("strace.log"));
    wait_until("strace sees answers", LIMIT, || {
        assert!(strace.is_running(), "strace ended: {}", strace.output());
        _ = http_get(server.http, "/readyz");
        fs::read_to_string(&calls).is_ok_and(|text| text.contains("HTTP/1.1 200"))
    });
    let name = |client: usize, write: usize| format!("marker{:04}", client * WRITES + write);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                for write in 0..WRITES {
                    let body = json!({"name": name(client, write), "addresses": ["192.0.2.1"]}).to_string();
                    assert_eq!(ask(server, "POST", "/v1/clusters", "", &body).0, 201);
                }
            });
        }
    });
    for client in 0..CLIENTS {
        for write in 0..WRITES {
            assert_eq!(ask(&server, "DELETE", &format!("/v1/clusters/{}", name(client, write)), "", "").0, 204);
        }
    }
    strace.signal("INT");
    strace.ended(LIMIT);
    let mut seen = Seen::default();
    fs::read_to_string(&calls).expect("strace wrote it").lines().for_each(|line| seen.see(line));
    assert_eq!((seen.made, seen.deleted), (CLIENTS * WRITES, CLIENTS * WRITES));
}
