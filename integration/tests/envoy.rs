//! Real Envoys as ingress gateways, broken in every way that gateways are, and the answers meanwhile.
//!
//! The health crate tests how a probe evaluates each behaviour on the wire; this test shows that the whole server follows a real gateway.
#![cfg(feature = "real")]

use std::{
    process::Command,
    time::{Duration, Instant},
};

use fairway_integration::{
    gateway::{BOOTSTRAP, Gateway, envoy},
    load::{Reply, resolve, wait_answer},
    real::{Fairway, Process, fairway_binary, free_port, http_get, wait_until},
};
use tempfile::TempDir;

/// Longest wait for an event; half a second is usual, the rest is for a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// Addresses of the two gateways of every test.
const EU: &str = "127.0.0.2";
const US: &str = "127.0.0.3";

/// Two gateways, and the server in front: `pay` fails over from EU to US, `shop` chooses one of them per query.
struct Scene {
    eu: Gateway,
    us: Gateway,
    server: Fairway,
}

impl Scene {
    fn new() -> Self {
        Self::with("period: 200ms, timeout: 200ms, rise: 2, fall: 2", BOOTSTRAP)
    }

    fn with(times: &str, bootstrap: &str) -> Self {
        let port = free_port();
        let [eu, us] = [EU, US].map(|address| Gateway::new(address, port, bootstrap));
        let config = format!(
            "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
clusters:
  - {{ name: eu1, addresses: [{EU}] }}
  - {{ name: us1, addresses: [{US}] }}
monitors: [{{ name: gateway, type: http, port: {port}, path: /healthz/ready, {times} }}]
pools:
  - {{ name: pay, policy: failover, monitor: gateway, members: [{{ cluster: eu1 }}, {{ cluster: us1 }}] }}
  - name: shop
    policy: weighted
    spread: query
    monitor: gateway
    members: [{{ cluster: eu1, weight: 50 }}, {{ cluster: us1, weight: 50 }}]
names: [{{ name: pay.gslb.example, pool: pay }}, {{ name: shop.gslb.example, pool: shop }}]
"
        );
        let server = Fairway::start(&config, &[]);
        let scene = Self { eu, us, server };
        scene.wait_both();
        scene
    }

    fn pay(&self) -> Option<Reply> {
        resolve(self.server.dns, "pay.gslb.example")
    }

    /// Returns the answers to 40 queries for `shop`. One of two equal members stays unseen once in 2^39 runs.
    fn shop(&self) -> Vec<Reply> {
        let mut replies: Vec<_> = (0..40).filter_map(|_| resolve(self.server.dns, "shop.gslb.example")).collect();
        replies.sort();
        replies.dedup();
        replies
    }

    /// Checks that both names answer without EU.
    fn wait_without_eu(&self) {
        wait_answer(self.server.dns, "pay.gslb.example", &[US], LIMIT);
        let replies = self.shop();
        assert!(replies.len() == 1 && replies[0].is(&[US]), "{replies:?}");
    }

    /// Checks that `pay` answers EU and that `shop` answers both, one at a time.
    fn wait_both(&self) {
        wait_answer(self.server.dns, "pay.gslb.example", &[EU], LIMIT);
        wait_until("shop draws both gateways", LIMIT, || {
            let replies = self.shop();
            replies.len() == 2 && replies[0].is(&[EU]) && replies[1].is(&[US])
        });
    }
}

#[test]
fn killed_gateway_is_not_answered_until_it_returns() {
    let mut scene = Scene::new();
    scene.eu.kill();
    scene.wait_without_eu();
    scene.eu.start();
    scene.wait_both();
}

#[test]
fn hanging_gateway_is_not_answered_until_it_returns() {
    let scene = Scene::new();
    scene.eu.signal("STOP");
    scene.wait_without_eu();
    scene.eu.signal("CONT");
    scene.wait_both();
}

#[test]
fn draining_gateway_is_not_answered_until_it_returns() {
    let scene = Scene::new();
    scene.eu.healthcheck("fail");
    scene.wait_without_eu();
    scene.eu.healthcheck("ok");
    scene.wait_both();
}

