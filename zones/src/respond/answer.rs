//! From a found name to the sections of a response: records, chains of CNAME and DNAME, negative answers.

use fairway_model::{Name, Rtype};

use super::{AnswerStatus, Response};
use crate::{
    entries::{Alias, Node, RrSet, SetDetails},
    explain::Trace,
    lookup::{Found, locate},
    snapshot::Snapshot,
    wire::{Full, HEADER, Rcode, Section, Writer, name_end, name_hash},
};

/// Most CNAMEs and DNAMEs followed in one answer; what was found until then is kept. Real chains have one or two.
pub(crate) const CHAIN_MAX: usize = 16;

/// One answer being written.
pub(super) struct Answering<'a, 'w, 'o, T> {
    pub(super) from: &'a Response<'a>,
    pub(super) writer: &'w mut Writer<'o>,
    pub(super) trace: &'w mut T,
    pub(super) status: AnswerStatus,
    /// Left by the step before, unless the chain ended there.
    link: Option<Link<'a>>,
}

/// The name an answer is looked for at, at one step of a chain.
pub(super) struct ChainStep<'k> {
    /// In wire form.
    pub(super) name: &'k [u8],
    /// Where the name stands in the message, uncompressed at least up to its zone's apex.
    pub(super) at: usize,
    found: Found,
    /// DNAMEs already in the answer, and where: a record is written once.
    dnames: &'k [(u32, usize)],
}

/// Where a chain goes on.
#[derive(Clone, Copy)]
pub(super) enum Link<'a> {
    /// At the target of a CNAME.
    Alias {
        target: Alias<'a>,
        /// Its node, where that is known already.
        node: Option<u32>,
        /// Where that name stands in the message.
        at: usize,
    },
    /// At a name made by a DNAME.
    Redirect {
        /// Where that name stands in the message, uncompressed.
        at: usize,
        /// Its octets.
        length: usize,
        /// The DNAME, and where it stands.
        dname: (u32, usize),
    },
}

impl<'a, 'w, 'o, T: Trace> Answering<'a, 'w, 'o, T> {
    pub(super) fn new(from: &'a Response<'a>, writer: &'w mut Writer<'o>, trace: &'w mut T) -> Self {
        Self { from, writer, trace, status: AnswerStatus::of(Rcode::NOERROR), link: None }
    }

    /// Writes the answer; one that does not fit is taken back and marked TC.
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

    /// One step: what there is at the name, written. Only what most queries need is part of the caller's code.
    #[inline(always)]
    fn step(&mut self, step: &ChainStep<'_>) -> Result<(), Full> {
        let snapshot = self.snapshot();
        self.trace.located(snapshot, step.name, step.found);
        match step.found {
            Found::Exact(number) | Found::Wildcard(number) => self.at_node(step, snapshot.node(number)),
            _ => self.at_no_node(step),
        }
    }

