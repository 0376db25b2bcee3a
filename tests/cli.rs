//! The program as a shell sees it: exit status, standard output, standard error.
//!
//! What commands compute is tested beside their code; here, that they are wired up and end as their manual says.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Output, Stdio},
};

/// The program with an environment of its own: nothing of the tester's counts.
fn fairway(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairway"));
    command.args(arguments).env_clear().env("HOME", "/nonexistent").stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    fairway(arguments).output().expect("the program was built with this test")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("output is UTF-8")
}

/// Runs, and holds the exit status against the one expected.
fn ends(arguments: &[&str], status: i32) -> Output {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}\n{}{}", out(&output), err(&output));
    output
}

/// Every command with a help of its own.
const COMMANDS: &[&[&str]] = &[
    &["serve"],
    &["check"],
    &["explain"],
    &["replay"],
    &["status"],
    &["override"],
    &["override", "add"],
    &["override", "list"],
    &["override", "remove"],
    &["reload"],
    &["config"],
    &["config", "schema"],
    &["config", "example"],
    &["demo"],
    &["version"],
    &["completions"],
    &["manual"],
];

#[test]
fn every_command_has_help_on_standard_output() {
    for command in COMMANDS {
        let output = ends(&[*command, &["--help"]].concat(), 0);
        let usage = format!("Usage: fairway {}", command.join(" "));
        assert!(out(&output).contains(&usage), "{command:?}:\n{}", out(&output));
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn no_line_of_help_is_wider_than_a_terminal() {
    for command in COMMANDS {
        let text = out(&ends(&[*command, &["--help"]].concat(), 0));
        let wide = text.lines().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None, "{command:?}");
    }
}

#[test]
fn a_wrong_command_line_ends_with_2_and_says_why_on_standard_error() {
    let wrong: &[&[&str]] = &[
        &[],
        &["dance"],
        &["serve"],
        &["serve", "--listen", "127.0.0.1:5300"],
        &["serve", "--zone", "example.org=x"],
        &["serve", "--listen", "127.0.0.1", "--zone", "example.org=x"],
        &["serve", "--config", "f.yaml", "--listen", "127.0.0.1:5300", "--zone", "example.org=x"],
        &["serve", "--listen", "127.0.0.1:5300", "--zone", "example.org=x", "--replace"],
        &["check"],
        &["check", "f.yaml", "--zone", "example.org=x"],
        &["explain"],
        &["explain", "a..b"],
        &["explain", "a.example", "--type", "WAT"],
        &["explain", "a.example", "--client", "10.0.0.0/33"],
        &["explain", "a.example", "--down", "eu1"],
        &["explain", "a.example", "--config", "f.yaml", "--url", "http://127.0.0.1:1"],
        &["override", "add", "eu1", "down", "--reason", "test"],
        &["override", "add", "eu1", "down", "--reason", "test", "--for", "soon"],
        &["override", "add", "eu1", "sideways", "--reason", "test", "--for", "1h"],
        &["demo", "--port", "0"],
        &["completions", "dos"],
    ];
    for arguments in wrong {
        let output = ends(arguments, 2);
        assert!(output.stdout.is_empty(), "{arguments:?}: {}", out(&output));
        assert!(!output.stderr.is_empty(), "{arguments:?} says nothing");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(out(&ends(&["version"], 0)), concat!("fairway ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(out(&ends(&["--version"], 0)), concat!("fairway ", env!("CARGO_PKG_VERSION"), "\n"));
    let json = out(&ends(&["version", "--json"], 0));
    assert_eq!(json, concat!("{\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}\n"));
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = out(&ends(&["completions", shell], 0));
        for word in ["serve", "override", "data-dir"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
}

#[test]
fn the_manual_has_a_page_a_command() {
    let folder = tempfile::tempdir().unwrap();
    ends(&["manual", "--dir", folder.path().to_str().unwrap()], 0);
    for command in COMMANDS {
        let page = folder.path().join(format!("fairway-{}.1", command.join("-")));
        let text = fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        assert!(text.contains(".TH"), "{command:?}");
    }
    let main = fs::read_to_string(folder.path().join("fairway.1")).unwrap();
    assert!(
        main.contains("Exit status") && main.contains("FAIRWAY\\_CONFIG") | main.contains("FAIRWAY_CONFIG"),
        "{main}"
    );
    assert!(out(&ends(&["manual"], 0)).contains(".TH"));
}

#[test]
fn a_manual_into_a_missing_folder_fails_with_its_name() {
    let output = ends(&["manual", "--dir", "/nonexistent/man"], 1);
    assert!(err(&output).starts_with("fairway: /nonexistent/man: "), "{}", err(&output));
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = fairway(&["config", "example"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()));
}

#[test]
fn a_full_disk_is_a_failure() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = fairway(&["config", "example"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).starts_with("fairway: standard output cannot be written"), "{}", err(&output));
}

#[test]
fn without_a_running_server_questions_fail_and_say_where_they_looked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let socket = format!("{folder}/control.sock");
    for arguments in [
        &["status"][..],
        &["explain", "a.example"],
        &["reload"],
        &["override", "list"],
        &["override", "remove", "1"],
        &["override", "add", "eu1", "drain", "--reason", "test", "--for", "1h"],
    ] {
        let output = ends(&[arguments, &["--data-dir", folder]].concat(), 1);
        assert!(
            err(&output).starts_with(&format!("fairway: cannot connect to {socket}: ")),
            "{arguments:?}: {}",
            err(&output)
        );
    }
}

#[test]
fn the_data_folder_comes_from_the_environment_too() {
    let output = fairway(&["status"]).env("FAIRWAY_DATA_DIR", "/nonexistent/data").output().unwrap();
    assert!(err(&output).contains("/nonexistent/data/control.sock"), "{}", err(&output));
}

#[test]
fn nothing_is_coloured_in_a_pipe_unless_asked_for() {
    assert!(!out(&run(&["status", "--help"])).contains('\u{1b}'));
    let folder = tempfile::tempdir().unwrap();
    let zone = write_zone(folder.path(), "@ A 192.0.2.1\n");
    let check = ["check", "--zone", zone.as_str()];
    assert!(!out(&ends(&check, 0)).contains('\u{1b}'));
    assert!(out(&ends(&[&check[..], &["--color", "always"]].concat(), 0)).contains('\u{1b}'));
}

/// A zone file with SOA and NS before the text; returns `NAME=FILE`.
fn write_zone(folder: &Path, text: &str) -> String {
    let file = folder.join("example.org.zone");
    let head = "$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 604800 60\n@ NS ns1\nns1 A 192.0.2.53\n";
    fs::write(&file, format!("{head}{text}")).expect("the scratch folder takes a file");
    format!("example.org={}", file.display())
}

#[test]
fn a_sound_zone_passes_its_check_with_a_sum() {
    let folder = tempfile::tempdir().unwrap();
    let zone = write_zone(folder.path(), "www A 192.0.2.1\n");
    assert_eq!(out(&ends(&["check", "--zone", &zone], 0)), "1 zone, 4 records: ok\n");
    assert_eq!(out(&ends(&["check", "--quiet", "--zone", &zone], 0)), "");
}

#[test]
fn every_fault_of_a_zone_is_a_line_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let zone = write_zone(folder.path(), "www A 192.0.2.300\nmail WAT 1\n");
    let text = out(&ends(&["check", "--zone", &zone], 1));
    let path = folder.path().join("example.org.zone");
    for line in [5, 6] {
        assert!(text.contains(&format!("{}:{line}:", path.display())), "no fault of line {line}:\n{text}");
    }
    assert!(text.ends_with("2 errors\n"), "{text}");
}

#[test]
fn the_example_configuration_passes_its_check() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fairway.yaml");
    fs::write(&file, ends(&["config", "example"], 0).stdout).unwrap();
    let text = out(&ends(&["check", "--strict", file.to_str().unwrap()], 0));
    assert!(text.starts_with("1 zone, ") && text.ends_with("2 pools, 3 steered names: ok\n"), "{text}");
}

#[test]
fn every_fault_of_a_configuration_is_a_line_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fairway.yaml");
    let example = out(&ends(&["config", "example"], 0));
    let broken = example.replace("weight: 60", "weight: 70000").replace("policy: failover", "policies: failover");
    fs::write(&file, broken).unwrap();
    let output = ends(&["check", file.to_str().unwrap()], 1);
    let text = out(&output);
    let place = |mark: &str| example.lines().position(|line| line.contains(mark)).unwrap() + 1;
    for mark in ["weight: 60", "policy: failover"] {
        assert!(text.contains(&format!("{}:{}:", file.display(), place(mark))), "no fault at {mark}:\n{text}");
    }
    assert!(text.contains("did you mean policy?") || text.contains("policy"), "{text}");
}

