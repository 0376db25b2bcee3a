use std::{fs, sync::Arc};

use arc_swap::ArcSwap;
use fairway_model::{ClusterName, Health, HealthStatus, Shares, Timestamp};
use fairway_providers::publish::Ownership;
use fairway_zonefile::rdata_text;
use fairway_zones::{RuntimeState, TargetIndex};

use super::{
    super::destinations::{DECLARED_MAX, destinations},
    *,
};
use crate::{configured::Compiled, declared::Declared, reader::Reader, reloads::ReloadScope};
use fairway_config::Source;
use fairway_store::objects::{Author, Key, Kind, Object};

/// A configuration as it is served, with health that the test sets.
struct Scene {
    configured: Configured,
    state: ServingState,
    weights: PublishedWeights,
}

const CLUSTERS: &str = "
clusters:
  - { name: eu1, addresses: [203.0.113.10, \"2001:db8::10\"] }
  - { name: us1, addresses: [203.0.113.20] }
  - { name: ap1, addresses: [203.0.113.30] }
";

impl Scene {
    /// Returns a scene with clusters, `shop.gslb.example` with a pool of these fields, and a provider with these fields.
    fn of(pool: &str, provider: &str) -> Self {
        Self::new(&format!(
            "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
{CLUSTERS}
pools: [{{ name: shop, ttl: 20s, {pool} }}]
names: [{{ name: shop.gslb.example, pool: shop }}]
publish: {{ providers: [{{ name: p, file: p.zone, zones: [gslb.example, example.org], {provider} }}] }}
"
        ))
    }

    fn new(config: &str) -> Self {
        Self::with(config, Declared::default())
    }

    /// Returns a scene with declared objects.
    fn with(config: &str, declared: Declared) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fairway.yaml");
        fs::write(&file, format!("version: 1\n{config}")).unwrap();
        let declared = Arc::new(ArcSwap::from_pointee(declared));
        let reader = Reader { declared, ..Reader::new(Source::Path(file), Arc::new(|_| None)) };
        let reading = reader.read_here(ReloadScope::Files, None, Timestamp::from_secs(1));
        let Compiled { configured, snapshot, .. } = reading.outcome.unwrap_or_else(|errors| panic!("{errors:#?}"));
        let runtime = RuntimeState::new(&snapshot, |_| Health::new(HealthStatus::Up, None));
        let state = ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) };
        Self { configured, state, weights: PublishedWeights::default() }
    }

    /// Sets the health status of these clusters.
    fn set_status(&mut self, clusters: &[&str], status: HealthStatus) {
        let clusters: Vec<ClusterName> = clusters.iter().map(|name| ClusterName::new(name).unwrap()).collect();
        let numbers = (0..self.state.snapshot.targets().len() as u32).map(TargetIndex);
        let is_affected = |number: &TargetIndex| {
            self.configured.uses.clusters(*number).iter().any(|cluster| clusters.contains(cluster))
        };
        let changes: Vec<_> = numbers.filter(is_affected).map(|number| (number, Health::new(status, None))).collect();
        assert!(!changes.is_empty());
        self.state.runtime = Arc::new(self.state.runtime.with(&self.state.snapshot, &changes));
    }

    fn wanted(&mut self, weights: Option<Weights>) -> Wanted {
        let to = &self.configured.settings.publish[0];
        let sources = Sources { configured: &self.configured, state: &self.state, weights, now: Instant::now() };
        let wanted = wanted(to, sources, &mut self.weights);
        self.weights.end_round();
        wanted
    }

    /// Returns the wanted sets as text, and the held names.
    fn wanted_text(&mut self) -> (Vec<String>, Vec<String>) {
        let wanted = self.wanted(None);
        (wanted.sets.iter().map(text).collect(), wanted.held.iter().map(ToString::to_string).collect())
    }

    fn weighted_text(&mut self) -> Vec<String> {
        self.wanted(Some(Weights::Aws)).sets.iter().map(text).collect()
    }
}

fn text(set: &ProviderRecordSet) -> String {
    let ProviderRecordSet { set, set_identifier, properties } = set;
    let records: Vec<_> = set.rdatas.iter().map(|rdata| rdata_text(set.rtype, rdata)).collect();
    let weight =
        properties.iter().map(|(field, value)| format!(" {set_identifier} {field}={value}")).collect::<String>();
    format!("{} {} {} {}{weight}", set.name, set.ttl.secs(), set.rtype, records.join(" "))
}

const BOTH: &str = "policy: weighted, members: [{ cluster: eu1, weight: 60 }, { cluster: us1, weight: 40 }]";

