//! One packet in, one packet out: the whole border between sockets and DNS.
//!
//! Three stages: [`read`] parses and hashes, [`find`] touches the table, [`write`] answers. One packet runs them in order
//! ([`respond`]); a batched socket loop may run each over its whole batch.

mod answer;
mod chaos;
mod referral;
mod signed;
mod steered;

use fairway_model::Rtype;

use self::answer::Answering;
use crate::{
    Client, Draw, Now, Snapshot, Tally, Transport, View,
    explain::Trace,
    tally::{Counted, Dropped},
    wire::{self, HEADER, Opt, Rcode, Refusal, Writer},
};

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The first so many octets of the output are the response.
    Reply(usize),
    /// Nothing is sent.
    Drop,
}

/// A packet between the stages. It holds no reference, so that a batch of them can wait for their memory.
#[derive(Clone)]
pub struct Query(pub(crate) wire::Query);

impl Default for Query {
    /// Stands for a packet that is dropped.
    fn default() -> Self {
        Self(wire::Query::NONE)
    }
}

/// Answers one packet: no lock, no allocation, no system call, no clock, no log line, no panic, whatever is in it.
///
/// `out` must hold 65535 octets for TCP and 1232 for UDP; a shorter one only means earlier truncation, and one under 512
/// octets no answer at all.
pub fn respond(
    view: &View,
    client: &Client,
    packet: &[u8],
    now: Now,
    draw: Draw,
    tally: &Tally,
    out: &mut [u8],
) -> Outcome {
    let mut query = Query::default();
    read(packet, &mut query);
    find(&view.snapshot, &mut query);
    write(view, client, packet, &query, now, draw, tally, out)
}

/// Stage one: parses and hashes; touches nothing but the packet. What `query` held before is overwritten.
#[inline]
pub fn read(packet: &[u8], query: &mut Query) {
    query.0.read(packet);
}

/// Stage two: finds the node of that very name, the look-up that misses the cache when there are many names.
#[inline]
pub fn find(snapshot: &Snapshot, query: &mut Query) {
    let query = &mut query.0;
    if query.refusal.is_none() {
        query.node = snapshot.find_key(&query.key, query.hash).map_or(0, |number| number + 1);
    }
}

/// Stage three: decides and writes. `view.snapshot` must be the one `query` was found in.
#[allow(clippy::too_many_arguments, reason = "all that an answer depends on, and nothing else, comes in here")]
#[inline]
pub fn write(
    view: &View,
    client: &Client,
    packet: &[u8],
    query: &Query,
    now: Now,
    draw: Draw,
    tally: &Tally,
    out: &mut [u8],
) -> Outcome {
    write_traced(view, client, packet, &query.0, now, draw, tally, out, &mut ())
}

#[allow(clippy::too_many_arguments, reason = "as `write`, with the trace")]
#[inline]
pub(crate) fn write_traced<T: Trace>(
    view: &View,
    client: &Client,
    packet: &[u8],
    query: &wire::Query,
    now: Now,
    draw: Draw,
    tally: &Tally,
    out: &mut [u8],
    trace: &mut T,
) -> Outcome {
    tally.query(client);
    // Port 0 cannot be answered, and a spoofed one only makes noise.
    if query.refusal == Some(Refusal::Drop) || client.port == 0 || out.len() < OUT_MIN {
        tally.drop_one(Dropped::reason(client, packet));
        return Outcome::Drop;
    }
    let response = Response { view, client, packet, query, draw, tally };
    let (length, rcode) = response.write(out, trace);
    if tally.is_sampled() {
        tally.sample(client, packet, query.question_end(), rcode, now.0);
    }
    Outcome::Reply(length)
}

/// What one response is made from.
pub(crate) struct Response<'a> {
    pub(crate) view: &'a View,
    pub(crate) client: &'a Client,
    pub(crate) packet: &'a [u8],
    pub(crate) query: &'a wire::Query,
    pub(crate) draw: Draw,
    pub(crate) tally: &'a Tally,
}

/// How an answer ended, beside what was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub(crate) rcode: Rcode,
    /// ECS scope: the longest of the client blocks that took part; 0 for what is the same for everyone.
    pub(crate) scope: u8,
    /// Extended error (RFC 8914).
    pub(crate) error: Option<u16>,
    /// A pool without a live member took part.
    pub(crate) down: bool,
}