#[test]
fn a_missing_file_is_a_fault_and_not_a_crash() {
    let output = ends(&["check", "/nonexistent/fairway.yaml"], 1);
    assert!(out(&output).contains("/nonexistent/fairway.yaml"), "{}", out(&output));
    let output = ends(&["serve", "--config", "/nonexistent/fairway.yaml"], 1);
    assert!(err(&output).contains("/nonexistent/fairway.yaml"), "{}", err(&output));
}

#[test]
fn the_schema_is_json_and_knows_pools() {
    let text = out(&ends(&["config", "schema"], 0));
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(schema["properties"]["pools"].is_object(), "{text}");
}

#[test]
fn files_alone_explain_a_failure_that_never_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fairway.yaml");
    fs::write(&file, ends(&["config", "example"], 0).stdout).unwrap();
    let file = file.to_str().unwrap();
    let all_up = out(&ends(&["explain", "pay.gslb.example", "--config", file], 0));
    assert!(all_up.contains("203.0.113.10\n") && all_up.contains("assumed"), "{all_up}");
    let failed = out(&ends(&["explain", "pay.gslb.example", "--config", file, "--down", "eu1"], 0));
    assert!(failed.contains("203.0.113.20\n") && failed.contains("out  eu1"), "{failed}");
    let json = out(&ends(&["explain", "pay.gslb.example", "--config", file, "--json"], 0));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["answer"][0]["data"], "203.0.113.10");
}

