//! Tests of merging contributions to a name.

use proptest::prelude::*;

use super::*;
use crate::DesiredState;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn contribution(owner: &str, set: &str, address: &str) -> NameContribution {
    NameContribution {
        is_held: false,
        owner: owner.into(),
        hosts: vec![],
        set: set.into(),
        read_in: None,
        since: 0,
        addresses: vec![address.parse().unwrap()],
        spec: Arc::default(),
        lease_weight: Permille::WHOLE,
    }
}

fn with_spec(contribution: NameContribution, spec: ContributedSpec) -> NameContribution {
    NameContribution { spec: Arc::new(spec), ..contribution }
}

fn cluster(name: &str, addresses: &[&str]) -> Cluster {
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    Cluster::new(ClusterName::new(name).unwrap(), addresses)
}

fn merged_with(declared: &DesiredState, contributions: Vec<NameContribution>, shared: SharedNamePolicy) -> MergedName {
    let shop = name("shop.example");
    let steered = declared.names.get(&shop).and_then(|own| Some((own, declared.pools.get(&own.pool)?)));
    let is_shared =
        steered.is_some_and(|(own, _)| declared.names.values().filter(|of| of.pool == own.pool).count() > 1);
    let clusters = DeclaredClusters::new(declared.clusters.values());
    let declared = DeclaredObjects { clusters: &clusters, steered, is_shared, is_closed: false };
    merge_name(&shop, contributions, shared, &declared, PoolName::new("contributed+shop").unwrap())
}

fn merge(contributions: Vec<NameContribution>) -> MergedName {
    merged_with(&DesiredState::default(), contributions, SharedNamePolicy::Refuse)
}

/// Cluster, weight and tier of each member.
fn members(merged: &MergedName) -> Vec<(String, u16, u8)> {
    let members = merged.steered.iter().flat_map(|(_, pool)| &pool.members);
    members.map(|member| (member.cluster.to_string(), member.weight.0, member.tier.number())).collect()
}

fn problems(merged: &MergedName) -> Vec<String> {
    merged.problems.iter().map(|problem| format!("{}/{}: {}", problem.owner, problem.set, problem.message)).collect()
}

#[test]
fn addresses_built_to_share_the_name_of_a_cluster_are_another_one() {
    // Both have the FNV-1a hash a559_9100_5f81_abec, which was part of the name; a lattice of ten dimensions gives such an address in a second.
    let own = ["2001:db8::1", "2001:db8::2"];
    let built = ["2001:db8::1", "2001:db8:bad:762f:5e4c:3149:72b:be0"];
    let cluster = |addresses: [&str; 2]| {
        let addresses = addresses.map(|address| address.parse().unwrap()).to_vec();
        merge(vec![NameContribution { addresses, ..contribution("a", "", "192.0.2.1") }]).clusters[0].name.clone()
    };
    assert_eq!(cluster(own), cluster(own));
    assert_ne!(cluster(own), cluster(built));
}

#[test]
fn host_names_are_clusters_or_those_that_declare_them() {
    let mut declared = DesiredState::default();
    let host = |text: &str| crate::ClusterHost { name: name(text), addresses: [].into() };
    let eu = Cluster { hosts: vec![host("lb-eu.elb.example")], ..cluster("eu", &[]) };
    declared.clusters.insert(eu.name.clone(), eu);
    let of = |hosts: &[&str]| {
        let hosts = hosts.iter().map(|host| name(host)).collect();
        let contribution = NameContribution { addresses: vec![], hosts, ..contribution("a", "x", "192.0.2.1") };
        merged_with(&declared, vec![contribution], SharedNamePolicy::Refuse)
    };
    let merged = of(&["lb-eu.elb.example", "lb-us.elb.example"]);
    assert_eq!(members(&merged), [("eu".to_owned(), 1, 1), ("at+lb-us.elb.example".to_owned(), 1, 1)]);
    assert_eq!(merged.clusters.iter().map(|of| of.host.clone()).collect::<Vec<_>>(), [Some(name("lb-us.elb.example"))]);
    let label = "x".repeat(60);
    let long = ["a", "b"].map(|end| of(&[&format!("{label}.{label}.{label}.{end}.example")]).clusters[0].name.clone());
    assert_ne!(long[0], long[1], "names that are cut differ by their hashes");
}

