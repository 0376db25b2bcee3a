//! A state compiled over unchanged zones answers as if both had been compiled together.

use fairway_model::{
    AnswerMode, Cluster, ClusterName, DesiredState, DownAnswer, Health, HealthStatus, Member, Name, Policy, Pool,
    PoolName, Rtype, SteeredName, Visibility, ZoneSpec,
};
use fairway_zonefile::{ZoneData, read_zone};

use super::*;
use crate::{
    client::{Client, Draw, Now, Request, Transport},
    respond::{Outcome, respond},
    runtime::RuntimeState,
    serving::ServingState,
    tally::Tally,
};

pub(super) const OUTER: &str = "\
    $TTL 300\n@ IN SOA ns1 hostmaster 7 3600 600 86400 60\n@ IN NS ns1\nns1 IN A 192.0.2.53\nwww IN CNAME shop\n\
    shop IN TXT beside\nx.*.wild IN A 192.0.2.4\n*.wild IN TXT wild\n*.free IN MX 1 own\nsub IN NS ns.sub\n\
    ns.sub IN A 192.0.2.5\nold IN DNAME new\na.new IN A 192.0.2.6\n_s._udp IN SRV 0 0 1 eu1\neu1 IN TXT eu\n\
    own IN A 192.0.2.7\nlink IN CNAME own\nfar IN CNAME a.deep.shop\n";
pub(super) const INNER: &str =
    "$TTL 60\n@ IN SOA ns1 h 1 2 3 4 5\n@ IN NS ns1\nns1 IN A 192.0.2.1\n@ IN HTTPS 0 shop.example.test.\n";

/// Returns a zone with this text.
pub(super) fn zone(origin: &str, text: &str) -> ZoneData {
    let (zone, faults) = read_zone(&origin.parse().unwrap(), "z", text.as_bytes(), &mut |_| Err("none".into()));
    assert!(faults.is_empty(), "{faults:?}");
    zone
}

fn zones() -> Vec<ZoneData> {
    vec![zone("example.test", OUTER), zone("in.example.test", INNER)]
}

/// Returns a state with pools of two clusters. A name that begins with `c-` has a pool with mode `cname`.
pub(super) fn desired(names: &[&str]) -> DesiredState {
    let mut desired = DesiredState::default();
    for (cluster, address) in [("eu1", "203.0.113.1"), ("us1", "2001:db8::1")] {
        let name = ClusterName::new(cluster).unwrap();
        let addresses = vec![address.parse().unwrap()];
        let dns_name = Some(format!("{cluster}.example.test").parse().unwrap());
        let reuse = Cluster { dns_name, ..Cluster::new(name, addresses) };
        desired.clusters.insert(reuse.name.clone(), reuse);
    }
    for name in names {
        let alias = name.starts_with("c-");
        let mut pool = Pool::new(PoolName::new(if alias { "alias" } else { "plain" }).unwrap(), Policy::FAILOVER);
        pool.members = desired.clusters.keys().cloned().map(Member::new).collect();
        if alias {
            (pool.mode, pool.down) = (AnswerMode::Cname, DownAnswer::All);
        }
        let name: Name = format!("{name}example.test").parse().unwrap();
        desired.names.insert(name.clone(), SteeredName { name, pool: pool.name.clone(), ttl: None });
        desired.pools.insert(pool.name.clone(), pool);
    }
    desired
}

/// Returns the responses for every tested name and type.
fn responses(snapshot: Snapshot) -> Vec<Vec<u8>> {
    let names = "www. shop. a.shop. a.deep.shop. deep.shop. wild. y.wild. x.*.wild. *.wild. free. y.free. sub. q.sub. \
                 old. a.old. a.new. _s._udp. eu1. us1. own. link. far. in. x.in. c-in.in. new. c-one. n.c-one. nowhere.";
    let types = [Rtype::A, Rtype::AAAA, Rtype::TXT, Rtype::CNAME, Rtype::SRV, Rtype::HTTPS, Rtype::DS, Rtype::ANY];
    answers(snapshot, names, &types)
}

