use std::collections::BTreeSet;

use fairway_model::{Diagnostic, Name, Rtype};

use super::{
    Record, ZoneData, check_zone,
    rdata::{check, rdata_names},
    rdata_from_text, rdata_text, read_zone,
};

mod cuts;
mod lines;

const RICH: &str = include_str!("../testdata/rich.zone");
const PORTABLE: &str = include_str!("../testdata/rich.portable.zone");

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn read(origin: &str, text: &[u8]) -> (ZoneData, Vec<Diagnostic>) {
    read_zone(&name(origin), "z", text, &mut |_| Err("no files here".to_owned()))
}

fn read_rich(text: &str) -> ZoneData {
    let (mut zone, diagnostics) = read("rich.test", text.as_bytes());
    assert_eq!(diagnostics, []);
    let diagnostics = check_zone(&mut zone, &|_| None);
    assert!(diagnostics.iter().all(|diagnostic| !diagnostic.is_error()), "{diagnostics:#?}");
    zone
}

/// Returns a record in comparable form. Owners become lower case, names in RDATA keep their case.
fn comparable(record: &Record) -> (String, Rtype, u32, String) {
    let hex = record.rdata.iter().map(|octet| format!("{octet:02x}")).collect();
    (record.owner.to_lowercase().to_string(), record.rtype, record.ttl.secs(), hex)
}

#[test]
fn every_type_has_the_wire_form_of_bind() {
    let ours: BTreeSet<_> = read_rich(RICH).records.iter().map(comparable).collect();
    let binds: BTreeSet<_> = read_rich(PORTABLE).records.iter().map(comparable).collect();
    assert_eq!(ours.difference(&binds).collect::<Vec<_>>(), Vec::<&_>::new(), "only ours");
    assert_eq!(binds.difference(&ours).collect::<Vec<_>>(), Vec::<&_>::new(), "only BIND's");
    assert!(ours.len() > 140);
}

#[test]
fn rich_zone_contains_every_type_of_the_table() {
    let there: BTreeSet<_> = read_rich(RICH).records.iter().map(|record| record.rtype).collect();
    let known = (1..=u16::MAX).map(Rtype).filter(|t| t.mnemonic().is_some() && !t.is_meta());
    // NXT and A6 are historic and are supported only in generic form.
    let missing: Vec<_> = known.filter(|t| !there.contains(t) && !matches!(*t, Rtype::NXT | Rtype::A6)).collect();
    assert_eq!(missing, [Rtype::MD, Rtype::MF], "BIND refuses these two");
}

#[test]
fn rich_zone_has_no_errors() {
    let (mut zone, _) = read("rich.test", RICH.as_bytes());
    let diagnostics = check_zone(&mut zone, &|_| None);
    assert_eq!(diagnostics, []);
}

#[test]
fn rdata_round_trips_through_text() {
    for record in read_rich(RICH).records {
        let text = rdata_text(record.rtype, &record.rdata);
        let known = record.rtype.mnemonic().is_some() && record.rtype != Rtype::NULL;
        assert_eq!(text.starts_with("\\#"), !known, "{} {text}", record.rtype);
        let back = rdata_from_text(record.rtype, text.as_bytes(), &Name::root());
        assert_eq!(back.as_deref(), Ok(&*record.rdata), "{} {text}", record.rtype);
        check(record.rtype, &record.rdata).unwrap();
    }
}

#[test]
fn malformed_rdata_is_written_in_generic_form() {
    assert_eq!(rdata_text(Rtype::A, &[1, 2, 3]), "\\# 3 010203");
    assert_eq!(rdata_text(Rtype(65280), &[]), "\\# 0");
    assert_eq!(rdata_text(Rtype::MX, &[0, 1, 0]), "1 .");
}

#[test]
fn truncated_or_extended_rdata_is_rejected_or_still_valid() {
    for record in read_rich(RICH).records {
        for end in 0..record.rdata.len() {
            // Valid data must round-trip through text; the rest is rejected without a panic.
            let cut = &record.rdata[..end];
            let text = rdata_text(record.rtype, cut);
            let back = rdata_from_text(record.rtype, text.as_bytes(), &Name::root());
            assert_eq!(back.is_ok(), check(record.rtype, cut).is_ok(), "{} {text}", record.rtype);
            assert!(rdata_names(record.rtype, cut).iter().all(|name| name.end <= end));
        }
    }
}

#[test]
fn names_in_rdata_are_found() {
    for record in read_rich(RICH).records {
        for found in rdata_names(record.rtype, &record.rdata) {
            let inside = Name::from_wire(&record.rdata[found.clone()]).unwrap();
            assert_eq!(inside.as_wire().len(), found.len());
        }
    }
    let names = |rtype, rdata: &[u8]| {
        let found = rdata_names(rtype, rdata).into_iter();
        found.map(|name| (name.start, name.end)).collect::<Vec<_>>()
    };
    assert_eq!(names(Rtype::SRV, b"\0\x01\0\x02\0\x03\x01a\0"), [(6, 9)]);
    assert_eq!(names(Rtype::SOA, &[b"\x01a\0\0".to_vec(), vec![0; 20]].concat()), [(0, 3), (3, 4)]);
    assert_eq!(names(Rtype::HIP, b"\x01\x02\0\x01\xaa\xbb\x01a\0\x01b\0"), [(6, 9), (9, 12)]);
    assert_eq!(names(Rtype::IPSECKEY, b"\x0a\x03\x00\x01a\0"), [(3, 6)]);
    assert_eq!(names(Rtype::AMTRELAY, b"\x0a\x83\x01a\0"), [(2, 5)]);
    assert_eq!(names(Rtype::MX, b"\0\x01\x01a"), []);
}
