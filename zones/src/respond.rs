//! One packet in, one packet out: the interface between transports and DNS.
//!
//! There are three stages: [`read`] parses and hashes, [`find`] looks up the name, [`write`] decides and writes.
//! [`respond`] runs them for one packet. A transport with batches runs each stage for the whole batch.

mod answer;
mod chaos;
mod explain;
mod extended_error;
mod fast_path;
mod limited;
mod referral;
mod steered;
mod tsig;

use std::hint::black_box;

use fairway_model::{Rtype, SourceProof};

use self::answer::Answering;
pub use self::limited::write_limited;
use crate::{
    client::{Client, Draw, Now, Request, Transport},
    cookie::{Cookie, CookieKeys, CookieStatus, QueryCookie},
    entries::{Node, RrSet},
    explain::Trace,
    lookup::{Found, locate},
    serving::ServingState,
    snapshot::Snapshot,
    tally::{AnswerKind, Dropped, Tally},
    wire::{self, CookieRange, Ecs, Edns, Full, HEADER, Opt, Rcode, Refusal, Section, Writer},
};

/// Result for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The response is the first octets of the output; this is its length.
    Reply(usize),
    /// FORMERR or NOTIMP, with this length, to a client that has not shown that it receives at its address. Anything that is no query gets
    /// it, so a transport with senders that can be forged limits it: something that answers it in turn would exchange packets with this
    /// server for ever.
    ErrorReply(usize),
    /// No response is sent.
    Drop,
}

impl Outcome {
    /// Returns the length of the response.
    #[inline]
    pub fn length(self) -> Option<usize> {
        match self {
            Self::Reply(length) | Self::ErrorReply(length) => Some(length),
            Self::Drop => None,
        }
    }
}

/// A packet between the stages. It holds no reference, so that a batch can wait for memory together.
#[derive(Clone)]
pub struct Query {
    asked: wire::Query,
    /// Next item for [`read_ahead`] plus one: a node, then its `Steered`. 0 for none.
    ahead: u32,
    found: Found,
}

impl Default for Query {
    /// Returns a packet that is dropped.
    fn default() -> Self {
        Self { asked: wire::Query::NONE, ahead: 0, found: Found::Outside }
    }
}

impl Query {
    /// Accepts a query that was refused for its malformed cookie if cookies are off, since the option is then unknown. Returns false
    /// if the query remains refused.
    #[cold]
    #[inline(never)]
    fn ignores_cookie(&mut self, snapshot: &Snapshot) -> bool {
        let is_ignored = self.asked.refusal == Some(Refusal::BadCookie) && snapshot.options.cookies == CookieKeys::Off;
        if is_ignored {
            self.asked.refusal = None;
        }
        is_ignored
    }

    /// Runs the first two stages for one packet.
    pub(crate) fn located(snapshot: &Snapshot, packet: &[u8]) -> Self {
        let mut query = Self::default();
        read(snapshot, packet, &mut query);
        find(snapshot, packet, &mut query);
        query
    }
}

/// Answers one packet without lock, allocation, system call, clock, log line or panic, whatever the packet holds.
///
/// `out` should hold 65,535 octets for TCP and 1,232 for UDP. Less only truncates earlier, and below 512 octets there
/// is no answer.
pub fn respond(serving: &ServingState, request: &Request<'_>, tally: &Tally, out: &mut [u8]) -> Outcome {
    write(serving, request, &Query::located(&serving.snapshot, request.packet), tally, out)
}

/// Stage one: parses the packet and hashes its name with the key of the snapshot. Replaces the contents of `query`.
#[inline]
pub fn read(snapshot: &Snapshot, packet: &[u8], query: &mut Query) {
    query.asked.read(snapshot.key(), packet);
}

/// Optional stage between one and two: loads the memory that later stages will read, for a batch of queries.
///
/// It loads one level for all queries before the next, so that cache misses overlap. No answer depends on it.
#[inline]
pub fn read_ahead(snapshot: &Snapshot, batch: &mut [Query]) {
    if batch.len() < FEW || !snapshot.is_large() {
        return;
    }
    for level in 0..LEVELS {
        for query in &mut *batch {
            read_level(snapshot, level, query);
        }
    }
}

/// Smaller batches gain nothing.
const FEW: usize = 4;
/// Dependent levels of memory: slot, entry, `Steered`, pool, members of the pool.
const LEVELS: usize = 5;