#[test]
fn addresses_that_are_up_are_published_in_both_families() {
    let mut scene = Scene::of(BOTH, "");
    let both = "shop.gslb.example. 20 A 203.0.113.10 203.0.113.20";
    let six = "shop.gslb.example. 20 AAAA 2001:db8::10";
    assert_eq!(scene.wanted_text(), (vec![both.to_owned(), six.to_owned()], vec![]));
    scene.set_status(&["eu1"], HealthStatus::Down);
    assert_eq!(scene.wanted_text().0, ["shop.gslb.example. 20 A 203.0.113.20"]);
    // A target of unknown status stays published.
    scene.set_status(&["eu1"], HealthStatus::Unknown);
    assert_eq!(scene.wanted_text().0, [both, six]);
}

#[test]
fn name_without_available_member_is_held() {
    let mut scene = Scene::of(BOTH, "aliases: [{ name: www.example.org, of: shop.gslb.example, as: addresses }]");
    for status in [HealthStatus::Down, HealthStatus::Pending] {
        scene.set_status(&["eu1", "us1"], status);
        let (sets, held) = scene.wanted_text();
        assert_eq!((sets.len(), held), (0, vec!["shop.gslb.example.".to_owned(), "www.example.org.".to_owned()]));
        let weighted = scene.wanted(Some(Weights::Aws));
        assert_eq!((weighted.sets.len(), weighted.held.len()), (0, 2));
    }
}

#[test]
fn best_available_tier_is_published_and_standbys_only_without_it() {
    let members = "policy: weighted, members: [{ cluster: eu1, tier: 1 }, { cluster: us1, tier: 2 }, { cluster: ap1, weight: 0 }]";
    let mut scene = Scene::of(members, "");
    let four = |scene: &mut Scene| scene.wanted_text().0.into_iter().find(|set| set.contains(" A ")).unwrap();
    assert_eq!(four(&mut scene), "shop.gslb.example. 20 A 203.0.113.10");
    scene.set_status(&["eu1"], HealthStatus::Down);
    assert_eq!(four(&mut scene), "shop.gslb.example. 20 A 203.0.113.20");
    scene.set_status(&["us1"], HealthStatus::Down);
    assert_eq!(four(&mut scene), "shop.gslb.example. 20 A 203.0.113.30");
}

#[test]
fn failover_publishes_the_first_available_member() {
    let mut scene = Scene::of("policy: failover, members: [{ cluster: us1 }, { cluster: ap1 }]", "");
    assert_eq!(scene.wanted_text().0, ["shop.gslb.example. 20 A 203.0.113.20"]);
    scene.set_status(&["us1"], HealthStatus::Down);
    assert_eq!(scene.wanted_text().0, ["shop.gslb.example. 20 A 203.0.113.30"]);
}

#[test]
fn internal_members_and_members_for_some_networks_are_not_published() {
    let members = "policy: weighted, members: [{ cluster: eu1, networks: [192.0.2.0/24] }, { cluster: us1 }, { cluster: ap1, internal: true }]";
    assert_eq!(Scene::of(members, "").wanted_text().0, ["shop.gslb.example. 20 A 203.0.113.20"]);
}

#[test]
fn aliases_are_cnames_or_addresses_and_are_held_without_their_name() {
    let aliases = "steered: false, aliases: [
      { name: a.example.org, of: shop.gslb.example },
      { name: b.example.org, of: shop.gslb.example, as: addresses },
      { name: c.example.org, of: gone.gslb.example }]";
    let mut scene = Scene::of("policy: weighted, members: [{ cluster: us1 }]", aliases);
    let sets = ["a.example.org. 20 CNAME shop.gslb.example.", "b.example.org. 20 A 203.0.113.20"];
    assert_eq!(scene.wanted_text(), (sets.map(str::to_owned).to_vec(), vec!["c.example.org.".to_owned()]));
    // A CNAME stays, whatever the health: its target is answered by this server.
    scene.set_status(&["us1"], HealthStatus::Down);
    assert_eq!(scene.wanted_text().0, sets[..1]);
}

#[test]
fn names_outside_the_zones_of_a_provider_are_not_published() {
    let mut scene = Scene::new(&format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
{CLUSTERS}
pools: [{{ name: shop, policy: weighted, members: [{{ cluster: us1 }}] }}]
names: [{{ name: shop.gslb.example, pool: shop }}]
publish: {{ providers: [{{ name: p, file: p.zone, zones: [example.org] }}] }}
"
    ));
    assert_eq!(scene.wanted_text(), (vec![], vec![]));
}

