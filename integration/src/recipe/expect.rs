//! The expected answer of a step, and the rules that hold for every answer.

use std::str::FromStr;

use fairway_model::{Name, Rtype};
use fairway_zones::Transport;

use super::parse::words;
use crate::{
    message::{Header, Message, Record, bit},
    query::{COOKIE, ECS, EXTENDED_ERROR, KEEPALIVE, NSID, Query},
};

/// Size in OPT of Fairway, and its largest UDP message (RFC 9715).
const UDP_MAX: u16 = 1232;

/// Expectation of a step.
#[derive(Clone, Debug)]
pub struct Expect {
    /// No answer is expected.
    pub drop: bool,
    /// Accepted response codes. The sections below belong to the first; with any other they must be empty.
    pub rcodes: Vec<u16>,
    /// AA bit.
    pub aa: bool,
    /// TC bit.
    pub tc: bool,
    /// Accepted answer sections, each a list in the order of its RRsets.
    pub answers: Vec<Vec<Expected>>,
    /// Records of the authority section.
    pub authority: Vec<Expected>,
    /// Records of the additional section, without OPT.
    pub additional: Vec<Expected>,
    /// Further records that the additional section may have.
    pub may_additional: Vec<Expected>,
    /// Sections that are not compared.
    pub any: [bool; 3],
    /// Maximum length of the message.
    pub size: Option<SizeLimit>,
    /// Maximum number of RRsets in the answer section.
    pub rrsets: Option<usize>,
    /// Error of the unsigned TSIG that must end the additional section (RFC 8945 section 5.3.2).
    pub tsig_error: Option<u16>,
    /// Step with the same answer and authority sections.
    pub same: Option<String>,
    /// True if the case of names must be as written.
    pub exact_case: bool,
    /// True to skip the second decoder, where it rejects what the rule allows.
    pub one_decoder: bool,
    /// Content of OPT.
    pub edns: EdnsExpect,
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            drop: false,
            rcodes: vec![],
            aa: false,
            tc: false,
            answers: vec![vec![]],
            authority: vec![],
            additional: vec![],
            may_additional: vec![],
            any: [false; 3],
            size: None,
            rrsets: None,
            tsig_error: None,
            same: None,
            exact_case: false,
            one_decoder: false,
            edns: EdnsExpect::default(),
        }
    }
}

/// Expected content of OPT, in addition to the general rules.
#[derive(Clone, Debug)]
pub struct EdnsExpect {
    /// True if OPT must be present; by default exactly if the query has one.
    pub present: Option<bool>,
    /// Size; default 1232.
    pub size: Option<u16>,
    /// Scope of the client subnet; default 0; `None` if any is accepted.
    pub scope: Option<u8>,
    /// Identifier of the server.
    pub nsid: Option<Vec<u8>>,
    /// True if it must have a TCP keepalive.
    pub keepalive: bool,
    /// Extended error that must be present. If none is named, any is accepted.
    pub extended_error: Option<u16>,
}

impl Default for EdnsExpect {
    fn default() -> Self {
        Self { present: None, size: None, scope: Some(0), nsid: None, keepalive: false, extended_error: None }
    }
}

/// Limit of a message's octets.
#[derive(Clone, Copy, Debug)]
pub enum SizeLimit {
    /// A number.
    Octets(usize),
    /// The length of the query.
    Query,
}

/// A record in the form of a recipe: `OWNER TTL [CLASS] TYPE RDATA`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    owner: Name,
    ttl: u32,
    class: u16,
    rtype: Rtype,
    rdata: String,
}

impl FromStr for Expected {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("{text:?} is no record: write OWNER TTL TYPE RDATA");
        let words = words(text);
        let [owner, ttl, rest @ ..] = &words[..] else { return Err(fault()) };
        let (class, rest) = match rest {
            ["IN", rest @ ..] => (1, rest),
            ["CH", rest @ ..] => (3, rest),
            ["ANY", rest @ ..] => (255, rest),
            rest => (1, rest),
        };
        let [rtype, rdata @ ..] = rest else { return Err(fault()) };
        Ok(Self {
            owner: owner.parse().map_err(|e| format!("{owner}: {e}"))?,
            ttl: ttl.parse().map_err(|_| fault())?,
            class,
            rtype: rtype.parse().map_err(|_| fault())?,
            rdata: rdata.join(" "),
        })
    }
}

impl Expected {
    fn matches(&self, record: &Record, exact_case: bool) -> bool {
        let rdata = crate::present::rdata_text(record.rtype, &record.rdata);
        let generic = crate::present::generic(&record.rdata);
        let quoted = self.rdata.contains('"');
        let same = |actual: &str| match exact_case || quoted {
            true => self.rdata == actual,
            false => self.rdata.eq_ignore_ascii_case(actual),
        };
        let owner = match exact_case {
            true => self.owner.as_wire() == record.owner.as_wire(),
            false => self.owner == record.owner,
        };
        let numbers = (self.ttl, self.class, self.rtype) == (record.ttl, record.class, record.rtype);
        owner && numbers && (same(&rdata) || same(&generic))
    }
}