    /// Follows links until the chain ends, comes back to a name it was at, or is too long.
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
                    (&reuse[..length], name_hash(&reuse[..length]), at, None)
                }
            };
            // Two names may share a hash, in case at least: then the chain ends early, and the resolver goes on.
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

    /// Answers where no node of ours stands for the name.
    #[inline(never)]
    fn at_no_node(&mut self, step: &ChainStep<'_>) -> Result<(), Full> {
        let snapshot = self.snapshot();
        match step.found {
            Found::Outside if step.at == HEADER => self.status.rcode = Rcode::REFUSED,
            // The end of a chain outside of our zones is for the resolver to find.
            Found::Outside => {}
            Found::Cut(number) if self.is_parents_ds(step, number) => return self.at_node(step, snapshot.node(number)),
            Found::Cut(number) => self.from.refer(self.writer, step.at, step.name.len(), snapshot.node(number))?,
            Found::Dname(number) => return self.redirect(step, number),
            Found::Nothing(zone) => {
                self.writer.set_authoritative();
                self.status.rcode = Rcode::NXDOMAIN;
                self.negative(step, zone as u16)?;
            }
            // Told apart by the caller.
            Found::Exact(number) | Found::Wildcard(number) => return self.at_node(step, snapshot.node(number)),
        }
        Ok(())
    }

    /// DS of a delegated name is the parent's to answer (RFC 4035 section 3.1.4.1).
    fn is_parents_ds(&self, step: &ChainStep<'_>, cut: u32) -> bool {
        self.from.query.rtype == Rtype::DS && self.snapshot().node(cut).name_len() == step.name.len()
    }

    #[inline(always)]
    fn at_node(&mut self, step: &ChainStep<'_>, node: Node<'a>) -> Result<(), Full> {
        self.writer.set_authoritative();
        let snapshot = self.snapshot();
        if let Some(number) = node.steered().checked_sub(1)
            && self.steer(step, node, snapshot.is_adaptive(number, &self.from.serving.runtime))?
        {
            return Ok(());
        }
        let Some(set) = node.set(self.from.query.rtype) else { return self.no_such_set(step, node) };
        let start = self.set(step, node, set, Section::Answer)?;
        self.from.extras(self.writer, step.at, set, start)
    }

    /// Answers at a node that has nothing of the type asked for.
    #[inline(never)]
    fn no_such_set(&mut self, step: &ChainStep<'_>, node: Node<'a>) -> Result<(), Full> {
        let rtype = self.from.query.rtype;
        if let Some(set) = node.set(Rtype::CNAME) {
            return self.alias(step, node, set);
        }
        if rtype == Rtype::ANY && (node.set_count() > 0 || node.steered() != 0) {
            return self.any(step);
        }
        let zone = self.from.denying_zone(node);
        if zone != node.zone() && step.at != HEADER {
            // The apex to point to may be nowhere in this message: the resolver asks for the end of the chain by itself.
            return Ok(());
        }
        self.negative(step, zone)
    }

    /// Writes a CNAME and goes on at its target, unless the CNAME itself was asked for.
    pub(super) fn alias(&mut self, step: &ChainStep<'_>, node: Node<'_>, set: RrSet<'a>) -> Result<(), Full> {
        let start = self.set(step, node, set, Section::Answer)?;
        if matches!(self.from.query.rtype, Rtype::CNAME | Rtype::ANY) {
            return Ok(());
        }
        // The target's name begins behind the owner (2), type, class, TTL and length (10).
        self.link = set.details().and_then(|rest| {
            Some(Link::Alias { target: rest.alias()?, node: self.snapshot().target(rest), at: start + 12 })
        });
        Ok(())
    }

    /// RFC 6672: the DNAME, a CNAME made from it, and on at the name that gives.
    fn redirect(&mut self, step: &ChainStep<'_>, number: u32) -> Result<(), Full> {
        self.writer.set_authoritative();
        let snapshot = self.snapshot();
        let node = snapshot.node(number);
        let Some(set) = node.set(Rtype::DNAME) else { return Ok(()) };
        let prefix = step.name.len() - node.name_len();
        // By name: one that stands in both layers has two numbers.
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
        // The labels in front keep the case they were asked in.
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

    /// Writes the CNAME a DNAME stands for; gives the place of its target, which is left uncompressed: a further link may
    /// cut it anywhere.
    fn synthesise(&mut self, owner: usize, ttl: u32, target: &[u8]) -> Result<usize, Full> {
        let [o0, o1] = pointer(owner);
        let [t0, t1, t2, t3] = ttl.to_be_bytes();
        self.writer.copy(&[o0, o1, 0, 5, 0, 1, t0, t1, t2, t3, 0, target.len() as u8])?;
        let at = self.writer.copy(target)?;
        self.writer.count(Section::Answer, 1);
        Ok(at)
    }

    /// RFC 8482 section 4.2: one small record in place of everything.
    fn any(&mut self, step: &ChainStep<'_>) -> Result<(), Full> {
        let [o0, o1] = pointer(step.at);
        self.writer.copy(&[o0, o1, 0, 13, 0, 1])?;
        self.writer.copy(&ANY_TTL.to_be_bytes())?;
        self.writer.copy(b"\x00\x09\x07RFC8482\x00")?;
        self.writer.count(Section::Answer, 1);
        Ok(())
    }

    /// The SOA of a zone that holds the name of this step, for a negative answer (RFC 2308).
    pub(super) fn negative(&mut self, step: &ChainStep<'_>, zone: u16) -> Result<(), Full> {
        self.from.deny(self.writer, zone, step.at + step.name.len())
    }

    /// Writes a set whose owner is the name of this step; gives the place of its first record.
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

    /// Copies a set's records and points their owners to where the name stands; gives the place of the first.
    #[inline]
    pub(super) fn copy(&mut self, set: RrSet<'_>, owner: usize, section: Section) -> Result<usize, Full> {
        self.writer.records(set.records(), set.count(), owner, section)
    }
}

/// A compression pointer (RFC 1035 section 4.1.4) to a place under 0x4000.
pub(super) fn pointer(at: usize) -> [u8; 2] {
    (0xc000 | at as u16).to_be_bytes()
}

// As long as RFC 8482's own example keeps it: nobody gains by asking again soon.
const ANY_TTL: u32 = 3789;
