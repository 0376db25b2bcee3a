//! Files that lose many names by mistake, and prunes of many objects, change no answer until the removal is allowed.

use std::{fs, net::TcpListener, process::Output};

use fairway_integration::{
    load::resolve,
    real::{Fairway, free_port, http, wait_until},
};

use super::{LIMIT, said, serve_again, state};

/// Returns a configuration with this number of steered names, and a zone file.
fn with_names(count: usize) -> String {
    let names: String =
        (0..count).map(|number| format!("  - {{ name: n{number}.gslb.example, pool: shop }}\n")).collect();
    format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}, {{ name: static.example, file: static.zone }}]
clusters: [{{ name: eu1, addresses: [192.0.2.1] }}]
monitors: [{{ name: unchecked, type: always }}]
pools: [{{ name: shop, policy: failover, monitor: unchecked, members: [{{ cluster: eu1 }}] }}]
{}{names}",
        if count == 0 { "names: []\n" } else { "names:\n" }
    )
}

fn zone(count: usize) -> String {
    let head = "@ 60 SOA ns1.example.net. admin.example.net. 1 1d 2h 1000h 1m\n@ 60 NS ns1.example.net.\n";
    (0..count).fold(head.to_owned(), |text, number| text + &format!("host{number} 60 A 198.51.100.1\n"))
}

fn start() -> Fairway {
    Fairway::start(&with_names(5), &[("static.zone", &zone(40))])
}

fn answers(server: &Fairway, name: &str) -> bool {
    resolve(server.dns, name).is_some_and(|reply| !reply.addresses.is_empty())
}

fn has_all(server: &Fairway) -> bool {
    (0..5).all(|number| answers(server, &format!("n{number}.gslb.example")))
        && (0..40).all(|number| answers(server, &format!("host{number}.static.example")))
}

#[test]
fn emptied_and_truncated_files_change_no_answer_until_removals_are_allowed() {
    let mut server = start();
    let zone_file = server.folder.path().join("static.zone");
    // All names of a zone, by each of the three ways to reload.
    server.write_config(&with_names(0));
    let refused = server.command(&["reload"]);
    let text = said(&refused);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("no longer declare any of the 5 names of zone gslb.example."), "{text}");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("to remove these names: ") && last.ends_with("/data --allow-removals"), "{text}");
    assert!(has_all(&server));
    for trigger in ["files", "signal"] {
        server.write_config(&with_names(5));
        wait_until("the good files are accepted", LIMIT, || state(server.http)["config"]["stale"] == false);
        server.write_config(&with_names(0));
        if trigger == "signal" {
            server.process.signal("HUP");
        }
        let is_refused = || {
            let last = state(server.http)["config"]["lastReload"].clone();
            last["removalsRefused"] == true && last["trigger"] == trigger
        };
        wait_until("the files are refused", LIMIT, is_refused);
        assert!(has_all(&server), "after a reload by {trigger}");
    }
    assert_eq!(server.metric("fairway_config_stale", ""), 1.0);
    assert!(server.process.output().contains("fairway reload --allow-removals"), "{}", server.process.output());

    // A zone file that was cut after a line: 11 of its 40 names are gone, and every line is valid.
    server.write_config(&with_names(5));
    fs::write(&zone_file, zone(29)).expect("the folder can be written");
    let text = said(&server.command(&["reload"]));
    assert!(
        text.contains("no longer declare 11 names of zone static.example.") && text.contains("declare 29"),
        "{text}"
    );
    assert!(has_all(&server));
    // Ten are few.
    fs::write(&zone_file, zone(30)).expect("the folder can be written");
    assert!(server.command(&["reload"]).status.success());
    wait_until("the names are gone", LIMIT, || !answers(&server, "host30.static.example"));

    let (status, body) = http(server.http, "POST", "/v1/reload?allowRemovals=perhaps").expect("it answers");
    assert_eq!(status, 400, "{body}");
    server.write_config(&with_names(0));
    let allowed = server.command(&["reload", "--allow-removals"]);
    assert!(allowed.status.success(), "{}", said(&allowed));
    assert!(!answers(&server, "n0.gslb.example") && answers(&server, "host29.static.example"));

    // A start serves what the files declare: nothing is served that could be kept.
    fs::write(&zone_file, zone(2)).expect("the folder can be written");
    server.process.signal("TERM");
    server.process.ended(LIMIT);
    server.process = serve_again(&server, "log-again");
    server.wait_ready();
    assert!(answers(&server, "host1.static.example") && !answers(&server, "host2.static.example"));
    let log = server.process.output();
    let line = log.lines().find(|line| line.contains("far fewer records")).unwrap_or_else(|| panic!("no line: {log}"));
    assert!(line.contains("static.example.") && line.contains("32") && line.contains('4'), "{line}");
}

