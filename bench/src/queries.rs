//! The query file: one `name TYPE` per line, as in dnsperf. It is turned into packets.
//!
//! A name whose first label starts with `nx` must get NXDOMAIN, every other name NOERROR, and a query for type A at least one answer.

use std::{fs, io, net::Ipv4Addr};

use clap::Args;

/// Options of every query of a run, and checks that its answer must pass.
#[derive(Clone, Debug, Default, Args)]
pub struct QueryForm {
    /// Percentage of the queries with EDNS: an OPT record with payload size 1,232.
    #[arg(long, default_value_t = 50)]
    pub edns: u32,
    /// Adds a client subnet (/24) to every query, each a different one. The response must have it with a scope.
    #[arg(long)]
    pub ecs: bool,
    /// Adds a valid server cookie to every query, which the server is asked for first.
    #[arg(long)]
    pub cookie: bool,
    /// The cookie.
    #[arg(skip)]
    pub known_cookie: Vec<u8>,
    /// Checks the question only: for the limit responder.
    #[arg(long)]
    pub echo: bool,
    /// Network that every address in an answer must be in, as ADDRESS/LENGTH; may be repeated. The address of a name `n` with a number
    /// must then also end in that number, as in the zone of the workload.
    #[arg(long, value_parser = network)]
    pub allow: Vec<(Ipv4Addr, u8)>,
}

fn network(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let parts = text.split_once('/').and_then(|(net, len)| Some((net.parse().ok()?, len.parse().ok()?)));
    parts.filter(|(_, len)| *len <= 32).ok_or_else(|| format!("{text:?} is not a network; write it like 10.0.0.0/8"))
}

impl QueryForm {
    fn allows(&self, address: [u8; 4], number: Option<u32>) -> bool {
        let address = u32::from_be_bytes(address);
        let inside = |(net, len): &(Ipv4Addr, u8)| {
            (address ^ u32::from(*net)).checked_shr(32 - u32::from(*len)).is_none_or(|differs| differs == 0)
        };
        self.allow.is_empty()
            || self.allow.iter().any(inside) && number.is_none_or(|number| address & 0xff_ffff == number & 0xff_ffff)
    }
}

/// A query's packet and its expected answer.
#[derive(Debug)]
struct Query {
    start: u32,
    len: u16,
    /// Octets of the question, from name to class.
    question_len: u16,
    must_not_exist: bool,
    must_have_answer: bool,
    /// Number in a name `n` with a number.
    number: Option<u32>,
}

/// All queries of a run, in one buffer.
#[derive(Debug, Default)]
pub struct Queries {
    wire: Vec<u8>,
    queries: Vec<Query>,
}

impl Queries {
    /// Reads a query file.
    pub fn read(path: &str, form: &QueryForm) -> io::Result<Self> {
        let mut queries = Self::default();
        for (line, text) in (0u32..).zip(fs::read_to_string(path)?.lines()) {
            if let Some((name, rtype)) = text.split_once(' ') {
                queries.push(name, rtype_number(rtype.trim()), line, form);
            }
        }
        if queries.queries.is_empty() {
            return Err(io::Error::other(format!("{path} has no line `name TYPE`")));
        }
        Ok(queries)
    }

    fn push(&mut self, name: &str, rtype: u16, line: u32, form: &QueryForm) {
        let mut packet = crate::question(name, rtype);
        let question_len = (packet.len() - 12) as u16;
        // Knuth's multiplicative hash (2^32 divided by the golden ratio), so that every run sends the same queries.
        let scatter = line.wrapping_mul(2_654_435_761);
        if form.ecs {
            let [network @ .., _] = scatter.to_be_bytes();
            crate::add_subnet(&mut packet, network);
        } else if form.cookie {
            crate::add_cookie(&mut packet, &form.known_cookie);
        } else if (scatter >> 8) % 100 < form.edns {
            crate::add_edns(&mut packet);
        }
        let must_not_exist = name.starts_with("nx");
        let must_have_answer = rtype == 1 && !must_not_exist;
        let number = name.strip_prefix('n').and_then(|n| n.get(..7)).and_then(|n| n.parse().ok());
        let (start, len) = (self.wire.len() as u32, packet.len() as u16);
        self.wire.extend_from_slice(&packet);
        self.queries.push(Query { start, len, question_len, must_not_exist, must_have_answer, number });
    }

    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// True if there are no queries; never after [`Queries::read`].
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// Returns the packet of a query with ID 0.
    #[inline]
    pub fn packet(&self, number: usize) -> &[u8] {
        let query = &self.queries[number];
        &self.wire[query.start as usize..][..usize::from(query.len)]
    }