/// One exchange: query, transport and answer.
pub(super) struct Exchange<'a> {
    pub(super) query: &'a Query,
    pub(super) sent: &'a [u8],
    pub(super) transport: Transport,
    pub(super) received: &'a [u8],
}

/// Returns every error of one answer.
pub(super) fn check(expect: &Expect, exchange: &Exchange<'_>) -> Vec<String> {
    let message = match Message::decode(exchange.received) {
        Ok(message) => message,
        Err(unsound) => return vec![format!("the reply is no sound message: {unsound}")],
    };
    let mut faults = Vec::new();
    check_header(exchange, &message, &mut faults);
    check_question(exchange, &message, &mut faults);
    check_records(&message, &mut faults);
    check_size(expect, exchange, &message, &mut faults);
    check_edns(expect, exchange, &message, &mut faults);
    check_expected(expect, &message, &mut faults);
    match hickory_proto::op::Message::from_vec(exchange.received) {
        Err(error) if !expect.one_decoder => faults.push(format!("a second decoder refuses the reply: {error}")),
        _ => {}
    }
    faults
}

fn check_header(exchange: &Exchange<'_>, message: &Message, faults: &mut Vec<String>) {
    let Some(sent) = Header::read(exchange.sent) else { return };
    let header = message.header;
    let mut hold = |rule: bool, what: &str| faults.extend((!rule).then(|| what.to_owned()));
    hold(header.id == sent.id, "the id is not the query's (RFC 1035 section 4.1.1)");
    hold(header.has(bit::QR), "QR is not set (RFC 1035 section 4.1.1)");
    hold(header.opcode() == sent.opcode(), "the opcode is not the query's (RFC 1035 section 4.1.1)");
    hold(header.has(bit::RD) == sent.has(bit::RD), "RD is not the query's (RFC 1035 section 4.1.1)");
    hold(!header.has(bit::RA), "RA is set by a server without recursion");
    hold(!header.has(bit::Z), "Z is set (RFC 1035 section 4.1.1)");
    hold(!header.has(bit::AD), "AD is set by an authoritative server (RFC 4035 section 3.1.6)");
    hold(!header.has(bit::CD), "CD is set (dns.md: clear)");
}

/// Returns the octets of the question, if the query has exactly one valid question.
pub(super) fn question_of(sent: &[u8]) -> Option<&[u8]> {
    let header = Header::read(sent)?;
    let name = Name::from_wire(sent.get(12..)?).ok()?;
    (header.counts[0] == 1).then_some(sent.get(12..12 + name.as_wire().len() + 4)).flatten()
}

fn check_question(exchange: &Exchange<'_>, message: &Message, faults: &mut Vec<String>) {
    let asked = question_of(exchange.sent);
    match message.header.counts[0] {
        0 => {
            let may_leave_out = asked.is_none() || matches!(message.rcode(), 1 | 4);
            faults.extend((!may_leave_out).then(|| "the question is left out (RFC 1035 section 4.1.2)".to_owned()));
        }
        1 if asked == Some(&message.question[..]) => {}
        1 => faults.push("the question is not the query's, octet for octet (RFC 1035 section 4.1.2)".to_owned()),
        count => faults.push(format!("the reply has {count} questions (RFC 9619)")),
    }
}

fn check_records(message: &Message, faults: &mut Vec<String>) {
    let records: Vec<_> = message.sections.iter().flatten().collect();
    let mut twice = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let rrset = |r: &&&Record| (&r.owner, r.rtype, r.class) == (&record.owner, record.rtype, record.class);
        let earlier: Vec<_> = records[..index].iter().filter(rrset).collect();
        if earlier.iter().any(|e| e.rdata == record.rdata) {
            twice.push(record);
        }
        if earlier.iter().any(|e| e.ttl != record.ttl) {
            faults.push(format!("{} {} has several TTLs (RFC 2181 section 5.2)", record.owner, record.rtype));
        }
    }
    if let Some(first) = twice.first() {
        faults.push(format!("{} records stand twice, the first is {first} (RFC 2181 section 5)", twice.len()));
    }
}

fn check_size(expect: &Expect, exchange: &Exchange<'_>, message: &Message, faults: &mut Vec<String>) {
    let advertised = exchange.query.edns.as_ref().map_or(512, |opt| opt.size.clamp(512, UDP_MAX));
    let allowed = if exchange.transport == Transport::Udp { usize::from(advertised) } else { 65_535 };
    let wanted = match expect.size {
        None => allowed,
        Some(SizeLimit::Octets(octets)) => octets.min(allowed),
        Some(SizeLimit::Query) => exchange.sent.len().min(allowed),
    };
    if message.octets > wanted {
        faults.push(format!("the reply has {} octets, the maximum is {wanted}", message.octets));
    }
}

