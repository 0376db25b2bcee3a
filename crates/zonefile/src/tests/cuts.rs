//! Damage: texts cut anywhere, and octets that are no text at all.

use std::ops::Range;

use proptest::prelude::*;

use super::{RICH, check_zone, name, read};
use fairway_model::{Diagnostic, Name, Rtype};

/// Columns and lines of faults lie inside the text.
fn assert_sane(text: &[u8], faults: &[Diagnostic]) {
    let lines = text.split(|octet| *octet == b'\n').count();
    for fault in faults {
        assert!(usize::try_from(fault.location.line).unwrap() <= lines, "{fault}");
        assert!(!fault.fact.is_empty());
    }
}

#[test]
fn a_rich_zone_cut_inside_any_line_is_refused() {
    let text = RICH.as_bytes();
    let whole = read("rich.test", text).0.records;
    for end in 0..text.len() {
        let cut = &text[..end];
        let (mut zone, faults) = read("rich.test", cut);
        assert_sane(cut, &faults);
        // Whatever stands before the line that was cut is as in the whole text.
        let line = 1 + u32::try_from(cut.iter().filter(|octet| **octet == b'\n').count()).unwrap();
        let before = zone.records.partition_point(|record| record.line < line);
        let last = before.saturating_sub(3)..before;
        assert_eq!(zone.records[last.clone()], whole[last], "cut at {end}");
        let at_line_end = end == 0 || cut.ends_with(b"\n");
        assert!(at_line_end || faults.iter().any(Diagnostic::is_error), "a cut at {end} is not refused");
        check_zone(&mut zone, &|_| false);
    }
}

#[test]
fn a_rich_zone_with_one_octet_changed_never_panics() {
    let text = RICH.as_bytes();
    for (place, octet) in (0..text.len()).step_by(7).zip([b'"', b'(', b')', b'\\', b'\n', 0, 0xff, b';'].iter().cycle())
    {
        let mut damaged = text.to_vec();
        damaged[place] = *octet;
        let (mut zone, faults) = read("rich.test", &damaged);
        assert_sane(&damaged, &faults);
        check_zone(&mut zone, &|_| false);
    }
}

/// Pieces that zone text is made of, to get deeper than random octets do.
const PIECES: [&str; 24] = [
    "\n",
    " ",
    "\n ",
    "(",
    ")",
    "\"",
    "\\",
    ";",
    "@",
    "a",
    "a.",
    "*",
    "$TTL 1\n",
    "$ORIGIN ",
    "$GENERATE 1-3 ",
    "$INCLUDE x ",
    " IN ",
    " 5 ",
    " A 192.0.2.1\n",
    " MX 1 ",
    " TXT ",
    " SVCB 1 . ",
    "\\# 2 ",
    "${0,3,n}",
];

fn pieces(count: Range<usize>) -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(&PIECES[..]), count).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn random_octets_are_read_without_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (mut zone, faults) = read("e.test", &text);
        assert_sane(&text, &faults);
        check_zone(&mut zone, &|_| false);
    }

    #[test]
    fn random_pieces_of_zones_are_read_without_panic(text in pieces(0..60)) {
        let (mut zone, faults) = read("e.test", text.as_bytes());
        assert_sane(text.as_bytes(), &faults);
        check_zone(&mut zone, &|_| false);
        for record in &zone.records {
            prop_assert!(record.owner.is_within(&name("e.test")));
            prop_assert!(super::check_rdata(record.rtype, &record.rdata).is_ok());
        }
    }

    #[test]
    fn random_rdata_comes_back_from_its_text(rtype in 1u16..270, rdata in proptest::collection::vec(any::<u8>(), 0..40)) {
        let rtype = Rtype(rtype);
        let text = super::rdata_text(rtype, &rdata);
        let back = super::rdata_from_text(rtype, text.as_bytes(), &Name::root());
        match super::check_rdata(rtype, &rdata) {
            Ok(()) => prop_assert_eq!(&*back.unwrap(), &*rdata, "{} {}", rtype, text),
            Err(_) => prop_assert!(back.is_err()),
        }
    }

    #[test]
    fn names_read_fast_are_the_names_read_slowly(text in "[a.@\\\\0-9]{0,12}|[a-c]{60,66}(\\.[a-c]{60,66}){0,4}\\.?") {
        let origin = name("o.test");
        let mut wire = vec![];
        let fast = super::super::rdata::read_name(text.as_bytes(), &origin, &mut wire);
        let slow = Name::from_text(text.as_bytes(), Some(&origin));
        prop_assert_eq!(fast.is_ok(), slow.is_ok(), "{}", text);
        if let Ok(slow) = slow {
            prop_assert_eq!(slow.as_wire(), &*wire);
        }
    }
}
