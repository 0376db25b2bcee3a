//! NSD, Knot, BIND, PowerDNS and gdnsd answer thousands of generated queries from the same zone files, and Fairway gives the same answers.
//!
//! Allowed differences are in one table, [`DIFFERENCES`], each with its reason; an unused entry fails, too. The test compares response
//! code, AA, answer and authority section as sets, and the addresses next to a referral. It does not send ANY (RFC 8482 allows any
//! answer); the recipes test it.
#![cfg(feature = "real")]

#[path = "oracle/servers.rs"]
mod servers;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use fairway_integration::{
    message::{Message, Record, bit},
    present::hex,
    query::{Opt, Query},
    real::ask,
};
use fairway_model::{Name, Rtype, SplitMix};
use servers::{Server, ZONES, Zone};

/// Compared part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Aspect {
    Rcode,
    Authoritative,
    Answer,
    Authority,
    Glue,
}

/// An answer in comparable form.
struct Seen {
    rcode: u16,
    authoritative: bool,
    sections: [BTreeSet<String>; 3],
}

/// One query with both answers.
struct Pair<'a> {
    name: &'a Name,
    rtype: Rtype,
    ours: &'a Seen,
    theirs: &'a Seen,
}

/// An allowed difference of these servers in this part.
struct Difference {
    of: &'static [&'static str],
    aspect: Aspect,
    when: fn(&Pair<'_>) -> bool,
    reason: &'static str,
}

/// All allowed differences.
const DIFFERENCES: &[Difference] = &[
    Difference {
        of: &["named", "pdns_server"],
        aspect: Aspect::Rcode,
        when: |pair| pair.theirs.rcode == 2 && pair.ours.is_alias(),
        reason: "BIND and PowerDNS say SERVFAIL to a loop of aliases; the chain itself tells the resolver, as with NSD and Knot",
    },
    Difference {
        of: &["pdns_server"],
        aspect: Aspect::Answer,
        when: |pair| pair.theirs.rcode == 2 && pair.ours.is_alias() && pair.theirs.sections[0].is_empty(),
        reason: "PowerDNS leaves the loop itself out; what was found of a chain is kept (RFC 1034 section 4.3.2)",
    },
    Difference {
        of: &["pdns_server"],
        aspect: Aspect::Authority,
        when: |pair| pair.rtype == Rtype::CNAME && pair.ours.sections[0] == pair.theirs.sections[0],
        reason: "PowerDNS adds the SOA to a wildcard's CNAME that was asked for itself; only negative answers need one",
    },
    Difference {
        of: &["named", "gdnsd"],
        aspect: Aspect::Glue,
        when: lacks_only_optional_glue,
        reason: "addresses of name servers that lie outside the delegation may stay away (RFC 9471 section 3)",
    },
    Difference {
        of: &["gdnsd"],
        aspect: Aspect::Answer,
        when: |pair| pair.rtype == Rtype::SOA && pair.ours.sections[0].len() == 1,
        reason: "gdnsd lowers the TTL of the SOA itself to that of negative answers",
    },
    Difference {
        of: &["gdnsd"],
        aspect: Aspect::Answer,
        when: |pair| pair.ours.is_alias() && pair.theirs.sections[0].is_subset(&pair.ours.sections[0]),
        reason: "gdnsd answers one alias and leaves the rest of the chain to the resolver",
    },
    Difference {
        of: &["gdnsd"],
        aspect: Aspect::Rcode,
        when: |pair| pair.ours.is_alias() && pair.ours.rcode == 3 && pair.theirs.rcode == 0,
        reason: "the end of a chain that gdnsd does not follow decides our response code (RFC 6604 section 3)",
    },
    Difference {
        of: &["gdnsd"],
        aspect: Aspect::Authority,
        when: |pair| pair.ours.is_alias() && pair.theirs.sections[1].is_empty(),
        reason: "the end of a chain that gdnsd does not follow decides our authority section (RFC 2308 section 2)",
    },
    Difference {
        of: &["gdnsd"],
        aspect: Aspect::Authoritative,
        when: |pair| pair.rtype == Rtype::DS && pair.ours.authoritative,
        reason: "gdnsd knows no DS and refers; the parent answers it (RFC 4035 section 3.1.4.1)",
    },
    Difference {
        of: &["gdnsd"],
        aspect: Aspect::Authority,
        when: |pair| pair.rtype == Rtype::DS && pair.ours.authoritative && !pair.theirs.authoritative,
        reason: "gdnsd knows no DS and refers: name servers instead of an SOA",
    },
];

