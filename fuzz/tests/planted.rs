//! Each target finds a bug that was planted for it, from its committed corpus and within a bound, and finds none in the real code within
//! the same bound.

use std::time::Duration;

use fairway_config::{Loaded, Source};
use fairway_fuzz::{
    Bounds, Target, config, corpus, fuzz, metrics,
    packet::{self, in_stages},
    run_once, zone,
};
use fairway_health::load::GatewayMetrics;
use fairway_model::{Diagnostic, Name, Rtype};
use fairway_zonefile::ZoneData;
use fairway_zones::{Outcome, Query, Request, ServingState, Tally, find, read, write};

/// Enough to find each planted bug with all tried seeds, and short enough for a debug build.
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(60), inputs: 60_000 };

/// Fuzzes until a rule breaks, and checks that it is the one that the planted bug breaks.
fn finds(target: &mut dyn Target, name: &str, rule: &str) {
    let corpus = corpus::load(name).expect("the corpus is committed");
    let finding = fuzz(target, &corpus, 1, BOUNDS).expect_err("the planted bug is found");
    assert!(run_once(target, &finding.input).is_err(), "the smaller input shows it, too");
    assert!(finding.what.contains(rule), "{}", finding.what);
}

/// Sends one octet more than fits in answers that need EDNS.
fn oversized(
    serving: &ServingState,
    request: &Request<'_>,
    query: &mut Query,
    tally: &Tally,
    out: &mut [u8],
) -> Outcome {
    match in_stages(serving, request, query, tally, out) {
        Outcome::Reply(length) if length > 512 && out.len() < 65_535 => Outcome::Reply(out.len() + 1),
        outcome => outcome,
    }
}

/// Reads past the end if a name ends in a pointer to the last octet.
fn overread(
    serving: &ServingState,
    request: &Request<'_>,
    query: &mut Query,
    tally: &Tally,
    out: &mut [u8],
) -> Outcome {
    let packet = request.packet;
    if let Some(at) = packet.iter().skip(12).position(|b| *b == 0xc0) {
        let target = usize::from(*packet.get(12 + at + 1).unwrap_or(&0));
        assert!(target < packet.len(), "the planted overread");
    }
    in_stages(serving, request, query, tally, out)
}

/// Answers another question than that of the query, if the query has EDNS and an odd id.
fn confused(
    serving: &ServingState,
    request: &Request<'_>,
    query: &mut Query,
    tally: &Tally,
    out: &mut [u8],
) -> Outcome {
    let outcome = in_stages(serving, request, query, tally, out);
    if request.packet.len() > 60 && request.packet[1] & 1 == 1 {
        out[13] ^= 0x20;
    }
    outcome
}

/// Answers some packets with the result for the previous one.
fn stale(serving: &ServingState, request: &Request<'_>, query: &mut Query, tally: &Tally, out: &mut [u8]) -> Outcome {
    read(&serving.snapshot, request.packet, query);
    if request.packet.get(1).is_none_or(|octet| octet & 7 != 7) {
        find(&serving.snapshot, request.packet, query);
    }
    write(serving, request, query, tally, out)
}

/// Loses the octets of long TXT records.
fn lossy(origin: &Name, text: &[u8]) -> (ZoneData, Vec<Diagnostic>) {
    let (mut data, faults) = zone::read(origin, text);
    data.records
        .iter_mut()
        .filter(|r| r.rtype == Rtype::TXT && r.rdata.len() > 40)
        .for_each(|r| r.rdata = [9, 9][..].into());
    (data, faults)
}

/// Panics at a negative number in place of a value.
fn fragile(source: &Source) -> Result<Loaded, Vec<Diagnostic>> {
    let Source::Path(path) = source else { return config::real(source) };
    let text = std::fs::read(path).unwrap_or_default();
    assert!(!text.windows(4).any(|w| w == b": -1"), "the planted panic");
    config::real(source)
}

/// Ignores the start of a long line whose end is in another piece.
fn forgetful(text: &[u8], piece: usize) -> Result<GatewayMetrics, String> {
    match text.chunks(piece).any(|part| part.len() < text.len() && part.ends_with(b"active")) {
        true => Err("lost".to_owned()),
        false => metrics::real(text, piece),
    }
}

#[test]
fn the_packet_target_finds_an_answer_that_is_too_long() {
    finds(&mut packet::Packets::with(oversized), "packet", "more octets");
}

#[test]
fn the_packet_target_finds_a_read_past_the_end() {
    finds(&mut packet::Packets::with(overread), "packet", "overread");
}

#[test]
fn the_packet_target_finds_an_answer_to_another_question() {
    finds(&mut packet::Packets::with(confused), "packet", "question");
}

#[test]
fn the_packet_target_finds_what_other_packets_left() {
    finds(&mut packet::Packets::with(stale), "packet", "after others");
}

#[test]
fn the_zone_target_finds_a_reader_that_loses_octets() {
    finds(&mut zone::ZoneText::with(lossy), "zone", "written");
}

#[test]
fn the_config_target_finds_a_panic_in_the_loader() {
    finds(&mut config::ConfigText::with(fragile).unwrap(), "config", "planted");
}

#[test]
fn the_metrics_target_finds_a_reader_that_loses_what_is_divided() {
    finds(&mut metrics::Metrics::with(forgetful), "metrics", "in pieces");
}

#[test]
fn the_metrics_target_finds_nothing_in_the_real_reader() {
    let corpus = corpus::load("metrics").expect("the corpus is committed");
    let bounds = Bounds { inputs: 20_000, ..BOUNDS };
    fuzz(&mut metrics::Metrics::default(), &corpus, 1, bounds).expect("no rule is broken");
}

#[cfg(feature = "server")]
mod server {
    use axum::{Router, body, extract::Request, middleware};
    use fairway_fuzz::webhook;

    use super::finds;

    /// Panics at a batch with a null value.
    async fn brittle(request: Request) -> Request {
        let (head, body) = request.into_parts();
        let octets = body::to_bytes(body, usize::MAX).await.expect("the body is in memory");
        assert!(!octets.windows(5).any(|w| w == b":null"), "the planted panic");
        Request::from_parts(head, octets.into())
    }

    #[test]
    fn the_webhook_target_finds_a_panic_in_its_routes() {
        let planted = |routes: Router| routes.layer(middleware::map_request(brittle));
        finds(&mut webhook::Batches::with(planted).unwrap(), "webhook", "planted");
    }
}
