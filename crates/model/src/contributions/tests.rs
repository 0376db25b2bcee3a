//! Offers are joined by contribution: who leaves takes only its own share along.

use proptest::prelude::*;

use super::*;
use crate::DesiredState;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn offer(owner: &str, set: &str, address: &str) -> NameContribution {
    NameContribution {
        owner: owner.into(),
        set: set.into(),
        since: 0,
        addresses: vec![address.parse().unwrap()],
        spec: Arc::default(),
        lease_weight: Permille::WHOLE,
    }
}

fn wanting(offer: NameContribution, wanted: ContributedSpec) -> NameContribution {
    NameContribution { spec: Arc::new(wanted), ..offer }
}

fn cluster(name: &str, addresses: &[&str]) -> Cluster {
    Cluster {
        name: ClusterName::new(name).unwrap(),
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        dns_name: None,
        location: None,
        capacity: None,
        services: vec![],
    }
}

fn joined_in(declared: &DesiredState, offers: Vec<NameContribution>, shared: SharedNamePolicy) -> MergedName {
    let shop = name("shop.example");
    let steered = declared.names.get(&shop).and_then(|own| Some((own, declared.pools.get(&own.pool)?)));
    let is_shared =
        steered.is_some_and(|(own, _)| declared.names.values().filter(|of| of.pool == own.pool).count() > 1);
    let clusters = DeclaredClusters::new(declared.clusters.values());
    let held = DeclaredObjects { clusters: &clusters, steered, is_shared };
    merge_name(&shop, offers, shared, &held, PoolName::new("webhook+shop").unwrap())
}

fn joined(offers: Vec<NameContribution>) -> MergedName {
    joined_in(&DesiredState::default(), offers, SharedNamePolicy::Refuse)
}

/// Cluster, weight and tier of each member.
fn members(united: &MergedName) -> Vec<(String, u16, u8)> {
    let members = united.steered.iter().flat_map(|(_, pool)| &pool.members);
    members.map(|member| (member.cluster.to_string(), member.weight.0, member.tier.number())).collect()
}

fn whats(united: &MergedName) -> Vec<String> {
    united.problems.iter().map(|told| format!("{}/{}: {}", told.owner, told.set, told.message)).collect()
}

#[test]
fn two_owners_with_set_identifiers_are_members_of_one_name_and_one_leaves_alone() {
    let (a, b) = (offer("a", "eu", "192.0.2.1"), offer("b", "us", "192.0.2.2"));
    let both = joined(vec![b.clone(), a]);
    assert_eq!(members(&both), [("at+192.0.2.1".to_owned(), 1, 1), ("at+192.0.2.2".to_owned(), 1, 1)]);
    assert_eq!(members(&joined(vec![b])), [("at+192.0.2.2".to_owned(), 1, 1)]);
}

#[test]
fn without_set_identifiers_the_oldest_owner_holds_unless_owners_are_merged() {
    let young = NameContribution { since: 9, ..offer("a", "", "192.0.2.1") };
    let offers = vec![young, offer("b", "", "192.0.2.2"), offer("c", "eu", "192.0.2.3")];
    let refused = joined(offers.clone());
    assert_eq!(members(&refused).len(), 2);
    let what =
        "a/: b contributed shop.example. first; give each owner a set identifier, or set webhook.shared to merge";
    assert_eq!(whats(&refused), [what]);
    assert_eq!(members(&joined_in(&DesiredState::default(), offers, SharedNamePolicy::Merge)).len(), 3);
}

#[test]
fn an_address_of_a_declared_cluster_stands_for_it_and_so_does_its_name() {
    let mut declared = DesiredState::default();
    let eu1 = cluster("eu1", &["192.0.2.1", "2001:db8::1"]);
    declared.clusters.insert(eu1.name.clone(), eu1.clone());
    assert_eq!(members(&joined_in(&declared, vec![offer("a", "", "192.0.2.1")], SharedNamePolicy::Refuse))[0].0, "eu1");
    let named =
        |cluster: &str| ContributedSpec { cluster: ClusterName::new(cluster).ok(), ..ContributedSpec::default() };
    let by_name = wanting(offer("a", "", "192.0.2.9"), named("eu1"));
    assert_eq!(members(&joined_in(&declared, vec![by_name], SharedNamePolicy::Refuse))[0].0, "eu1");
    let unknown =
        joined_in(&declared, vec![wanting(offer("a", "", "192.0.2.9"), named("eu2"))], SharedNamePolicy::Refuse);
    assert_eq!(members(&unknown)[0].0, "at+192.0.2.9");
    assert_eq!(whats(&unknown), ["a/: cluster eu2 is not declared; its addresses are used instead"]);
}

