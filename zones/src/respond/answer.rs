//! Slow path: from the result of a lookup to the sections of a response. Handles chains of CNAME and DNAME, and
//! negative answers.
//!
//! Every answer can be written here. [`super::fast_path`] writes the frequent ones in fewer instructions, which it
//! lists.

use fairway_model::{Name, Rtype};

use super::{AnswerStatus, Response};
use crate::{
    entries::{Alias, Node, RrSet, SetDetails},
    explain::Trace,
    lookup::{Found, locate},
    snapshot::Snapshot,
    wire::{Full, HEADER, Rcode, Section, Writer, name_end},
};

/// Maximum number of CNAMEs and DNAMEs in an answer. A longer chain is cut there. Real chains have one or two.
pub(crate) const CHAIN_MAX: usize = 16;

/// An answer under construction.
pub(super) struct Answering<'a, 'w, 'o, T> {
    pub(super) from: &'a Response<'a>,
    pub(super) writer: &'w mut Writer<'o>,
    pub(super) trace: &'w mut T,
    pub(super) status: AnswerStatus,
    /// Link to the next name of the chain, set by the last step.
    link: Option<Link<'a>>,
}

/// One name of a chain.
pub(super) struct ChainStep<'k> {
    /// Name in wire form.
    pub(super) name: &'k [u8],
    /// Offset of the name in the message, where it is uncompressed at least up to its zone's apex.
    pub(super) at: usize,
    found: Found,
    /// DNAMEs in the answer with their offsets, since a record is written once.
    dnames: &'k [(u32, usize)],
}

/// Next name of a chain.
#[derive(Clone, Copy)]
pub(super) enum Link<'a> {
    /// Target of a CNAME.
    Alias {
        target: Alias<'a>,
        /// Node of the target, if it is known.
        node: Option<u32>,
        /// Offset of the target in the message.
        at: usize,
    },
    /// Name synthesised from a DNAME.
    Redirect {
        /// Offset of the name in the message, where it is uncompressed.
        at: usize,
        /// Octets of the name.
        length: usize,
        /// Number of the DNAME's node, and offset of the record.
        dname: (u32, usize),
    },
}

impl<'a, 'w, 'o, T: Trace> Answering<'a, 'w, 'o, T> {
    pub(super) fn new(from: &'a Response<'a>, writer: &'w mut Writer<'o>, trace: &'w mut T) -> Self {
        Self { from, writer, trace, status: AnswerStatus::of(Rcode::NOERROR), link: None }
    }

    /// Writes the answer. If it does not fit, it is removed and TC is set.
    pub(super) fn run(mut self) -> AnswerStatus {
        let start = self.writer.at();
        if self.follow_chain().is_err() {
            self.writer.truncate(start);
        }
        self.status
    }