#[test]
fn set_identifiers_merge_and_are_removed_separately() {
    let (a, b) = (contribution("a", "eu", "192.0.2.1"), contribution("b", "us", "192.0.2.2"));
    let both = merge(vec![b.clone(), a]);
    assert_eq!(members(&both), [("at+192.0.2.1".to_owned(), 1, 1), ("at+192.0.2.2".to_owned(), 1, 1)]);
    assert_eq!(members(&merge(vec![b])), [("at+192.0.2.2".to_owned(), 1, 1)]);
}

#[test]
fn without_set_identifier_the_oldest_owner_wins_unless_merged() {
    let young = NameContribution { since: 9, ..contribution("a", "", "192.0.2.1") };
    let contributions = vec![young, contribution("b", "", "192.0.2.2"), contribution("c", "eu", "192.0.2.3")];
    let refused = merge(contributions.clone());
    assert_eq!(members(&refused).len(), 2);
    let what =
        "a/: b contributed shop.example. first; give each owner a set identifier, or set webhook.shared to merge";
    let older = "b/: younger contributions of a to shop.example. are rejected";
    assert_eq!(problems(&refused), [what, older]);
    assert_eq!(members(&merged_with(&DesiredState::default(), contributions, SharedNamePolicy::Merge)).len(), 3);
}

#[test]
fn declared_cluster_is_found_by_address_and_by_name() {
    let mut declared = DesiredState::default();
    let eu1 = cluster("eu1", &["192.0.2.1", "2001:db8::1"]);
    declared.clusters.insert(eu1.name.clone(), eu1.clone());
    assert_eq!(
        members(&merged_with(&declared, vec![contribution("a", "", "192.0.2.1")], SharedNamePolicy::Refuse))[0].0,
        "eu1"
    );
    let named =
        |cluster: &str| ContributedSpec { cluster: ClusterName::new(cluster).ok(), ..ContributedSpec::default() };
    let by_name = with_spec(contribution("a", "", "192.0.2.9"), named("eu1"));
    assert_eq!(members(&merged_with(&declared, vec![by_name], SharedNamePolicy::Refuse))[0].0, "eu1");
    let unknown = merged_with(
        &declared,
        vec![with_spec(contribution("a", "", "192.0.2.9"), named("eu2"))],
        SharedNamePolicy::Refuse,
    );
    assert_eq!(members(&unknown)[0].0, "at+192.0.2.9");
    assert_eq!(problems(&unknown), ["a/: cluster eu2 is not declared; its addresses are used instead"]);
}

#[test]
fn oldest_policy_and_smallest_ttl_are_used() {
    let ttl = |secs| Ttl::from_secs(secs).ok();
    let failover = Policy { selection: crate::Selection::First, ..Policy::WEIGHTED };
    let old = ContributedSpec { policy: Some(failover.clone()), ttl: ttl(60), ..ContributedSpec::default() };
    let new = ContributedSpec {
        policy: Some(Policy::WEIGHTED),
        ttl: ttl(20),
        weight: Some(Weight(7)),
        ..ContributedSpec::default()
    };
    let young = NameContribution { since: 5, ..with_spec(contribution("a", "x", "192.0.2.1"), new) };
    let merged = merge(vec![young, with_spec(contribution("b", "y", "192.0.2.2"), old)]);
    let pool = &merged.steered.as_ref().unwrap().1;
    assert_eq!((&pool.policy, pool.ttl.secs()), (&failover, 20));
    assert_eq!(
        problems(&merged),
        ["a/x: policy differs from that of b (set \"y\"), which is older and takes precedence"]
    );
    assert_eq!(members(&merged)[1], ("at+192.0.2.1".to_owned(), 7, 1));
}

#[test]
fn webhook_comes_before_what_is_read() {
    let weighing = |weight| ContributedSpec { weight: Some(Weight(weight)), ..ContributedSpec::default() };
    let read =
        NameContribution { read_in: Some("eu".into()), ..with_spec(contribution("k", "x", "192.0.2.1"), weighing(7)) };
    let young = NameContribution { since: 5, ..with_spec(contribution("w", "x", "192.0.2.1"), weighing(3)) };
    let merged = merge(vec![read, young]);
    assert_eq!(members(&merged), [("at+192.0.2.1".to_owned(), 3, 1)], "one member, with the weight of the webhook");
}