#[test]
fn the_oldest_word_holds_for_the_pool_and_the_smallest_ttl() {
    let ttl = |secs| Ttl::from_secs(secs).ok();
    let failover = Policy { selection: crate::Selection::First, ..Policy::WEIGHTED };
    let old = ContributedSpec { policy: Some(failover.clone()), ttl: ttl(60), ..ContributedSpec::default() };
    let new = ContributedSpec {
        policy: Some(Policy::WEIGHTED),
        ttl: ttl(20),
        weight: Some(Weight(7)),
        ..ContributedSpec::default()
    };
    let young = NameContribution { since: 5, ..wanting(offer("a", "x", "192.0.2.1"), new) };
    let united = joined(vec![young, wanting(offer("b", "y", "192.0.2.2"), old)]);
    let pool = &united.steered.as_ref().unwrap().1;
    assert_eq!((&pool.policy, pool.ttl.secs()), (&failover, 20));
    assert_eq!(whats(&united), ["a/x: policy differs from that of b (set \"y\"), which is older and takes precedence"]);
    assert_eq!(members(&united)[1], ("at+192.0.2.1".to_owned(), 7, 1));
}

#[test]
fn members_join_the_pool_of_a_name_that_is_declared_unless_it_answers_others_too() {
    let mut declared = DesiredState::default();
    let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::WEIGHTED);
    pool.ttl = Ttl::from_secs(5).unwrap();
    declared.pools.insert(pool.name.clone(), pool.clone());
    let steer = |text: &str| (name(text), SteeredName { name: name(text), pool: pool.name.clone(), ttl: None });
    declared.names = [steer("shop.example")].into();
    let wanted = ContributedSpec { ttl: Ttl::from_secs(60).ok(), ..ContributedSpec::default() };
    let offers = vec![wanting(offer("a", "", "192.0.2.1"), wanted)];
    let united = joined_in(&declared, offers.clone(), SharedNamePolicy::Refuse);
    assert_eq!(united.steered.as_ref().unwrap().1.ttl.secs(), 5);
    assert_eq!(members(&united).len(), 1);
    assert_eq!(whats(&united), ["a/: shop.example. is declared with pool shop, whose settings take precedence"]);
    declared.names.extend([steer("www.example")]);
    let united = joined_in(&declared, offers, SharedNamePolicy::Refuse);
    assert!(united.steered.is_none() && whats(&united)[0].contains("answers other names, too"));
}

#[test]
fn who_fades_keeps_a_part_of_its_weight_and_is_gone_at_nothing() {
    let lease_weight = |thousandths| Permille::new(thousandths).unwrap();
    let fading = |thousandths| {
        let b = NameContribution { lease_weight: lease_weight(thousandths), ..offer("b", "us", "192.0.2.2") };
        members(&joined(vec![offer("a", "eu", "192.0.2.1"), b])).into_iter().map(|m| m.1).collect::<Vec<_>>()
    };
    assert_eq!(fading(1000), [1, 1]);
    assert_eq!(fading(300), [1000, 300]);
    assert_eq!(fading(0), [1000]);
}

#[test]
fn ten_thousand_addresses_make_as_many_members_as_a_pool_holds() {
    let addresses = (0..10_000u32).map(|n| IpAddr::from((0x0a00_0000 + n).to_be_bytes())).collect();
    let united = joined(vec![NameContribution { addresses, ..offer("a", "", "192.0.2.1") }]);
    assert_eq!(members(&united).len(), Pool::MEMBERS_MAX);
    assert!(whats(&united)[0].contains("255 members"));
}

#[test]
fn where_all_stand_in_later_tiers_the_earliest_is_first() {
    let tier = |tier| ContributedSpec { tier: Tier::new(tier).ok(), ..ContributedSpec::default() };
    let offers = vec![wanting(offer("a", "x", "192.0.2.1"), tier(3)), wanting(offer("b", "y", "192.0.2.2"), tier(2))];
    assert_eq!(members(&joined(offers)).iter().map(|member| member.2).collect::<Vec<_>>(), [3, 1]);
}

