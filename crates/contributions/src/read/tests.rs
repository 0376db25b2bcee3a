//! Meanings and problems of endpoints.

use fairway_providers::Property;

use super::*;

fn endpoint(name: &str, rtype: &str, targets: &[&str]) -> Endpoint {
    Endpoint {
        dns_name: name.to_owned(),
        record_type: rtype.to_owned(),
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        ..Endpoint::default()
    }
}

fn read(endpoint: Endpoint) -> ReadRow {
    ReadRow::new(Row { since: 1, endpoint, held: None })
}

/// Returns the spec of an endpoint with these annotations, and its problems.
fn spec_with(words: &[(&str, &str)]) -> (ContributedSpec, Vec<String>) {
    let property =
        |(name, value): &(&str, &str)| Property { name: format!("{PREFIX}{name}"), value: (*value).to_owned() };
    let provider_specific = words.iter().map(property).collect();
    let row = read(Endpoint { provider_specific, ..endpoint("a.example", "A", &["192.0.2.1"]) });
    match row.meaning {
        Meaning::Addresses(_, spec) => (ContributedSpec::clone(&spec), row.problems),
        other => panic!("{other:?}"),
    }
}

fn text_of(target: &str) -> Result<Vec<u8>, String> {
    text(target).map(Vec::from)
}

#[test]
fn annotations_set_policy_weight_health_check_and_ttl() {
    let words = [
        ("answers", "2"),
        ("cluster", "eu1"),
        ("health-path", "/ready"),
        ("health-port", "15021"),
        ("policy", "failover"),
        ("region", "eu"),
        ("tier", "2"),
        ("ttl", "1m"),
        ("weight", "60"),
    ];
    let (spec, problems) = spec_with(&words);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!((spec.answers, spec.weight, spec.tier), (Some(2), Some(Weight(60)), Tier::new(2).ok()));
    assert_eq!((spec.ttl, spec.region.as_deref()), (Ttl::from_secs(60).ok(), Some("eu")));
    let (name, monitor) = spec.monitor.unwrap();
    assert_eq!(name.as_str(), "webhook+http+15021++2fready");
    assert!(matches!(&monitor.check, Check::Http(http) if http.port == 15021 && http.path == "/ready"));
}

#[test]
fn invalid_annotation_is_reported_with_the_allowed_values() {
    let (spec, problems) =
        spec_with(&[("weight", "70000"), ("wieght", "1"), ("policy", "nearest"), ("health-path", "x")]);
    assert_eq!(spec, ContributedSpec::default());
    assert_eq!(problems[0], "webhook-gslb-weight is \"70000\"; give a number from 0 to 65535");
    assert_eq!(problems[1], "webhook-gslb-wieght is unknown; did you mean gslb-weight?");
    assert_eq!(problems.len(), 4);
}

#[test]
fn invalid_address_name_or_type_is_reported_and_the_rest_is_used() {
    let row = read(endpoint("a.example", "A", &["192.0.2.1", "2001:db8::1", "gateway.example"]));
    assert!(matches!(&row.meaning, Meaning::Addresses(addresses, _) if addresses.len() == 1));
    assert_eq!(row.problems.len(), 2);
    for (name, rtype) in [("a..example", "A"), ("a.example", "ODD"), ("a.example", "ANY"), ("a.example", "")] {
        let row = read(endpoint(name, rtype, &["192.0.2.1"]));
        assert!(row.meaning == Meaning::Nothing && row.problems.len() == 1, "{row:?}");
    }
    let long = format!("{}.example", "x".repeat(64));
    assert_eq!(read(endpoint(&long, "A", &["192.0.2.1"])).problems.len(), 1);
}