#[test]
fn provider_with_weights_gets_one_set_per_cluster() {
    let mut scene = Scene::of(BOTH, "");
    let eu =
        ["A 203.0.113.10", "AAAA 2001:db8::10"].map(|set| format!("shop.gslb.example. 20 {set} eu1 aws/weight=60"));
    let us = "shop.gslb.example. 20 A 203.0.113.20 us1 aws/weight=40".to_owned();
    assert_eq!(scene.weighted_text(), [eu[0].clone(), eu[1].clone(), us.clone()]);
    scene.set_status(&["eu1"], HealthStatus::Down);
    assert_eq!(scene.weighted_text(), [us]);
}

#[test]
fn parts_of_the_demand_are_weights_of_load_balanced_pools_only() {
    let members = "members: [{ cluster: us1 }, { cluster: ap1 }]";
    for (policy, weights) in [("[load, weighted]", ["51", "255"]), ("weighted", ["1", "1"])] {
        let mut scene = Scene::of(&format!("policy: {policy}, {members}"), "");
        let parts = [("us1", 10_000), ("ap1", 50_000)].map(|(name, part)| (name.parse().unwrap(), part));
        let shares = Shares { parts: parts.into(), ..Shares::default() };
        let state = &mut scene.state;
        state.runtime = Arc::new(state.runtime.with_shares(&state.snapshot, &Arc::new(shares)));
        let sets = scene.weighted_text();
        let [us, ap] = weights.map(|weight| format!("aws/weight={weight}"));
        assert!(sets[0].ends_with(&us) && sets[1].ends_with(&ap), "{sets:?}");
    }
}

#[test]
fn served_zone_is_delegated_with_its_servers_glue_and_keys() {
    let zone = "
$ORIGIN sub.example.org.
$TTL 300
@ SOA ns1 admin 1 3600 600 86400 60
@ NS ns1
@ NS ns.elsewhere.example.
@ CDS 12345 13 2 E2D3C916F6DEEAC73294E8268FB5885044A833FC5459588F4A9184CFC41A5766
ns1 A 203.0.113.53
ns1 AAAA 2001:db8::53
";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sub.zone");
    fs::write(&path, zone).unwrap();
    let config = |ds: &str, of: &str| {
        format!(
            "zones: [{{ name: sub.example.org, file: {} }}]
publish: {{ providers: [{{ name: p, file: p.zone, zones: [example.org], delegations: [{{ zone: {of}, {ds} ttl: 2h }}] }}] }}
",
            path.display()
        )
    };
    let digest = "E2D3C916F6DEEAC73294E8268FB5885044A833FC5459588F4A9184CFC41A5766";
    let (sets, held) = Scene::new(&config("", "sub.example.org")).wanted_text();
    let ds = |tag: &str| format!("sub.example.org. 7200 DS {tag} 13 2 {digest}").to_lowercase();
    assert_eq!(sets[0].to_lowercase(), ds("12345"));
    assert_eq!(
        sets[1..],
        [
            "ns1.sub.example.org. 7200 A 203.0.113.53",
            "ns1.sub.example.org. 7200 AAAA 2001:db8::53",
            "sub.example.org. 7200 NS ns.elsewhere.example. ns1.sub.example.org.",
        ]
    );
    assert!(held.is_empty());
    let given = Scene::new(&config(&format!("ds: [\"1 13 2 {digest}\"], "), "sub.example.org")).wanted_text().0;
    assert_eq!(given[0].to_lowercase(), ds("1"));
    // The delegation of a zone that is not served is held.
    let other = Scene::new(&config("", "other.example.org")).wanted_text();
    assert_eq!(other, (vec![], vec!["other.example.org.".to_owned()]));
}

#[test]
fn published_addresses_are_limited() {
    let addresses: Vec<_> = (1..=8).map(|last| format!("203.0.113.{last}")).collect();
    let clusters = (0..5u8).map(|number| {
        let addresses = addresses.iter().map(|text| text.replace("113", &number.to_string()));
        format!("  - {{ name: c{number}, addresses: [{}] }}\n", addresses.collect::<Vec<_>>().join(", "))
    });
    let members: Vec<_> = (0..5u8).map(|number| format!("{{ cluster: c{number} }}")).collect();
    let mut scene = Scene::new(&format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
clusters:
{}
pools: [{{ name: shop, policy: weighted, members: [{}] }}]
names: [{{ name: shop.gslb.example, pool: shop }}]
publish: {{ providers: [{{ name: p, file: p.zone, zones: [gslb.example] }}] }}
",
        clusters.collect::<String>(),
        members.join(", ")
    ));
    assert_eq!(scene.wanted(None).sets[0].set.rdatas.len(), ADDRESSES_MAX);
}