/// Returns the responses for these names, and for the apex below them, in these types.
pub(super) fn answers(snapshot: Snapshot, names: &str, types: &[Rtype]) -> Vec<Vec<u8>> {
    let runtime = RuntimeState::new(&snapshot, |_| Health::new(HealthStatus::Up, None));
    let serving = ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) };
    let client = Client { address: [198, 51, 100, 7].into(), port: 4242, transport: Transport::Tcp };
    let (tally, mut out) = (Tally::default(), vec![0; 65_535]);
    let mut responses = Vec::new();
    let names = names.split_whitespace().chain([""]);
    for (name, rtype) in names.flat_map(|name| types.iter().map(move |rtype| (name, rtype))) {
        let name: Name = format!("{name}example.test").parse().unwrap();
        let head = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let packet = [&head, name.as_wire(), &rtype.0.to_be_bytes(), &[0, 1]].concat();
        let outcome = respond(
            &serving,
            &Request { client: &client, packet: &packet, now: Now(0), draw: Draw(1) },
            &tally,
            &mut out,
        );
        let Outcome::Reply(length) = outcome else { panic!("no reply") };
        responses.push(out[..length].to_vec());
    }
    responses
}

const STATES: [&[&str]; 8] = [
    &[],
    &["shop."],
    &["shop.", "a.deep.shop."],
    &["*.wild.", "*.free."],
    &["*.", "in.", "c-in.in."],
    &["c-one.", "shop.", "*.shop."],
    &["a.b.c.d.new.", "*.c.d.new."],
    &["c-x.in.", "x.y.in."],
];

#[test]
fn recompile_answers_like_full_compilation() {
    let (zones, options) = (zones(), ServerOptions::default());
    let whole = |desired: &DesiredState| compile(desired, &zones, &options, None).unwrap().0;
    for before in STATES.map(desired) {
        for after in STATES.map(desired) {
            let (anew, _) = recompile(&after, &options, &whole(&before)).unwrap();
            let expected = whole(&after);
            assert_eq!((anew.id(), anew.targets()), (expected.id(), expected.targets()));
            assert!(anew.zones().eq(expected.zones()));
            assert!(responses(anew) == responses(expected), "{:?} after {:?}", after.names, before.names);
        }
    }
}

#[test]
fn pool_with_internal_members_is_compiled_for_public_and_private_zones() {
    let compiled = |inner: Visibility, internal: bool| {
        let mut desired = desired(&["shop.", "shop.in."]);
        let specs = [("example.test", Visibility::Public), ("in.example.test", inner)];
        let specs = specs.map(|(name, visibility)| ZoneSpec { visibility, ..ZoneSpec::new(name.parse().unwrap()) });
        desired.zones = specs.map(|spec| (spec.name.clone(), spec)).into();
        let pool = desired.pools.values_mut().next().unwrap();
        pool.members.iter_mut().for_each(|member| member.internal = internal);
        compile(&desired, &zones(), &ServerOptions::default(), None).unwrap().0
    };
    let pools = |snapshot: &Snapshot| snapshot.steer_pools().len();
    let (public, private) = (compiled(Visibility::Public, true), compiled(Visibility::Private, true));
    assert_eq!([pools(&public), pools(&private)], [1, 2]);
    assert_eq!(pools(&compiled(Visibility::Private, false)), 1, "where nobody is internal, zones are alike");
    assert_ne!(public.id(), private.id());
    let addresses = |snapshot| {
        let responses = answers(snapshot, "shop. shop.in.", &[Rtype::A]);
        responses.iter().map(|octets| octets.windows(4).any(|four| four == [203, 0, 113, 1])).collect::<Vec<_>>()
    };
    assert_eq!(addresses(public), [false, false, false]);
    assert_eq!(addresses(private), [false, true, false]);
}

#[test]
fn dname_in_both_layers_is_written_once() {
    let text = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nd DNAME e\nh.d TXT hidden\na.e CNAME b.h.d\n\
        b.h.e A 192.0.2.2\n";
    let (zone, _) = read_zone(&"example.test".parse().unwrap(), "z", text.as_bytes(), &mut |_| Err("none".into()));
    for names in [&[][..], &["d."], &["*."]] {
        let (snapshot, _) =
            compile(&desired(names), std::slice::from_ref(&zone), &ServerOptions::default(), None).unwrap();
        let response = &answers(snapshot, "a.d.", &[Rtype::A])[0];
        assert_eq!(response[7], 5, "{names:?}");
    }
}