#[test]
fn names_that_move_to_the_api_or_are_replaced_are_not_removed() {
    let server = start();
    let file = server.folder.path().join("objects.yaml");
    let objects = with_names(5);
    let (_, objects) = objects.split_once('\n').expect("the zones are the first line");
    fs::write(&file, objects).expect("the folder can be written");
    let applied = server.command(&["apply", "-f", file.to_str().expect("a path in UTF-8")]);
    assert!(applied.status.success(), "{}", said(&applied));
    server.write_config(&with_names(0));
    let moved = server.command(&["reload"]);
    assert!(moved.status.success() && has_all(&server), "{}", said(&moved));
    server.write_config(&with_names(2).replace("name: n", "name: m"));
    assert!(server.command(&["reload"]).status.success());
    server.write_config(&with_names(2).replace("name: n", "name: k"));
    let renamed = server.command(&["reload"]);
    assert!(renamed.status.success() && answers(&server, "k1.gslb.example"), "{}", said(&renamed));
}

/// Applies objects with `--prune` and further arguments.
fn prune(server: &Fairway, objects: &str, more: &[&str]) -> Output {
    let file = server.folder.path().join("objects.yaml");
    fs::write(&file, objects).expect("the folder can be written");
    let arguments = [&["apply", "-f", file.to_str().expect("a path in UTF-8"), "--prune"], more].concat();
    server.command(&arguments)
}

/// Objects with these names, at the port of a TCP monitor.
fn objects(names: &[&str], port: u16) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("{{ name: {name}.gslb.example, pool: shop }}")).collect();
    format!(
        "clusters: [{{ name: us1, addresses: [127.0.0.20] }}]
monitors: [{{ name: port, type: tcp, port: {port}, period: 200ms, timeout: 200ms, rise: 1, fall: 1 }}]
pools: [{{ name: shop, policy: failover, monitor: port, members: [{{ cluster: us1 }}] }}]
names: [{}]
",
        names.join(", ")
    )
}

const ZONE: &str =
    "zones: [{ name: gslb.example, ns: [ns1.example.net] }]\nhealth: { networks: { allow: [127.0.0.0/8] } }\n";