#[test]
fn younger_namespace_of_a_cluster_is_refused_and_both_sides_have_a_problem() {
    let read = |namespace: &str, since, set: &str, address| {
        let owner = format!("kubernetes:eu/{namespace}");
        NameContribution { read_in: Some("eu".into()), since, ..contribution(&owner, set, address) }
    };
    let refused = |merged: &MergedName| {
        let refused = merged.problems.iter().filter(|problem| problem.is_refused);
        refused.map(|problem| problem.owner.to_string()).collect::<Vec<_>>()
    };
    let merged = merge(vec![read("evil", 9, "eu", "192.0.2.9"), read("shop", 1, "eu", "192.0.2.1")]);
    assert_eq!(members(&merged), [("at+192.0.2.1".to_owned(), 1, 1)], "another address is no answer either");
    let [younger, older] = &problems(&merged)[..] else { panic!("{merged:?}") };
    assert!(younger.starts_with("kubernetes:eu/evil/eu: kubernetes:eu/shop contributed shop.example. first"));
    assert_eq!(
        older,
        "kubernetes:eu/shop/eu: younger contributions of kubernetes:eu/evil to shop.example. are rejected"
    );
    assert_eq!(refused(&merged), ["kubernetes:eu/evil"]);
    // Other set identifiers are other members, unless these are the same cluster.
    let merged = merge(vec![read("green", 9, "green", "192.0.2.9"), read("blue", 1, "blue", "192.0.2.1")]);
    assert_eq!((members(&merged).len(), problems(&merged).len()), (2, 0));
    let same = (0..5).map(|n| read(&format!("n{n}"), n, &format!("s{n}"), "192.0.2.1")).collect();
    let merged = merge(same);
    assert_eq!((members(&merged).len(), refused(&merged).len()), (1, 4));
    let older = problems(&merged).pop().unwrap();
    assert!(older.contains("of kubernetes:eu/n1, kubernetes:eu/n2, kubernetes:eu/n3 and 1 more to"), "{older}");
}

#[test]
fn members_join_a_declared_pool_unless_it_is_shared() {
    let mut declared = DesiredState::default();
    let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::WEIGHTED);
    pool.ttl = Ttl::from_secs(5).unwrap();
    declared.pools.insert(pool.name.clone(), pool.clone());
    let steer = |text: &str| (name(text), SteeredName { name: name(text), pool: pool.name.clone(), ttl: None });
    declared.names = [steer("shop.example")].into();
    let spec = ContributedSpec { ttl: Ttl::from_secs(60).ok(), ..ContributedSpec::default() };
    let contributions = vec![with_spec(contribution("a", "", "192.0.2.1"), spec)];
    let merged = merged_with(&declared, contributions.clone(), SharedNamePolicy::Refuse);
    assert_eq!(merged.steered.as_ref().unwrap().1.ttl.secs(), 5);
    assert_eq!(members(&merged).len(), 1);
    assert_eq!(problems(&merged), ["a/: shop.example. is declared with pool shop, whose settings take precedence"]);
    declared.names.extend([steer("www.example")]);
    let merged = merged_with(&declared, contributions, SharedNamePolicy::Refuse);
    assert!(merged.steered.is_none() && problems(&merged)[0].contains("answers other names, too"));
}

#[test]
fn lease_weight_scales_the_weight_and_zero_removes_the_member() {
    let lease_weight = |thousandths| Permille::new(thousandths).unwrap();
    let fading = |thousandths| {
        let b = NameContribution { lease_weight: lease_weight(thousandths), ..contribution("b", "us", "192.0.2.2") };
        members(&merge(vec![contribution("a", "eu", "192.0.2.1"), b])).into_iter().map(|m| m.1).collect::<Vec<_>>()
    };
    assert_eq!(fading(1000), [1, 1]);
    assert_eq!(fading(300), [1000, 300]);
    assert_eq!(fading(0), [1000]);
}

#[test]
fn addresses_over_the_limit_of_members_are_rejected() {
    let addresses = (0..10_000u32).map(|n| IpAddr::from((0x0a00_0000 + n).to_be_bytes())).collect();
    let merged = merge(vec![NameContribution { addresses, ..contribution("a", "", "192.0.2.1") }]);
    assert_eq!(members(&merged).len(), Pool::MEMBERS_MAX);
    assert!(problems(&merged)[0].contains("255 members"));
}

#[test]
fn smallest_tier_becomes_the_first() {
    let tier = |tier| ContributedSpec { tier: Tier::new(tier).ok(), ..ContributedSpec::default() };
    let contributions = vec![
        with_spec(contribution("a", "x", "192.0.2.1"), tier(3)),
        with_spec(contribution("b", "y", "192.0.2.2"), tier(2)),
    ];
    assert_eq!(members(&merge(contributions)).iter().map(|member| member.2).collect::<Vec<_>>(), [3, 1]);
}

