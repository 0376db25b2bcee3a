//! What endpoints mean, and what is told of those that mean little.

use std::collections::BTreeMap;

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
    ReadRow::new(Row { since: 1, endpoint })
}

fn wanting(words: &[(&str, &str)]) -> (ContributedSpec, Vec<String>) {
    let property =
        |(name, value): &(&str, &str)| Property { name: format!("{PREFIX}{name}"), value: (*value).to_owned() };
    let provider_specific = words.iter().map(property).collect();
    let row = read(Endpoint { provider_specific, ..endpoint("a.example", "A", &["192.0.2.1"]) });
    match row.meaning {
        Meaning::Addresses(_, wanted) => (ContributedSpec::clone(&wanted), row.odd),
        other => panic!("{other:?}"),
    }
}

fn text_of(target: &str) -> Result<Vec<u8>, String> {
    text(target).map(Vec::from)
}

#[test]
fn annotations_say_how_the_addresses_are_used() {
    let words = [
        ("answers", "2"),
        ("cluster", "eu1"),
        ("health-path", "/ready"),
        ("health-port", "15021"),
        ("policy", "tier, failover"),
        ("region", "eu"),
        ("tier", "2"),
        ("ttl", "1m"),
        ("weight", "60"),
    ];
    // `tier` and `failover` alone rank the same way, and stand for one.
    let words = words.map(|(word, value)| if word == "policy" { (word, "failover") } else { (word, value) });
    let (wanted, odd) = wanting(&words);
    assert_eq!(odd, Vec::<String>::new());
    assert_eq!((wanted.answers, wanted.weight, wanted.tier), (Some(2), Some(Weight(60)), Tier::new(2).ok()));
    assert_eq!((wanted.ttl, wanted.region.as_deref()), (Ttl::from_secs(60).ok(), Some("eu")));
    let (name, monitor) = wanted.monitor.unwrap();
    assert_eq!(name.as_str(), "webhook+http+15021++2fready");
    assert!(matches!(&monitor.check, Check::Http(http) if http.port == 15021 && http.path == "/ready"));
}

#[test]
fn what_an_annotation_does_not_take_is_told_with_what_it_does() {
    let (wanted, odd) = wanting(&[("weight", "70000"), ("wieght", "1"), ("policy", "nearest"), ("health-path", "x")]);
    assert_eq!(wanted, ContributedSpec::default());
    assert_eq!(odd[0], "webhook-gslb-weight is \"70000\"; give a number from 0 to 65535");
    assert_eq!(odd[1], "webhook-gslb-wieght is not known; did you mean gslb-weight?");
    assert_eq!(odd.len(), 4);
}

#[test]
fn what_is_no_address_no_name_or_no_type_is_told_and_the_rest_counts() {
    let row = read(endpoint("a.example", "A", &["192.0.2.1", "2001:db8::1", "gateway.example"]));
    assert!(matches!(&row.meaning, Meaning::Addresses(addresses, _) if addresses.len() == 1));
    assert_eq!(row.odd.len(), 2);
    for (name, rtype) in [("a..example", "A"), ("a.example", "ODD"), ("a.example", "ANY"), ("a.example", "")] {
        let row = read(endpoint(name, rtype, &["192.0.2.1"]));
        assert!(row.meaning == Meaning::Nothing && row.odd.len() == 1, "{row:?}");
    }
    let long = format!("{}.example", "x".repeat(64));
    assert_eq!(read(endpoint(&long, "A", &["192.0.2.1"])).odd.len(), 1);
}

#[test]
fn text_is_served_without_its_quotes_and_cut_at_255_octets() {
    assert_eq!(text_of("\"heritage=x,y\"").unwrap(), b"\x0cheritage=x,y");
    assert_eq!(text_of("plain words").unwrap(), b"\x0bplain words");
    assert_eq!(text_of("\"a\" \"b\"").unwrap(), b"\x01a\x01b");
    assert_eq!(text_of(r#""q\"b\\n\010""#).unwrap(), b"\x06q\"b\\n\x0a");
    assert_eq!(text_of("\"\"").unwrap(), b"\0");
    let long = text_of(&format!("\"{}\"", "x".repeat(4_096))).unwrap();
    assert_eq!((long.len(), long[0], long[256]), (4_096 + 17, 255, 255));
    for odd in ["\"a", "\"a\"b", r#""\25"#, r#""\999""#] {
        assert!(text_of(odd).is_err(), "{odd}");
    }
    assert!(text_of(&"x".repeat(70_000)).is_err());
}

#[test]
fn records_of_other_types_are_read_as_in_a_zone() {
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
    assert_eq!(row.odd.len(), 1);
}

#[test]
fn the_registry_tells_owners_by_label_and_by_name() {
    let heritage = "\"heritage=external-dns,external-dns/owner=t1,external-dns/resource=service/a/b\"";
    let mut row = endpoint("a-www.example", "TXT", &[heritage]);
    assert_eq!(read(row.clone()).told_owner(), Some("t1"));
    assert_eq!(read(row.clone()).companion_of().as_deref(), Some("www.example"));
    row.labels = BTreeMap::from([("ownedRecord".to_owned(), "Other.example".to_owned())]);
    assert_eq!(read(row).companion_of().as_deref(), Some("other.example"));
    assert_eq!(read(endpoint("a-www.example", "A", &["192.0.2.1"])).companion_of(), None);
}