#[inline]
fn read_level(snapshot: &Snapshot, level: usize, query: &mut Query) {
    if level == 0 {
        query.ahead = snapshot.guess(query.asked.hash).map_or(0, |number| number + 1);
        return;
    }
    let Some(number) = query.ahead.checked_sub(1) else { return };
    if level == 1 {
        let node = snapshot.node(number);
        node.touch();
        query.ahead = node.steered();
        return;
    }
    let steered = &snapshot.steered[number as usize];
    let pool = || &snapshot.pools[steered.pool as usize];
    match level {
        2 => {
            black_box(steered.pool);
        }
        3 => {
            black_box((pool().touch(), snapshot.answers.get(steered.v4 as usize)));
        }
        _ => {
            black_box((pool().touch_members(), snapshot.counters.get(steered.counters as usize)));
        }
    }
}

/// Stage two: looks up the name. `query` must have been read from `packet` for this snapshot.
#[inline]
pub fn find(snapshot: &Snapshot, packet: &[u8], query: &mut Query) {
    if query.asked.refusal.is_none() || query.ignores_cookie(snapshot) {
        query.found = locate(snapshot, query.asked.name(packet), query.asked.labels, query.asked.hash);
    }
}

/// Stage three: decides and writes. `query` must have been found in `serving.snapshot`.
#[inline]
pub fn write(serving: &ServingState, request: &Request<'_>, query: &Query, tally: &Tally, out: &mut [u8]) -> Outcome {
    write_traced(serving, request, query, tally, out, &mut ())
}
#[inline]
pub(crate) fn write_traced<T: Trace>(
    serving: &ServingState,
    request: &Request<'_>,
    query: &Query,
    tally: &Tally,
    out: &mut [u8],
    trace: &mut T,
) -> Outcome {
    let Query { asked: query, found, .. } = query;
    let Request { client, packet, now, draw } = *request;
    tally.query(client);
    let cookie = match &query.edns {
        Some(Edns { cookie: Some(cookie), .. }) => check_cookie(serving, *cookie, request, tally),
        _ => None,
    };
    let response =
        Response { serving, client, packet, query, found: *found, draw, now, tally, cookie: cookie.as_ref() };
    // Nothing can receive at port 0, and queries from it are spoofed.
    if query.refusal.is_some() || client.port == 0 || out.len() < OUT_MIN {
        return response.reject(out, trace);
    }
    tally.question(&serving.snapshot, *found, query.rtype);
    let fast = if T::LISTENS { None } else { response.fast_path(out) };
    let (length, rcode) = fast.unwrap_or_else(|| response.write(out, trace));
    response.sample(rcode, &out[..length]);
    Outcome::Reply(length)
}

/// Returns the cookie to answer with. Few queries have one, so this is kept off the path of the others.
#[cold]
#[inline(never)]
fn check_cookie(serving: &ServingState, cookie: CookieRange, request: &Request<'_>, tally: &Tally) -> Option<Cookie> {
    let cookie = QueryCookie::read(cookie.of(request.packet))?;
    let cookie = serving.snapshot.options.cookies.answer(&cookie, request.client.address, request.now)?;
    tally.cookie(cookie.status);
    Some(cookie)
}

/// Inputs of one response.
pub(crate) struct Response<'a> {
    pub(crate) serving: &'a ServingState,
    pub(crate) client: &'a Client,
    pub(crate) packet: &'a [u8],
    pub(crate) query: &'a wire::Query,
    pub(crate) found: Found,
    pub(crate) draw: Draw,
    pub(crate) now: Now,
    pub(crate) tally: &'a Tally,
    /// Cookie of the response.
    pub(crate) cookie: Option<&'a Cookie>,
}

/// Result of an answer, apart from its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerStatus {
    pub(crate) rcode: Rcode,
    /// ECS scope: the longest prefix of the client blocks involved; 0 if the answer is the same for everyone.
    pub(crate) scope: u8,
    /// Extended error (RFC 8914).
    pub(crate) error: Option<u16>,
    /// True if a pool without a live member was involved.
    pub(crate) down: bool,
    /// Index plus one of the pool to explain in the response; 0 for none.
    pub(crate) noted: u32,
}

impl AnswerStatus {
    pub(crate) const fn of(rcode: Rcode) -> Self {
        Self { rcode, scope: 0, error: None, down: false, noted: 0 }
    }
}

