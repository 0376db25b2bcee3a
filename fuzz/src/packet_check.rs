//! Checks of responses: the rules for any packet.

use fairway_integration::message::{Header, Message, bit};

/// Maximum octets over UDP without EDNS (RFC 1035 section 4.2.1).
const UDP_PLAIN_MAX: usize = 512;
/// Maximum octets over UDP (RFC 9715).
const UDP_MAX: usize = 1_232;

/// Checks the answers over both transports and returns a signature of them.
pub(super) fn check(sent: &[u8], udp: Option<&[u8]>, tcp: Option<&[u8]>) -> Result<u64, String> {
    let Some(header) = Header::read(sent).filter(|h| !h.has(bit::QR)) else {
        let silent = udp.is_none() && tcp.is_none();
        return if silent { Ok(1) } else { Err("a response or a packet without header is answered".to_owned()) };
    };
    let (Some(udp), Some(tcp)) = (udp, tcp) else {
        return Err("a query is met with silence".to_owned());
    };
    let query = Message::decode(sent).ok();
    let over_udp = check_one(sent, header, udp).map_err(|fault| format!("over UDP: {fault}"))?;
    let over_tcp = check_one(sent, header, tcp).map_err(|fault| format!("over TCP: {fault}"))?;
    check_bounds(query.as_ref(), &over_udp)?;
    if over_tcp.header.has(bit::TC) {
        return Err("TC over TCP".to_owned());
    }
    if over_udp.header.has(bit::TC) {
        if over_tcp.octets <= over_udp.octets.min(UDP_PLAIN_MAX) {
            return Err("TC over UDP, but what TCP gives would have fitted".to_owned());
        }
    } else if over_udp.sections[..2] != over_tcp.sections[..2] {
        let sections = |m: &Message| format!("{:?}", &m.sections[..2]);
        return Err(format!("UDP gives {}, TCP {}", sections(&over_udp), sections(&over_tcp)));
    }
    Ok(signature(&over_udp) ^ signature(&over_tcp).rotate_left(17))
}

/// Checks the rules for a single message.
fn check_one(sent: &[u8], header: Header, received: &[u8]) -> Result<Message, String> {
    let message = Message::decode(received).map_err(|unsound| unsound.to_string())?;
    let answer = message.header;
    let rules = [
        (answer.has(bit::QR), "QR is clear"),
        (answer.id == header.id, "the id is another"),
        (answer.opcode() == header.opcode(), "the opcode is another"),
        (answer.has(bit::RD) == header.has(bit::RD), "RD is another"),
        (!answer.has(bit::RA | bit::Z | bit::AD | bit::CD), "RA, Z, AD or CD is set"),
        (answer.counts[0] <= 1, "there are several questions"),
        (answer.counts[0] == 0 || sent[12..].starts_with(&message.question), "the question is another"),
        (answer.counts[0] == 1 || matches!(message.rcode(), 1 | 4), "the question is left out"),
    ];
    if let Some((_, fault)) = rules.iter().find(|(holds, _)| !holds) {
        return Err((*fault).to_owned());
    }
    check_records(&message)?;
    Ok(message)
}

fn check_records(message: &Message) -> Result<(), String> {
    let mut keys: Vec<_> =
        message.sections.iter().flatten().map(|r| (&r.owner, r.rtype, r.class, r.ttl, &r.rdata)).collect();
    keys.sort();
    if let Some(twice) = keys.windows(2).find(|w| w[0] == w[1]) {
        return Err(format!("{} {} stands twice", twice[0].0, twice[0].1));
    }
    let same_set = |w: &&[_]| {
        let [(a, at, ac, attl, _), (b, bt, bc, bttl, _)]: [&(_, _, _, u32, _); 2] = [&w[0], &w[1]];
        (a, at, ac) == (b, bt, bc) && attl != bttl
    };
    match keys.windows(2).find(same_set) {
        Some(two) => Err(format!("{} {} has two TTLs", two[0].0, two[0].1)),
        None => Ok(()),
    }
}

/// Checks size and OPT of a response over UDP against the query; if that is malformed, against the general limits.
fn check_bounds(query: Option<&Message>, answer: &Message) -> Result<(), String> {
    let size_of_query = query.and_then(|q| q.edns.as_ref()).map(|edns| usize::from(edns.size));
    let most = match (query, size_of_query) {
        (Some(_), None) => UDP_PLAIN_MAX,
        (Some(_), Some(size)) => size.clamp(UDP_PLAIN_MAX, UDP_MAX),
        (None, _) => UDP_MAX,
    };
    if answer.octets > most || (answer.edns.is_none() && answer.octets > UDP_PLAIN_MAX) {
        return Err(format!("{} octets over UDP; the maximum is {most}", answer.octets));
    }
    let refused = matches!(answer.rcode(), 1 | 4);
    match query {
        Some(query) if !refused && query.edns.is_some() != answer.edns.is_some() => {
            Err("OPT is in one of query and answer only".to_owned())
        }
        Some(query) if query.edns.is_none() && answer.edns.is_some() => Err("OPT was not asked for".to_owned()),
        _ => Ok(()),
    }
}

/// Returns a value that similar answers share: code, flags, counts, types and a rough size.
fn signature(message: &Message) -> u64 {
    let mut hash = 0;
    let mut add = |value: u64| hash = fairway_model::mix(hash ^ value);
    add(u64::from(message.rcode()));
    add(u64::from(message.header.flags & (bit::AA | bit::TC)));
    for section in &message.sections {
        add(section.len().min(4) as u64);
        for record in section.iter().take(4) {
            add(u64::from(record.rtype.0));
            add(record.owner.label_count() as u64);
        }
    }
    if let Some(edns) = &message.edns {
        edns.options.iter().for_each(|(code, data)| add(u64::from(*code) << 8 | data.len() as u64));
    }
    add(message.octets.ilog2().into());
    hash
}
