use fairway_model::Ttl;

use super::*;

const PREFIX: &str = "/skydns/";

fn etcd() -> Etcd {
    let second = std::time::Duration::from_secs(1);
    let settings = Settings {
        endpoints: vec!["http://127.0.0.1:1".parse().unwrap()],
        user: None,
        ca: None,
        identity: None,
        endpoint_timeout: second,
        call_timeout: second,
    };
    Etcd::new(settings, PREFIX.to_owned(), vec!["x.".parse().unwrap()])
}

fn set(name: &str, rtype: Rtype, rdatas: &[&[u8]]) -> ProviderRecordSet {
    let rdatas = rdatas.iter().map(|rdata| Box::from(*rdata));
    ProviderRecordSet::plain(RecordSet::new(name.parse().unwrap(), rtype, Ttl::STEERED, rdatas))
}

fn written(set: &ProviderRecordSet) -> Pairs {
    let edit = Edit { name: &set.set.name, rtype: set.set.rtype, from: None, to: Some(set) };
    etcd().records_of(&edit).unwrap()
}

#[test]
fn record_is_written_for_coredns_and_read_back() {
    let addresses = set("Shop.X.", Rtype::A, &[&[192, 0, 2, 1], &[192, 0, 2, 2]]);
    let pairs = written(&addresses);
    assert!(pairs.keys().all(|key| key.starts_with("/skydns/x/shop/fairway-a-")), "{pairs:?}");
    let value = r#"{"host":"192.0.2.1","ttl":30,"targetstrip":1,"group":"shop.x","data":"192.0.2.1"}"#;
    assert!(pairs.values().any(|there| there == value), "{pairs:?}");
    assert_eq!(etcd().sets(&pairs), [set("shop.x.", Rtype::A, &[&[192, 0, 2, 1], &[192, 0, 2, 2]])]);
    let target = b"\x03www\x01y\x00";
    for (rtype, rdata, part) in [
        (Rtype::CNAME, target.to_vec(), r#"{"host":"www.y","ttl""#),
        (Rtype::SRV, [&[0, 1, 0, 0, 0, 80], &target[..]].concat(), r#""port":80,"priority":1,"ttl":30,"group""#),
        (Rtype::TXT, b"\x04a\"\\\xff\x01b".to_vec(), r#""text":"a\"\\\\\\255b""#),
    ] {
        let set = set("_s.x.", rtype, &[&rdata]);
        let pairs = written(&set);
        assert!(pairs.values().all(|value| value.contains(part)), "{pairs:?}");
        assert_eq!(etcd().sets(&pairs), [set]);
    }
}

#[test]
fn foreign_records_are_read_and_distinguished() {
    let ours = set("shop.x.", Rtype::A, &[&[192, 0, 2, 1]]);
    let theirs = [
        ("/skydns/x/shop/0a0b0c0d", r#"{"host":"192.0.2.9","ttl":30,"targetstrip":1}"#),
        ("/skydns/x/www", r#"{"host":"192.0.2.8","text":"\"heritage=external-dns\"","later":{}}"#),
        ("/skydns/x/mx", r#"{"host":"mail.y","mail":true}"#),
        ("/skydns/x/broken", "no JSON"),
        ("/skydns/x/short/1", r#"{"host":"192.0.2.7","targetstrip":9}"#),
    ];
    let mut pairs = written(&ours);
    pairs.extend(theirs.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let sets = etcd().sets(&pairs);
    let shown = |set: &ProviderRecordSet| format!("{} {}", set.key(), set.set.rdatas.len());
    let shown: BTreeSet<_> = sets.iter().map(shown).collect();
    let expected = [
        "shop.x. A 1",
        "shop.x. A (foreign) 1",
        "www.x. A 1",
        "www.x. TXT 1",
        "mx.x. MX 1",
        "broken.x. A 0",
        "broken.x. AAAA 0",
        "broken.x. TXT 0",
    ];
    assert_eq!(shown, expected.map(str::to_owned).into());
    let foreign = sets.into_iter().find(|set| set.set_identifier == FOREIGN).unwrap();
    assert!(edits(&Changes { delete: vec![foreign], ..Changes::default() }).is_empty(), "it is not ours to delete");
}

#[test]
fn edited_owned_value_is_written_again() {
    let set = set("shop.x.", Rtype::A, &[&[192, 0, 2, 1]]);
    let mut have = written(&set);
    for value in have.values_mut() {
        *value = value.replace(r#""host":"192.0.2.1""#, r#""host":"192.0.2.66""#);
    }
    let read = etcd().sets(&have);
    assert!(read[0].set.rdatas.is_empty() && read[0].key() == set.key(), "{read:?}");
    let edit = Edit { name: &set.set.name, rtype: Rtype::A, from: Some(&read[0].set), to: Some(&set) };
    assert!(etcd().is_as_read(&edit, &have));
}

#[test]
fn unservable_record_is_rejected_with_a_reason() {
    for (set, part) in [
        (set("x.", Rtype::A, &[&[192, 0, 2, 1]]), "apex.dns"),
        (set("*.x.", Rtype::A, &[&[192, 0, 2, 1]]), "wildcard"),
        (set("any.x.", Rtype::A, &[&[192, 0, 2, 1]]), "wildcard"),
        (set("a/b.x.", Rtype::A, &[&[192, 0, 2, 1]]), "labels"),
        (set("sip.x.", Rtype::SRV, &[b"\0\0\0\0\0\0\x01y\0"]), "underscore"),
        (set("t.x.", Rtype::TXT, &[b"\0"]), "empty"),
        (set("t.x.", Rtype::TXT, &[&[&[255][..], &[b'a'; 254], b"\\"].concat()]), "within an escape"),
        (set("n.x.", Rtype::NS, &[b"\x01y\0"]), "this type"),
    ] {
        let edit = Edit { name: &set.set.name, rtype: set.set.rtype, from: None, to: Some(&set) };
        let error = etcd().records_of(&edit).unwrap_err();
        assert!(matches!(&error, ProviderError::Refused(why) if why.contains(part)), "{error}");
    }
}