    /// True if a reply is correct: same question, expected response code, an answer if one is expected, and all checks pass.
    #[inline]
    pub fn is_right(&self, number: usize, reply: &[u8], form: &QueryForm) -> bool {
        let query = &self.queries[number];
        let packet = self.packet(number);
        let question = &packet[12..12 + usize::from(query.question_len)];
        let Some(head) = reply.first_chunk::<12>() else { return false };
        let same = reply.get(12..12 + question.len()).is_some_and(|q| q.eq_ignore_ascii_case(question));
        if head[2] & 0x80 == 0 || !same {
            return false;
        }
        let (rcode, answers) = (head[3] & 15, u16::from_be_bytes([head[6], head[7]]));
        let is_expected =
            if query.must_not_exist { rcode == 3 } else { rcode == 0 && (!query.must_have_answer || answers > 0) };
        let address_matches = form.allow.is_empty()
            || !query.must_have_answer
            || first_address(&reply[12 + question.len()..]).is_some_and(|a| form.allows(a, query.number));
        (form.echo || is_expected && address_matches) && (!form.ecs || has_scope(reply, packet))
    }
}

/// Returns the address of the first record; `None` if that is not an A record.
fn first_address(records: &[u8]) -> Option<[u8; 4]> {
    let mut at = 0;
    loop {
        match *records.get(at)? {
            0 => break at += 1,
            192.. => break at += 2,
            label => at += usize::from(label) + 1,
        }
    }
    let record = records.get(at..at + 14)?;
    let is_a = record[..2] == [0, 1] && record[8..10] == [0, 4];
    is_a.then(|| record.last_chunk().copied()).flatten()
}

/// True if the reply has the client subnet of the query, with a scope of at most its length.
fn has_scope(reply: &[u8], packet: &[u8]) -> bool {
    let (Some(sent), Some(at)) = (packet.last_chunk::<11>(), reply.len().checked_sub(64).or(Some(0))) else {
        return false;
    };
    let is_it = |w: &[u8]| w[..7] == sent[..7] && w[7] <= sent[6] && w[8..] == sent[8..];
    reply[at..].windows(11).any(is_it)
}

fn rtype_number(text: &str) -> u16 {
    match text {
        "A" => 1,
        "NS" => 2,
        "CNAME" => 5,
        "SOA" => 6,
        "PTR" => 12,
        "MX" => 15,
        "TXT" => 16,
        "AAAA" => 28,
        "SRV" => 33,
        "ANY" => 255,
        other => other.trim_start_matches("TYPE").parse().unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str, ecs: bool) -> Queries {
        let mut queries = Queries::default();
        let (name, rtype) = line.split_once(' ').expect("name and type");
        queries.push(name, rtype_number(rtype), 7, &QueryForm { ecs, ..QueryForm::default() });
        queries
    }

    fn reply(queries: &Queries, address: [u8; 4]) -> Vec<u8> {
        let mut reply = queries.packet(0).to_vec();
        reply[2] |= 0x80;
        reply[7] = 1;
        let end = 12 + usize::from(queries.queries[0].question_len);
        let record = [&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4][..], &address].concat();
        reply.splice(end..end, record);
        reply
    }

    #[test]
    fn address_of_another_network_or_name_is_wrong() {
        let queries = one("n0000258.bench.test A", false);
        let check = QueryForm { allow: vec![([10, 0, 0, 0].into(), 8)], ..QueryForm::default() };
        for (address, right) in [([10, 0, 1, 2], true), ([11, 0, 1, 2], false), ([10, 0, 1, 3], false)] {
            assert_eq!(queries.is_right(0, &reply(&queries, address), &check), right, "{address:?}");
        }
    }

    #[test]
    fn missing_client_subnet_is_wrong() {
        let queries = one("s0000001.bench.test A", true);
        let check = QueryForm { ecs: true, ..QueryForm::default() };
        let mut reply = reply(&queries, [127, 0, 1, 1]);
        assert!(queries.is_right(0, &reply, &check));
        let scope = reply.len() - 4;
        reply[scope] = 25;
        assert!(!queries.is_right(0, &reply, &check));
        reply.truncate(reply.len() - 11);
        assert!(!queries.is_right(0, &reply, &check));
    }

    #[test]
    fn missing_answer_is_wrong() {
        let queries = one("n0000001.bench.test A", false);
        let mut reply = queries.packet(0).to_vec();
        reply[2] |= 0x80;
        assert!(!queries.is_right(0, &reply, &QueryForm::default()));
        assert!(queries.is_right(0, &reply, &QueryForm { echo: true, ..QueryForm::default() }));
    }
}
