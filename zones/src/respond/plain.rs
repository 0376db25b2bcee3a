//! The answers most queries get: a set of records, copied as it lies, at a name that exists or in proof that one does not; one
//! CNAME and where it leads; a referral; and at most an OPT behind it.
//!
//! It says nothing that [`super::answer`] would not say, and leaves to it whatever needs more than that: `explain` never
//! comes here, and a test holds the two against each other.

use fairway_model::Rtype;

use super::{CLASS_IN, Ending, Response, is_for_zones};
use crate::{
    entries::{Node, RrSet},
    lookup::Found,
    snapshot::Steered,
    steer::Family,
    tally::AnswerKind,
    wire::{HEADER, Rcode, Section, Writer},
};

impl<'a> Response<'a> {
    /// Writes the answer, if it is a plain one; gives its length and code.
    #[inline(always)]
    pub(super) fn plain(&self, out: &mut [u8]) -> Option<(usize, Rcode)> {
        let (snapshot, query) = (&*self.view.snapshot, self.query);
        if query.class != CLASS_IN || query.refusal.is_some() {
            return None;
        }
        let (zone, rcode) = match self.found {
            Found::Exact(number) | Found::Wildcard(number) => {
                let node = snapshot.node(number);
                if let Some(number) = node.steered().checked_sub(1) {
                    return self.plain_choice(out, &snapshot.steered[number as usize]);
                }
                if let Some(set) = node.set(query.rtype) {
                    return if set.is_plain() { self.plain_set(out, set, 0) } else { None };
                }
                if node.is(Node::ALIAS) {
                    return self.plain_alias(out, node);
                }
                (self.denying_zone(node), Rcode::NOERROR)
            }
            Found::Nothing(zone) => (zone, Rcode::NXDOMAIN),
            Found::Cut(number) => return self.plain_referral(out, snapshot.node(number)),
            Found::Dname(_) | Found::Outside => return None,
        };
        self.plain_denial(out, zone, rcode)
    }

    /// Writes a set behind the question, whose name is the owner.
    #[inline(always)]
    fn plain_set(&self, out: &mut [u8], set: RrSet<'_>, scope: u8) -> Option<(usize, Rcode)> {
        let mut writer = self.begin(out);
        writer.copy(set.records()).ok()?;
        writer.count(Section::Answer, set.count());
        writer.set_authoritative();
        Some(self.end(writer, Rcode::NOERROR, scope))
    }

    /// Writes what a pool chooses, where that is a set of one live member.
    #[inline(always)]
    fn plain_choice(&self, out: &mut [u8], steered: &Steered) -> Option<(usize, Rcode)> {
        let snapshot = &*self.view.snapshot;
        let (family, first) = match self.query.rtype {
            _ if steered.cname => return None,
            Rtype::A => (Family::V4, steered.v4),
            Rtype::AAAA => (Family::V6, steered.v6),
            _ => return None,
        };
        let pool = &snapshot.pools[steered.pool as usize];
        let (client, scope) = self.client_of(pool);
        let (answer, member) = pool.choose_quickly(family, &self.view.conditions, client, self.draw)?;
        let written = self.plain_set(out, snapshot.answer(first + u32::from(answer)), scope)?;
        self.tally.answer(snapshot.counters[steered.counters as usize + usize::from(member)]);
        Some(written)
    }

    /// Writes that a zone has no such name, or no such records there.
    #[inline(always)]
    fn plain_denial(&self, out: &mut [u8], zone: u16, rcode: Rcode) -> Option<(usize, Rcode)> {
        if !is_for_zones(self.query.rtype) || self.query.rtype == Rtype::ANY {
            return None;
        }
        let mut writer = self.begin(out);
        self.deny(&mut writer, zone, self.name_end()).ok()?;
        writer.set_authoritative();
        Some(self.end(writer, rcode, 0))
    }