impl<'a> Response<'a> {
    #[inline(never)]
    fn write<T: Trace>(&self, out: &mut [u8], trace: &mut T) -> (usize, Rcode) {
        let edns = self.query.edns.as_ref();
        let limit = self.limit().min(out.len());
        // A question that cannot be parsed is not echoed.
        let bare = matches!(self.query.refusal, Some(Refusal::Bare(_) | Refusal::Cookie));
        let end = if bare { HEADER } else { self.query.question_end() };
        let mut writer = Writer::new(self.packet, end, out, limit - self.opt_room(limit));
        let status = match self.query.refusal {
            None => self.answer(&mut writer, trace),
            Some(refusal) => self.refuse(refusal),
        };
        if let Some(edns) = edns {
            self.write_opt(&mut writer, edns, &status, limit);
        }
        let kind = AnswerKind {
            truncated: writer.is_truncated(),
            edns: edns.is_some(),
            ecs: edns.is_some_and(|edns| edns.ecs.is_some()),
            down: status.down,
        };
        self.tally.response(status.rcode, kind);
        let length = writer.finish(status.rcode);
        match self.query.refusal {
            Some(Refusal::BadKey(at)) => {
                let length = self.unknown_key(at).map_or(length, |key| key.append(out, length));
                (length, status.rcode)
            }
            _ => (length, status.rcode),
        }
    }

    #[inline]
    fn answer<T: Trace>(&self, writer: &mut Writer<'_>, trace: &mut T) -> AnswerStatus {
        match (self.query.class, self.query.rtype) {
            (CLASS_IN, Rtype::TXT) if let Some(place) = self.steered_to_explain() => self.explain(writer, place, trace),
            (CLASS_IN, rtype) if is_for_zones(rtype) => Answering::new(self, writer, trace).run(),
            (CLASS_CH, _) => self.chaos(writer),
            _ => AnswerStatus::of(Rcode::REFUSED),
        }
    }

    /// Drops a packet, or answers why it gets no other answer.
    #[cold]
    #[inline(never)]
    fn reject<T: Trace>(&self, out: &mut [u8], trace: &mut T) -> Outcome {
        if let Some(reason) = Dropped::reason(self.client, self.packet, out.len() < OUT_MIN) {
            self.tally.drop_one(reason);
            return Outcome::Drop;
        }
        let (length, rcode) = self.write(out, trace);
        self.sample(rcode, &out[..length]);
        let (_, proof) = self.source();
        match rcode {
            Rcode::FORMERR | Rcode::NOTIMP if proof == SourceProof::None => Outcome::ErrorReply(length),
            _ => Outcome::Reply(length),
        }
    }

