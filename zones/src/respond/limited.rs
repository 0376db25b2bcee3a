//! Stage three with a limit on responses: decides before anything is written, so that a flood over the limit costs little.

use fairway_model::{Rtype, mix};

use super::{AnswerStatus, CLASS_IN, OUT_MIN, Outcome, Query, Response, check_cookie, is_for_zones, write};
use crate::{
    client::{Draw, Request},
    cookie::QueryCookie,
    entries::Node,
    lookup::Found,
    rate_limit::{RateLimits, RateTable, ResponseKind},
    serving::ServingState,
    snapshot::Snapshot,
    tally::{AnswerKind, Dropped, Exempt, LimitAction, Tally},
    wire::{Rcode, Refusal, Writer},
};

/// As [`write()`], for a client over UDP, unless its network gets too many responses. Then one in `slip` is truncated and the others are
/// dropped.
///
/// Clients with a valid cookie and networks of the allowlist have no limit, and are not counted.
#[inline(never)]
pub fn write_limited(
    serving: &ServingState,
    request: &Request<'_>,
    query: &Query,
    tally: &Tally,
    rates: &RateTable,
    out: &mut [u8],
) -> Outcome {
    let limits = limits(serving, request, query, tally).filter(|_| out.len() >= OUT_MIN);
    let Some(limits) = limits else { return write(serving, request, query, tally, out) };
    let kind = kind(&serving.snapshot, query);
    let over = match rates.count(limits, request.client.address, kind, request.now) {
        // An error is as short as its query.
        Ok(network) if kind.0 == ResponseKind::Error || rates.is_proven(network, request.now) => {
            return write(serving, request, query, tally, out);
        }
        Ok(_) => return within_excess(serving, request, query, tally, (limits, rates), out),
        Err(over) => over,
    };
    let slip = limits.slip;
    let Draw(draw) = request.draw;
    let is_truncated = slip != 0 && mix(draw).is_multiple_of(u64::from(slip));
    let action = if is_truncated { LimitAction::Truncate } else { LimitAction::Drop };
    tally.limit(over, action);
    match (action, kind) {
        (LimitAction::Drop, _) => {
            tally.query(request.client);
            tally.drop_one(Dropped::RateLimit);
            Outcome::Drop
        }
        // An error cannot be truncated, and is as short as the query.
        (LimitAction::Truncate, (ResponseKind::Error, _)) => write(serving, request, query, tally, out),
        (LimitAction::Truncate, _) => truncated(serving, request, query, tally, out),
    }
}

/// Writes a response to a network that is within its limits and not proven. Once all such networks together have got too many bytes, it
/// is truncated: the network may be innocent, so it is not dropped.
fn within_excess(
    serving: &ServingState,
    request: &Request<'_>,
    query: &Query,
    tally: &Tally,
    (limits, rates): (&RateLimits, &RateTable),
    out: &mut [u8],
) -> Outcome {
    if let Some(over) = rates.excess(limits, request.now) {
        tally.limit(over, LimitAction::Truncate);
        return truncated(serving, request, query, tally, out);
    }
    let outcome = write(serving, request, query, tally, out);
    let excess = outcome.length().map_or(0, |length| length.saturating_sub(request.packet.len()));
    rates.count_excess(limits, excess, request.now);
    outcome
}

/// Returns the limits of the response; `None` if the client has none.
fn limits<'a>(
    serving: &'a ServingState,
    request: &Request<'_>,
    query: &Query,
    tally: &Tally,
) -> Option<&'a RateLimits> {
    let limits = serving.snapshot.options.rate_limits.as_ref()?;
    let client = request.client;
    // These get no response at all.
    if query.asked.refusal == Some(Refusal::Drop) || client.port == 0 {
        return None;
    }
    if limits.is_allowed(client.address) {
        tally.exempt(Exempt::Allowlist);
        return None;
    }
    if has_valid_cookie(serving, request, query) {
        tally.exempt(Exempt::Cookie);
        return None;
    }
    Some(limits)
}

/// True if the client has shown that it receives at its address. Few queries have a cookie.
#[inline]
fn has_valid_cookie(serving: &ServingState, request: &Request<'_>, query: &Query) -> bool {
    let range = query.asked.edns.as_ref().and_then(|edns| edns.cookie);
    let cookie = range.and_then(|range| QueryCookie::read(range.of(request.packet)));
    let keys = &serving.snapshot.options.cookies;
    cookie.is_some_and(|cookie| keys.is_valid(&cookie, request.client.address, request.now))
}

/// Returns the kind of the response and what it is about: the number of a node or a zone.
fn kind(snapshot: &Snapshot, query: &Query) -> (ResponseKind, u32) {
    let Query { asked, found, .. } = query;
    if asked.refusal.is_some() || asked.class != CLASS_IN || !is_for_zones(asked.rtype) {
        return (ResponseKind::Error, 0);
    }
    match *found {
        Found::Exact(number) | Found::Wildcard(number) => {
            let node = snapshot.node(number);
            let is_steered = || node.steered() != 0 && matches!(asked.rtype, Rtype::A | Rtype::AAAA | Rtype::ANY);
            let has_set = || node.set(asked.rtype).is_some() || asked.rtype == Rtype::ANY;
            let kind = match is_steered() || has_set() || node.is(Node::ALIAS) {
                true => ResponseKind::Answer,
                false => ResponseKind::NoData,
            };
            (kind, number)
        }
        Found::Cut(number) => (ResponseKind::Referral, number),
        Found::Dname(number) => (ResponseKind::Answer, number),
        Found::Nothing(zone) => (ResponseKind::NxDomain, zone),
        Found::Outside => (ResponseKind::Error, 0),
    }
}

/// Writes an empty response with TC, and with a cookie if the client asks for one: a real client comes back over TCP or with the cookie.
fn truncated(serving: &ServingState, request: &Request<'_>, query: &Query, tally: &Tally, out: &mut [u8]) -> Outcome {
    tally.query(request.client);
    let Query { asked, found, .. } = query;
    let range = asked.edns.as_ref().and_then(|edns| edns.cookie);
    let cookie = range.and_then(|range| check_cookie(serving, range, request, tally));
    let Request { client, packet, now, draw } = *request;
    let response =
        Response { serving, client, packet, query: asked, found: *found, draw, now, tally, cookie: cookie.as_ref() };
    let limit = response.limit().min(out.len());
    let mut writer = Writer::new(packet, asked.question_end(), out, limit - response.opt_room(limit));
    writer.truncate(asked.question_end());
    let edns = asked.edns.as_ref();
    if let Some(edns) = edns {
        response.write_opt(&mut writer, edns, &AnswerStatus::of(Rcode::NOERROR), limit);
    }
    let ecs = edns.is_some_and(|edns| edns.ecs.is_some());
    tally.response(Rcode::NOERROR, AnswerKind { truncated: true, edns: edns.is_some(), ecs, down: false });
    let length = writer.finish(Rcode::NOERROR);
    response.sample(Rcode::NOERROR, &out[..length]);
    Outcome::Reply(length)
}

#[cfg(test)]
#[path = "limited_tests.rs"]
mod tests;