fn check_edns(expect: &Expect, exchange: &Exchange<'_>, message: &Message, faults: &mut Vec<String>) {
    const FORMERR: u16 = 1;
    const NOTIMP: u16 = 4;
    let expected = &expect.edns;
    let binding = ![FORMERR, NOTIMP].contains(&message.rcode());
    let present = expected.present.or_else(|| binding.then_some(exchange.query.edns.is_some()));
    if present.is_some_and(|p| p != message.edns.is_some()) {
        let word = if message.edns.is_some() { "there, and should not be" } else { "missing" };
        faults.push(format!("OPT is {word} (RFC 6891 section 6.1.1)"));
    }
    let (Some(edns), Some(opt)) = (&message.edns, &exchange.query.edns) else { return };
    let mut hold = |rule: bool, what: String| faults.extend((!rule).then_some(what));
    let size = expected.size.unwrap_or(UDP_MAX);
    hold(edns.version == 0, format!("EDNS version {} is answered, ours is 0", edns.version));
    hold(edns.size == size, format!("OPT offers {} octets, not {size}", edns.size));
    hold(edns.flags == opt.flags & 0x8000, format!("EDNS flags are {:04x}: only DO is copied", edns.flags));
    let subnet = opt.options.iter().find(|(code, data)| *code == ECS && is_sound_subnet(data));
    if let Some((_, asked)) = subnet.filter(|_| message.rcode() != FORMERR) {
        let mut echo = asked.clone();
        let got = message.option(ECS);
        echo[3] = expected.scope.or_else(|| got.and_then(|g| g.get(3).copied())).unwrap_or(0);
        hold(got == Some(&echo[..]), format!("client subnet is {got:02x?}, not {echo:02x?} (RFC 7871 section 7.2.1)"));
    }
    let cookie = opt.options.iter().find(|(code, _)| *code == COOKIE).map(|(_, data)| &data[..]);
    let cookie = cookie.filter(|_| message.rcode() != FORMERR && opt.version == 0);
    let got = message.option(COOKIE);
    let is_answered = cookie.is_none_or(|asked| got.is_some_and(|got| is_cookie_for(asked, got)));
    hold(is_answered, format!("cookie is {got:02x?} for {cookie:02x?} (RFC 9018 section 4)"));
    let nsid = message.option(NSID).map(<[u8]>::to_vec);
    hold(nsid == expected.nsid, format!("NSID is {nsid:?}, not {:?} (RFC 5001)", expected.nsid));
    hold(
        message.option(KEEPALIVE).is_some() == expected.keepalive,
        "TCP keepalive is not as expected (RFC 7828)".into(),
    );
    let error = message.option(EXTENDED_ERROR).and_then(|e| Some(u16::from_be_bytes([*e.first()?, *e.get(1)?])));
    let wanted = expected.extended_error;
    hold(wanted.is_none() || error == wanted, format!("extended error is {error:?}, not {wanted:?} (RFC 8914)"));
    for (code, _) in &edns.options {
        let asked = subnet.is_some() && *code == ECS || cookie.is_some() && *code == COOKIE;
        hold(asked || [NSID, KEEPALIVE, EXTENDED_ERROR].contains(code), format!("option {code} is volunteered"));
    }
}

/// True if a cookie is the client's with a server cookie of version 1.
fn is_cookie_for(asked: &[u8], got: &[u8]) -> bool {
    got.len() == 24 && got[..8] == asked[..8] && got[8..12] == [1, 0, 0, 0]
}

/// True if a client subnet must be echoed (RFC 7871 section 6).
fn is_sound_subnet(data: &[u8]) -> bool {
    let [family_high, family_low, source, scope, address @ ..] = data else { return false };
    let width = match u16::from_be_bytes([*family_high, *family_low]) {
        1 => 32,
        2 => 128,
        0 => 0, // "no family" goes with a source length of 0
        _ => return false,
    };
    let stray = address.last().is_some_and(|last| source % 8 != 0 && last << (source % 8) != 0);
    *scope == 0 && *source <= width && address.len() == usize::from(*source).div_ceil(8) && !stray
}