#[test]
fn prune_of_all_names_changes_nothing_until_it_is_allowed_or_their_targets_are_down() {
    let server = Fairway::start(ZONE, &[]);
    let port = free_port();
    let listener = TcpListener::bind(("127.0.0.20", port)).expect("loopback has the port");
    let first = prune(&server, &objects(&["a", "b", "c"], port), &[]);
    assert!(first.status.success(), "{}", said(&first));
    let is_served = |name: &str| answers(&server, &format!("{name}.gslb.example"));
    wait_until("the names are served", LIMIT, || ["a", "b", "c"].into_iter().all(is_served));
    for more in [&[][..], &["--dry-run"]] {
        let refused = prune(&server, &objects(&[], port), more);
        let text = said(&refused);
        assert!(
            text.contains("3 names whose targets are not down would go") && text.contains("--allow-removals"),
            "{text}"
        );
        assert_eq!(refused.status.code(), Some(1), "{text}");
    }
    assert!(["a", "b", "c"].into_iter().all(is_served));
    // One of three is no mistake, and a deletion by name never is.
    let one = prune(&server, &objects(&["a", "b"], port), &[]);
    assert!(one.status.success() && !is_served("c"), "{}", said(&one));
    assert!(server.command(&["delete", "names", "b.gslb.example"]).status.success() && !is_served("b"));

    let two = prune(&server, &objects(&["a", "b"], port), &[]);
    assert!(two.status.success(), "{}", said(&two));
    let all = prune(&server, &objects(&[], port), &["--allow-removals"]);
    assert!(all.status.success() && !is_served("a") && !is_served("b"), "{}", said(&all));

    assert!(prune(&server, &objects(&["a", "b"], port), &[]).status.success());
    let is_up = || server.metric("fairway_target_status", r#"address="127.0.0.20",monitor="port",state="up""#) == 1.0;
    wait_until("the target is up", LIMIT, is_up);
    drop(listener);
    wait_until("the target is down", LIMIT, || !is_up());
    let down = prune(&server, &objects(&[], port), &[]);
    assert!(down.status.success() && !is_served("a"), "{}", said(&down));
}

/// Objects with numbered names.
fn numbered(numbers: impl IntoIterator<Item = usize>) -> String {
    let names: Vec<String> = numbers.into_iter().map(|number| format!("n{number}")).collect();
    objects(&names.iter().map(String::as_str).collect::<Vec<_>>(), 9)
        .replace("type: tcp, port: 9, period: 200ms, timeout: 200ms, rise: 1, fall: 1", "type: always")
}

#[test]
fn prunes_of_ten_minutes_are_weighed_together_also_after_a_restart() {
    let mut server = Fairway::start(ZONE, &[]);
    let succeeds = |server: &Fairway, numbers: std::ops::Range<usize>| {
        let output = prune(server, &numbered(numbers), &[]);
        assert!(output.status.success(), "{}", said(&output));
    };
    let is_refused = |server: &Fairway, numbers: std::ops::Range<usize>, expected: &str| {
        let output = prune(server, &numbered(numbers), &[]);
        let text = said(&output);
        assert!(!output.status.success() && text.contains(expected) && text.contains("--allow-removals"), "{text}");
    };
    succeeds(&server, 0..40);
    // Names that are pruned and applied again do not count.
    succeeds(&server, 10..40);
    succeeds(&server, 0..40);
    // A dry run counts nothing, and neither does a deletion by name.
    let dry = prune(&server, &numbered(0..30), &["--dry-run"]);
    assert!(dry.status.success(), "{}", said(&dry));
    for number in 32..40 {
        assert!(server.command(&["delete", "names", &format!("n{number}.gslb.example")]).status.success());
    }
    // 10 of 32 are few, and further ones are too many within ten minutes.
    succeeds(&server, 0..22);
    let expected = "1 names whose targets are not down would go (after 10 by prunes of the last 10 minutes)";
    is_refused(&server, 0..21, expected);
    server.process.signal("KILL");
    server.process.ended(LIMIT);
    server.process = serve_again(&server, "log-again");
    server.wait_ready();
    is_refused(&server, 0..21, expected);
    assert!(answers(&server, "n21.gslb.example"));
    let deleted = server.command(&["delete", "names", "n20.gslb.example"]);
    assert!(deleted.status.success() && !answers(&server, "n20.gslb.example"), "{}", said(&deleted));
    let allowed = prune(&server, &numbered(0..20), &["--allow-removals"]);
    assert!(allowed.status.success() && !answers(&server, "n21.gslb.example"), "{}", said(&allowed));
}

#[test]
fn prune_of_the_last_healthy_member_of_a_declared_name_is_refused() {
    let port = free_port();
    let config = format!(
        "{ZONE}clusters: [{{ name: eu1, addresses: [127.0.0.10] }}]
monitors: [{{ name: gateway, type: tcp, port: {port}, period: 200ms, timeout: 200ms, rise: 1, fall: 1 }}]
pools: [{{ name: shop, policy: failover, monitor: gateway, contributions: allow, members: [{{ cluster: eu1 }}] }}]
names: [{{ name: shop.gslb.example, pool: shop }}]
"
    );
    let server = Fairway::start(&config, &[]);
    let _listener = TcpListener::bind(("127.0.0.20", port)).expect("loopback has the port");
    let member = "clusters: [{ name: us1, addresses: [127.0.0.20] }]\n\
        pools: [{ name: shop, policy: failover, members: [{ cluster: us1 }] }]\n";
    let added = prune(&server, member, &[]);
    assert!(added.status.success(), "{}", said(&added));
    let is_alone = || resolve(server.dns, "shop.gslb.example").is_some_and(|reply| reply.is(&["127.0.0.20"]));
    wait_until("the member is healthy and alone", LIMIT, is_alone);
    let refused = prune(&server, "clusters: []\n", &[]);
    let text = said(&refused);
    assert!(
        !refused.status.success() && text.contains("shop.gslb.example. would be left without a healthy member"),
        "{text}"
    );
    assert!(is_alone());
    let allowed = prune(&server, "clusters: []\n", &["--allow-removals"]);
    assert!(allowed.status.success(), "{}", said(&allowed));
}
