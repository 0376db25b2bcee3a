//! A start from configuration and environment alone, as an orchestrator does it. A failed start ends at once with its reason
//! and a status that is not 0.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
};

use fairway_integration::{
    load::{resolve, wait_answer},
    real::{Fairway, Process, fairway_binary, free_port, http_get, wait_until},
};

use super::{LIMIT, NAME, answering, serve_again};

/// Runs `fairway serve` without flags, with exactly these variables.
fn by_environment(variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(fairway_binary());
    command.arg("serve").env_clear().envs(variables.iter().copied());
    command
}

/// Returns the variables of a server: its configuration, listeners and data folder.
fn placed(config: &Path, dns: SocketAddr, http: SocketAddr) -> Vec<(&'static str, String)> {
    let folder = config.parent().expect("a file lies in a folder");
    vec![
        ("FAIRWAY_CONFIG", config.display().to_string()),
        ("FAIRWAY_LISTEN_DNS", dns.to_string()),
        ("FAIRWAY_LISTEN_HTTP", http.to_string()),
        ("FAIRWAY_DATA_DIR", folder.join("data").display().to_string()),
    ]
}

fn borrowed<'a>(variables: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    variables.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

#[test]
fn server_starts_from_configuration_and_environment() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = folder.path().join("fairway.yaml");
    fs::write(&config, format!("version: 1\n{}", answering(&["192.0.2.1"]))).expect("the folder can be written");
    let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let mut command = by_environment(&borrowed(&placed(&config, dns, http)));
    let mut process = Process::start(&mut command, &folder.path().join("log"));
    wait_until("it is ready", LIMIT, || http_get(http, "/readyz").is_some_and(|(status, _)| status == 200));
    wait_answer(dns, NAME, &["192.0.2.1"], LIMIT);
    let (status, version) = http_get(http, "/version").expect("it answers");
    assert!(status == 200 && version.contains(&format!("\"pid\":{}", process.pid())), "{version}");
    process.signal("TERM");
    assert!(process.ended(LIMIT).success(), "{}", process.output());
}

/// A failed start: the configuration, a replaced variable, and the expected message.
type Fault<'a> = (&'a str, Option<(&'a str, &'a str)>, &'a str);

#[test]
fn failed_start_prints_the_reason_and_serves_nothing() {
    let good = format!("version: 1\n{}", answering(&["192.0.2.1"]));
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replace(from, to)
    };
    let (unknown, weight) = (with("policy", "polizy"), with("{ cluster: eu1 }", "{ cluster: eu1, weight: 70000 }"));
    let (address, lost) = (with("192.0.2.1", "192.0.2.256"), with("cluster: eu1 }", "cluster: us1 }"));
    let (untold, key) = (format!("{good}traces: {{}}\n"), format!("{good}traces: {{ endpoint: grpc://a }}\n"));
    let table: &[Fault<'_>] = &[
        ("", None, "fairway.yaml"),
        ("version: 2\n", None, "fairway.yaml:1:10: version: "),
        ("version: 1\npools: [\n", None, "fairway.yaml:"),
        (&unknown, None, "polizy: unknown key; did you mean policy?"),
        (&weight, None, "pools[0].members[0].weight: 70000 is "),
        (&address, None, "clusters[0].addresses[0]: "),
        (&lost, None, "us1"),
        (&untold, None, "traces: no collector is configured; add endpoint"),
        (&key, None, "traces.endpoint: "),
        (
            &good,
            Some(("FAIRWAY_LISTEN_DNS", "::1")),
            "environment: FAIRWAY_LISTEN_DNS: \"::1\" has no port; write \"[::1]:53\"",
        ),
        (
            &good,
            Some(("FAIRWAY_LISTEN_HTTP", "on")),
            "environment: FAIRWAY_LISTEN_HTTP: \"on\" is not ADDRESS:PORT or off",
        ),
        (&good, Some(("FAIRWAY_LOG", "loud")), "environment: FAIRWAY_LOG: \"loud\" is not a level"),
        (&good, Some(("FAIRWAY_CONFIG", "/does/not/exist.yaml")), "/does/not/exist.yaml: "),
        (&good, Some(("FAIRWAY_DATA_DIR", "/dev/null")), "data folder /dev/null: not a directory; "),
        (&good, Some(("FAIRWAY_USER", "nobody-of-that-name")), "nobody-of-that-name"),
        (&good, Some(("FAIRWAY_LISTEN_DNS", "192.0.2.1:53")), "192.0.2.1"),
    ];
    for (text, variable, part) in table {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = folder.path().join("fairway.yaml");
        fs::write(&config, text).expect("the folder can be written");
        let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let placed = placed(&config, dns, http);
        // The later of two values counts.
        let variables: Vec<_> = borrowed(&placed).into_iter().chain(*variable).collect();
        let mut process = Process::start(&mut by_environment(&variables), &folder.path().join("log"));
        let status = process.ended(LIMIT).code();
        let said = process.output();
        assert_eq!(status, Some(1), "{text} {variable:?}: {said}");
        assert!(said.contains(part), "{part} in {said}");
        assert!(!said.contains("\"msg\":\"serving\"") && !said.contains("panicked"), "{said}");
    }
}

/// A client that knows two servers asks the other one if the first is silent, as resolvers do.
#[test]
fn restart_of_each_of_two_servers_loses_no_query() {
    let config = answering(&["192.0.2.1"]);
    let mut servers = [Fairway::start(&config, &[]), Fairway::start(&config, &[])];
    let at = [servers[0].dns, servers[1].dns];
    let (ending, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            while !ending.load(Relaxed) {
                let round = asked.fetch_add(1, Relaxed);
                let reply = resolve(at[round % 2], NAME).or_else(|| resolve(at[(round + 1) % 2], NAME));
                assert!(reply.is_some_and(|reply| reply.is(&["192.0.2.1"])), "question {round} is lost");
            }
        });
        for server in &mut servers {
            let before = asked.load(Relaxed);
            wait_until("questions are asked", LIMIT, || asked.load(Relaxed) > before + 20 || asking.is_finished());
            server.process.signal("TERM");
            assert!(server.process.ended(LIMIT).success(), "{}", server.process.output());
            server.process = serve_again(server, "again");
            server.wait_ready();
        }
        ending.store(true, Relaxed);
    });
    assert!(asked.load(Relaxed) > 40);
}