#[test]
fn name_below_foreign_delegation_does_not_affect_zone_below_it() {
    let zone = |origin: &str, more: &str| {
        let text = format!("$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n{more}");
        read_zone(&origin.parse().unwrap(), "z", text.as_bytes(), &mut |_| Err("none".into())).0
    };
    for (more, apex) in [("", "example.test."), ("sub NS ns.sub\nns.sub A 192.0.2.2\n", "deep.sub.example.test.")] {
        let zones = [zone("example.test", more), zone("deep.sub.example.test", "")];
        let (snapshot, _) = compile(&DesiredState::default(), &zones, &ServerOptions::default(), None).unwrap();
        let response = &answers(snapshot, "deep.sub.", &[Rtype::DS])[0];
        let Some(message) = crate::decode(response) else { panic!("a sound response") };
        assert_eq!((message.rcode, message.authority[0].owner.to_string().as_str()), ("NOERROR", apex));
    }
}

#[test]
fn recompile_with_error_fails() {
    let (zones, options) = (zones(), ServerOptions::default());
    let (before, _) = compile(&desired(&["shop."]), &zones, &options, None).unwrap();
    for (name, place) in [("own.", "z:16:1"), ("x.sub.", "z:10:1"), ("y.old.", "z:12:1"), ("c-_s._udp.", "")] {
        let mut desired = desired(&[name]);
        if place.is_empty() {
            desired.names.values_mut().for_each(|steered| steered.pool = PoolName::new("other").unwrap());
        }
        assert!(recompile(&desired, &options, &before).is_err(), "{name}");
        let faults = compile(&desired, &zones, &options, None).unwrap_err();
        assert!(faults.iter().any(|fault| fault.to_string().starts_with(place)), "{faults:?}");
    }
}

#[test]
fn key_that_gives_many_names_one_hash_is_rejected_and_replaced() {
    let options = ServerOptions::default();
    let few: Vec<String> = (0..200).map(|number| format!("n{number}.")).collect();
    let many: Vec<String> = (0..300).map(|number| format!("n{number}.")).collect();
    let steered = |names: &[String]| desired(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let text = |names: &[String]| {
        let records: String = names.iter().map(|name| format!("{name}example.test. IN A 192.0.2.8\n")).collect();
        vec![zone("example.test", &format!("{OUTER}{records}"))]
    };
    let with = |desired, zones: &[ZoneData]| compile_with(NameKey::constant(), &desired, zones, &options, None);
    assert!(with(steered(&few), &text(&[])).is_some(), "slow, but within the bound");
    assert!(with(steered(&many), &text(&[])).is_none(), "steered names");
    assert!(with(steered(&[]), &text(&many)).is_none(), "names of a zone");
    assert!(compile(&steered(&many), &text(&many), &options, None).is_err(), "a name with two owners");
    assert!(compile(&steered(&many), &text(&[]), &options, None).is_ok());
    // A change above an unchanged text keeps its key.
    let (before, _) = with(steered(&few), &text(&[])).unwrap();
    assert!(recompile(&steered(&many), &options, &before).unwrap_err()[0].to_string().contains("neighbouring hashes"));
    let touched = ChangedItems { names: steered(&many).names.keys().cloned().collect(), ..ChangedItems::default() };
    assert!(revise(&steered(&few), &steered(&many), &touched, &options, &before).is_none());
}

#[test]
fn id_and_answers_do_not_depend_on_the_key() {
    let (zones, options) = (zones(), ServerOptions::default());
    let desired = desired(&["shop.", "a.b.free.", "c-alias."]);
    let [one, other] = [(); 2].map(|()| compile(&desired, &zones, &options, None).unwrap().0);
    assert_ne!(one.key().hash(b"\0"), other.key().hash(b"\0"));
    assert_eq!(one.id(), other.id());
    let [one, other] = [one, other].map(|snapshot| answers(snapshot, "shop. link. a.deep.free. none.", &[Rtype::A]));
    assert_eq!(one, other);
}