    /// Notes the query for the query log if it is sampled, with its response.
    #[inline(always)]
    fn sample(&self, rcode: Rcode, message: &[u8]) {
        if self.tally.is_sampled() {
            self.note_sample(rcode, message);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_sample(&self, rcode: Rcode, message: &[u8]) {
        let Self { query, client, tally, .. } = self;
        let subnet = query.edns.as_ref().and_then(|edns| edns.ecs.as_ref()).and_then(Ecs::network);
        tally.sample(client, subnet, message, rcode, self.now.0);
    }

    #[cold]
    fn refuse(&self, refusal: Refusal) -> AnswerStatus {
        match refusal {
            Refusal::Bare(rcode) | Refusal::Question(rcode) => AnswerStatus::of(rcode),
            Refusal::BadCookie => AnswerStatus::of(Rcode::FORMERR),
            Refusal::Cookie => AnswerStatus::of(match self.cookie {
                None => Rcode::FORMERR,
                Some(Cookie { status: CookieStatus::Bad, .. }) => Rcode::BADCOOKIE,
                Some(_) => Rcode::NOERROR,
            }),
            Refusal::BadKey(at) if self.unknown_key(at).is_some() => AnswerStatus::of(Rcode::NOTAUTH),
            Refusal::BadKey(_) => AnswerStatus::of(Rcode::FORMERR),
            Refusal::Drop => unreachable!("a packet that gets no answer is not written to"),
        }
    }

    /// Returns the zone that denies a type at a node: at an apex, the parent zone for DS if we have it.
    #[inline]
    fn denying_zone(&self, node: Node<'_>) -> u16 {
        if !node.is(Node::APEX) || self.query.rtype != Rtype::DS {
            return node.zone();
        }
        self.serving.snapshot.zone(node.zone()).parent.unwrap_or_else(|| node.zone())
    }

    /// Writes the SOA of a zone (RFC 2308). The denied name ends at `name_end` in the message.
    #[inline(always)]
    fn deny(&self, writer: &mut Writer<'_>, zone: u16, name_end: usize) -> Result<(), Full> {
        let snapshot = &*self.serving.snapshot;
        let zone = snapshot.zone(zone);
        let set = snapshot.text.layer.entries.set(zone.negative);
        let apex = name_end - usize::from(zone.origin_len);
        let start = writer.copy(set.records())?;
        writer.count(Section::Authority, 1);
        writer.patch(start, 0xc000 | apex as u16);
        self.point_to_apex(writer, set, start, apex);
        Ok(())
    }

    /// Writes pointers to the apex into a set that was copied to `start`.
    #[inline]
    fn point_to_apex(&self, writer: &mut Writer<'_>, set: RrSet<'_>, start: usize, apex: usize) {
        let Some(rest) = set.details() else { return };
        for patch in rest.patches() {
            writer.patch(start + patch, 0xc000 | apex as u16);
        }
    }

    /// Returns the octets that the client accepts: over UDP by EDNS and our own limit, over TCP by the length field.
    #[inline]
    fn limit(&self) -> usize {
        match (self.client.transport, &self.query.edns) {
            (Transport::Tcp, _) => 65_535,
            (Transport::Udp, None) => PAYLOAD_MIN,
            (Transport::Udp, Some(edns)) => {
                usize::from(edns.payload.min(self.serving.snapshot.options.udp_payload)).max(PAYLOAD_MIN)
            }
        }
    }

    /// Returns the octets to reserve for OPT. The response has OPT exactly if the query has.
    #[inline(always)]
    fn opt_room(&self, limit: usize) -> usize {
        match &self.query.edns {
            None => 0,
            Some(edns) if edns.is_usual() => edns.usual_length(),
            Some(edns) => self.opt(edns, limit).len(),
        }
    }

    /// Writes OPT into the reserved octets.
    #[inline(always)]
    fn write_opt(&self, writer: &mut Writer<'_>, edns: &'a Edns, status: &AnswerStatus, limit: usize) {
        match status.error {
            None if edns.is_usual() => {
                let payload = self.serving.snapshot.options.udp_payload;
                writer.usual_opt(payload, edns, status.rcode, status.scope);
            }
            _ if status.noted != 0 => self.noted_opt(writer, edns, status, limit),
            error => {
                let opt = Opt { scope: status.scope, error, ..self.opt(edns, limit) };
                opt.write(writer, status.rcode);
            }
        }
    }

    /// Returns the OPT record of the response.
    #[inline(never)]
    fn opt(&self, edns: &'a Edns, limit: usize) -> Opt<'a> {
        let options = &self.serving.snapshot.options;
        let id = options.identity.id.as_deref().filter(|_| edns.nsid).map(str::as_bytes);
        let on_stream = edns.keepalive && self.client.transport == Transport::Tcp;
        let units = || (options.tcp_idle.as_millis() / 100).min(u128::from(u16::MAX)) as u16;
        Opt {
            query: edns,
            payload: options.udp_payload,
            // A long identifier after a long question would exceed 512 octets, and the answer is more important.
            nsid: id.filter(|id| self.query.question_end() + OPT_MAX + id.len() <= limit),
            cookie: self.cookie.map(|cookie| &cookie.octets),
            keepalive: on_stream.then(units),
            scope: 0,
            error: None,
            note: &[],
        }
    }
}

/// True if a type is looked up in zones. Transfers are refused.
#[inline]
fn is_for_zones(rtype: Rtype) -> bool {
    !matches!(rtype, Rtype::AXFR | Rtype::IXFR)
}

const CLASS_IN: u16 = 1;
const CLASS_CH: u16 = 3;
/// Minimum UDP payload: smaller values count as 512 (RFC 6891 section 6.2.3).
const PAYLOAD_MIN: usize = 512;
/// Enough for the header (12), the longest question (259), and OPT with every option but NSID.
const OUT_MIN: usize = 512;
// 11 (OPT) + 8 + 16 (ECS) + 28 (cookie) + 6 (keepalive) + 6 (extended error) + 4 (head of NSID).
const OPT_MAX: usize = 79;
