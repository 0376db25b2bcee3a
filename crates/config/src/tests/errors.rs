//! Exact error messages with location and hint.

use super::*;

/// Compares the errors of a configuration of these lines with the expected ones.
fn assert_errors(table: &[(&str, &[&str])]) {
    for (text, expected) in table {
        assert_eq!(errors_of(&format!("version: 1\n{text}\n")), *expected, "{text}");
    }
}

#[test]
fn unknown_key_is_rejected_with_suggestion() {
    assert_errors(&[
        ("pool: []", &["f.yaml:2:1: pool: unknown key; did you mean pools?"]),
        (
            "clusters: [{name: c, addresses: [192.0.2.1], adresses: []}]",
            &["f.yaml:2:46: clusters[0].adresses: unknown key; did you mean addresses?"],
        ),
        (
            "pools: [{name: a, policy: weighted, members: [{cluster: c, Wieght: 1}]}]",
            &["f.yaml:2:60: pools[0].members[0].Wieght: unknown key; did you mean weight?"],
        ),
        ("udp: {threads: 4}", &["f.yaml:2:7: udp.threads: unknown key; known here: payloadMax, workers"]),
        ("<<: {user: a}", &["f.yaml:2:1: [\"<<\"]: unknown key; YAML 1.2 has no merge keys: write the keys out"]),
    ]);
}

#[test]
fn number_out_of_range_is_rejected_with_range() {
    assert_errors(&[
        (
            "pools: [{name: a, policy: weighted, members: [{cluster: c, weight: 70000, tier: 0}], answers: 9}]",
            &[
                "f.yaml:2:68: pools[0].members[0].weight: 70000 is over 65535; give 0 to 65535",
                "f.yaml:2:81: pools[0].members[0].tier: 0 is under 1; give 1 to 255",
                "f.yaml:2:95: pools[0].answers: 9 is over 8; give 1 to 8",
            ],
        ),
        (
            "explain: {networks: [10.1.0.0/8, ten, \"::/129\"]}",
            &[
                "f.yaml:2:22: explain.networks[0]: \"10.1.0.0/8\" has bits set past its length; write 10.0.0.0/8",
                "f.yaml:2:34: explain.networks[1]: \"ten\" is not a network; write it like 10.0.0.0/8 or \"2001:db8::/32\"",
                "f.yaml:2:39: explain.networks[2]: \"::/129\" is not a network; write it like 10.0.0.0/8 or \"2001:db8::/32\"",
            ],
        ),
        ("udp: {payloadMax: 4096}", &["f.yaml:2:19: udp.payloadMax: 4096 is over 1232; give 512 to 1232"]),
        (
            "zones: [{name: a, ns: [b], serial: 4294967296}]",
            &["f.yaml:2:36: zones[0].serial: 4294967296 is over 4294967295; give 1 to 4294967295"],
        ),
        (
            "clusters: [{name: c, addresses: [192.0.2.1], capacity: 1e300}]",
            &["f.yaml:2:56: clusters[0].capacity: 1e+300 is over 9007199254740991; give 1 to 9007199254740991"],
        ),
        (
            "pools: [{name: a, policy: weighted, members: [{cluster: c}], panicThreshold: 2, minHealthy: 101%}]",
            &[
                "f.yaml:2:78: pools[0].panicThreshold: 2 is over 1; give 0 to 1",
                "f.yaml:2:93: pools[0].minHealthy: \"101%\" is over 100%; give at most 100%",
            ],
        ),
    ]);
    let newer = "f.yaml:1:10: version: 2 is newer than this program, which reads version 1; use a newer fairway, or write the file in version 1";
    assert_eq!(errors_of("version: 2\n"), [newer]);
    assert_eq!(errors_of("user: a\n"), ["f.yaml:1:1: key version is missing; add version: 1"]);
}

