//! The program as a shell sees it: exit status, standard output, standard error.
//!
//! The code of the commands has unit tests. These tests check that the program runs them, and ends as the manual says.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Output, Stdio},
};

/// Returns the program with an empty environment.
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

/// Runs the program, and asserts its exit status.
fn ends(arguments: &[&str], status: i32) -> Output {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}\n{}{}", out(&output), err(&output));
    output
}

/// Returns every command and subcommand, as words on the command line.
fn commands() -> Vec<Vec<String>> {
    fn add(command: &clap::Command, words: &[String], all: &mut Vec<Vec<String>>) {
        for subcommand in command.get_subcommands() {
            let words = [words, &[subcommand.get_name().to_owned()]].concat();
            add(subcommand, &words, all);
            all.push(words);
        }
    }
    let mut all = Vec::new();
    add(&fairway::cli::command(), &[], &mut all);
    all
}

fn help(command: &[String]) -> Output {
    let words: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
    ends(&words, 0)
}

#[test]
fn help_of_every_command_is_on_standard_output() {
    assert!(commands().len() > 30, "expected over 30 commands: {:?}", commands());
    for command in commands() {
        let output = help(&command);
        let usage = format!("Usage: fairway {}", command.join(" "));
        assert!(out(&output).contains(&usage), "{command:?}:\n{}", out(&output));
        assert!(output.stderr.is_empty(), "{command:?}: {}", err(&output));
    }
}

#[test]
fn help_fits_a_terminal_of_100_columns() {
    for command in commands() {
        let text = out(&help(&command));
        let wide = text.lines().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None, "{command:?}");
    }
}

#[test]
fn help_lists_every_exit_status() {
    let text = out(&ends(&["--help"], 0));
    for status in 0..=4 {
        assert!(text.contains(&format!("\n  {status}  ")), "exit status {status} is missing:\n{text}");
    }
    assert!(out(&ends(&["diff", "--help"], 0)).contains("\n  4  something would change"));
    assert!(out(&ends(&["check", "--help"], 0)).contains("\n  3  with --against"));
}

#[test]
fn help_of_every_command_lists_its_exit_status_once() {
    for command in commands() {
        let text = out(&help(&command));
        let (_, status) = text.split_once("\nExit status:\n  0  ").unwrap_or_else(|| panic!("{command:?}:\n{text}"));
        assert!(
            status.contains("\n  1  ") && status.contains("\n  2  the command line is invalid\n"),
            "{command:?}:\n{text}"
        );
        assert!(!status.contains("Exit status:"), "{command:?}:\n{text}");
    }
    let explain = out(&ends(&["explain", "--help"], 0));
    let common = "\n\nExit status:\n  0  success\n  1  failure; the reason is on standard error\n";
    assert!(explain.contains("--down eu1\n") && explain.contains(common), "it keeps the examples:\n{explain}");
}

#[test]
fn invalid_command_line_exits_with_2_and_an_error() {
    let invalid: &[&[&str]] = &[
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
        &["override", "add", "eu1", "--reason", "test", "--for", "1h"],
        &["override", "add", "--pools", "shop", "--reason", "test", "--for", "1h"],
        &["override", "add", "--load", "off", "--reason", "test", "--for", "1h"],
        &["override", "add", "--pools", "shop", "--load", "on", "--reason", "test", "--for", "1h"],
        &["override", "add", "eu1", "drain", "--pools", "shop", "--load", "off", "--reason", "test", "--for", "1h"],
        &["override", "add", "--pools", "shop", "--load", "off", "--for", "1h"],
        &["rbac", "eu1"],
        &["rbac", "eu1", "--config", "f.yaml", "--service-account", "fairway"],
        &["demo", "--port", "0"],
        &["completions", "dos"],
    ];
    for arguments in invalid {
        let output = ends(arguments, 2);
        assert!(output.stdout.is_empty(), "{arguments:?}: {}", out(&output));
        assert!(!output.stderr.is_empty(), "{arguments:?}: no error");
    }
}