/// Declares an inbound intent of a project for a name, created at `second`.
fn declare_intent(declared: &mut Declared, project: &str, intent: &str, service: &str, name: &str, second: u64) {
    let body = format!(
        "{{\"metadata\": {{\"name\": \"{intent}\"}}, \"spec\": {{\"app\": \"a\", \"serviceName\": \"{service}\",
          \"externalSupport\": true, \"externalName\": \"{name}\"}}}}"
    );
    declare(declared, Kind::Inbound, &[project, "a", "v1", "default", "default", intent], body, second);
}

/// Declares an object, created at `second`.
fn declare(declared: &mut Declared, kind: Kind, names: &[&str], body: String, second: u64) {
    let (key, at) = (Key::new(kind, names).unwrap(), Timestamp::from_secs(second));
    let (value, by) = (body.into_bytes().into(), Author::default());
    let object = Object { key: key.clone(), value, revision: 1, generation: 1, created: at, changed: at, by };
    declared.put(&key, Some(object));
}

#[test]
fn published_records_are_limited() {
    let mut declared = Declared::default();
    let body = |record: &str, host: &str| {
        format!(
            "{{\"metadata\": {{\"name\": \"{record}\"}}, \"spec\": {{\"provider\": \"rfc2136\", \"parameters\": {{
              \"rfc2136-host\": \"{host}\", \"rfc2136-zone\": \"example.org\", \"rfc2136-insecure\": \"true\"}}}}}}"
        )
    };
    // An invalid record does not count.
    let valid = (1..=DECLARED_MAX + 1).map(|number| (number, "192.0.2.53"));
    for (number, host) in std::iter::once((0, "nowhere")).chain(valid) {
        let record = format!("r{number:04}");
        declare(&mut declared, Kind::DnsUpdateRecord, &["p", &record], body(&record, host), 1);
    }
    let scene = Scene::with(
        "zones: [{ name: gslb.example, ns: [ns1.example.net] }]
publish: { owner: us, providers: [{ name: p, file: p.zone, zones: [gslb.example] }] }
",
        declared,
    );
    let all = destinations(&scene.configured);
    assert_eq!((all.len(), &*all[0].1.name, &*all[1].1.name), (1 + DECLARED_MAX, "p", "p/r0001"));
    let Ownership::Txt { owner, .. } = &all[1].1.rules.ownership else { panic!("expected a registry of TXT records") };
    assert_eq!(owner, "us/p/r0001", "each record has its own owner id");
}

#[test]
fn project_publishes_the_names_that_its_intents_hold() {
    let mut declared = Declared::default();
    for (project, intent, service, name) in [
        ("p", "shop", "all", "shop.gslb.example"),
        ("p", "deep", "all", "a.b.gslb.example"),
        ("p", "other", "all", "other.example.org"),
        ("p", "lost", "nobody", "lost.gslb.example"),
        ("p", "files", "all", "files.gslb.example"),
        ("q", "pay", "all", "pay.gslb.example"),
        ("pp", "mail", "all", "mail.gslb.example"),
    ] {
        declare_intent(&mut declared, project, intent, service, name, 1);
    }
    // The older intent of another project holds the name.
    declare_intent(&mut declared, "p", "late", "all", "pay.gslb.example", 2);
    let config = "zones: [{ name: gslb.example, ns: [ns1.example.net] }, { name: example.org, ns: [ns1.example.net] }]
monitors: [{ name: unchecked, type: always }]
clusters: [{ name: us1, addresses: [203.0.113.20], services: [all] }]
pools: [{ name: own, policy: weighted, monitor: unchecked, members: [{ cluster: us1 }] }]
names: [{ name: files.gslb.example, pool: own }]
publish: { providers: [{ name: p, file: p.zone, zones: [gslb.example] }] }
";
    let mut scene = Scene::with(config, declared);
    let mut published = |within: &[&str], without: &[&str]| {
        let names = |texts: &[&str]| -> Vec<Name> { texts.iter().map(|text| text.parse().unwrap()).collect() };
        let (within, without) = (names(within), names(without));
        scene.configured.settings.publish[0].steered = Steered::OfProject { project: "p".to_owned(), within, without };
        let (sets, held) = scene.wanted_text();
        let names: Vec<_> = sets.iter().map(|set| set.split(' ').next().unwrap().to_owned()).collect();
        (names, held)
    };
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let lost = owned(&["lost.gslb.example."]);
    assert_eq!(published(&[], &[]), (owned(&["a.b.gslb.example.", "shop.gslb.example."]), lost.clone()));
    assert_eq!(published(&["b.gslb.example"], &[]), (owned(&["a.b.gslb.example."]), vec![]));
    assert_eq!(published(&[], &["b.gslb.example"]), (owned(&["shop.gslb.example."]), lost));
    assert_eq!(published(&["shop.gslb.example"], &["shop.gslb.example"]), (vec![], vec![]));
}