#[test]
fn wrong_type_is_rejected_with_expected_one() {
    assert_errors(&[
        ("drainTimeout: 30", &["f.yaml:2:15: drainTimeout: 30 has no unit; write 30s, or another unit: ms, m, h, d"]),
        ("user: 7", &["f.yaml:2:7: user: 7 is a number, expected text; put it in quotes: \"7\""]),
        ("user:\nlog: {level: }", &["f.yaml:3:7: log.level: the key has no value; write text, or remove the key"]),
        ("udp: {workers: '4'}", &["f.yaml:2:16: udp.workers: \"4\" is text, expected a number; remove the quotes"]),
        ("udp: {workers: 1.5}", &["f.yaml:2:16: udp.workers: 1.5 is not valid here; give a whole number"]),
        (
            "clusters:\n  -name: c",
            &["f.yaml:3:3: clusters: this is not a list; write \"- name\": a space follows the dash"],
        ),
        (
            "clusters:\n  name: c",
            &[
                "f.yaml:3:3: clusters: a section is not a list; write [ONE, TWO], or one line per element, beginning with \"- \"",
            ],
        ),
        ("clusters: [c]", &["f.yaml:2:12: clusters[0]: \"c\" is not valid here; give a section with keys like name"]),
        (
            "listen: {dns: [53], http: offf}",
            &[
                "f.yaml:2:16: listen.dns[0]: 53 is a number, expected ADDRESS:PORT; write it like \"0.0.0.0:53\" or \"[::]:53\"",
                "f.yaml:2:27: listen.http: \"offf\" is not ADDRESS:PORT or off; write it like 127.0.0.1:8053 or off",
            ],
        ),
        (
            "monitors: [{name: m, type: https, tls: {verify: yes, ca: x}}]",
            &[
                "f.yaml:2:49: monitors[0].tls.verify: \"yes\" is not true or false; write true or false, without quotes",
                "f.yaml:2:58: monitors[0].tls.ca: \"x\" is not valid here; give { file: PATH } or { env: NAME }",
            ],
        ),
        (
            "monitors: [{name: m, type: http, status: [200, 2xy]}]",
            &[
                "f.yaml:2:48: monitors[0].status[1]: \"2xy\" is not a set of HTTP statuses; write it like \"200-299,401\" or \"2xx\"",
            ],
        ),
    ]);
}

#[test]
fn unknown_word_is_rejected_with_known_ones() {
    assert_errors(&[
        (
            "pools: [{name: a, policy: weigthed, members: [{cluster: c}], down: FALLBACK_IP}]",
            &[
                "f.yaml:2:27: pools[0].policy: \"weigthed\" is not known here; did you mean weighted?",
                "f.yaml:2:68: pools[0].down: \"FALLBACK_IP\" is not known here; give all, empty, refuse, last-good, or { fallback: ... }",
            ],
        ),
        (
            "pools: [{name: a, policy: weighted, members: [{cluster: c}], down: refuze}]",
            &[
                "f.yaml:2:68: pools[0].down: \"refuze\" is not known here; use one of: all, empty, refuse, last-good; did you mean refuse?",
            ],
        ),
        (
            "overrides: [{match: a b, action: stop, reason: x, until: tomorrow}]",
            &[
                "f.yaml:2:21: overrides[0].match: \"a b\" is not CLUSTER or CLUSTER/ADDRESS; write it like \"eu*\" or eu1/203.0.113.10",
                "f.yaml:2:34: overrides[0].action: \"stop\" is not known here; use one of: drain, down, up",
                "f.yaml:2:58: overrides[0].until: \"tomorrow\" is not a time as in RFC 3339; write it like 2030-01-31T18:00:00Z",
            ],
        ),
        (
            "log: {level: inof}",
            &[
                "f.yaml:2:14: log.level: \"inof\" is not a level; write a level (error, warn, info, debug, trace, off), or TARGET=LEVEL, separated by commas",
            ],
        ),
    ]);
}