#[test]
fn version_is_that_of_the_package() {
    assert_eq!(out(&ends(&["version"], 0)), concat!("fairway ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(out(&ends(&["--version"], 0)), concat!("fairway ", env!("CARGO_PKG_VERSION"), "\n"));
    let json = out(&ends(&["version", "--json"], 0));
    assert_eq!(json, concat!("{\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}\n"));
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = out(&ends(&["completions", shell], 0));
        for word in ["serve", "override", "data-dir"] {
            assert!(script.contains(word), "{shell}: {word} is missing");
        }
    }
}

#[test]
fn manual_has_one_page_per_command() {
    let folder = tempfile::tempdir().unwrap();
    ends(&["manual", "--dir", folder.path().to_str().unwrap()], 0);
    for command in commands() {
        let page = folder.path().join(format!("fairway-{}.1", command.join("-")));
        let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert!(text.contains(".TH") && text.contains("Exit status:"), "{command:?}");
    }
    let main = fs::read_to_string(folder.path().join("fairway.1")).unwrap();
    assert!(
        main.contains("Exit status") && main.contains("FAIRWAY\\_CONFIG") | main.contains("FAIRWAY_CONFIG"),
        "{main}"
    );
    assert!(out(&ends(&["manual"], 0)).contains(".TH"));
}

#[test]
fn manual_into_a_missing_folder_fails_with_its_name() {
    let output = ends(&["manual", "--dir", "/nonexistent/man"], 1);
    assert!(err(&output).starts_with("fairway: /nonexistent/man: "), "{}", err(&output));
}

#[test]
fn closed_pipe_exits_with_0() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = fairway(&["config", "example"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()));
}

#[test]
fn full_disk_exits_with_1() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = fairway(&["config", "example"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).starts_with("fairway: cannot write standard output"), "{}", err(&output));
}

#[test]
fn commands_without_a_running_server_fail_and_name_the_socket() {
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
fn data_folder_is_read_from_the_environment() {
    let output = fairway(&["status"]).env("FAIRWAY_DATA_DIR", "/nonexistent/data").output().unwrap();
    assert!(err(&output).contains("/nonexistent/data/control.sock"), "{}", err(&output));
}

#[test]
fn output_to_a_pipe_is_coloured_only_on_request() {
    assert!(!out(&run(&["status", "--help"])).contains('\u{1b}'));
    let folder = tempfile::tempdir().unwrap();
    let zone = write_zone(folder.path(), "@ A 192.0.2.1\n");
    let check = ["check", "--zone", zone.as_str()];
    assert!(!out(&ends(&check, 0)).contains('\u{1b}'));
    assert!(out(&ends(&[&check[..], &["--color", "always"]].concat(), 0)).contains('\u{1b}'));
}

/// Writes a zone file with SOA, NS and a text. Returns `NAME=FILE`.
fn write_zone(folder: &Path, text: &str) -> String {
    let file = folder.join("example.org.zone");
    let head = "$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 604800 60\n@ NS ns1\nns1 A 192.0.2.53\n";
    fs::write(&file, format!("{head}{text}")).expect("the temporary folder is writable");
    format!("example.org={}", file.display())
}

#[test]
fn valid_zone_passes_its_check_with_a_summary() {
    let folder = tempfile::tempdir().unwrap();
    let zone = write_zone(folder.path(), "www A 192.0.2.1\n");
    assert_eq!(out(&ends(&["check", "--zone", &zone], 0)), "1 zone, 4 records: ok\n");
    assert_eq!(out(&ends(&["check", "--quiet", "--zone", &zone], 0)), "");
}

#[test]
fn zone_errors_are_reported_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let zone = write_zone(folder.path(), "www A 192.0.2.300\nmail WAT 1\n");
    let text = out(&ends(&["check", "--zone", &zone], 1));
    let path = folder.path().join("example.org.zone");
    for line in [5, 6] {
        assert!(text.contains(&format!("{}:{line}:", path.display())), "no error for line {line}:\n{text}");
    }
    assert!(text.ends_with("2 errors\n"), "{text}");
}

#[test]
fn example_configuration_passes_its_check() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fairway.yaml");
    fs::write(&file, ends(&["config", "example"], 0).stdout).unwrap();
    let text = out(&ends(&["check", "--strict", file.to_str().unwrap()], 0));
    assert!(text.starts_with("1 zone, ") && text.ends_with("2 pools, 3 steered names: ok\n"), "{text}");
}