#[test]
fn playing_down_an_unknown_cluster_fails_with_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fairway.yaml");
    fs::write(&file, ends(&["config", "example"], 0).stdout).unwrap();
    let output = ends(&["explain", "pay.gslb.example", "--config", file.to_str().unwrap(), "--down", "eu7"], 1);
    assert!(err(&output).contains("eu7") && err(&output).contains("eu1"), "{}", err(&output));
}

#[test]
fn a_port_in_use_ends_the_server_with_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let zone = write_zone(folder.path(), "");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let output = ends(&["serve", "--listen", &at, "--zone", &zone], 1);
    assert!(err(&output).contains(&at), "{}", err(&output));
}

#[test]
fn a_replay_tells_what_a_changed_configuration_moves() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let configuration = |weight: u8| {
        format!(
            "version: 1
zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
clusters:
  - {{ name: eu1, addresses: [203.0.113.10], capacity: 100 }}
  - {{ name: us1, addresses: [203.0.113.20], capacity: 100 }}
pools:
  - {{ name: shop, policy: weighted, members: [{{ cluster: eu1, weight: {weight} }}, {{ cluster: us1, weight: 50 }}] }}
names: [{{ name: shop.gslb.example, pool: shop }}]
"
        )
    };
    let (old, new) = (write("old.yaml", &configuration(50)), write("new.yaml", &configuration(150)));
    let query = |n: u32| {
        let (name, subnet) = ("shop.gslb.example.", format!("198.{}.{}.0/24", n / 250, n % 250));
        format!(
            "{{\"msg\":\"query\",\"client\":\"192.0.2.53\",\"subnet\":\"{subnet}\",\"name\":\"{name}\",\"type\":\"A\"}}\n"
        )
    };
    let log = write("query.log", &(0..4_000).map(query).collect::<String>());

    let report = |arguments: &[&str]| -> serde_json::Value {
        let arguments = [&["replay", "--json", "--log", &log, "--against", &new], arguments].concat();
        serde_json::from_str(&out(&ends(&arguments, 0))).unwrap()
    };
    let moved = report(&["--from", &old]);
    let pool = &moved["pools"][0];
    assert_eq!((&pool["queries"], &pool["networks"]), (&4_000.into(), &4_000.into()));
    // 50 % become 75 %: a quarter moves, and no more; 4,000 clients are within 3 points of it.
    let share = pool["moved"].as_f64().unwrap() / 4_000.0;
    assert!((0.22..0.28).contains(&share), "{moved:#}");
    let one_less = report(&["--down", "eu1", "--offered", "60%"]);
    let clusters = one_less["clusters"].as_array().unwrap();
    assert_eq!((&clusters[0]["cluster"], &clusters[0]["loadAfter"]), (&"us1".into(), &120.0.into()), "{one_less:#}");

    let empty = write("empty.log", "{\"msg\":\"serving\"}\n");
    assert!(err(&ends(&["replay", "--log", &empty, "--against", &new], 1)).contains("no query in it"));
}