#[test]
fn origin_of_each_weight_is_kept() {
    let spec = ContributedSpec { weight: Some(Weight(60)), ..ContributedSpec::default() };
    let fading = NameContribution {
        lease_weight: Permille::new(500).unwrap(),
        ..with_spec(contribution("b", "us", "192.0.2.2"), spec)
    };
    let merged = merge(vec![contribution("a", "eu", "192.0.2.1"), fading]);
    let origins: Vec<_> =
        merged.origins.iter().map(|of| (&*of.owner, of.weight, of.lease_weight.thousandths())).collect();
    assert_eq!(origins, [("a", None, 1000), ("b", Some(Weight(60)), 500)]);
    assert_eq!(members(&merged).iter().map(|member| member.1).collect::<Vec<_>>(), [1000, 30_000]);
}

/// Returns a name with one member, in this region if one is given.
fn name_in_region(number: u8, address: &str, region: Option<&str>) -> (Name, MergedName) {
    let spec = ContributedSpec { region: region.map(Arc::from), ..ContributedSpec::default() };
    let (clusters, name) = (DeclaredClusters::default(), name(&format!("n{number}.example")));
    let declared = DeclaredObjects { clusters: &clusters, steered: None, is_shared: false, is_closed: false };
    let (contributions, pool) =
        (vec![with_spec(contribution("a", "", address), spec)], PoolName::new(&format!("p{number}")).unwrap());
    (name.clone(), merge_name(&name, contributions, SharedNamePolicy::Refuse, &declared, pool))
}

#[test]
fn region_of_most_names_is_used() {
    let mut merged = MergedNames::default();
    let of = |number: u8, region| name_in_region(number, "192.0.2.1", region);
    let names = [of(1, Some("eu")), of(2, Some("us")), of(3, Some("us")), of(4, None)];
    merged.change(names.map(|(name, of)| (name, Some(of))));
    let location = merged.desired().clusters.values().next().unwrap().location.clone().unwrap();
    assert_eq!((location.region.as_deref(), location.coordinates), (Some("us"), None));
    let disputes = merged.disputes();
    let messages: Vec<_> = disputes.iter().map(|problem| format!("{} {}", problem.name, problem.message)).collect();
    assert_eq!(messages, ["n1.example. these addresses are in region us, by more names"]);
    merged.change([(name("n2.example"), None), (name("n3.example"), None)]);
    assert_eq!(
        merged.desired().clusters.values().next().unwrap().location.as_ref().unwrap().region.as_deref(),
        Some("eu")
    );
    merged.change([1, 4].map(|number| (name(&format!("n{number}.example")), None)));
    assert_eq!(merged, MergedNames::default());
}

proptest! {
    #[test]
    fn changes_one_by_one_equal_one_change_of_all(
        changes in proptest::collection::vec((0..4u8, proptest::option::of((0..3u8, 0..3u8))), 1..20)
    ) {
        let (mut merged, mut last) = (MergedNames::default(), BTreeMap::new());
        for (number, change) in changes {
            let region = |region| [None, Some("eu"), Some("us")][usize::from(region)];
            let of = change.map(|(address, region_number)| name_in_region(number, &format!("192.0.2.{address}"), region(region_number)).1);
            let name = name(&format!("n{number}.example"));
            last.insert(name.clone(), of.clone());
            merged.change([(name, of)]);
        }
        let mut whole = MergedNames::default();
        whole.change(last);
        prop_assert_eq!(merged, whole);
    }

    #[test]
    fn order_of_contributions_does_not_matter(seed in proptest::collection::vec((0..4u8, 0..4u8, 0..9u8, 0..3u64), 0..12)) {
        let mut contributions: BTreeMap<(u8, u8), NameContribution> = BTreeMap::new();
        for (owner, set, address, since) in seed {
            let set_text = if set == 0 { String::new() } else { format!("s{set}") };
            let one = NameContribution { since, ..contribution(&format!("o{owner}"), &set_text, &format!("192.0.2.{address}")) };
            contributions.insert((owner, set), one);
        }
        let forward: Vec<NameContribution> = contributions.into_values().collect();
        let backward = forward.iter().rev().cloned().collect();
        prop_assert_eq!(merge(forward), merge(backward));
    }
}
