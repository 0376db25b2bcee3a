//! Hostile servers that Fairway calls: an etcd that is the store, a DNS server that zones are transferred from, and a webhook provider.
//!
//! Each sends what costs the caller most. The server must reject it with one error that says what is wrong, use bounded memory (its
//! peak, `VmHWM`), and answer queries all the while.

mod etcd;
mod store;
mod transfer;
mod webhook;

use std::{fs, time::Duration};

use fairway_integration::{
    load::resolve,
    real::{Fairway, http_get},
};
use serde_json::Value;

/// Longest wait for an event. A debug build on a busy machine decodes 8 MiB in some seconds.
const LIMIT: Duration = Duration::from_secs(120);
const MEBIBYTE: u64 = 1 << 20;
/// A name of the configuration, which no other server may affect.
const BYSTANDER: &str = "site.gslb.example";
const ADDRESS: &str = "192.0.2.1";

/// Returns the configuration of the bystander.
fn bystander() -> String {
    format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
monitors: [{{ name: unchecked, type: always }}]
clusters: [{{ name: c1, addresses: [{ADDRESS}] }}]
pools: [{{ name: site, policy: weighted, monitor: unchecked, members: [{{ cluster: c1 }}] }}]
names: [{{ name: {BYSTANDER}, pool: site }}]
"
    )
}

fn is_answered(server: &Fairway, name: &str) -> bool {
    resolve(server.dns, name).is_some_and(|reply| reply.is(&[ADDRESS]))
}

fn expect_answers(server: &Fairway, names: &[&str]) {
    assert!(names.iter().all(|name| is_answered(server, name)), "{names:?} are answered all the while");
}

fn get(server: &Fairway, path: &str) -> Value {
    let (_, body) = http_get(server.http, path).expect("the server answers");
    serde_json::from_str(&body).expect("it is JSON")
}

/// Returns the largest resident memory of the server so far, in bytes.
fn peak(server: &Fairway) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a field");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1_024
}

/// Returns the number of log lines that contain a text.
fn logged(server: &Fairway, text: &str) -> usize {
    server.process.output().lines().filter(|line| line.contains(text)).count()
}