/// A configuration of three clusters; `pay` is its own part.
fn with_pay(folder: &Path, name: &str, pay: &str) -> String {
    let text = format!(
        "version: 1
zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
clusters:
  - {{ name: eu1, addresses: [203.0.113.10], capacity: 100, location: {{ latitude: 50, longitude: 8, region: eu }} }}
  - {{ name: eu2, addresses: [203.0.113.11], capacity: 100, location: {{ latitude: 51, longitude: 8, region: eu }} }}
  - {{ name: us1, addresses: [203.0.113.20], capacity: 100, location: {{ latitude: 40, longitude: -70, region: us }} }}
pools:
  - {{ name: pay, policy: failover, {pay} }}
names: [{{ name: pay.gslb.example, pool: pay }}]
"
    );
    let path = folder.join(name);
    fs::write(&path, text).expect("the folder is the test's own");
    path.to_str().expect("its path is text").to_owned()
}

#[test]
fn impact_of_a_worse_change_is_printed_and_exits_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let members = "members: [{ cluster: eu1 }, { cluster: eu2 }, { cluster: us1, tier: 2 }]";
    let old = with_pay(folder.path(), "old.yaml", members);
    let new = with_pay(folder.path(), "new.yaml", &format!("ttl: 300s, panicThreshold: 50%, {members}"));
    let terms = ["--offered", "120", "--drain-budget", "60s"];
    let output = ends(&[&["check", &new, "--impact", "--against", &old], &terms[..]].concat(), 1);
    let expected = "\
pool pay  1 name, TTL 300 s, 1 place of clients; each has at least 2 clusters in 1 region
  the same answers for every client network

capacity  with any one cluster down nobody is over while each carries up to 100 %, before 100 %; asked for are 120 %
  the worst: eu1 down, then eu2 is full

rules that do not hold
  warning  new        pool pay: with region eu down verdicts are ignored for any client, since less than panicThreshold (50 %) is up
  error    new        pool pay: no client is ever given us1, nor anyone else of tier 2, whatever is down; panicThreshold comes before it, or a view, a preference or an override keeps it from everybody
  error    new        pool pay: caches keep answers 300 s, and a drain may take 60 s
  error    as before  with eu1 down eu2 would have to carry 120 % of its capacity
  error    as before  with eu2 down eu1 would have to carry 120 % of its capacity
  error    as before  with us1 down eu1 would have to carry 120 % of its capacity

5 rules do not hold, 3 of them as before, 1 warning
";
    assert_eq!(out(&output), expected);
    let json: serde_json::Value = serde_json::from_str(&out(&ends(&["check", &new, "--impact", "--json"], 1))).unwrap();
    assert_eq!((&json["compared"], &json["findings"][1]["rule"]), (&false.into(), &"unreachable".into()));
    assert_eq!((&json["pools"][0]["ttlSeconds"], &json["capacity"]["worstDown"]), (&300.into(), &"eu1".into()));
}

#[test]
fn rules_that_were_broken_before_end_with_3_and_rules_that_hold_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let fine = with_pay(folder.path(), "fine.yaml", "members: [{ cluster: eu1 }, { cluster: us1 }]");
    let alone = with_pay(folder.path(), "alone.yaml", "members: [{ cluster: eu1 }]");
    ends(&["check", &fine, "--impact"], 0);
    ends(&["check", &alone, "--impact"], 1);
    let before = ends(&["check", &alone, "--impact", "--against", &alone], 3);
    assert!(out(&before).ends_with("1 rule does not hold, 1 of them as before\n"), "{}", out(&before));
    let mended = ends(&["check", &fine, "--impact", "--against", &alone], 0);
    assert!(out(&mended).contains("rules that hold again\n  error  pool pay: with eu1 down"), "{}", out(&mended));
    fs::write(folder.path().join("faulty.yaml"), "version: 1\nzones: []\nclusters: [{ name: x }]\n").unwrap();
    let faulty = folder.path().join("faulty.yaml");
    let failed = ends(&["check", &fine, "--impact", "--against", faulty.to_str().unwrap()], 1);
    assert!(err(&failed).contains("faulty.yaml:3"), "{}", err(&failed));
    ends(&["check", &fine, "--against", &alone], 2);
}
