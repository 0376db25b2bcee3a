//! Damaged input: truncated texts, and random octets.

use std::ops::Range;

use proptest::prelude::*;

use super::{RICH, check_zone, name, read};
use fairway_model::{Diagnostic, Name, Rtype};

/// Checks that lines and columns of diagnostics are inside the text.
fn assert_sane(text: &[u8], diagnostics: &[Diagnostic]) {
    let lines = text.split(|octet| *octet == b'\n').count();
    for diagnostic in diagnostics {
        assert!(usize::try_from(diagnostic.location.line).unwrap() <= lines, "{diagnostic}");
        assert!(!diagnostic.fact.is_empty());
    }
}

#[test]
fn truncated_zone_is_rejected() {
    let text = RICH.as_bytes();
    let whole = read("rich.test", text).0.records;
    for end in 0..text.len() {
        let cut = &text[..end];
        let (mut zone, diagnostics) = read("rich.test", cut);
        assert_sane(cut, &diagnostics);
        // The lines before the truncated one give the same records as in the whole text.
        let line = 1 + u32::try_from(cut.iter().filter(|octet| **octet == b'\n').count()).unwrap();
        let before = zone.records.partition_point(|record| record.line < line);
        let last = before.saturating_sub(3)..before;
        assert_eq!(zone.records[last.clone()], whole[last], "cut at {end}");
        let at_line_end = end == 0 || cut.ends_with(b"\n");
        assert!(at_line_end || diagnostics.iter().any(Diagnostic::is_error), "a cut at {end} is not refused");
        check_zone(&mut zone, &|_| None);
    }
}

#[test]
fn zone_with_one_changed_octet_does_not_panic() {
    let text = RICH.as_bytes();
    for (place, octet) in (0..text.len()).step_by(7).zip([b'"', b'(', b')', b'\\', b'\n', 0, 0xff, b';'].iter().cycle())
    {
        let mut damaged = text.to_vec();
        damaged[place] = *octet;
        let (mut zone, diagnostics) = read("rich.test", &damaged);
        assert_sane(&damaged, &diagnostics);
        check_zone(&mut zone, &|_| None);
    }
}

/// Fragments of zone files, which reach more code than random octets.
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
    fn random_octets_do_not_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (mut zone, diagnostics) = read("e.test", &text);
        assert_sane(&text, &diagnostics);
        check_zone(&mut zone, &|_| None);
    }

    #[test]
    fn random_zone_fragments_do_not_panic(text in pieces(0..60)) {
        let (mut zone, diagnostics) = read("e.test", text.as_bytes());
        assert_sane(text.as_bytes(), &diagnostics);
        check_zone(&mut zone, &|_| None);
        for record in &zone.records {
            prop_assert!(record.owner.is_within(&name("e.test")));
            prop_assert!(super::check(record.rtype, &record.rdata).is_ok());
        }
    }

    #[test]
    fn random_rdata_round_trips_through_text(rtype in 1u16..270, rdata in proptest::collection::vec(any::<u8>(), 0..40)) {
        let rtype = Rtype(rtype);
        let text = super::rdata_text(rtype, &rdata);
        let back = super::rdata_from_text(rtype, text.as_bytes(), &Name::root());
        match super::check(rtype, &rdata) {
            Ok(()) => prop_assert_eq!(&*back.unwrap(), &*rdata, "{} {}", rtype, text),
            Err(_) => prop_assert!(back.is_err()),
        }
    }

    #[test]
    fn fast_and_slow_name_readers_agree(text in "[a.@\\\\0-9]{0,12}|[a-c]{60,66}(\\.[a-c]{60,66}){0,4}\\.?") {
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
