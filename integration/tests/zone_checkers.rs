//! `fairway check` and the zone checkers of BIND, NSD and Knot give the same result on each of these files, or the difference has a reason.
//!
//! Compares acceptance only. Unit tests of the zone file reader cover messages and locations.
#![cfg(feature = "real")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use fairway_integration::real::{fairway_binary, program};
use tempfile::TempDir;

/// The checkers, by the column of an exception.
const BIND: usize = 0;
const NSD: usize = 1;
const KNOT: usize = 2;
const CHECKERS: [&str; 3] = ["named-checkzone", "nsd-checkzone", "knotc"];

const ORIGIN: &str = "example.test";

/// A zone that every checker accepts.
const SOUND: &str = "$TTL 300\n@ SOA ns1 h 1 3600 900 604800 60\n@ NS ns1\nns1 A 192.0.2.1\n";

/// A file, and the checkers with another result than Fairway, with the reason.
struct Case {
    what: &'static str,
    text: String,
    differs: &'static [(usize, &'static str)],
}

fn case(what: &'static str, text: String, differs: &'static [(usize, &'static str)]) -> Case {
    Case { what, text, differs }
}

fn with(lines: &str) -> String {
    SOUND.to_owned() + lines
}

fn good() -> Vec<Case> {
    vec![
        case("an address", with("www A 192.0.2.2\n"), &[]),
        case(
            "an SOA on three lines with units of time",
            "$TTL 1h\n@ IN SOA ns1 h (\n 1 ; serial\n 1h 15m 1w 1m )\n NS ns1\nns1 A 192.0.2.1\n".to_owned(),
            &[],
        ),
        case("the class before the TTL", with("www IN 60 A 192.0.2.2\n"), &[]),
        case("$ORIGIN", with("$ORIGIN sub.example.test.\nwww A 192.0.2.2\n"), &[]),
        case("a wildcard", with("*.w A 192.0.2.2\n"), &[]),
        case("a delegation with glue", with("sub NS ns.sub\nns.sub A 192.0.2.3\n"), &[]),
        case("a DNAME", with("d DNAME elsewhere.test.\n"), &[]),
        case("an unknown type as RFC 3597 has it", with("u TYPE65280 \\# 4 01020304\n"), &[]),
        case("escapes in names and strings", with("a\\.b TXT \"x\\\"y\\\\ \\065\"\n"), &[]),
        case("an HTTPS record", with("s HTTPS 1 . alpn=h2 port=8443\n"), &[]),
        case(
            "$GENERATE",
            with("$GENERATE 1-3 g$ A 192.0.2.$\n"),
            &[(NSD, "reads no $GENERATE, which is BIND's"), (KNOT, "reads no $GENERATE, which is BIND's")],
        ),
        case("the same record twice", with("www A 192.0.2.2\nwww A 192.0.2.2\n"), &[]),
        case("TTLs that differ within a set", with("www 60 A 192.0.2.2\nwww 90 A 192.0.2.3\n"), &[]),
        case(
            "a name of 255 octets",
            with(&format!("{0}.{0}.{0}.{1} A 192.0.2.2\n", "a".repeat(63), "b".repeat(48))),
            &[],
        ),
        case(
            "strings of 10 kB in one record",
            with(&format!("t TXT {}\n", format!("\"{}\" ", "x".repeat(255)).repeat(40))),
            &[],
        ),
        case(
            "line ends of CR LF",
            with("www A 192.0.2.2\n").replace('\n', "\r\n"),
            &[(KNOT, "takes no CR before the end of a line")],
        ),
        case("MX that name an alias", with("m MX 1 c\nc CNAME ns1\n"), &[]),
        case("a delegation without glue", with("sub NS ns.sub\n"), &[]),
        case("a delegation to a name without address", with("sub NS c\n"), &[]),
        case("a delegation to an alias", with("sub NS c\nc CNAME ns1\n"), &[]),
        case("a delegation to a name below a DNAME", with("sub NS a.d\nd DNAME x.test.\n"), &[]),
        case("data below a delegation", with("sub NS ns1\nwww.sub A 192.0.2.3\n"), &[]),
        case(
            "a name outside the zone",
            with("www.other.test. A 192.0.2.2\n"),
            &[(NSD, "refuses the file for a record outside the zone")],
        ),
        case(
            "data below a DNAME",
            with("d DNAME x.test.\nw.d A 192.0.2.2\n"),
            &[(NSD, "refuses data that is never answered"), (KNOT, "refuses data that is never answered")],
        ),
        case("an address at a name with an underscore", with("a_b A 192.0.2.1\n"), &[]),
        case("no TTL anywhere", "@ SOA ns1 h 1 3600 900 604800 60\n@ NS ns1\nns1 A 192.0.2.1\n".to_owned(), &[]),
        case("a comment right after a string", with("t TXT a;b\n"), &[]),
    ]
}

/// Files with syntax errors.
fn bad_text() -> Vec<Case> {
    vec![
        case("an address with an octet of 256", with("www A 192.0.2.256\n"), &[]),
        case("an address of three octets", with("www A 192.0.2\n"), &[]),
        case("an IPv6 address with a letter g", with("www AAAA 2001:db8::g\n"), &[]),
        case("an IPv4 address in AAAA", with("www AAAA 192.0.2.1\n"), &[]),
        case("a type that does not exist", with("www WIBBLE 1\n"), &[]),
        case("an MX without preference", with("m MX mail\n"), &[]),
        case("two addresses in a record", with("www A 192.0.2.1 192.0.2.2\n"), &[]),
        case("a preference over 65535", with("m MX 65536 ns1\n"), &[(NSD, "cuts the number to 16 bits")]),
        case(
            "no line end after the last record, which may be cut",
            with("www A 192.0.2.2"),
            &[
                (BIND, "warns of it, and of nothing else"),
                (NSD, "does not look for it"),
                (KNOT, "does not look for it"),
            ],
        ),
        case("an open quote", with("t TXT \"open\nwww A 192.0.2.1\n"), &[]),
        case(
            "an open parenthesis",
            with("t TXT ( \"a\"\n"),
            &[(NSD, "takes the end of the file for the end of the record")],
        ),
        case("a parenthesis that nothing opened", with("t TXT \"a\" )\n"), &[]),
        case("a label of 64 octets", with(&format!("{} A 192.0.2.1\n", "a".repeat(64))), &[]),
        case(
            "a name over 255 octets",
            with(&format!("{0}.{0}.{0}.{1} A 192.0.2.2\n", "a".repeat(63), "b".repeat(52))),
            &[],
        ),
        case("an empty label", with("a..b A 192.0.2.1\n"), &[]),
        case("a string of 256 octets", with(&format!("t TXT \"{}\"\n", "x".repeat(256))), &[(KNOT, "cuts it in two")]),
    ]
}

/// Files with words or numbers out of range.
fn bad_words() -> Vec<Case> {
    vec![
        case("a class that is not the zone's", with("www CH A 192.0.2.1\n"), &[]),
        case(
            "an escape over 255",
            with("t\\999 A 192.0.2.1\n"),
            &[(NSD, "takes the number modulo 256"), (KNOT, "takes the number modulo 256")],
        ),
        case("half an octet of digits", with("s NS ns1\ns DS 1 8 2 001\n"), &[]),
        case(
            "fewer octets than the length says",
            with("u TYPE65280 \\# 4 010203\n"),
            &[(NSD, "takes the octets that are there")],
        ),
        case(
            "a TTL of 32 bits",
            with("www 4294967295 A 192.0.2.2\n"),
            &[
                (BIND, "sets it to 0 and says so; a TTL has 31 bits (RFC 2181 section 8)"),
                (NSD, "takes 32 bits"),
                (KNOT, "takes 32 bits"),
            ],
        ),
        case("a TTL of 33 bits", with("www 4294967296 A 192.0.2.2\n"), &[(NSD, "cuts the number to 32 bits")]),
        case("a unit of time that does not exist", with("www 5x A 192.0.2.2\n"), &[]),
        case("a file that is not there, included", with("$INCLUDE /nonexistent/zone\n"), &[]),
        case("a directive that does not exist", with("$WIBBLE 1\n"), &[]),
        case("91 degrees north", with("l LOC 91 0 0 N 0 0 0 E 0m\n"), &[(NSD, "does not check the range of degrees")]),
        case("a key that is no base64", with("@ DNSKEY 256 3 8 !!!!\n"), &[]),
        case("OPT as data", with("o OPT \\# 0\n"), &[(NSD, "takes a type of messages for data")]),
        case("an empty file", String::new(), &[]),
        case(
            "no owner before the first record",
            " SOA ns1 h 1 3600 900 604800 60\n".to_owned(),
            &[(NSD, "takes the origin for the owner")],
        ),
        case("a range that runs backward", with("$GENERATE 3-1 g$ A 192.0.2.$\n"), &[]),
        case("a TXT without strings", with("t TXT\n"), &[]),
        case(
            "a serial of 33 bits",
            "$TTL 300\n@ SOA ns1 h 4294967296 3600 900 604800 60\n@ NS ns1\nns1 A 192.0.2.1\n".to_owned(),
            &[(NSD, "cuts the number to 32 bits")],
        ),
    ]
}

/// Files that are valid text and no valid zone.
fn bad_data() -> Vec<Case> {
    vec![
        case("no SOA", "$TTL 300\n@ NS ns1\nns1 A 192.0.2.1\n".to_owned(), &[]),
        case(
            "no NS at the apex",
            "$TTL 300\n@ SOA ns1 h 1 3600 900 604800 60\nwww A 192.0.2.1\n".to_owned(),
            &[(NSD, "does not look at the apex's NS"), (KNOT, "does not look at the apex's NS")],
        ),
        case("two SOA", with("@ SOA ns2 h 2 3600 900 604800 60\n"), &[(KNOT, "keeps the later one")]),
        case(
            "an SOA below the apex",
            with("x SOA ns2 h 2 3600 900 604800 60\n"),
            &[(KNOT, "leaves it out with a warning")],
        ),
        case("an alias beside an address", with("c CNAME www\nc A 192.0.2.2\n"), &[]),
        case("two aliases at a name", with("c CNAME a\nc CNAME b\n"), &[]),
        case("two DNAME at a name", with("c DNAME a.test.\nc DNAME b.test.\n"), &[]),
        case("an alias at the apex", with("@ CNAME www\n"), &[]),
        case("a DNAME beside an alias", with("d DNAME x.test.\nd CNAME y.test.\n"), &[]),
        case(
            "NS of the zone that name an alias",
            "$TTL 300\n@ SOA ns1 h 1 3600 900 604800 60\n@ NS ns1\nns1 CNAME x.test.\n".to_owned(),
            &[(NSD, "does not look at what NS names"), (KNOT, "does not look at what NS names")],
        ),
        case(
            "NS of the zone that name nothing",
            "$TTL 300\n@ SOA ns1 h 1 3600 900 604800 60\n@ NS ns1\nwww A 192.0.2.1\n".to_owned(),
            &[(NSD, "does not look at what NS names"), (KNOT, "warns of it")],
        ),
        case(
            "NS at a wildcard",
            with("*.w NS ns1\n"),
            &[
                (NSD, "does not look for it (RFC 4592 section 4.2 leaves it undefined)"),
                (KNOT, "does not look for it (RFC 4592 section 4.2 leaves it undefined)"),
            ],
        ),
        case(
            "DS at the apex",
            with(&format!("@ DS 1 8 2 {}\n", "00".repeat(32))),
            &[(NSD, "does not look for it"), (KNOT, "does not look for it")],
        ),
        case(
            "a SHA-256 digest of two octets",
            with("s NS ns1\ns DS 1 8 2 0011\n"),
            &[(NSD, "does not know the lengths of digests"), (KNOT, "does not know the lengths of digests")],
        ),
        case(
            "three octets for an address",
            with("u A \\# 3 010203\n"),
            &[(KNOT, "does not look into octets given by RFC 3597")],
        ),
        case("a parameter twice", with("s HTTPS 1 . port=1 port=2\n"), &[]),
        case("a mandatory parameter that is missing", with("s HTTPS 1 . mandatory=port\n"), &[]),
        case(
            "a CAA tag with a hyphen",
            with("c CAA 0 is-sue \"x\"\n"),
            &[(KNOT, "does not check the letters of a tag")],
        ),
    ]
}

fn run(command: &mut Command) -> (bool, String) {
    let Output { status, stdout, stderr } = command.output().expect("a checker runs");
    // 101 is a panic of a Rust program, no code is a signal: neither is a result.
    assert!(status.code().is_some_and(|code| code != 101), "{command:?}: {status}");
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

fn fairway(file: &Path) -> (bool, String) {
    run(Command::new(fairway_binary()).arg("check").arg("--zone").arg(format!("{ORIGIN}={}", file.display())))
}

fn other(checker: usize, folder: &Path, file: &Path) -> (bool, String) {
    let name = CHECKERS[checker];
    let mut command = Command::new(program(name, name));
    if checker == KNOT {
        let config = folder.join("knot.conf");
        let text = format!(
            "server:\n  rundir: {0}\ndatabase:\n  storage: {0}\nzone:\n  - domain: {ORIGIN}\n    file: {1}\n    semantic-checks: on\n",
            folder.display(),
            file.display()
        );
        fs::write(&config, text).expect("the folder can be written");
        run(command.arg("-c").arg(config).args(["zone-check", ORIGIN]))
    } else {
        run(command.arg(ORIGIN).arg(file))
    }
}

/// Runs all checkers on all cases; fails with every case that differs from the expectation.
fn check_all(cases: &[Case], accepted: bool) {
    let folder = TempDir::new().expect("a temporary folder");
    let file = folder.path().join("zone");
    let mut wrong = Vec::new();
    for Case { what, text, differs } in cases {
        fs::write(&file, text).expect("the folder can be written");
        let (ours, said) = fairway(&file);
        if ours != accepted {
            wrong.push(format!("{what}: fairway {}: {said}", if ours { "accepts it" } else { "refuses it" }));
        }
        for checker in [BIND, NSD, KNOT] {
            let (theirs, said) = other(checker, folder.path(), &file);
            let reason = differs.iter().find(|(by, _)| *by == checker).map(|(_, reason)| reason);
            if (theirs == accepted) == reason.is_some() {
                let name = CHECKERS[checker];
                wrong.push(format!(
                    "{what}: {name} accepts it: {theirs}; stated reason to differ: {reason:?}; it says {said}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn valid_zone_files_are_accepted_by_every_checker_or_listed() {
    check_all(&good(), true);
}

#[test]
fn zones_with_invalid_syntax_are_rejected_by_every_checker_or_listed() {
    check_all(&bad_text(), false);
    check_all(&bad_words(), false);
}

#[test]
fn zones_with_invalid_data_are_rejected_by_every_checker_or_listed() {
    check_all(&bad_data(), false);
}

#[test]
fn bind_differs_only_in_final_line_break_and_ttl_range() {
    let all = [good(), bad_text(), bad_words(), bad_data()].into_iter().flatten();
    let differs: Vec<&str> =
        all.filter(|case| case.differs.iter().any(|(by, _)| *by == BIND)).map(|case| case.what).collect();
    assert_eq!(differs, ["no line end after the last record, which may be cut", "a TTL of 32 bits"]);
}