#[test]
fn user_that_the_machine_lacks_is_a_warning_of_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fairway.yaml");
    fs::write(&file, "version: 1\nuser: no-such-user\n").unwrap();
    let text = out(&ends(&["check", file.to_str().unwrap()], 0));
    let expected = format!("{}:2:7: warning: user: there is no user no-such-user on this machine, ", file.display());
    assert!(text.contains(&expected), "{text}");
    ends(&["check", "--strict", file.to_str().unwrap()], 1);
}

#[test]
fn configuration_errors_are_reported_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fairway.yaml");
    let example = out(&ends(&["config", "example"], 0));
    let broken = example.replace("weight: 60", "weight: 70000").replace("policy: failover", "policies: failover");
    fs::write(&file, broken).unwrap();
    let output = ends(&["check", file.to_str().unwrap()], 1);
    let text = out(&output);
    let line_of = |mark: &str| example.lines().position(|line| line.contains(mark)).unwrap() + 1;
    for mark in ["weight: 60", "policy: failover"] {
        assert!(text.contains(&format!("{}:{}:", file.display(), line_of(mark))), "no error at {mark}:\n{text}");
    }
    assert!(text.contains("did you mean policy?") || text.contains("policy"), "{text}");
}

#[test]
fn missing_file_is_an_error_with_its_path() {
    let output = ends(&["check", "/nonexistent/fairway.yaml"], 1);
    assert!(out(&output).contains("/nonexistent/fairway.yaml"), "{}", out(&output));
    let output = ends(&["serve", "--config", "/nonexistent/fairway.yaml"], 1);
    assert!(err(&output).contains("/nonexistent/fairway.yaml"), "{}", err(&output));
}

#[test]
fn schema_is_json_with_pools() {
    let text = out(&ends(&["config", "schema"], 0));
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(schema["properties"]["pools"].is_object(), "{text}");
}

#[test]
fn explain_from_files_shows_the_effect_of_a_failure() {
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
fn unknown_cluster_in_down_fails_with_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fairway.yaml");
    fs::write(&file, ends(&["config", "example"], 0).stdout).unwrap();
    let output = ends(&["explain", "pay.gslb.example", "--config", file.to_str().unwrap(), "--down", "eu7"], 1);
    assert!(err(&output).contains("eu7") && err(&output).contains("eu1"), "{}", err(&output));
}

#[test]
fn port_in_use_fails_with_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let zone = write_zone(folder.path(), "");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let output = ends(&["serve", "--listen", &at, "--zone", &zone], 1);
    assert!(err(&output).contains(&at), "{}", err(&output));
}

#[test]
fn replay_counts_the_queries_that_a_change_moves() {
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
    // The share grows from 50 % to 75 %, so a quarter moves. 3 points are over four standard deviations with 4,000 clients.
    let share = pool["moved"].as_f64().unwrap() / 4_000.0;
    assert!((0.22..0.28).contains(&share), "{moved:#}");
    let one_less = report(&["--down", "eu1", "--offered", "60%"]);
    let clusters = one_less["clusters"].as_array().unwrap();
    assert_eq!((&clusters[0]["cluster"], &clusters[0]["loadAfter"]), (&"us1".into(), &120.0.into()), "{one_less:#}");

    let empty = write("empty.log", "{\"msg\":\"serving\"}\n");
    assert!(err(&ends(&["replay", "--log", &empty, "--against", &new], 1)).contains("no queries"));
}

/// Writes a configuration with three clusters and a pool `pay` with these keys. Returns its path.
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
    fs::write(&path, text).expect("the temporary folder is writable");
    path.to_str().expect("the path is valid UTF-8").to_owned()
}

#[test]
fn impact_of_a_worse_configuration_exits_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let members = "members: [{ cluster: eu1 }, { cluster: eu2 }, { cluster: us1, tier: 2 }]";
    let old = with_pay(folder.path(), "old.yaml", members);
    let new = with_pay(folder.path(), "new.yaml", &format!("ttl: 300s, panicThreshold: 50%, {members}"));
    let terms = ["--offered", "120", "--drain-budget", "60s"];
    let output = ends(&[&["check", &new, "--impact", "--against", &old], &terms[..]].concat(), 1);
    let expected = "\
pool pay  1 name, TTL 300 s, 1 location class of clients; each has at least 2 clusters in 1 region
  the same answers for every client network

capacity  no cluster is overloaded with any other down, up to a load of 100 % each, before 100 %; offered 120 %
  worst case: eu1 down, which fills eu2