#[test]
fn text_is_unquoted_and_split_after_255_octets() {
    assert_eq!(text_of("\"heritage=x,y\"").unwrap(), b"\x0cheritage=x,y");
    assert_eq!(text_of("plain words").unwrap(), b"\x0bplain words");
    assert_eq!(text_of("\"a\" \"b\"").unwrap(), b"\x01a\x01b");
    assert_eq!(text_of(r#""q\"b\\n\010""#).unwrap(), b"\x06q\"b\\n\x0a");
    assert_eq!(text_of("\"\"").unwrap(), b"\0");
    let long = text_of(&format!("\"{}\"", "x".repeat(4_096))).unwrap();
    assert_eq!((long.len(), long[0], long[256]), (4_096 + 17, 255, 255));
    for target in ["\"a", "\"a\"b", r#""\25"#, r#""\999""#] {
        assert!(text_of(target).is_err(), "{target}");
    }
    assert!(text_of(&"x".repeat(70_000)).is_err());
}

#[test]
fn records_of_other_types_are_read_as_in_a_zone_file() {
    for (rtype, target) in [
        ("MX", "10 mail.example"),
        ("SRV", "0 50 443 gw.example."),
        ("CNAME", "elsewhere.example"),
        ("NS", "ns1.example"),
        ("PTR", "a.example"),
        ("NAPTR", "100 10 \"u\" \"sip+E2U\" \"!^.*$!sip:info@example.com!i\" ."),
    ] {
        let row = read(endpoint("a.example", rtype, &[target]));
        assert!(
            matches!(&row.meaning, Meaning::Records(set) if set.rdatas.len() == 1 && set.ttl.secs() == 300),
            "{row:?}"
        );
    }
    let row = read(endpoint("a.example", "MX", &["10 mail.example", "mail.example"]));
    assert!(matches!(&row.meaning, Meaning::Records(set) if set.rdatas.len() == 1), "{row:?}");
    assert_eq!(row.problems.len(), 1);
}

#[test]
fn cname_with_a_set_identifier_is_a_member_and_one_without_a_record() {
    let cname = |set: &str, targets: &[&str]| {
        read(Endpoint { set_identifier: set.to_owned(), ..endpoint("a.example", "CNAME", targets) })
    };
    let row = cname("eu", &["LB-1.elb.example."]);
    assert!(matches!(&row.meaning, Meaning::Host(host, _) if host.to_string() == "lb-1.elb.example."), "{row:?}");
    assert_eq!((row.rtype(), row.is_member(), row.problems.len()), (Some(Rtype::CNAME), true, 0));
    assert!(matches!(cname("", &["lb-1.elb.example"]).meaning, Meaning::Records(_)));
    for target in ["192.0.2.1", "localhost", "a b.example", "*.elb.example", ""] {
        let row = cname("eu", &[target]);
        assert!(row.meaning == Meaning::Nothing && row.problems.len() == 1, "{row:?}");
    }
    let row = cname("eu", &["lb-1.elb.example", "lb-2.elb.example"]);
    assert!(matches!(&row.meaning, Meaning::Host(host, _) if host.to_string().starts_with("lb-1")), "{row:?}");
    assert_eq!(row.problems, ["a CNAME has one target; the first one is used"]);
}

#[test]
fn registry_record_declares_the_owner_by_label_or_by_name() {
    let heritage = "\"heritage=external-dns,external-dns/owner=t1,external-dns/resource=service/a/b\"";
    let mut row = endpoint("a-www.example", "TXT", &[heritage]);
    assert_eq!(read(row.clone()).declared_owner(), Some("t1"));
    assert_eq!(read(row.clone()).companion_of().as_deref(), Some("www.example"));
    row.labels = [("ownedRecord".to_owned(), "Other.example".to_owned())].into_iter().collect();
    assert_eq!(read(row).companion_of().as_deref(), Some("other.example"));
    assert_eq!(read(endpoint("a-www.example", "A", &["192.0.2.1"])).companion_of(), None);
}

#[test]
fn name_with_control_octet_is_not_served() {
    let row = read(endpoint("0\\016.example", "TXT", &["x"]));
    assert_eq!((row.name, row.meaning), (None, Meaning::Nothing));
    assert!(
        row.problems[0].starts_with("invalid domain name: the name has the control octet \\016"),
        "{:?}",
        row.problems
    );
    assert!(read(endpoint("_a-0.example", "TXT", &["x"])).problems.is_empty());
}
