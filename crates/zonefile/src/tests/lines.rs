//! Lines: owners, TTLs, classes, directives, includes.

use super::{name, read, read_zone};
use fairway_model::Diagnostic;

/// Returns owner, TTL and type of each record. Fails on an error.
fn records(text: &str) -> Vec<String> {
    let (zone, diagnostics) = read("e.test", text.as_bytes());
    assert!(!diagnostics.iter().any(Diagnostic::is_error), "{diagnostics:#?}");
    zone.records.iter().map(|r| format!("{} {} {}", r.owner, r.ttl.secs(), r.rtype)).collect()
}

/// Returns the text of each diagnostic.
fn diagnostics(text: &str) -> Vec<String> {
    read("e.test", text.as_bytes()).1.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn only_diagnostic(text: &str, expected: &str) {
    let found = diagnostics(text);
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:#?}");
}

#[test]
fn line_that_begins_with_a_blank_repeats_the_owner() {
    assert_eq!(records("$TTL 1\na A 192.0.2.1\n A 192.0.2.2\n\tIN A 192.0.2.3\n"), ["a.e.test. 1 A"; 3]);
    only_diagnostic("$TTL 1\n A 192.0.2.1\n", "z:2:2: the line begins with a blank");
    // An invalid owner is not replaced with the owner of the record before.
    let found = diagnostics("$TTL 1\na A 192.0.2.1\nb..c A 192.0.2.1\n A 192.0.2.2\n");
    assert!(found.len() == 2 && found[1].contains("has an owner name"), "{found:#?}");
}

#[test]
fn class_and_ttl_are_read_in_either_order() {
    let text =
        "a 5 IN A 192.0.2.1\na IN 5 A 192.0.2.2\na 5 A 192.0.2.3\na in 5s a 192.0.2.4\na CLASS1 5 TYPE1 192.0.2.5\n";
    assert_eq!(records(text), ["a.e.test. 5 A"; 5]);
}

#[test]
fn missing_ttl_is_default_else_last_else_soa_minimum() {
    assert_eq!(records("$TTL 1h\na 5 A 192.0.2.1\nb A 192.0.2.1\n")[1], "b.e.test. 3600 A");
    assert_eq!(
        records("a 5 A 192.0.2.1\nb A 192.0.2.1\n$TTL 1h\nc A 192.0.2.1\n")[1..],
        ["b.e.test. 5 A", "c.e.test. 3600 A"]
    );
    let soa = "@ SOA a b 1 2 3 4 300\n@ NS ns\n";
    assert_eq!(records(soa), ["e.test. 300 SOA", "e.test. 300 NS"]);
    only_diagnostic(soa, "z:1:3: warning: no TTL is given; the SOA minimum, 300 s, applies");
    only_diagnostic("a A 192.0.2.1\n", "z:1:3: the record has no TTL");
    assert_eq!(records("$TTL 0\na A 192.0.2.1\n"), ["a.e.test. 0 A"]);
    assert_eq!(records("$TTL 2147483647\na A 192.0.2.1\n"), ["a.e.test. 2147483647 A"]);
    only_diagnostic("$TTL 2147483648\n", "z:1:6: '2147483648' is not a TTL");
}

#[test]
fn relative_names_are_completed_with_the_current_origin() {
    let text = "$TTL 1\n$ORIGIN sub\n@ A 192.0.2.1\n$ORIGIN deep\na A 192.0.2.1\n$ORIGIN e.test.\na.b A 192.0.2.1\n";
    assert_eq!(records(text), ["sub.e.test. 1 A", "a.deep.sub.e.test. 1 A", "a.b.e.test. 1 A"]);
}

#[test]
fn line_endings_byte_order_mark_and_comments_are_skipped() {
    let expected = ["a.e.test. 1 A", "b.e.test. 1 TXT"];
    for text in [
        "$TTL 1\r\na A 192.0.2.1\r\nb TXT x ; y\r\n",
        "\u{feff}$TTL 1\na A 192.0.2.1\nb TXT x;y\n",
        ";;\n\n \t\n$TTL 1 ; c\n\na A ( ; c\n192.0.2.1 ; c\n) ; c\nb TXT (x\n)\n",
        "$ttl 1\na ( A ) 192.0.2.1\n()\nb TXT (x)\n\n  ; c\n",
    ] {
        assert_eq!(records(text), expected, "{text:?}");
    }
    assert_eq!(read("e.test", b"$TTL 1\r\na A 192.0.2.1\r\n").0.records[0].line, 2);
}

#[test]
fn file_without_final_line_break_is_rejected() {
    only_diagnostic("$TTL 1\na A 192.0.2.1", "z:2:14: the file does not end with a line break; it may be truncated");
    only_diagnostic("$TTL 1\na A 192.0.2.1\n ; c", "z:3:5: the file does not end with a line break");
    only_diagnostic("$TTL 1\na A 192.0.2.1\r", "z:2:15: the file does not end with a line break");
    assert_eq!(diagnostics(""), [""; 0], "an empty file has no last line");
    let include: super::super::Include<'_> = &mut |_| Ok(b"b A 192.0.2.1".to_vec());
    let found = read_zone(&name("e.test"), "main", b"$TTL 1\n$INCLUDE part\n", include).1;
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(found.len() == 1 && found[0].starts_with("part:1:14: the file does not end with"), "{found:#?}");
}

#[test]
fn reading_continues_after_each_error() {
    let text = "$TTL 1\na A 1.2.3\nb WAT x\nc CH TXT x\nd A 192.0.2.1\n$NOPE\ne MX (10\n mail extra )\nf ANY x\n\"g\" A 192.0.2.1\nh\ni \"A\" 192.0.2.1\nj A \"192.0.2.1\n";
    let found = diagnostics(text);
    let places: Vec<&str> = found.iter().map(|fault| fault.split(": ").next().unwrap()).collect();
    let expected = ["z:2:5", "z:3:3", "z:4:3", "z:6:1", "z:8:7", "z:9:3", "z:10:1", "z:11:2", "z:12:3", "z:13:5"];
    assert_eq!(places, expected, "{found:#?}");
    assert!(found.iter().all(|fault| !fault.contains("; ;") && fault.len() > 20));
}

#[test]
fn unclosed_parenthesis_is_reported_where_it_opens() {
    only_diagnostic("$TTL 1\na TXT ( x\nb A 192.0.2.1\n", "z:2:7: this parenthesis is not closed");
    let found = diagnostics("$TTL 1\na A ( 1.2.3\nb A 192.0.2.1\n");
    assert!(found.len() == 2 && found[1].starts_with("z:2:5: this parenthesis"), "{found:#?}");
    only_diagnostic("$TTL 1\na A 192.0.2.1 )\nb A 192.0.2.1\n", "z:2:15: closing parenthesis without");
}

#[test]
fn record_outside_the_zone_is_ignored_with_a_warning() {
    assert_eq!(records("$TTL 1\nx. A 192.0.2.1\na A 192.0.2.1\nbade.test. A 192.0.2.1\n"), ["a.e.test. 1 A"]);
    only_diagnostic("$TTL 1\nx. A 192.0.2.1\n", "z:2:4: warning: x. is outside the zone e.test.");
}

#[test]
fn number_of_reported_errors_is_bounded() {
    let found = diagnostics(&"a A x\n".repeat(1_000));
    assert_eq!(found.len(), 101);
    assert_eq!(found[100], "z: and 900 more errors; fix the errors above first");
}

#[test]
fn included_file_has_its_own_origin_and_owner() {
    let (mut zone, found) = read_zone(
        &name("e.test"),
        "main",
        b"$TTL 1\na A 192.0.2.1\n$INCLUDE \"part one\" sub\n A 192.0.2.2\nz A 192.0.2.3\n$INCLUDE two\nx A 192.0.2.3\n",
        &mut |path| match path {
            "part one" => Ok(b" A 192.0.2.9\nb A 192.0.2.4\n$ORIGIN other.e.test.\nc A 192.0.2.5\n$TTL 2\n".to_vec()),
            "two" => Ok(b"d A 192.0.2.6\n".to_vec()),
            other => Err(format!("{other} does not exist")),
        },
    );
    assert_eq!(found, []);
    let seen: Vec<_> = zone.records.iter().map(|r| (r.owner.to_string(), r.ttl.secs(), r.file, r.line)).collect();
    let expected = [
        ("a.e.test.", 1, 0, 2),
        ("a.e.test.", 1, 1, 1),
        ("b.sub.e.test.", 1, 1, 2),
        ("c.other.e.test.", 1, 1, 4),
        ("a.e.test.", 2, 0, 4),
        ("z.e.test.", 2, 0, 5),
        ("d.e.test.", 2, 2, 1),
        ("x.e.test.", 2, 0, 7),
    ];
    assert_eq!(seen, expected.map(|(owner, ttl, file, line)| (owner.to_owned(), ttl, file, line)));
    let last = zone.records.remove(6);
    assert_eq!(zone.place(&last).to_string(), "two:1:1");
}

#[test]
fn failed_cyclic_and_too_deep_includes_are_rejected() {
    let read = |text: &str, include: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>| {
        let found = read_zone(&name("e.test"), "main", text.as_bytes(), include).1;
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let missing = read("$INCLUDE nofile\n", &mut |_| Err("it does not exist".into()));
    assert_eq!(
        missing,
        ["main:1:10: cannot include 'nofile': it does not exist; correct the path, or make the file readable"]
    );
    let circle = read("$INCLUDE a\n", &mut |path| Ok(if path == "a" { b"\n$INCLUDE main\n".to_vec() } else { vec![] }));
    assert!(
        circle.len() == 1 && circle[0].starts_with("a:2:10: cannot include 'main': it includes itself"),
        "{circle:?}"
    );
    let own = read_zone(&name("e.test"), "/etc/zones/own", b"$INCLUDE own\n", &mut |_| Ok(vec![])).1;
    assert!(own.len() == 1 && own[0].fact.contains("includes itself"), "{own:?}");
    let mut depth = 0;
    let deep = read("$INCLUDE x\n", &mut |_| {
        depth += 1;
        Ok(format!("$INCLUDE x{depth}\n").into_bytes())
    });
    assert!(deep.len() == 1 && deep[0].contains("10 deep"), "{deep:?}");
    assert_eq!(depth, 10);
    // Ten files that include the next one ten times each would cause 10^10 reads.
    let mut count = 0;
    let wide = read(&"$INCLUDE x\n".repeat(10), &mut |_| {
        count += 1;
        Ok((0..10).map(|n| format!("$INCLUDE y{count}-{n}\n")).collect::<String>().into_bytes())
    });
    assert_eq!(count, 4_096);
    assert!(wide.len() == 101 && wide[100].contains("more errors"), "{wide:?}");
    assert!(read("$INCLUDE\n", &mut |_| Ok(vec![]))[0].starts_with("main:1:9: the directive ends"));
    assert!(read("$INCLUDE a b c\n", &mut |_| Ok(vec![]))[0].starts_with("main:1:14: unexpected 'c'"));
    // A file may be included again after its end.
    assert_eq!(
        read("$TTL 1\n$INCLUDE a x\n$INCLUDE a y\n", &mut |_| Ok(b"@ TXT x\n".to_vec())),
        <[String; 0]>::default()
    );
}

#[test]
fn generate_produces_the_records_that_bind_produces() {
    let generated = |line: &str| {
        let text = format!("$TTL 1\n$GENERATE {line}\n");
        let (zone, found) = read("e.test", text.as_bytes());
        assert_eq!(found, []);
        assert!(zone.records.iter().all(|record| record.line == 2));
        zone.records.iter().map(|r| format!("{} {}", r.owner, super::rdata_text(r.rtype, &r.rdata))).collect::<Vec<_>>()
    };
    assert_eq!(generated("1-2 h$ A 192.0.2.$"), ["h1.e.test. 192.0.2.1", "h2.e.test. 192.0.2.2"]);
    assert_eq!(
        generated("0-4/2 h${1} 5 IN A 192.0.2.${10}"),
        ["h1.e.test. 192.0.2.10", "h3.e.test. 192.0.2.12", "h5.e.test. 192.0.2.14"]
    );
    assert_eq!(generated("10-10 h${0,4,x}-${-3,3,d}-${0,0,o} CNAME x${0,2,X}.y."), ["h000a-007-12.e.test. x0A.y."]);
    assert_eq!(generated("18-18 ${0,3,n}.z TXT \"\\$ $ a b\""), ["2.1.z.e.test. \"$ 18 a b\""]);
    assert_eq!(generated("18-18 ${0,5,N}.z A 192.0.2.1"), ["2.1.0.z.e.test. 192.0.2.1"]);
}

#[test]
fn invalid_or_too_large_generate_is_rejected() {
    for line in [
        "",
        "1",
        "2-1 a A 192.0.2.$",
        "1-2",
        "1-2 a",
        "1-2/0 a A 192.0.2.$",
        "1-x a A 192.0.2.1",
        "1-2 a${x} A 192.0.2.1",
        "1-2 a${1 A 192.0.2.1",
        "1-2 a${0,999} A 192.0.2.1",
        "1-2 a${0,1,q} A 192.0.2.1",
        "1-2 a${-5} A 192.0.2.1",
        "1-300 a$ A 192.0.2.$",
        "1-9999999 a$ A 192.0.2.1",
        "1-2 $GENERATE 1-2 a",
        "0-2147483648 a A 192.0.2.1",
        "1-2 a A (192.0.2.1",
    ] {
        let found = diagnostics(&format!("$TTL 1\n$GENERATE {line}\n"));
        assert!(found.len() == 1 && found[0].starts_with("z:2:"), "{line}: {found:#?}");
    }
}

#[test]
fn generated_text_is_bounded() {
    let long = format!("\"{}\" ", "x".repeat(250)).repeat(200);
    let found = diagnostics(&format!("$TTL 1\n$GENERATE 1-1000000 a TXT {long}\n"));
    assert!(
        found.len() == 1 && found[0].starts_with("z:2:11: the $GENERATE lines of the zone produce more than 64 MiB"),
        "{found:?}"
    );
}