#[test]
fn missing_key_is_rejected_with_hint() {
    assert_errors(&[
        (
            "pools: [{name: a}]",
            &[
                "f.yaml:2:9: pools[0]: key members is missing; add members: a list",
                "f.yaml:2:9: pools[0]: key policy is missing; add policy: weighted, failover, or a list of steps like [geo, nearest, load, weighted]",
            ],
        ),
        (
            "overrideRules: [{pools: [\"sh op\"], minClusters: 0}, {pools: []}]",
            &[
                "f.yaml:2:26: overrideRules[0].pools[0]: \"sh op\" is not a pattern of pool names; write it like shop or \"*\"",
                "f.yaml:2:49: overrideRules[0].minClusters: 0 is under 1; give 1 to 255",
                "f.yaml:2:53: overrideRules[1]: key minClusters is missing; add minClusters: a whole number",
                "f.yaml:2:61: overrideRules[1].pools: the list is empty; give at least one element",
            ],
        ),
        (
            "overrides: [{match: a, action: up}]",
            &[
                "f.yaml:2:13: overrides[0]: key reason is missing; add reason: text",
                "f.yaml:2:13: overrides[0]: key until is missing; add until: a time as in RFC 3339",
            ],
        ),
        (
            "zones: [{name: a.example}]",
            &[
                "f.yaml:2:9: zones[0]: zone a.example. has no file and no ns; add its file, or the names of its servers as ns",
            ],
        ),
        ("monitors: [{name: m, type: grpc}]", &["f.yaml:2:12: monitors[0]: type grpc has no default port; add port"]),
        (
            "pools: [{name: a, policy: failover, members: []}]",
            &["f.yaml:2:46: pools[0].members: the list is empty; give at least one element"],
        ),
    ]);
}

#[test]
fn exclusive_keys_are_rejected_with_hint() {
    assert_errors(&[
        (
            "monitors: [{name: m, type: tcp, path: /x, tls: {}}]",
            &[
                "f.yaml:2:39: monitors[0].path: path is not valid for type tcp; remove it; it belongs to type http and https",
                "f.yaml:2:48: monitors[0].tls: tls is not valid for type tcp; remove it; it belongs to type https and grpc",
            ],
        ),
        (
            "zones: [{name: a.example, file: a.zone, ns: [b]}, {name: b.example, ns: [x.c], contact: x@y..z}]",
            &[
                "f.yaml:2:9: zones[0]: file and ns exclude each other; keep file, or ns and contact",
                "f.yaml:2:89: zones[1].contact: the contact is not a mail address or name: a label is empty; only the root, '.', has no label; write it like hostmaster@example.com",
            ],
        ),
        (
            "monitors: [{name: m, type: https, tls: {cert: {env: C, file: c}, key: {}}}]",
            &[
                "f.yaml:2:47: monitors[0].tls.cert: this is not { file: PATH } or { env: NAME }; give exactly one of the keys",
                "f.yaml:2:71: monitors[0].tls.key: this is not { file: PATH } or { env: NAME }; give exactly one of the keys",
            ],
        ),
        (
            "monitors: [{name: m, type: http, headers: {Host: a}}]",
            &["f.yaml:2:50: monitors[0].headers.Host: the Host header has its own key; write it as host"],
        ),
    ]);
}

#[test]
fn override_that_is_neither_of_health_nor_of_load_is_rejected() {
    let rest = "reason: x, until: 2030-01-01T00:00:00Z}";
    let either = "give either match and action, or pools and load";
    for (keys, expected) in [
        (
            "match: a, pools: p, action: up, load: off",
            "2:31: overrides[0].pools: an override has either match or pools; write two overrides, one with each",
        ),
        ("pools: p, load: on", "2:30: overrides[0].load: \"on\" is not known here; use one of: off"),
        ("pools: p", "2:13: overrides[0]: key load is missing; add load: off"),
        ("load: off", "2:13: overrides[0]: key pools is missing; add pools: a pattern of pool names"),
        ("match: a, load: off", &format!("2:30: overrides[0].load: load is set for pools, not for clusters; {either}")),
        (
            "pools: p, action: up, load: off",
            &format!("2:32: overrides[0].action: action is set for clusters, not for pools; {either}"),
        ),
        ("match: a", "2:13: overrides[0]: key action is missing; add action: drain, down or up"),
        ("action: up", "2:13: overrides[0]: key match is missing; add match: CLUSTER or CLUSTER/ADDRESS"),
        (
            "pools: \"p q\", load: off",
            "2:21: overrides[0].pools: \"p q\" is not a pattern of pool names; write it like shop or \"*\"",
        ),
    ] {
        let text = format!("version: 1\noverrides: [{{{keys}, {rest}]\n");
        assert_eq!(errors_of(&text), [format!("f.yaml:{expected}")], "{keys}");
    }
    assert_errors(&[
        (
            "overrides: [{pools: p, load: off, until: 2030-01-01T00:00:00Z}]",
            &["f.yaml:2:13: overrides[0]: key reason is missing; add reason: text"],
        ),
        (
            "overrides: [{reason: x, until: 2030-01-01T00:00:00Z}]",
            &[
                "f.yaml:2:13: overrides[0]: keys match and pools are missing; give either match and action, or pools and load",
            ],
        ),
    ]);
}