    pub(super) fn snapshot(&self) -> &'a Snapshot {
        &self.from.serving.snapshot
    }

    fn follow_chain(&mut self) -> Result<(), Full> {
        let query = self.from.query;
        let first = ChainStep { name: query.name(self.from.packet), at: HEADER, found: self.from.found, dnames: &[] };
        self.step(&first)?;
        match self.link {
            None => Ok(()),
            Some(_) => self.go_on(),
        }
    }

    /// Writes the records at one name. Only what most queries need is inlined.
    #[inline(always)]
    fn step(&mut self, step: &ChainStep<'_>) -> Result<(), Full> {
        let snapshot = self.snapshot();
        self.trace.located(snapshot, step.name, step.found);
        match step.found {
            Found::Exact(number) | Found::Wildcard(number) => self.at_node(step, snapshot.node(number)),
            _ => self.at_no_node(step),
        }
    }

    /// Follows links until the chain ends, repeats a name, or is too long.
    #[inline(never)]
    fn go_on(&mut self) -> Result<(), Full> {
        let snapshot = self.snapshot();
        let mut visited = [self.from.query.hash; CHAIN_MAX + 1];
        let mut dnames = [(0, 0); CHAIN_MAX];
        let mut reuse = [0; Name::OCTETS_MAX];
        let mut redirects = 0;
        for step in 1..=CHAIN_MAX {
            let (name, hash, at, node) = match self.link.take() {
                None => return Ok(()),
                Some(Link::Alias { target, node, at }) => (target.name, target.hash, at, node),
                Some(Link::Redirect { at, length, dname }) => {
                    dnames[redirects] = dname;
                    redirects += 1;
                    reuse[..length].copy_from_slice(&self.writer.written()[at..at + length]);
                    (&reuse[..length], snapshot.key().hash(&reuse[..length]), at, None)
                }
            };
            // Two names may share a hash. Then the chain ends early, and the resolver asks for the rest.
            if visited[..step].contains(&hash) {
                return Ok(());
            }
            visited[step] = hash;
            let labels = || name_end(name, 0).map_or(0, |(_, labels)| labels);
            let found = node.map_or_else(|| locate(snapshot, name, labels(), hash), Found::Exact);
            self.step(&ChainStep { name, at, found, dnames: &dnames[..redirects] })?;
        }
        Ok(())
    }

    /// Answers if the name has no node with authority.
    #[inline(never)]
    fn at_no_node(&mut self, step: &ChainStep<'_>) -> Result<(), Full> {
        let snapshot = self.snapshot();
        match step.found {
            Found::Outside if step.at == HEADER => self.status.rcode = Rcode::REFUSED,
            // The resolver asks for the end of a chain outside of our zones.
            Found::Outside => {}
            Found::Cut(number) if self.is_parents_ds(step, number) => return self.at_node(step, snapshot.node(number)),
            Found::Cut(number) => self.from.refer(self.writer, step.at, step.name.len(), snapshot.node(number))?,
            Found::Dname(number) => return self.redirect(step, number),
            Found::Nothing(zone) => {
                self.writer.set_authoritative();
                self.status.rcode = Rcode::NXDOMAIN;
                self.negative(step, zone as u16)?;
            }
            // `step` handles these.
            Found::Exact(number) | Found::Wildcard(number) => return self.at_node(step, snapshot.node(number)),
        }
        Ok(())
    }

    /// True for DS of a delegated name, which the parent zone answers (RFC 4035 section 3.1.4.1).
    fn is_parents_ds(&self, step: &ChainStep<'_>, cut: u32) -> bool {
        self.from.query.rtype == Rtype::DS && self.snapshot().node(cut).name_len() == step.name.len()
    }

    #[inline(always)]
    fn at_node(&mut self, step: &ChainStep<'_>, node: Node<'a>) -> Result<(), Full> {
        self.writer.set_authoritative();
        let snapshot = self.snapshot();
        if let Some(number) = node.steered().checked_sub(1)
            && self.steer(step, node, snapshot.steered_with_ttl(number, &self.from.serving.runtime))?
        {
            return Ok(());
        }
        let Some(set) = node.set(self.from.query.rtype) else { return self.no_such_set(step, node) };
        let start = self.set(step, node, set, Section::Answer)?;
        self.from.extras(self.writer, step.at, set, start)
    }

    /// Answers at a node without records of the type.
    #[inline(never)]
    fn no_such_set(&mut self, step: &ChainStep<'_>, node: Node<'a>) -> Result<(), Full> {
        let rtype = self.from.query.rtype;
        if let Some(set) = node.set(Rtype::CNAME) {
            return self.alias(step, node, set);
        }
        if rtype == Rtype::ANY && (node.set_count() > 0 || node.steered() != 0) {
            return self.any(step, node);
        }
        let zone = self.from.denying_zone(node);
        if zone != node.zone() && step.at != HEADER {
            // The apex may be nowhere in this message to point to. The resolver asks for the end of the chain.
            return Ok(());
        }
        self.negative(step, zone)
    }

    /// Writes a CNAME and continues at its target, unless the question is for the CNAME itself.
    pub(super) fn alias(&mut self, step: &ChainStep<'_>, node: Node<'_>, set: RrSet<'a>) -> Result<(), Full> {
        let start = self.set(step, node, set, Section::Answer)?;
        if matches!(self.from.query.rtype, Rtype::CNAME | Rtype::ANY) {
            return Ok(());
        }
        // The target begins after the owner (2) and type, class, TTL and length (10).
        self.link = set.details().and_then(|rest| {
            Some(Link::Alias { target: rest.alias()?, node: self.snapshot().target(rest), at: start + 12 })
        });
        Ok(())
    }

    /// Writes the DNAME and a CNAME synthesised from it, and continues at the CNAME's target (RFC 6672).
    fn redirect(&mut self, step: &ChainStep<'_>, number: u32) -> Result<(), Full> {
        self.writer.set_authoritative();
        let snapshot = self.snapshot();
        let node = snapshot.node(number);
        let Some(set) = node.set(Rtype::DNAME) else { return Ok(()) };
        let prefix = step.name.len() - node.name_len();
        // Compared by name, since a node in both layers has two numbers.
        let known = step.dnames.iter().find(|(known, _)| snapshot.node(*known).name() == node.name());
        let start = match known {
            Some((_, start)) => *start,
            None => {
                let owner = ChainStep { name: node.name(), at: step.at + prefix, found: step.found, dnames: &[] };
                self.set(&owner, node, set, Section::Answer)?
            }
        };
        let Some(Alias { name: target, .. }) = set.details().and_then(SetDetails::alias) else { return Ok(()) };
        if prefix + target.len() > Name::OCTETS_MAX {
            self.status.rcode = Rcode::YXDOMAIN;
            return Ok(());
        }
        // The first labels keep the case of the question.
        let length = prefix + target.len();
        let mut reuse = [0; Name::OCTETS_MAX];
        reuse[..prefix].copy_from_slice(&self.writer.written()[step.at..step.at + prefix]);
        reuse[prefix..length].copy_from_slice(target);
        let at = self.synthesise(step.at, set.ttl(), &reuse[..length])?;
        if matches!(self.from.query.rtype, Rtype::CNAME | Rtype::ANY) {
            return Ok(());
        }
        self.link = Some(Link::Redirect { at, length, dname: (number, start) });
        Ok(())
    }

    /// Writes the CNAME synthesised from a DNAME and returns the offset of its target.
    ///
    /// The target stays uncompressed, since another DNAME may cut it anywhere.
    fn synthesise(&mut self, owner: usize, ttl: u32, target: &[u8]) -> Result<usize, Full> {
        let [o0, o1] = pointer(owner);
        let [t0, t1, t2, t3] = ttl.to_be_bytes();
        self.writer.copy(&[o0, o1, 0, 5, 0, 1, t0, t1, t2, t3, 0, target.len() as u8])?;
        let at = self.writer.copy(target)?;
        self.writer.count(Section::Answer, 1);
        Ok(at)
    }

    /// Answers ANY with one small record (RFC 8482 section 4.2), which must not hide a HINFO that exists.
    fn any(&mut self, step: &ChainStep<'_>, node: Node<'a>) -> Result<(), Full> {
        if let Some(set) = node.set(Rtype::HINFO) {
            return self.set(step, node, set, Section::Answer).map(drop);
        }
        let [o0, o1] = pointer(step.at);
        self.writer.copy(&[o0, o1, 0, 13, 0, 1])?;
        self.writer.copy(&ANY_TTL.to_be_bytes())?;
        self.writer.copy(b"\x00\x09\x07RFC8482\x00")?;
        self.writer.count(Section::Answer, 1);
        Ok(())
    }

    /// Writes the SOA of a zone that holds the name of this step, for a negative answer (RFC 2308).
    pub(super) fn negative(&mut self, step: &ChainStep<'_>, zone: u16) -> Result<(), Full> {
        self.from.deny(self.writer, zone, step.at + step.name.len())
    }

    /// Writes a set owned by the name of this step and returns the offset of its first record.
    #[inline]
    pub(super) fn set(
        &mut self,
        step: &ChainStep<'_>,
        node: Node<'_>,
        set: RrSet<'_>,
        section: Section,
    ) -> Result<usize, Full> {
        let start = self.copy(set, step.at, section)?;
        if !set.is_verbatim() {
            let origin = usize::from(self.snapshot().zone(node.zone()).origin_len);
            self.from.point_to_apex(self.writer, set, start, (step.at + step.name.len()).saturating_sub(origin));
        }
        Ok(start)
    }

    /// Copies a set's records with their owner at `owner` and returns the offset of the first one.
    #[inline]
    pub(super) fn copy(&mut self, set: RrSet<'_>, owner: usize, section: Section) -> Result<usize, Full> {
        self.writer.records(set.records(), set.count(), owner, section)
    }
}

/// Returns a compression pointer to an offset below 0x4000 (RFC 1035 section 4.1.4).
pub(super) fn pointer(at: usize) -> [u8; 2] {
    (0xc000 | at as u16).to_be_bytes()
}

// TTL from the example of RFC 8482. Nobody gains by asking again soon.
const ANY_TTL: u32 = 3789;
