//! Zonemaster's tests of a delegation, undelegated: the tester gets the name servers as arguments and asks nobody else.
//!
//! Both run in a network namespace where port 53 is free and nothing leads outside. The messages are compared with
//! [`EXPECTED`]: an entry that no longer occurs fails, too.
#![cfg(feature = "real")]

use std::{collections::BTreeSet, fs, process::Command};

use fairway_integration::real::{fairway_binary, program};
use tempfile::TempDir;

const CONFIG: &str = "version: 1
listen: { dns: [\"127.0.0.2:53\", \"127.0.0.3:53\"], http: \"off\" }
zones: [{ name: own.test, file: own.zone }]
clusters: [{ name: eu1, addresses: [127.0.0.2] }]
monitors: [{ name: none, type: always }]
pools: [{ name: shop, policy: weighted, monitor: none, members: [{ cluster: eu1 }] }]
names: [{ name: own.test, pool: shop }, { name: www.own.test, pool: shop }]
";

const ZONE: &str = "$TTL 300
@ SOA ns1 hostmaster 5 14400 3600 1209600 3600
@ NS ns1
@ NS ns2
@ MX 10 mail
mail A 127.0.0.2
ns1 A 127.0.0.2
ns2 A 127.0.0.3
";

/// Starts the server, waits until it answers, and runs the tester; prints the tester's output.
const SCRIPT: &str = r#"
ip link set lo up || exit 1
"$1" serve --config "$2/fairway.yaml" --data-dir "$2/data" >"$2/log" 2>&1 &
server=$!
trap 'kill $server; wait $server' EXIT
tries=0
until dig @127.0.0.2 own.test SOA +short +time=1 +tries=1 | grep -q hostmaster; do
  tries=$((tries + 1))
  [ $tries -lt 500 ] && kill -0 $server || { cat "$2/log" >&2; exit 1; }
done
"$3" --no-ipv6 --no-progress --raw --show-testcase --level DEBUG \
  --ns ns1.own.test/127.0.0.2 --ns ns2.own.test/127.0.0.3 own.test
"#;

/// Messages at the level of a notice or above, and why they are correct here.
const EXPECTED: &[(&str, &str)] = &[
    ("NAMESERVER_IP_PRIVATE_NETWORK", "the name servers are on loopback"),
    ("NO_RESPONSE_PTR_QUERY", "nobody serves the reverse zone of loopback"),
    ("NEITHER_DNSKEY_NOR_DS", "the zone is not signed"),
    ("NOT_SIGNED", "the zone is not signed"),
    ("NO_IPV6_NS_CHILD", "the network of the test has IPv4 only"),
    ("NO_IPV6_NS_DEL", "the network of the test has IPv4 only"),
];

/// Checks that the tester must have passed; without them it would not have looked.
const FOUND: &[&str] = &[
    "ARE_AUTHORITATIVE",
    "AXFR_FAILURE",
    "CASE_QUERIES_RESULTS_OK",
    "EDNS0_SUPPORT",
    "NAMES_MATCH",
    "NO_RECURSOR",
    "NO_UPWARD_REFERRAL",
    "ONE_SOA_SERIAL",
    "QNAME_CASE_SENSITIVE",
    "REFERRAL_SIZE_OK",
    "SAME_SOURCE_IP",
];

#[test]
fn zonemaster_reports_only_effects_of_the_test_network() {
    let folder = TempDir::new().expect("a temporary folder");
    for (name, text) in [("fairway.yaml", CONFIG), ("own.zone", ZONE)] {
        fs::write(folder.path().join(name), text).expect("the folder can be written");
    }
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "sh", "-c", SCRIPT, "sh"]);
    command.arg(fairway_binary()).arg(folder.path()).arg(program("zonemaster-cli", "zonemaster-cli"));
    let output = command.output().expect("unshare is there");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    // TIME LEVEL TESTCASE TAG arguments
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<_> = text.lines().map(words).filter(|words| words.len() >= 4).collect();
    let worse: BTreeSet<_> = lines
        .iter()
        .filter(|words| matches!(&*words[1], "NOTICE" | "WARNING" | "ERROR" | "CRITICAL"))
        .map(|words| words[3].as_str())
        .collect();
    assert_eq!(worse, EXPECTED.iter().map(|(tag, _)| *tag).collect(), "{text}");
    let tags: BTreeSet<_> = lines.iter().map(|words| words[3].as_str()).collect();
    let missing: Vec<_> = FOUND.iter().filter(|tag| !tags.contains(**tag)).collect();
    assert!(missing.is_empty(), "{missing:?} is not in\n{text}");
    // Checks without a message on success: EDNS versions, unknown options and flags, and truncation.
    for case in ["nameserver10", "nameserver11", "nameserver12", "nameserver13"] {
        assert!(text.contains(&format!("TEST_CASE_END   testcase={case}")), "{case} did not run:\n{text}");
    }
}