impl Ending {
    pub(crate) const fn of(rcode: Rcode) -> Self {
        Self { rcode, scope: 0, error: None, down: false }
    }
}

impl Response<'_> {
    fn write<T: Trace>(&self, out: &mut [u8], trace: &mut T) -> (usize, Rcode) {
        let limit = self.limit();
        let (length, ending) = match self.query.refusal {
            Some(Refusal::Bare(rcode)) => {
                (Writer::new(self.packet, HEADER, out, limit).finish(rcode, None), Ending::of(rcode))
            }
            Some(Refusal::BadKey(at)) => self.bad_key(usize::from(at), out, limit),
            Some(Refusal::Question(rcode)) => self.finish(self.writer(out, limit), Ending::of(rcode)),
            Some(Refusal::Drop) | None => self.answer(out, limit, trace),
        };
        self.tally.response(Counted {
            rcode: ending.rcode,
            truncated: out[2] & 0x02 != 0,
            edns: self.query.edns.is_some(),
            ecs: self.query.edns.is_some_and(|edns| edns.ecs.is_some()),
            down: ending.down,
        });
        (length, ending.rcode)
    }

    fn answer<T: Trace>(&self, out: &mut [u8], limit: usize, trace: &mut T) -> (usize, Ending) {
        let mut writer = self.writer(out, limit);
        let ending = match self.query.class {
            CLASS_IN if matches!(self.query.rtype, Rtype::AXFR | Rtype::IXFR) => Ending::of(Rcode::REFUSED),
            CLASS_IN => Answering::new(self, &mut writer, trace).run(),
            CLASS_CH => self.chaos(&mut writer),
            _ => Ending::of(Rcode::REFUSED),
        };
        self.finish(writer, ending)
    }

    /// Header and question, with room kept for OPT.
    fn writer<'o>(&self, out: &'o mut [u8], limit: usize) -> Writer<'o> {
        let mut writer = Writer::new(self.packet, self.query.question_end(), out, limit);
        writer.reserve(self.opt(&Ending::of(Rcode::NOERROR), limit).map_or(0, |opt| opt.len()));
        writer
    }

    fn finish(&self, writer: Writer<'_>, ending: Ending) -> (usize, Ending) {
        let opt = self.opt(&ending, self.limit());
        (writer.finish(ending.rcode, opt), ending)
    }

    /// Octets this client can take: UDP by EDNS and our own bound, TCP by the length field.
    fn limit(&self) -> usize {
        match (self.client.transport, self.query.edns) {
            (Transport::Tcp, _) => 65_535,
            (Transport::Udp, None) => PAYLOAD_MIN,
            (Transport::Udp, Some(edns)) => usize::from(edns.payload)
                .clamp(PAYLOAD_MIN, usize::from(self.view.snapshot.options.udp_payload).max(PAYLOAD_MIN)),
        }
    }

    /// The OPT of the response: exactly when the query had one.
    fn opt(&self, ending: &Ending, limit: usize) -> Option<Opt<'_>> {
        let edns = self.query.edns.as_ref()?;
        let options = &self.view.snapshot.options;
        let id = options.identity.id.as_deref().filter(|_| edns.nsid).map(str::as_bytes);
        let on_stream = edns.keepalive && self.client.transport == Transport::Tcp;
        let units = (options.tcp_idle.as_millis() / 100).min(u128::from(u16::MAX)) as u16;
        Some(Opt {
            query: edns,
            payload: options.udp_payload,
            // A long identifier behind a long question would not fit 512 octets: the answer goes first.
            nsid: id.filter(|id| self.query.question_end() + OPT_MAX + id.len() <= limit),
            keepalive: on_stream.then_some(units),
            scope: ending.scope,
            error: ending.error,
        })
    }
}

const CLASS_IN: u16 = 1;
const CLASS_CH: u16 = 3;
/// Least payload of UDP (RFC 6891 section 6.2.3: smaller values read as 512).
const PAYLOAD_MIN: usize = 512;
/// Holds header (12), the longest question (259), and OPT with every option we send but NSID.
const OUT_MIN: usize = 512;
// 11 (OPT) + 8 + 16 (ECS) + 6 (keepalive) + 6 (extended error) + 4 (NSID's head).
const OPT_MAX: usize = 51;