#[test]
fn repeated_object_is_rejected_with_both_locations() {
    assert_errors(&[(
        "clusters:\n- {name: c, addresses: [192.0.2.1]}\n- {name: c, addresses: [192.0.2.2]}",
        &["f.yaml:4:10: clusters[1].name: cluster c is already declared in f.yaml:3:3; rename or remove one of them"],
    )]);
}

#[test]
fn rules_across_objects_are_reported_at_the_object() {
    let text = "
clusters: [{name: eu1, addresses: [192.0.2.1]}]
pools:
  - {name: shop, policy: weighted, members: [{cluster: eu2}, {cluster: eu1, weight: 0, monitor: gw}]}
  - {name: cart, policy: failover, members: [{cluster: eu1, tier: 2}]}
names: [{name: a.example, pool: sjop}]
monitors: [{name: m, type: tcp, period: 1s, timeout: 2s}]";
    assert_errors(&[(
        text,
        &[
            "f.yaml:5:56: cluster eu2 is not declared; did you mean eu1?",
            "f.yaml:5:97: monitor gw is not declared; declare it, or use one of: m",
            "f.yaml:6:5: pool cart: no member is in tier 1; give at least one member tier 1",
            "f.yaml:7:9: a.example. is in no declared zone; declare its zone, or fix the name",
            "f.yaml:7:33: pool sjop is not declared; did you mean shop?",
            "f.yaml:8:54: monitor m: timeout 2s is not between 0 and the period 1s; give a timeout of at most the period",
        ],
    )]);
}

#[test]
fn health_listener_with_metrics_and_webhook_are_refused_in_the_open() {
    let metrics = "can be reached from other machines, which requires networks for metrics; \
        add networks with the addresses of the scrapers, or remove metrics";
    let webhook = "can be reached from other machines, which requires authentication; \
        add webhook.token, webhook.owners or webhook.tls.clientCa (docs/config/webhook.md), or listen on 127.0.0.1:8888";
    for address in ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:8080"] {
        let at = 41 + address.len();
        let text = |more: &str| format!("listen: {{health: {{address: \"{address}\", metrics: true{more}}}}}");
        assert_errors(&[(&text(""), &[&format!("f.yaml:2:{at}: listen.health.metrics: {address} {metrics}")])]);
        loaded(&format!("version: 1\n{}\n", text(", networks: [192.0.2.0/24]")));
        loaded(&format!("version: 1\nlisten: {{health: {{address: \"{address}\"}}}}\n"));
    }
    loaded("version: 1\nlisten: {health: {address: \"127.0.0.1:8080\", metrics: true}}\n");
    let open = "webhook: {listen: \"0.0.0.0:8888\"}";
    assert_errors(&[(open, &[&format!("f.yaml:2:19: webhook.listen: 0.0.0.0:8888 {webhook}")])]);
    let token = format!("{}, token: {}}}", open.trim_end_matches('}'), "a".repeat(64));
    loaded(&format!("version: 1\n{token}\n"));
    let settings = loaded("version: 1\nlisten: {health: {address: \"[::]:1\", networks: [192.0.2.0/24]}}\n").settings;
    let admits = |client: &str| settings.health_listener.as_ref().unwrap().admits(client.parse().unwrap());
    assert!(["192.0.2.9", "::ffff:192.0.2.9", "127.0.0.1", "::1"].map(admits).iter().all(|admitted| *admitted));
    assert!(["192.0.3.1", "2001:db8::1"].map(admits).iter().all(|admitted| !admitted));
}

