//! The query file: `name TYPE` a line, as dnsperf reads it, turned into packets.
//!
//! A name whose first label starts with `nx` must get NXDOMAIN; every other NOERROR, and type A at least one answer.

use std::{fs, io};

/// What every query of a run has beside its question.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueryForm {
    /// Percent of the queries that carry an OPT record with payload size 1232.
    pub edns_percent: u32,
    /// Every query carries a client subnet (/24), a different one each.
    pub ecs: bool,
}

/// One query's packet and what its answer must be.
#[derive(Debug)]
struct Query {
    start: u32,
    len: u16,
    /// Octets of the question, name to class.
    question_len: u16,
    must_not_exist: bool,
    must_have_answer: bool,
}

/// All queries of a run, in one buffer.
#[derive(Debug, Default)]
pub struct Queries {
    wire: Vec<u8>,
    queries: Vec<Query>,
}

impl Queries {
    /// Reads a query file.
    pub fn read(path: &str, form: QueryForm) -> io::Result<Self> {
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

    fn push(&mut self, name: &str, rtype: u16, line: u32, form: QueryForm) {
        let start = self.wire.len();
        self.wire.extend_from_slice(&crate::question(name, rtype));
        let question_len = (self.wire.len() - start - 12) as u16;
        // A fixed scatter over the lines, so that every run asks the same.
        let scatter = line.wrapping_mul(2_654_435_761);
        if form.ecs {
            let [a, b, c, _] = scatter.to_be_bytes();
            self.wire.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0, a, b, c]);
            self.wire[start + 11] = 1;
        } else if (scatter >> 8) % 100 < form.edns_percent {
            self.wire.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0]);
            self.wire[start + 11] = 1;
        }
        let must_not_exist = name.starts_with("nx");
        let must_have_answer = rtype == 1 && !must_not_exist;
        let len = (self.wire.len() - start) as u16;
        self.queries.push(Query { start: start as u32, len, question_len, must_not_exist, must_have_answer });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Whether there is none; never so after [`Queries::read`].
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// The packet of one query, its ID zero.
    #[inline]
    pub fn packet(&self, number: usize) -> &[u8] {
        let query = &self.queries[number];
        &self.wire[query.start as usize..][..usize::from(query.len)]
    }

    /// Whether `reply` answers the query as it must: same question, right code, an answer where one is due. With `echo`,
    /// only the question counts.
    #[inline]
    pub fn is_right(&self, number: usize, reply: &[u8], echo: bool) -> bool {
        let query = &self.queries[number];
        let asked = &self.packet(number)[12..12 + usize::from(query.question_len)];
        let Some(head) = reply.first_chunk::<12>() else { return false };
        let same = reply.get(12..12 + asked.len()).is_some_and(|q| q.eq_ignore_ascii_case(asked));
        let (rcode, answers) = (head[3] & 15, u16::from_be_bytes([head[6], head[7]]));
        let fits =
            if query.must_not_exist { rcode == 3 } else { rcode == 0 && (!query.must_have_answer || answers > 0) };
        head[2] & 0x80 != 0 && same && (echo || fits)
    }
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
