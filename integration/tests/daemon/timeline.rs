//! The change log: who did what, and what a client would have got, also after a restart.

use std::{process::Command, time::SystemTime};

use fairway_integration::{
    load::wait_answer,
    real::{Fairway, http, http_get, serve, wait_until},
};
use serde_json::Value;

use super::{LIMIT, said};

const NAME: &str = "www.gslb.example";
const CONFIG: &str = "zones: [{ name: gslb.example, ns: [ns1.example.net] }]
clusters: [{ name: eu1, addresses: [192.0.2.1] }, { name: us1, addresses: [192.0.2.2] }]
monitors: [{ name: unchecked, type: always }]
pools: [{ name: shop, policy: failover, monitor: unchecked, members: [{ cluster: eu1 }, { cluster: us1 }] }]
names: [{ name: www.gslb.example, pool: shop }]
";

/// Returns this moment in RFC 3339, once it has passed.
fn moment() -> String {
    let now = fairway_model::Timestamp::from(SystemTime::now());
    wait_until("the moment has passed", LIMIT, || fairway_model::Timestamp::from(SystemTime::now()) > now);
    format!("{now:.9}")
}

fn restart(server: &mut Fairway) {
    server.process.signal("TERM");
    server.process.ended(LIMIT);
    let log = server.folder.path().join("log-2");
    let mut command: Command = serve(server.folder.path());
    server.process = fairway_integration::real::Process::start(&mut command, &log);
    server.wait_ready();
}

#[test]
fn answers_of_the_past_and_who_changed_them_are_known_after_a_restart() {
    let mut server = Fairway::start(CONFIG, &[]);
    wait_answer(server.dns, NAME, &["192.0.2.1"], LIMIT);
    let explain = |server: &Fairway, at: &str| said(&server.command(&["explain", NAME, "--at", at, "--json"]));
    let before = moment();
    let added = server.command(&["override", "add", "eu1", "drain", "--reason", "kernel \"update\"", "--for", "5m"]);
    assert!(added.status.success(), "{}", said(&added));
    wait_answer(server.dns, NAME, &["192.0.2.2"], LIMIT);
    let drained = moment();
    server.write_config(&CONFIG.replace("{ cluster: eu1 }, { cluster: us1 }", "{ cluster: us1 }, { cluster: eu1 }"));
    assert!(server.command(&["reload"]).status.success());
    for _ in 0..2 {
        for (at, address) in [(&before, "192.0.2.1"), (&drained, "192.0.2.2")] {
            let explained: Value = serde_json::from_str(&explain(&server, at)).expect("JSON");
            assert_eq!(explained["answer"][0]["data"], address, "at {at}: {explained}");
            assert_eq!(explained["at"]["exact"], true, "{explained}");
        }
        let events = said(&server.command(&["events", "--since", "1h"]));
        let lines = ["override added", "configuration applied"];
        let positions = lines.map(|line| events.find(line).unwrap_or_else(|| panic!("{line} is not in {events}")));
        assert!(positions.is_sorted(), "{events}");
        let of_kind = said(&server.command(&["events", "--event", "override", "--contains", "KERNEL"]));
        assert!(
            of_kind.contains(r#"reason="kernel \"update\"""#) && of_kind.contains("by=\"local user 0\""),
            "{of_kind}"
        );
        assert_eq!(of_kind.lines().count(), 1, "{of_kind}");
        restart(&mut server);
    }
    let of_process = said(&server.command(&["events", "--event", "process"]));
    let is_start = |line: &str| line.contains("serving");
    let starts_and_stops: Vec<bool> = of_process.lines().map(is_start).collect();
    assert_eq!(starts_and_stops, [true, false, true, false, true], "{of_process}");
    // A dry run is no event, and a write is one whatever its parameters say.
    let dry = ["override", "add", "us1", "drain", "--reason", "what if", "--for", "5m", "--dry-run"];
    assert!(server.command(&dry).status.success());
    let (_, listed) = http_get(server.http, "/v1/overrides").expect("an answer");
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let added = listed["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{listed}"));
    let removal = format!("/v1/overrides/{added}?dryRun=true");
    assert_eq!(http(server.http, "DELETE", &removal).expect("an answer").0, 200, "it has no such parameter");
    let calls = said(&server.command(&["events", "--event", "api"]));
    assert_eq!(calls.matches("POST /v1/overrides").count(), 1, "the one that was added: {calls}");
    assert_eq!(calls.matches("DELETE /v1/overrides").count(), 1, "{calls}");
    let early = server.command(&["explain", NAME, "--at", "2020-01-01T00:00:00Z"]);
    assert!(!early.status.success() && said(&early).contains("the change log begins at"), "{}", said(&early));
    let (status, body) = http_get(server.http, "/v1/events?event=overrides").expect("an answer");
    assert!(status == 400 && body.contains("overrides") && body.contains("publishing"), "{status} {body}");
}
