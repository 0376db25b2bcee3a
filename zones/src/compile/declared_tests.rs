//! Declared records answer like records of the zone file, or are rejected with a reason.

use fairway_model::{DesiredState, Name, RecordSet, Rtype, Ttl};
use fairway_zonefile::rdata_from_text;

use super::tests::{INNER, OUTER, answers, desired, zone};
use super::*;

fn set(name: &str, rtype: Rtype, data: &[&str]) -> RecordSet {
    let name: Name = format!("{name}example.test").parse().unwrap();
    let rdatas = data.iter().map(|text| rdata_from_text(rtype, text.as_bytes(), &Name::root()).unwrap());
    RecordSet::new(name, rtype, Ttl::from_secs(300).unwrap(), rdatas)
}

fn with(mut desired: DesiredState, sets: &[RecordSet]) -> DesiredState {
    desired.records = sets.iter().map(|set| (set.key(), set.clone())).collect();
    desired
}

const NAMES: &str = "www. shop. b.shop. wild. y.wild. q.x.wild. x.*.wild. new2. a.new2. q.a.new2. *.new2. z.new2. alias. in. m.in. sub2. q.sub2. red. a.red. nowhere. sub. own.";
const TYPES: [Rtype; 8] =
    [Rtype::A, Rtype::AAAA, Rtype::TXT, Rtype::CNAME, Rtype::MX, Rtype::NS, Rtype::DS, Rtype::ANY];

#[test]
fn declared_records_answer_like_records_of_the_zone_file() {
    /// Owner in wire order, and owner and data in zone file syntax.
    type Written = (&'static str, &'static str, Rtype, &'static [&'static str]);
    let cases: [&[Written]; 7] = [
        &[("new2.", "new2", Rtype::A, &["192.0.2.9", "192.0.2.8"])],
        &[
            ("a.new2.", "a.new2", Rtype::TXT, &["\"two\" words"]),
            ("*.new2.", "*.new2", Rtype::MX, &["5 own.example.test."]),
        ],
        &[("own.", "own", Rtype::TXT, &["beside"]), ("y.wild.", "y.wild", Rtype::A, &["192.0.2.10"])],
        &[("alias.", "alias", Rtype::CNAME, &["own.example.test."])],
        &[("alias.", "alias", Rtype::CNAME, &["m.in.example.test."]), ("", "@", Rtype::TXT, &["apex"])],
        &[
            ("sub2.", "sub2", Rtype::NS, &["ns.invalid."]),
            ("sub2.", "sub2", Rtype::DS, &["1 13 2 0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"]),
        ],
        &[("red.", "red", Rtype::DNAME, &["wild.example.test."]), ("red.", "red", Rtype::TXT, &["too"])],
    ];
    for (case, records) in cases.iter().enumerate() {
        let lines: String = records
            .iter()
            .flat_map(|(_, owner, rtype, data)| data.iter().map(move |data| format!("{owner} {rtype} {data}\n")))
            .collect();
        let inner = zone("in.example.test", INNER);
        let in_file = [zone("example.test", &format!("{OUTER}{lines}")), inner.clone()];
        let apart = [zone("example.test", OUTER), inner];
        let sets: Vec<_> = records.iter().map(|(name, _, rtype, data)| set(name, *rtype, data)).collect();
        let options = ServerOptions::default();
        let desired = desired(&["shop.", "m.in."]);
        let expected = compile(&desired, &in_file, &options, None).unwrap().0;
        let reuse = compile(&with(desired, &sets), &apart, &options, None)
            .unwrap_or_else(|faults| panic!("{case}: {faults:?}"));
        let (reuse, expected) = (answers(reuse.0, NAMES, &TYPES), answers(expected, NAMES, &TYPES));
        // The order of sets, and of records in a set, does not matter.
        assert_eq!(reuse.len(), expected.len());
        for (reuse, expected) in reuse.iter().zip(&expected) {
            let sorted = |octets: &[u8]| {
                let message = crate::decode(octets).unwrap();
                let mut records: Vec<String> =
                    [message.answer, message.authority].iter().flatten().map(|r| format!("{r:?}")).collect();
                records.sort();
                (message.rcode.to_string(), records)
            };
            assert_eq!(sorted(reuse), sorted(expected), "case {case}");
        }
    }
}

#[test]
fn declared_set_with_conflict_is_rejected_with_reason() {
    let (zones, options) = ([zone("example.test", OUTER)], ServerOptions::default());
    let large: Vec<String> = (0..300).map(|n| format!("\"{}{n}\"", "x".repeat(240))).collect();
    let large: Vec<&str> = large.iter().map(String::as_str).collect();
    let table: [(&[RecordSet], &str); 13] = [
        (&[set("own.", Rtype::A, &["192.0.2.9"])], "the zone itself has one, with precedence"),
        (&[set("www.", Rtype::TXT, &["x"])], "has a CNAME in the zone file"),
        (&[set("own.", Rtype::CNAME, &["a.invalid."])], "a CNAME excludes other records"),
        (&[set("n.", Rtype::CNAME, &["a.invalid."]), set("n.", Rtype::TXT, &["x"])], "a CNAME excludes other records"),
        (&[set("shop.", Rtype::A, &["192.0.2.9"])], "pool plain answers this name"),
        (&[set("shop.", Rtype::CNAME, &["a.invalid."])], "pool plain answers this name"),
        (&[set("c-x.", Rtype::MX, &["1 a.invalid."])], "pool alias answers this name"),
        (&[set("a.sub.", Rtype::A, &["192.0.2.9"])], "is hidden by a delegation"),
        (&[set("n.", Rtype::NS, &["a.invalid."]), set("x.n.", Rtype::TXT, &["x"])], "would hide other records"),
        (&[set("n.", Rtype::NS, &["a.invalid."]), set("n.", Rtype::TXT, &["x"])], "would hide other records"),
        (&[set("own.", Rtype::DNAME, &["a.invalid."])], "would hide other records"),
        (&[set("n.", Rtype::TXT, &large)], "records of n.example.test. have"),
        (&[RecordSet { rtype: Rtype::SOA, ..set("n.", Rtype::TXT, &["x"]) }], "cannot be declared"),
    ];
    for (sets, reason) in table {
        let desired = with(desired(&["shop.", "c-x."]), sets);
        let faults = compile(&desired, &zones, &options, None).map(|_| ()).unwrap_err();
        assert!(faults.iter().any(|fault| fault.fact.contains(reason)), "{reason}: {faults:?}");
        assert!(
            faults.iter().all(|fault| matches!(&fault.about, Some(fairway_model::Subject::Records(..)))),
            "{faults:?}"
        );
    }
    let elsewhere = RecordSet { name: "n.invalid.".parse().unwrap(), ..set("n.", Rtype::TXT, &["x"]) };
    let faults = compile(&with(desired(&[]), &[elsewhere]), &zones, &options, None).map(|_| ()).unwrap_err();
    assert!(faults[0].fact.contains("is in no declared zone"), "{faults:?}");
}