    /// Writes a CNAME that leads to records of ours in one step, and these.
    #[inline(never)]
    fn plain_alias(&self, out: &mut [u8], node: Node<'a>) -> Option<(usize, Rcode)> {
        let snapshot = &*self.view.snapshot;
        let alias = node.set(Rtype::CNAME)?;
        let target = snapshot.node(snapshot.target(alias.rest()?)?);
        let set = target.set(self.query.rtype).filter(|set| set.is_plain() && target.steered() == 0)?;
        let mut writer = self.begin(out);
        let start = writer.records(alias.records(), 1, HEADER, Section::Answer).ok()?;
        let origin = usize::from(snapshot.zone(node.zone()).origin_len);
        self.point_to_apex(&mut writer, alias, start, self.name_end() - origin);
        // The target's name begins behind the owner (2), type, class, TTL and length (10).
        writer.records(set.records(), set.count(), start + 12, Section::Answer).ok()?;
        writer.set_authoritative();
        Some(self.end(writer, Rcode::NOERROR, 0))
    }

    /// Refers to the servers of a delegated zone.
    #[inline(never)]
    fn plain_referral(&self, out: &mut [u8], cut: Node<'_>) -> Option<(usize, Rcode)> {
        // DS of a delegated name is the parent's to answer.
        if !is_for_zones(self.query.rtype) || self.query.rtype == Rtype::DS {
            return None;
        }
        let mut writer = self.begin(out);
        self.refer(&mut writer, HEADER, self.name_end() - HEADER, cut).ok()?;
        Some(self.end(writer, Rcode::NOERROR, 0))
    }

    /// Where the question's name ends: before type and class, four octets.
    #[inline]
    fn name_end(&self) -> usize {
        self.query.question_end() - 4
    }