/// True if they send a part of Fairway's addresses, and all of those in the delegated zone.
fn lacks_only_optional_glue(pair: &Pair<'_>) -> bool {
    let owner = |record: &String| record.split(' ').next().map(|name| format!(".{name}")).unwrap_or_default();
    let [ours, theirs] = [pair.ours, pair.theirs].map(|seen| &seen.sections[2]);
    let cut = pair.ours.sections[1].iter().next().map(owner).unwrap_or_default();
    theirs.is_subset(ours) && ours.difference(theirs).all(|record| !owner(record).ends_with(&cut))
}

impl Pair<'_> {
    fn differs_in(&self) -> Vec<Aspect> {
        let [ours, theirs] = [self.ours, self.theirs];
        let mut aspects = Vec::new();
        let mut note = |differs: bool, aspect| aspects.extend(differs.then_some(aspect));
        note(ours.rcode != theirs.rcode, Aspect::Rcode);
        note(ours.authoritative != theirs.authoritative, Aspect::Authoritative);
        note(ours.sections[0] != theirs.sections[0], Aspect::Answer);
        note(ours.sections[1] != theirs.sections[1], Aspect::Authority);
        let referral = !ours.authoritative && ours.sections[0].is_empty();
        note(referral && ours.sections[2] != theirs.sections[2], Aspect::Glue);
        aspects
    }
}

impl Seen {
    fn new(reply: &Message) -> Self {
        let set = |section: &Vec<Record>| {
            let set: BTreeSet<String> = section.iter().map(comparable).collect();
            assert_eq!(set.len(), section.len(), "a record twice: {section:?}");
            set
        };
        Self {
            rcode: reply.rcode(),
            authoritative: reply.header.has(bit::AA),
            sections: [0, 1, 2].map(|index| set(&reply.sections[index])),
        }
    }

    /// True if the answer section has a CNAME.
    fn is_alias(&self) -> bool {
        self.sections[0].iter().any(|record| record.contains(" CNAME "))
    }

    fn shown(&self) -> String {
        let [answer, authority, additional] = &self.sections;
        format!(
            "rcode {} aa {} answer {answer:?} authority {authority:?} additional {additional:?}",
            self.rcode, self.authoritative
        )
    }
}

/// Returns a record with its names in lower case.
fn comparable(record: &Record) -> String {
    let names = matches!(
        record.rtype,
        Rtype::NS | Rtype::CNAME | Rtype::SOA | Rtype::MX | Rtype::DNAME | Rtype::SRV | Rtype::PTR
    );
    let rdata = if names { record.rdata.to_ascii_lowercase() } else { record.rdata.clone() };
    format!("{} {} {} {}", record.owner.to_lowercase(), record.ttl, record.rtype, hex(&rdata))
}

/// Types queried at every name: common ones, those with special rules, an unknown one.
const TYPES: [Rtype; 12] = [
    Rtype::A,
    Rtype::AAAA,
    Rtype::NS,
    Rtype::SOA,
    Rtype::MX,
    Rtype::TXT,
    Rtype::CNAME,
    Rtype::DS,
    Rtype::SRV,
    Rtype::DNAME,
    Rtype::HTTPS,
    Rtype(65_400),
];

/// Returns names of the zone, their ancestors, children and siblings, and names outside the zone.
fn names(zone: &Zone) -> BTreeSet<Name> {
    let mut names: BTreeSet<Name> = zone.owners().into_iter().collect();
    let mut near = Vec::new();
    for name in &names {
        let mut above = name.parent();
        while let Some(parent) = above.filter(|parent| parent.is_within(&zone.origin)) {
            near.extend(parent.child(b"sibling"));
            above = parent.parent();
            near.push(parent);
        }
        near.extend(name.child(b"child"));
        near.extend(name.child(b"b").and_then(|child| child.child(b"a")));
        near.extend(name.child(b"*"));
        near.extend(name.child(b"\0octets."));
    }
    names.extend(near);
    names
}