fn check_expected(expect: &Expect, message: &Message, faults: &mut Vec<String>) {
    let rcode = message.rcode();
    if !expect.rcodes.contains(&rcode) {
        let wanted: Vec<_> = expect.rcodes.iter().map(|r| rcode_name(*r)).collect();
        faults.push(format!("{} is answered, not {}", rcode_name(rcode), wanted.join(" or ")));
    }
    let first = expect.rcodes.first() == Some(&rcode);
    for (name, flag, wanted) in [("AA", bit::AA, expect.aa), ("TC", bit::TC, expect.tc)] {
        let set = message.header.has(flag);
        if first && set != wanted {
            faults.push(format!("{name} is {}", if set { "set" } else { "clear" }));
        }
    }
    let [answer, authority, additional] = &message.sections;
    let none: &[Expected] = &[];
    let answers: Vec<&[Expected]> = if first { expect.answers.iter().map(Vec::as_slice).collect() } else { vec![none] };
    if !expect.any[0] && !answers.iter().any(|wanted| is_answer(wanted, answer, expect.exact_case)) {
        faults.push(format!("answer section is {answer:?}"));
    }
    let wanted = if first { &expect.authority } else { none };
    if !expect.any[1] && !is_set(wanted, none, authority, expect.exact_case) {
        faults.push(format!("authority section is {authority:?}"));
    }
    let additional = check_tsig(expect, additional, faults);
    let (wanted, may) = if first { (&expect.additional[..], &expect.may_additional[..]) } else { (none, none) };
    if !expect.any[2] && !is_set(wanted, may, additional, expect.exact_case) {
        faults.push(format!("additional section is {additional:?}"));
    }
    let mut rrsets: Vec<_> = answer.iter().map(|r| (&r.owner, r.rtype)).collect();
    rrsets.sort();
    rrsets.dedup();
    if let Some(most) = expect.rrsets.filter(|most| rrsets.len() > *most) {
        faults.push(format!("{} RRsets are answered, the maximum is {most}", rrsets.len()));
    }
}

/// Checks the expected TSIG, and returns the records before it.
fn check_tsig<'a>(expect: &Expect, records: &'a [Record], faults: &mut Vec<String>) -> &'a [Record] {
    let Some(wanted) = expect.tsig_error else { return records };
    let Some((last, before)) = records.split_last().filter(|(last, _)| last.rtype == Rtype::TSIG) else {
        faults.push("the TSIG is missing at the end of the additional section (RFC 8945 section 5.3)".to_owned());
        return records;
    };
    // After the algorithm's name: time (6), fudge (2), MAC size (2), then, without MAC: original id (2), error (2).
    let algorithm = Name::from_wire(&last.rdata).map_or(0, |name| name.as_wire().len());
    let word = |at: usize| last.rdata.get(at..at + 2).map(|o| u16::from_be_bytes([o[0], o[1]]));
    if word(algorithm + 8) != Some(0) || word(algorithm + 12) != Some(wanted) {
        faults.push(format!("{last} is no unsigned TSIG with error {wanted} (RFC 8945 section 5.3.2)"));
    }
    before
}

/// True if the records are these, in the order of RRsets and in any order inside an RRset.
fn is_answer(wanted: &[Expected], records: &[Record], exact_case: bool) -> bool {
    let mut wanted_sets = wanted.chunk_by(|a, b| (&a.owner, a.rtype) == (&b.owner, b.rtype));
    let mut sets = records.chunk_by(|a, b| (&a.owner, a.rtype) == (&b.owner, b.rtype));
    loop {
        match (wanted_sets.next(), sets.next()) {
            (None, None) => return true,
            (Some(wanted), Some(set)) if is_set(wanted, &[], set, exact_case) => {}
            _ => return false,
        }
    }
}

/// True if every expected record is present, and no other except the optional ones.
fn is_set(wanted: &[Expected], may: &[Expected], records: &[Record], exact_case: bool) -> bool {
    let among = |list: &[Expected], record: &Record| list.iter().any(|e| e.matches(record, exact_case));
    wanted.iter().all(|e| records.iter().any(|r| e.matches(r, exact_case)))
        && records.iter().all(|r| among(wanted, r) || among(may, r))
        && records.len() <= wanted.len() + may.len()
}

const RCODES: &[(u16, &str)] = &[
    (0, "NOERROR"),
    (1, "FORMERR"),
    (2, "SERVFAIL"),
    (3, "NXDOMAIN"),
    (4, "NOTIMP"),
    (5, "REFUSED"),
    (6, "YXDOMAIN"),
    (9, "NOTAUTH"),
    (10, "NOTZONE"),
    (16, "BADVERS"),
    (23, "BADCOOKIE"),
];

fn rcode_name(rcode: u16) -> String {
    RCODES.iter().find(|(number, _)| *number == rcode).map_or_else(|| format!("RCODE{rcode}"), |(_, n)| (*n).to_owned())
}

/// Returns the number of a response code.
pub(super) fn rcode_number(name: &str) -> Result<u16, String> {
    let known = RCODES.iter().find(|(_, known)| *known == name).map(|(number, _)| *number);
    known.ok_or_else(|| format!("{name:?} is no response code"))
}