rules that do not hold
  warning  new        pool pay: with region eu down, health is ignored for any client, since less than panicThreshold (50 %) is up
  error    new        pool pay: no client ever gets us1, nor any other member of tier 2, whatever is down; the panic threshold is reached before its tier, or a view, preference or override excludes it for all clients
  error    new        pool pay: caches keep answers for 300 s, but a drain may take only 60 s
  error    as before  with eu1 down, eu2 would carry 120 % of its capacity
  error    as before  with eu2 down, eu1 would carry 120 % of its capacity
  error    as before  with us1 down, eu1 would carry 120 % of its capacity

5 rules do not hold, 3 of them as before, 1 warning
";
    assert_eq!(out(&output), expected);
    let json: serde_json::Value = serde_json::from_str(&out(&ends(&["check", &new, "--impact", "--json"], 1))).unwrap();
    assert_eq!((&json["compared"], &json["findings"][1]["rule"]), (&false.into(), &"unreachable".into()));
    assert_eq!((&json["pools"][0]["ttlSeconds"], &json["capacity"]["worstDown"]), (&300.into(), &"eu1".into()));
}

#[test]
fn impact_without_new_violations_exits_with_3_or_0() {
    let folder = tempfile::tempdir().unwrap();
    let fine = with_pay(folder.path(), "fine.yaml", "members: [{ cluster: eu1 }, { cluster: us1 }]");
    let alone = with_pay(folder.path(), "alone.yaml", "members: [{ cluster: eu1 }]");
    ends(&["check", &fine, "--impact"], 0);
    ends(&["check", &alone, "--impact"], 1);
    let before = ends(&["check", &alone, "--impact", "--against", &alone], 3);
    assert!(out(&before).ends_with("1 rule does not hold, 1 of them as before\n"), "{}", out(&before));
    let fixed = ends(&["check", &fine, "--impact", "--against", &alone], 0);
    assert!(out(&fixed).contains("rules that hold again\n  error  pool pay: with eu1 down,"), "{}", out(&fixed));
    fs::write(folder.path().join("invalid.yaml"), "version: 1\nzones: []\nclusters: [{ name: x }]\n").unwrap();
    let invalid = folder.path().join("invalid.yaml");
    let failed = ends(&["check", &fine, "--impact", "--against", invalid.to_str().unwrap()], 1);
    assert!(err(&failed).contains("invalid.yaml:3"), "{}", err(&failed));
    ends(&["check", &fine, "--against", &alone], 2);
}

#[test]
fn rights_are_printed_for_each_cluster_with_kubernetes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("f.yaml");
    let config = "version: 1
zones: [ { name: gslb.example, ns: [ns1.example.net] } ]
clusters:
  - { name: eu1, kubernetes: { inCluster: true } }
  - { name: us1, kubernetes: { inCluster: true, secretRef: { namespace: hub, name: us1 } } }
  - { name: plain, addresses: [192.0.2.1] }
publish: { providers: [ { name: corp, zones: [gslb.example], dnsendpoint: { cluster: us1, namespace: dns } } ] }
";
    fs::write(&file, config).expect("the folder can be written");
    let rbac = |words: &[&str], status| ends(&[&["rbac", "--config", file.to_str().unwrap()], words].concat(), status);
    let eu = out(&rbac(&["eu1", "--service-account", "gslb/server"], 0));
    assert!(eu.ends_with("subjects: [ { kind: ServiceAccount, name: server, namespace: gslb } ]\n"), "{eu}");
    assert!(!eu.contains("create") && !eu.contains("secret"), "{eu}");
    let us = out(&rbac(&["us1"], 0));
    assert!(us.starts_with("# The kubeconfig is in a Secret") && us.contains("{ name: fairway-corp, namespace: dns }"));
    let secret = out(&rbac(&["us1", "--secret"], 0));
    assert!(secret.contains("resources: [secrets], resourceNames: [us1], verbs: [get]"), "{secret}");
    for (words, error) in [
        (&["eu1", "--secret"][..], "cluster eu1 has no secretRef; omit --secret"),
        (&["plain"], "cluster plain has no Kubernetes API; add kubernetes to it"),
        (&["eu2"], "cluster eu2 is not declared; add it to clusters, with kubernetes"),
    ] {
        assert_eq!(err(&rbac(words, 1)), format!("fairway: {error}\n"));
    }
}
