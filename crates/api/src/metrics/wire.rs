//! Metrics of queries, responses and transports.

use fairway_zones::{Dropped, ServingState, Tallies};

use super::Sheet;
use fairway_transport::{CloseReason, Stats};

/// Writes the metrics of packets.
pub(super) fn write(sheet: &mut Sheet, tallies: &Tallies, stats: &Stats, view: &ServingState) {
    let kinds = [["udp", "ipv4"], ["udp", "ipv6"], ["tcp", "ipv4"], ["tcp", "ipv6"]];
    let queries = kinds.into_iter().zip(tallies.queries);
    sheet.counters("fairway_queries_total", "Messages received.", &["transport", "family"], queries);
    let responses = (0..).zip(tallies.rcodes).map(|(code, count)| ([rcode(code)], count));
    let responses = responses.filter(|(code, count)| *count > 0 || RCODES_ALWAYS.contains(&code[0].as_str()));
    sheet.counters("fairway_responses_total", "Responses by response code.", &["rcode"], responses);
    let drops = Dropped::ALL.into_iter().zip(tallies.drops).map(|(why, count)| ([why.as_str()], count));
    sheet.counters("fairway_queries_dropped_total", "Dropped messages by reason.", &["reason"], drops);
    for (name, help, value) in [
        ("fairway_responses_truncated_total", "Responses with the TC flag (truncated).", tallies.truncated),
        ("fairway_responses_edns_total", "Responses with EDNS.", tallies.edns),
        ("fairway_responses_ecs_total", "Responses with a client subnet (ECS).", tallies.ecs),
        ("fairway_down_answers_total", "Answers of pools without an eligible member.", tallies.down_answers),
        ("fairway_query_log_lost_total", "Query log samples lost because their ring was full.", tallies.samples_lost),
        (
            "fairway_demand_lost_total",
            "Answers of load-balanced pools whose demand was not counted because a ring was full.",
            tallies.demand_samples_lost,
        ),
    ] {
        sheet.counter(name, help, value);
    }
    let slots = view.snapshot.slots().iter().map(|slot| [slot.pool.as_str(), slot.cluster.as_str()]);
    let answers = std::iter::once(["", ""]).chain(slots).zip(tallies.answers.iter().copied());
    sheet.counters("fairway_answers_total", "Answers by pool and cluster.", &["pool", "cluster"], answers);
    write_transports(sheet, stats);
    let zones = || view.snapshot.zones().map(|zone| ([zone.origin.to_string()], zone));
    let serials = zones().map(|(name, zone)| (name, f64::from(zone.serial)));
    sheet.gauges("fairway_zone_serial", "SOA serial of the zone.", &["zone"], serials);
    let records = zones().map(|(name, zone)| (name, zone.records as f64));
    sheet.gauges("fairway_zone_records", "Records in the zone file.", &["zone"], records);
}

fn write_transports(sheet: &mut Sheet, stats: &Stats) {
    for (name, help, value) in [
        ("fairway_udp_received_total", "Datagrams received.", stats.udp.received),
        ("fairway_udp_answered_total", "Datagrams sent.", stats.udp.answered),
        ("fairway_udp_dropped_total", "Datagrams dropped without an answer.", stats.udp.dropped),
        ("fairway_udp_send_errors_total", "Answers that the kernel rejected.", stats.udp.send_errors),
        ("fairway_udp_receive_errors_total", "Failed receive calls.", stats.udp.receive_errors),
        (
            "fairway_udp_batches_total",
            "Received batches; datagrams per batch show how busy workers are (32 = full).",
            stats.udp.batches,
        ),
        ("fairway_worker_panics_total", "Caught panics of workers; please report any.", stats.udp.panics),
        ("fairway_tcp_accepted_total", "Accepted connections.", stats.tcp.accepted),
        ("fairway_tcp_messages_total", "Complete messages received over TCP.", stats.tcp.messages),
        ("fairway_tcp_accept_errors_total", "Failed accepts.", stats.tcp.accept_errors),
    ] {
        sheet.counter(name, help, value);
    }
    sheet.gauge("fairway_tcp_connections", "Open connections.", stats.tcp.active() as f64);
    let closed = CloseReason::ALL.iter().map(|&why| ([<&str>::from(why)], stats.tcp.closed(why)));
    sheet.counters("fairway_tcp_closed_total", "Closed connections by reason.", &["reason"], closed);
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
        None => format!("RCODE{code}"),
    }
}