#[test]
fn callback_must_be_a_url_without_password() {
    let no_url = |url: &str| {
        let text = format!("ready: {{callback: \"{url}\"}}");
        let error = "is not an http or https URL; write it like http://127.0.0.1:8080/ready";
        assert_errors(&[(&text, &[&format!("f.yaml:2:19: ready.callback: \"{url}\" {error}")])]);
    };
    for url in ["lb.example", "/ready", "ftp://lb.example/", "http://", "http:///ready", "http://lb:0/", "http://lb:/"]
    {
        no_url(url);
    }
    no_url("https://lb.example:65536/");
    no_url("https://lb.example/#ready");
    let secret = "f.yaml:2:19: ready.callback: the URL holds a user or a password; \
        remove the text before the @; a configuration must not contain secrets";
    for url in ["http://ann:secret@lb.example/", "ftp://secret@lb.example", "ann:secret@lb.example/ready"] {
        assert_errors(&[(&format!("ready: {{callback: \"{url}\"}}"), &[secret])]);
    }
    for url in ["HTTP://LB.example", "https://[2001:db8::1]:8443/?a=b", "http://lb.example/@"] {
        loaded(&format!("version: 1\nready: {{callback: \"{url}\"}}\n"));
    }
}

#[test]
fn structural_and_other_errors_are_reported_together() {
    let text = "
user: 7
zones: [{name: a.example, file: none.zone}, {name: 7}, {nam: b.example}]
clusters: [{name: c, addresses: [192.0.2.300]}]
pools: [{name: p, policy: weighted, ttl: 2d, members: [{cluster: c}]}]
drainTimeout: 1h";
    assert_errors(&[(
        text,
        &[
            "f.yaml:3:7: user: 7 is a number, expected text; put it in quotes: \"7\"",
            "f.yaml:4:33: zones[0].file: none.zone does not exist; fix the path; relative paths start at the configuration file's folder",
            "f.yaml:4:52: zones[1].name: 7 is a number, expected a domain name; write it like shop.gslb.example",
            "f.yaml:4:56: zones[2]: key name is missing; add name: a domain name",
            "f.yaml:4:57: zones[2].nam: unknown key; did you mean name?",
            "f.yaml:5:34: clusters[0].addresses[0]: \"192.0.2.300\" is not an IPv4 or IPv6 address, or a host name; write it like 192.0.2.1, 2001:db8::1 or lb-1234.elb.example",
            "f.yaml:6:42: pools[0].ttl: 2d is over a day, and answers would not follow health for that long; the default is 30s",
            "f.yaml:7:15: drainTimeout: 1h is not between 0s and 10m; the default is 5s",
        ],
    )]);
}

#[test]
fn rules_across_objects_are_reported_next_to_structural_errors() {
    let text = "
clusters: [{name: eu1, addresses: [192.0.2.1]}, {name: us1, addresses: []}]
pools:
  - {name: shop, policy: weighted, weights: 1, members: [{cluster: eu1}]}
  - {name: cart, policy: failover, members: [{cluster: eu1, tier: 2}, {cluster: us1}, {cluster: jp1}]}
names: [{name: a.example, pool: shop}, {name: b.example, pool: sjop}, {name: c.other, pool: cart}]
zones: [{name: example, ns: [ns.net]}]";
    assert_errors(&[(
        text,
        &[
            "f.yaml:3:72: clusters[1].addresses: the list is empty; give at least one element",
            "f.yaml:5:36: pools[0].weights: unknown key; did you mean weightBy?",
            "f.yaml:6:97: cluster jp1 is not declared; declare it, or use one of: eu1",
            "f.yaml:7:64: pool sjop is not declared; declare it, or use one of: cart",
            "f.yaml:7:71: c.other. is in no declared zone; declare its zone, or fix the name",
        ],
    )]);
}
