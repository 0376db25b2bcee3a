//! Metrics of queries, responses and transports.

use std::time::Duration;

use fairway_zones::{
    COUNTED_TYPES, CookieStatus, Dropped, Exempt, LimitAction, LimitCounts, ResponseKind, ServingState, Tallies,
};

use super::Sheet;
use fairway_transport::{ANSWER_BOUNDS, CloseReason, Stats};

/// Writes the metrics of packets.
pub(super) fn write(sheet: &mut Sheet, tallies: &Tallies, stats: &Stats, view: &ServingState) {
    let kinds = [["udp", "ipv4"], ["udp", "ipv6"], ["tcp", "ipv4"], ["tcp", "ipv6"]];
    let queries = kinds.into_iter().zip(tallies.queries);
    sheet.counters("fairway_queries_total", &["transport", "family"], queries);
    let responses = (0..).zip(tallies.rcodes).map(|(code, count)| ([rcode(code)], count));
    let responses = responses.filter(|(code, count)| *count > 0 || RCODES_ALWAYS.contains(&code[0].as_str()));
    sheet.counters("fairway_responses_total", &["rcode"], responses);
    let drops = Dropped::ALL.into_iter().zip(tallies.drops).map(|(why, count)| ([<&str>::from(why)], count));
    sheet.counters("fairway_queries_dropped_total", &["reason"], drops);
    let cookies =
        CookieStatus::ALL.into_iter().zip(tallies.cookies).map(|(status, count)| ([<&str>::from(status)], count));
    sheet.counters("fairway_cookies_total", &["status"], cookies);
    write_limits(sheet, &tallies.limits);
    for (name, value) in [
        ("fairway_responses_truncated_total", tallies.truncated),
        ("fairway_responses_edns_total", tallies.edns),
        ("fairway_responses_ecs_total", tallies.ecs),
        ("fairway_down_answers_total", tallies.down_answers),
        ("fairway_query_log_lost_total", tallies.samples_lost),
        ("fairway_demand_lost_total", tallies.demand_samples_lost),
        ("fairway_demand_challenges_total", tallies.challenges),
    ] {
        sheet.counter(name, value);
    }
    let slots = view.snapshot.slots().iter().map(|slot| [slot.pool.as_str(), slot.cluster.as_str()]);
    let mut answers = tallies.answers.iter().copied();
    sheet.counter("fairway_answers_other_total", answers.next().unwrap_or_default());
    sheet.counters("fairway_answers_total", &["pool", "cluster"], slots.zip(answers));
    write_questions(sheet, tallies, view);
    write_transports(sheet, stats);
    let zones = || view.snapshot.zones().map(|zone| ([zone.origin.to_string()], zone));
    let serials = zones().map(|(name, zone)| (name, f64::from(zone.serial)));
    sheet.gauges("fairway_zone_serial", &["zone"], serials);
    let records = zones().map(|(name, zone)| (name, zone.records as f64));
    sheet.gauges("fairway_zone_records", &["zone"], records);
}

/// Writes the questions by zone and type: of each zone A and AAAA, and the other types that were asked for.
fn write_questions(sheet: &mut Sheet, tallies: &Tallies, view: &ServingState) {
    let types = COUNTED_TYPES.iter().map(ToString::to_string).chain(["other".to_owned()]);
    let types: Vec<String> = types.collect();
    let rows = view.snapshot.question_rows().flat_map(|(zone, first)| {
        let zone = zone.map_or_else(str::to_owned, ToString::to_string);
        let counts = tallies.questions.iter().copied().skip(first);
        let rows = types.iter().zip(counts).map(move |(rtype, count)| ([zone.clone(), rtype.clone()], count));
        rows.filter(|([_, rtype], count)| *count > 0 || TYPES_ALWAYS.contains(&rtype.as_str()))
    });
    sheet.counters("fairway_zone_queries_total", &["zone", "type"], rows);
}

/// Types that are written even if they are 0, so that rates have a start.
const TYPES_ALWAYS: [&str; 2] = ["A", "AAAA"];

fn write_limits(sheet: &mut Sheet, counts: &LimitCounts) {
    let limited = ResponseKind::ALL.into_iter().zip(counts.limited).flat_map(|(kind, counts)| {
        let actions = LimitAction::ALL.into_iter().zip(counts);
        actions.map(move |(action, count)| ([<&str>::from(kind), <&str>::from(action)], count))
    });
    sheet.counters("fairway_responses_limited_total", &["kind", "action"], limited);
    let exempt = Exempt::ALL.into_iter().zip(counts.exempt).map(|(why, count)| ([<&str>::from(why)], count));
    sheet.counters("fairway_rate_limit_exempt_total", &["reason"], exempt);
}

fn write_transports(sheet: &mut Sheet, stats: &Stats) {
    for (name, value) in [
        ("fairway_udp_received_total", stats.udp.received),
        ("fairway_udp_answered_total", stats.udp.answered),
        ("fairway_udp_dropped_total", stats.udp.dropped),
        ("fairway_udp_errors_limited_total", stats.udp.limited),
        ("fairway_udp_send_errors_total", stats.udp.send_errors),
        ("fairway_udp_receive_errors_total", stats.udp.receive_errors),
        ("fairway_udp_batches_total", stats.udp.batches),
        ("fairway_udp_sent_bytes_total", stats.udp.bytes),
        ("fairway_worker_panics_total", stats.udp.panics),
        ("fairway_tcp_accepted_total", stats.tcp.accepted),
        ("fairway_tcp_messages_total", stats.tcp.messages),
        ("fairway_tcp_accept_errors_total", stats.tcp.accept_errors),
    ] {
        sheet.counter(name, value);
    }
    let times = &stats.udp.times;
    let buckets: Vec<_> = ANSWER_BOUNDS.iter().map(Duration::as_secs_f64).zip(times.between).collect();
    sheet.histogram("fairway_udp_answer_duration_seconds", &buckets, times.count, times.nanos as f64 / 1e9);
    sheet.gauge("fairway_tcp_connections", stats.tcp.active() as f64);
    let closed = CloseReason::ALL.iter().map(|&why| ([<&str>::from(why)], stats.tcp.closed(why)));
    sheet.counters("fairway_tcp_closed_total", &["reason"], closed);
}

/// Response codes that are written even if they are 0, so that rates have a start.
const RCODES_ALWAYS: [&str; 5] = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "REFUSED"];

/// Returns the mnemonic of a response code (RFC 6895 section 2.3).
fn rcode(code: usize) -> String {
    const NAMES: [&str; 11] = [
        "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH",
        "NOTZONE",
    ];
    match NAMES.get(code) {
        Some(name) => (*name).to_owned(),
        None if code == 16 => "BADVERS".to_owned(),
        None if code == 23 => "BADCOOKIE".to_owned(),
        None => format!("RCODE{code}"),
    }
}