#[test]
fn all_gateways_down_answers_every_member_and_never_nxdomain() {
    let mut scene = Scene::new();
    scene.eu.healthcheck("fail");
    scene.us.kill();
    for name in ["pay.gslb.example", "shop.gslb.example"] {
        wait_answer(scene.server.dns, name, &[EU, US], LIMIT);
    }
    assert!(scene.server.metric("fairway_down_answers_total", "") >= 2.0);
    scene.us.start();
    wait_answer(scene.server.dns, "pay.gslb.example", &[US], LIMIT);
    scene.eu.healthcheck("ok");
    scene.wait_both();
    assert_eq!(scene.server.metric("fairway_responses_total", "NXDOMAIN"), 0.0);
}

#[test]
fn flapping_gateway_changes_answers_no_faster_than_rise() {
    // Five passes in a row, one period apart, take at least 4 × 200 ms × 0.9 = 720 ms, the shortest time between two returns.
    let scene = Scene::with("period: 200ms, timeout: 200ms, rise: 5, fall: 2", BOOTSTRAP);
    let began = Instant::now();
    let mut toggles = 0_u32;
    wait_until("four seconds of flapping", LIMIT, || {
        scene.eu.healthcheck(if toggles.is_multiple_of(2) { "fail" } else { "ok" });
        toggles += 1;
        let reply = scene.pay().expect("the server answers while a gateway flaps");
        assert!(reply.is(&[EU]) || reply.is(&[US]), "{reply:?}");
        began.elapsed() > Duration::from_secs(4)
    });
    let transitions = scene.server.metric("fairway_health_transitions_total", "");
    let first = 2.0;
    let bound = first + 2.0 * (began.elapsed().as_secs_f64() / 0.72 + 1.0);
    assert!(transitions <= bound, "{transitions} changes in {:?}, {toggles} toggles", began.elapsed());
    assert!(f64::from(toggles) > 3.0 * transitions, "too few toggles to tell: {toggles}, and {transitions} changes");
    scene.eu.healthcheck("ok");
    scene.wait_both();
}

#[test]
fn slow_gateway_within_the_timeout_stays_up() {
    // Envoy's fault filter delays each answer by half of the timeout.
    let slow = "http_filters:
                  - name: envoy.filters.http.fault
                    typed_config:
                      \"@type\": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault
                      delay: { fixed_delay: 0.4s, percentage: { numerator: 100 } }
                  - name: envoy.filters.http.health_check";
    let before = "http_filters:
                  - name: envoy.filters.http.health_check";
    assert!(BOOTSTRAP.contains(before));
    let scene = Scene::with("period: 800ms, timeout: 800ms, rise: 2, fall: 2", &BOOTSTRAP.replace(before, slow));
    let passes = || probes(&scene.server, "passes");
    let began = passes();
    wait_until("four further passes of each gateway", LIMIT, || passes() >= began + 8);
    assert_eq!(scene.server.metric("fairway_health_transitions_total", "to=\"down\""), 0.0);
    let state = state(&scene.server);
    for target in state["targets"].as_array().expect("targets are a list") {
        // Envoy's timers may be a few milliseconds early; an answer without delay takes one millisecond.
        assert!(target["lastMicros"].as_u64().is_some_and(|took| took >= 300_000), "{target}");
    }
    scene.wait_both();
}

/// `fairway demo` with real gateways: it exits with 0 only if everything happened as announced.
#[test]
fn demo_shows_a_failure_of_a_real_envoy_and_ends() {
    let mut command = Command::new(fairway_binary());
    command.args(["demo", "--once", "--envoy"]).env("FAIRWAY_ENVOY", envoy());
    let folder = TempDir::new().expect("a temporary folder");
    let mut demo = Process::start(&mut command, &folder.path().join("demo.log"));
    let status = demo.ended(LIMIT);
    let output = demo.output();
    assert!(status.success(), "{status}:\n{output}");
    for part in ["its Envoy is killed", "eu1 is down", "eu1 is up", "127.0.1.1 (eu1) → 127.0.2.1 (us1)", "kept theirs"]
    {
        assert!(output.contains(part), "{part:?} is missing in\n{output}");
    }
}

/// Returns the sum of a counter over all targets.
fn probes(server: &Fairway, count: &str) -> u64 {
    let state = state(server);
    let targets = state["targets"].as_array().expect("targets are a list");
    targets.iter().filter_map(|target| target[count].as_u64()).sum()
}

fn state(server: &Fairway) -> serde_json::Value {
    let (_, body) = http_get(server.http, "/v1/state").expect("/v1/state answers");
    serde_json::from_str(&body).expect("/v1/state is JSON")
}
