//! Commands with files: errors of the server have the file and line, and what `get` prints, `apply` takes.

use std::{
    fs,
    io::Write,
    process::{Command, Output, Stdio},
};

use fairway_integration::{
    load::{resolve, wait_answer},
    real::{Fairway, fairway_binary},
};

use super::{LIMIT, NAME, said};

const ZONE: &str = "zones: [{ name: gslb.example, ns: [ns1.example.net] }]\n";
const OBJECTS: &str = "clusters: [{ name: eu1, addresses: [192.0.2.1] }]
monitors: [{ name: unchecked, type: always }]
---
pools: [{ name: shop, policy: failover, monitor: unchecked, members: [{ cluster: eu1 }] }]
names: [{ name: www.gslb.example, pool: shop }]
";

/// Runs a command for this server with a text on its standard input.
fn piped(server: &Fairway, arguments: &[&str], text: &str) -> Output {
    let mut command = Command::new(fairway_binary());
    command.args(arguments).arg("--data-dir").arg(server.folder.path().join("data"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("the command reads it");
    child.wait_with_output().expect("it ends")
}

#[test]
fn apply_lists_unused_objects_of_its_own_only() {
    let server = Fairway::start(ZONE, &[]);
    for (name, other) in [("one", "two"), ("two", "one")] {
        let key = format!("inbound/web/shop/v1/default/default/{name}");
        let intent = format!("{{ metadata: {{ name: {name} }}, spec: {{ app: {name}, serviceName: {name} }} }}");
        let applied =
            said(&piped(&server, &["apply", "-f", "-"], &format!("intents: [ {{ key: {key}, intent: {intent} }} ]\n")));
        let unused = applied.lines().filter(|line| line.starts_with("rejected")).collect::<Vec<_>>();
        assert!(unused.len() == 1 && unused[0].contains(&key) && !unused[0].contains(other), "{applied}");
    }
}

#[test]
fn documents_of_standard_input_are_applied_and_printed_as_they_were() {
    let server = Fairway::start(ZONE, &[]);
    let applied = piped(&server, &["apply", "-f", "-"], OBJECTS);
    assert!(applied.status.success(), "{}", said(&applied));
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.1"])));
    for format in ["yaml", "json"] {
        for kind in ["clusters", "monitors", "pools", "names"] {
            let printed = said(&server.command(&["get", kind, "-o", format]));
            let same = piped(&server, &["diff", "-f", "-"], &printed);
            assert_eq!(same.status.code(), Some(0), "{format} of {kind}: {printed}{}", said(&same));
            let changed = printed.replace("192.0.2.1", "192.0.2.9");
            let differs = piped(&server, &["diff", "-f", "-"], &changed).status.code();
            assert_eq!(differs, Some(if kind == "clusters" { 4 } else { 0 }), "{changed}");
        }
    }
    for key in ["pools/shop", "pool/shop"] {
        assert!(said(&server.command(&["store", "history", key])).contains("local user"), "{key}");
    }
}

#[test]
fn each_error_of_the_server_has_its_file_and_line() {
    let server = Fairway::start(ZONE, &[]);
    assert!(piped(&server, &["apply", "-f", "-"], OBJECTS).status.success());
    let at = |name: &str| server.folder.path().join(name).display().to_string();
    let (pools, names) = (at("pools.yaml"), at("names.yaml"));
    let write = |file: &str, text: &str| fs::write(file, text).expect("the folder can be written");
    let apply = |more: &[&str]| server.command(&[&["apply", "-f", &pools, "-f", &names], more].concat());

    write(
        &pools,
        "pools:\n  - { name: a, policy: failover }\n  - { name: b, policy: weighted, members: [ { cluster: eu1, wieght: 7 } ] }\n",
    );
    write(&names, "names:\n  - name: b.gslb.example\n    pool: b\n    ttl: 5\n");
    let refused = apply(&[]);
    let text = said(&refused);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    for expected in [
        format!("{pools}:3:61: pools[1].members[0].wieght: unknown key; did you mean weight?"),
        format!("{names}:4:10: names[0].ttl: "),
    ] {
        assert!(text.lines().any(|line| line.starts_with(&expected)), "{expected} is missing: {text}");
    }

    // References are checked with all other objects.
    write(&pools, "pools:\n  - { name: b, policy: weighted, monitor: unchecked, members: [ { cluster: eu9 } ] }\n");
    write(&names, "names:\n  - { name: b.gslb.example, pool: b }\n");
    let text = said(&apply(&[]));
    assert!(text.lines().any(|line| line.starts_with(&format!("{pools}:2:")) && line.contains("eu9")), "{text}");
    let dry = said(&apply(&["--dry-run"]));
    assert!(dry.contains(&format!("{pools}:2:")), "{dry}");

    let used = server.command(&["delete", "pools", "shop"]);
    assert!(!used.status.success() && said(&used).contains("pools/shop is still used"), "{}", said(&used));
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&["192.0.2.1"])), "nothing changed");
}

#[test]
fn reload_says_how_many_record_sets_of_a_zone_file_changed() {
    let head = "$TTL 60\n@ SOA ns1.example.net. a.example.net. 1 2 3 4 5\n@ NS ns1.example.net.\n";
    let zone = |records: &str| format!("{head}{records}");
    let server = Fairway::start(
        "zones: [{ name: conf.test, file: conf.zone }]\n",
        &[("conf.zone", &zone("a A 192.0.2.1\nb A 192.0.2.2\nc A 192.0.2.3\n"))],
    );
    wait_answer(server.dns, "a.conf.test", &["192.0.2.1"], LIMIT);
    let file = server.folder.path().join("conf.zone");
    fs::write(file, zone("a A 192.0.2.9\nb A 192.0.2.2\nd A 192.0.2.4\ne TXT x\n")).expect("the folder can be written");
    let reloaded = said(&server.command(&["reload"]));
    // The server also follows the file, and may have been faster.
    let log = server.process.output();
    let line = "record sets of the file of conf.test.: 2 added, 1 changed, 1 removed";
    assert!(reloaded.contains(line) || log.contains(line), "{reloaded}{log}");
    wait_answer(server.dns, "a.conf.test", &["192.0.2.9"], LIMIT);
}