#[test]
fn where_a_weight_comes_from_is_told_of_each_member() {
    let said = ContributedSpec { weight: Some(Weight(60)), ..ContributedSpec::default() };
    let fading =
        NameContribution { lease_weight: Permille::new(500).unwrap(), ..wanting(offer("b", "us", "192.0.2.2"), said) };
    let united = joined(vec![offer("a", "eu", "192.0.2.1"), fading]);
    let told: Vec<_> = united.origins.iter().map(|of| (&*of.owner, of.weight, of.lease_weight.thousandths())).collect();
    assert_eq!(told, [("a", None, 1000), ("b", Some(Weight(60)), 500)]);
    assert_eq!(members(&united).iter().map(|member| member.1).collect::<Vec<_>>(), [1000, 30_000]);
}

/// Returns a name whose only member stands in a region, if any is said.
fn standing(number: u8, address: &str, region: Option<&str>) -> (Name, MergedName) {
    let wanted = ContributedSpec { region: region.map(Arc::from), ..ContributedSpec::default() };
    let (clusters, name) = (DeclaredClusters::default(), name(&format!("n{number}.example")));
    let held = DeclaredObjects { clusters: &clusters, steered: None, is_shared: false };
    let (offers, pool) =
        (vec![wanting(offer("a", "", address), wanted)], PoolName::new(&format!("p{number}")).unwrap());
    (name.clone(), merge_name(&name, offers, SharedNamePolicy::Refuse, &held, pool))
}

#[test]
fn a_region_without_a_point_is_one_and_of_two_the_one_that_more_names_say_holds() {
    let mut united = MergedNames::default();
    let of = |number: u8, region| standing(number, "192.0.2.1", region);
    let said = [of(1, Some("eu")), of(2, Some("us")), of(3, Some("us")), of(4, None)];
    united.change(said.map(|(name, of)| (name, Some(of))));
    let location = united.desired().clusters.values().next().unwrap().location.clone().unwrap();
    assert_eq!((location.region.as_deref(), location.coordinates), (Some("us"), None));
    let disputes = united.disputes();
    let told: Vec<_> = disputes.iter().map(|told| format!("{} {}", told.name, told.message)).collect();
    assert_eq!(told, ["n1.example. these addresses are in region us, by more names"]);
    united.change([(name("n2.example"), None), (name("n3.example"), None)]);
    assert_eq!(
        united.desired().clusters.values().next().unwrap().location.as_ref().unwrap().region.as_deref(),
        Some("eu")
    );
    united.change([1, 4].map(|number| (name(&format!("n{number}.example")), None)));
    assert_eq!(united, MergedNames::default());
}

proptest! {
    #[test]
    fn names_that_change_one_by_one_come_to_what_all_of_them_at_once_do(
        changes in proptest::collection::vec((0..4u8, proptest::option::of((0..3u8, 0..3u8))), 1..20)
    ) {
        let (mut united, mut last) = (MergedNames::default(), BTreeMap::new());
        for (number, said) in changes {
            let region = |region| [None, Some("eu"), Some("us")][usize::from(region)];
            let of = said.map(|(address, said)| standing(number, &format!("192.0.2.{address}"), region(said)).1);
            let name = name(&format!("n{number}.example"));
            last.insert(name.clone(), of.clone());
            united.change([(name, of)]);
        }
        let mut whole = MergedNames::default();
        whole.change(last);
        prop_assert_eq!(united, whole);
    }

    #[test]
    fn the_order_of_offers_does_not_matter(seed in proptest::collection::vec((0..4u8, 0..4u8, 0..9u8, 0..3u64), 0..12)) {
        let mut offers: BTreeMap<(u8, u8), NameContribution> = BTreeMap::new();
        for (owner, set, address, since) in seed {
            let set_text = if set == 0 { String::new() } else { format!("s{set}") };
            let one = NameContribution { since, ..offer(&format!("o{owner}"), &set_text, &format!("192.0.2.{address}")) };
            offers.insert((owner, set), one);
        }
        let forward: Vec<NameContribution> = offers.into_values().collect();
        let backward = forward.iter().rev().cloned().collect();
        prop_assert_eq!(joined(forward), joined(backward));
    }
}