/// Returns the name with the case of every letter chosen by `seed`.
fn mixed(name: &Name, seed: u64) -> Name {
    let mut wire = name.as_wire().to_vec();
    let mut at = 0;
    while wire[at] != 0 {
        let end = at + 1 + usize::from(wire[at]);
        for (index, octet) in wire[at + 1..end].iter_mut().enumerate() {
            let bit = seed.rotate_left(u32::try_from((at + index) % 64).unwrap_or(0)) & 1;
            *octet = if bit == 1 { octet.to_ascii_uppercase() } else { octet.to_ascii_lowercase() };
        }
        at = end;
    }
    Name::from_wire(&wire).expect("case does not change what is a name")
}

/// Sends a query over UDP, and over TCP if the answer was truncated.
fn answer(server: SocketAddr, query: &Query) -> Message {
    let packet = query.encode();
    let reply =
        (0..3).find_map(|_| ask(server, &packet)).unwrap_or_else(|| panic!("{server} does not answer {query:?}"));
    let message = Message::decode(&reply).unwrap_or_else(|fault| panic!("{server} to {query:?}: {fault}"));
    if !message.header.has(bit::TC) {
        return message;
    }
    let mut stream = TcpStream::connect(server).expect("it takes connections");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out above 0");
    let length = u16::try_from(packet.len()).expect("queries are short").to_be_bytes();
    stream.write_all(&[&length[..], &packet].concat()).expect("it takes a query");
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("it answers");
    let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut reply).expect("it answers whole");
    let message = Message::decode(&reply).unwrap_or_else(|fault| panic!("{server} to {query:?}: {fault}"));
    assert!(!message.header.has(bit::TC), "{server}: truncated over TCP: {query:?}");
    message
}

/// Differences so far: allowed ones by index in the table, others by kind.
#[derive(Default)]
struct Findings {
    questions: usize,
    used: BTreeSet<usize>,
    open: BTreeMap<(&'static str, Aspect), Vec<String>>,
}

impl Findings {
    fn compare(&mut self, server: &'static str, pair: &Pair<'_>) {
        self.questions += 1;
        for aspect in pair.differs_in() {
            let fits = |entry: &Difference| entry.aspect == aspect && entry.of.contains(&server) && (entry.when)(pair);
            if let Some(index) = DIFFERENCES.iter().position(fits) {
                self.used.insert(index);
                continue;
            }
            let [ours, theirs] = [pair.ours.shown(), pair.theirs.shown()];
            let text = format!("{} {}\n  ours:   {ours}\n  theirs: {theirs}", pair.name, pair.rtype);
            self.open.entry((server, aspect)).or_default().push(text);
        }
    }

    fn shown(&self) -> String {
        let one = |((server, aspect), texts): (&(&str, Aspect), &Vec<String>)| {
            format!(
                "{server}: {aspect:?} differs in {} answers, such as\n{}\n",
                texts.len(),
                texts[..texts.len().min(4)].join("\n")
            )
        };
        self.open.iter().map(one).collect()
    }
}

fn ask_all(zone: &Zone, servers: &[Server], findings: &mut Findings) {
    let (ours, others) = servers.split_first().expect("the first is ours");
    for (number, name) in (0_u64..).zip(&names(zone)) {
        for (index, rtype) in (0_u64..).zip(TYPES) {
            let seed = SplitMix::new(number * 16 + index).bits();
            let edns = (seed >> 40 & 1 == 1).then(Opt::default);
            let query = Query { edns, ..Query::new(mixed(name, seed), rtype) };
            let own = Seen::new(&answer(ours.dns, &query));
            for server in others.iter().filter(|server| server.has(zone)) {
                let theirs = Seen::new(&answer(server.dns, &query));
                findings.compare(server.name, &Pair { name, rtype, ours: &own, theirs: &theirs });
            }
        }
    }
}

#[test]
fn random_queries_get_the_answers_of_five_other_servers() {
    let servers = servers::start_all();
    let mut findings = Findings::default();
    for zone in ZONES.map(Zone::new) {
        ask_all(&zone, &servers, &mut findings);
    }
    println!("{} comparisons", findings.questions);
    assert!(findings.questions > 10_000, "{}", findings.questions);
    assert!(findings.open.is_empty(), "{}", findings.shown());
    let idle = DIFFERENCES.iter().enumerate().filter(|(index, _)| !findings.used.contains(index));
    let idle: Vec<&str> = idle.map(|(_, entry)| entry.reason).collect();
    assert!(idle.is_empty(), "these reasons explain nothing any more: {idle:?}");
}