    /// Begins a response.
    #[inline(always)]
    fn begin<'o>(&self, out: &'o mut [u8]) -> Writer<'o> {
        let limit = self.limit();
        Writer::new(self.packet, self.query.question_end(), out, limit - self.opt_room(limit))
    }

    /// Ends a response: its OPT, its counters, its header.
    #[inline(always)]
    fn end(&self, mut writer: Writer<'_>, rcode: Rcode, scope: u8) -> (usize, Rcode) {
        let edns = self.query.edns.as_ref();
        if let Some(edns) = edns {
            self.write_opt(&mut writer, edns, &Ending { scope, ..Ending::of(rcode) }, self.limit());
        }
        let ecs = edns.is_some_and(|edns| edns.ecs.is_some());
        self.tally.response(rcode, AnswerKind { truncated: false, edns: edns.is_some(), ecs, down: false });
        (writer.finish(rcode), rcode)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairway_model::{
        Cluster, ClusterName, Desired, Health, Member, Name, Policy, Pool, PoolName, SteeredName, Verdict,
    };

    use super::*;
    use crate::{
        Client, Conditions, Draw, Now, Outcome, Query, ServerOptions, Snapshot, Tallies, Tally, Transport, View,
        compile,
        explain::Trace,
        find,
        lookup::Found,
        read,
        respond::{LEVELS, read_level, write_traced},
        steer,
        text::read_zone,
    };

    /// Hears nothing, but counts as somebody who listens, so that the long way is taken.
    struct Deaf;

    impl steer::Trace for Deaf {}

    impl Trace for Deaf {
        fn located(&mut self, _: &Snapshot, _: &[u8], _: Found) {}
    }

    const ZONE: &str = "\
        $TTL 300\n@ IN SOA ns1 hostmaster 7 3600 600 86400 60\n@ IN NS ns1\nns1 IN A 192.0.2.53\nwww IN A 192.0.2.1\n\
        www IN AAAA 2001:db8::1\nbig IN TXT \"a long text, so that many of them do not fit\" \"x\"\nalias IN CNAME www\n\
        *.wild IN A 192.0.2.4\nsub IN NS ns.sub\nns.sub IN A 192.0.2.5\nold IN DNAME new\nold IN A 192.0.2.6\n\
        mx IN MX 10 www\n_s._udp IN SRV 0 0 1 www\nshop IN TXT beside\n";

    fn view(health: Health) -> View {
        let origin: Name = "example.test".parse().unwrap();
        let mut text = ZONE.to_owned();
        (0..40).for_each(|i| text += &format!("big IN TXT \"record number {i} of a set of records\"\n"));
        let (zone, _) = read_zone(&origin, "z", text.as_bytes(), &mut |_| Err("none".into()));
        let mut desired = Desired::default();
        let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::Weighted);
        for (cluster, address) in [("eu1", "203.0.113.1"), ("us1", "203.0.113.2")] {
            let name = ClusterName::new(cluster).unwrap();
            pool.members.push(Member::new(name.clone()));
            let addresses = vec![address.parse().unwrap()];
            let made = Cluster { name, addresses, dns_name: None, location: None, capacity: None, services: vec![] };
            desired.clusters.insert(made.name.clone(), made);
        }
        for name in ["shop.example.test", "*.pool.example.test"] {
            let name: Name = name.parse().unwrap();
            desired.names.insert(name.clone(), SteeredName { name, pool: pool.name.clone(), ttl: None });
        }
        desired.pools.insert(pool.name.clone(), pool);
        let (snapshot, _) = compile(&desired, &[zone], &ServerOptions::default(), None).unwrap();
        let conditions = Conditions::new(&snapshot, |_| health);
        View { snapshot: Arc::new(snapshot), conditions: Arc::new(conditions) }
    }

    const OPTS: [&[u8]; 5] = [
        &[],
        &[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 41, 2, 0, 0, 0, 0x80, 0, 0, 0],
        &[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2],
        &[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 8, 0, 3, 0, 0, 0, 11, 0, 0],
    ];

    fn packet(name: &str, rtype: Rtype, opt: &[u8]) -> Vec<u8> {
        let name: Name = format!("{name}.example.test").parse().unwrap();
        let head = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(!opt.is_empty())];
        [&head, name.as_wire(), &rtype.0.to_be_bytes(), &[0, 1], opt].concat()
    }

    fn answer<T: Trace>(view: &View, packet: &[u8], transport: Transport, trace: &mut T) -> (Vec<u8>, Tallies) {
        let client = Client { address: [198, 51, 100, 7].into(), port: 4242, transport };
        let (mut query, tally, mut out, mut sum) =
            (Query::default(), Tally::default(), vec![0; 65_535], Tallies::default());
        // Read over what other packets left, as in a batch: one with every option, and one that is refused.
        let used = self::packet("used.up.before", Rtype::TXT, OPTS[3]);
        for packet in [&used, &used[..20], packet] {
            read(packet, &mut query);
            (0..LEVELS).for_each(|level| read_level(&view.snapshot, level, &mut query));
            find(&view.snapshot, packet, &mut query);
        }
        let outcome = write_traced(view, &client, packet, &query, Now(0), Draw(9), &tally, &mut out, trace);
        let Outcome::Reply(length) = outcome else { panic!("no reply") };
        tally.add_to(&mut sum);
        out.truncate(length);
        (out, sum)
    }

    #[test]
    fn the_plain_way_says_and_counts_what_the_long_way_does() {
        let names = "www WWW nx deep.nx alias wild x.wild sub x.sub old x.old big mx _s._udp ns1 shop x.pool pool";
        let types = [
            Rtype::A,
            Rtype::AAAA,
            Rtype::TXT,
            Rtype::MX,
            Rtype::SRV,
            Rtype::ANY,
            Rtype::CNAME,
            Rtype::NS,
            Rtype::DS,
            Rtype::AXFR,
        ];
        for verdict in [Verdict::Up, Verdict::Down, Verdict::Pending] {
            let view = view(Health::new(verdict, None));
            for (name, rtype, opt) in names.split(' ').flat_map(|n| types.map(|t| OPTS.map(|o| (n, t, o)))).flatten() {
                let packet = packet(name, rtype, opt);
                for transport in [Transport::Udp, Transport::Tcp] {
                    let (plain, long) =
                        (answer(&view, &packet, transport, &mut ()), answer(&view, &packet, transport, &mut Deaf));
                    assert_eq!(plain, long, "{name} {rtype} {opt:?} {transport:?} {verdict:?}");
                }
            }
        }
    }
}
