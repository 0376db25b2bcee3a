//! Weights and endpoints of the members of a pool `shop` with the name `shop.test`.

use fairway_contributions::{ReadRow, Row};
use fairway_model::{Cluster, Policy, SteeredName};
use fairway_providers::Endpoint;

use super::*;
use crate::{
    objects::Kind,
    splits::{Place, Split, SplitPart},
};

fn cluster(name: &str) -> ClusterName {
    ClusterName::new(name).unwrap()
}

/// A pool `shop` with members `a` to `d` of weight 10.
fn state(by_pods: bool) -> DesiredState {
    let mut desired = DesiredState::default();
    let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::WEIGHTED);
    pool.weight_by_pods = by_pods;
    for name in ["a", "b", "c", "d"] {
        desired.clusters.insert(cluster(name), Cluster::new(cluster(name), vec![]));
        pool.members.push(Member { weight: Weight(10), ..Member::new(cluster(name)) });
    }
    let steered = SteeredName { name: "shop.test".parse().unwrap(), pool: pool.name.clone(), ttl: None };
    desired.names.insert(steered.name.clone(), steered);
    desired.pools.insert(pool.name.clone(), pool);
    desired
}

/// Returns what an object of a namespace declares: an address, a text, or nothing that can be served.
fn endpoint(namespace: &str) -> Endpoint {
    let (record_type, target) = match namespace {
        "text" => ("TXT", "a text"),
        "wrong" => ("A", "no address"),
        _ => ("A", "192.0.2.1"),
    };
    Endpoint {
        dns_name: "shop.test".to_owned(),
        record_type: record_type.to_owned(),
        targets: vec![target.to_owned()],
        ..Endpoint::default()
    }
}

/// `ready` of each cluster: `-` not exposed, `?` unknown, else a number, of several rows with `+`; `evil` before it for a namespace
/// without a grant, and for two with one that declare no member. Clusters after the list are not read.
fn found(ready: &[&str]) -> Found {
    let of = |(name, ready): (&str, &&str)| {
        let mut found = FoundCluster::default();
        let row = |ready: &str, namespace: &str| FoundRow {
            owner: format!("kubernetes:{name}/{namespace}").into(),
            tenant: Arc::new(Tenant::Namespace { cluster: name.to_owned(), namespace: namespace.to_owned() }),
            object: ObjectKey::new(Kind::Service, namespace, "web"),
            row: Arc::new(ReadRow::new(Row { since: 1, endpoint: endpoint(namespace), held: None })),
            ready: ready.parse().ok(),
            split: None,
            services: Arc::default(),
        };
        let rows: Vec<_> = match ready.strip_prefix("evil") {
            Some(ready) => vec![row(ready, "evil"), row(ready, "text"), row(ready, "wrong")],
            None => ready.split('+').filter(|ready| *ready != "-").map(|ready| row(ready, "shop")).collect(),
        };
        if !rows.is_empty() {
            found.names.insert("shop.test".into(), Arc::new(FoundName { rows: rows.into() }));
        }
        (cluster(name), Arc::new(found))
    };
    ["a", "b", "c", "d"].into_iter().zip(ready).map(of).collect()
}

/// Returns each member's weight, with `!` if it is taken out.
fn weighed(by_pods: bool, ready: &[&str]) -> String {
    weigh(&mut state(by_pods), &found(ready), |_| false).1
}

/// Weighs the pool. Returns the origins of its weights, and each member's weight, with `!` if it is taken out. The gateways of `a` to `d`
/// are 192.0.2.1 to 192.0.2.4, and `a.gw.test` to `d.gw.test`.
fn weigh(desired: &mut DesiredState, found: &Found, is_unweighted: impl Fn(&str) -> bool) -> (PoolWeights, String) {
    let (name, pool): (Name, _) = ("shop.test".parse().unwrap(), PoolName::new("shop").unwrap());
    let evil = |tenant: &Tenant| matches!(tenant, Tenant::Namespace { namespace, .. } if namespace == "evil");
    let clusters = ["a", "b", "c", "d"].into_iter().zip(1..).map(|(name, number)| {
        let host = format!("{name}.gw.test").parse().unwrap();
        let hosts = vec![fairway_model::ClusterHost { name: host, addresses: Arc::default() }];
        Cluster { hosts, ..Cluster::new(cluster(name), vec![[192, 0, 2, number].into()]) }
    });
    let clusters: Vec<_> = clusters.collect();
    let by = Weighing {
        found,
        clusters: &DeclaredClusters::new(&clusters),
        names: &|_| vec![&name],
        is_granted: &|tenant, _, _| !evil(tenant),
        is_unweighted: &|_, cluster| is_unweighted(cluster.as_str()),
    };
    let weights = weigh_members(desired, [pool.clone()], &by).get(&pool).cloned().unwrap_or_default();
    let members = desired.pools.get(&pool).unwrap().members.iter();
    let shown = members.map(|of| format!("{}{}", of.weight.0, if of.monitor.is_some() { "!" } else { "" }));
    let shown = shown.collect::<Vec<_>>().join(" ");
    (weights, shown)
}

#[test]
fn member_without_a_ready_endpoint_is_taken_out() {
    for (ready, expected) in [
        (&["1", "0"][..], "10 10! 10 10"),
        (&["3", "-", "?"], "10 10! 10 10"),
        (&["0", "0", "0", "0"], "10! 10! 10! 10!"),
        (&["-", "-"], "10 10 10 10"),
        (&["?", "-"], "10 10! 10 10"),
        (&["0+?", "0+2"], "10 10 10 10"),
        (&["-", "evil3"], "10 10 10 10"),
        (&["0", "evil3"], "10! 10! 10 10"),
        (&[], "10 10 10 10"),
    ] {
        assert_eq!(weighed(false, ready), expected, "{ready:?}");
    }
}

#[test]
fn services_have_a_capacity_by_ready_pods() {
    let capacities = |policy: Policy, ready: &[&str]| {
        let (mut desired, shop) = (state(false), PoolName::new("shop").unwrap());
        let pool = desired.pools.get_mut(&shop).unwrap();
        (pool.policy, pool.capacity_per_pod) = (policy, Some(10));
        weigh(&mut desired, &found(ready), |_| false);
        let members = desired.pools.get(&shop).unwrap().members.iter();
        members.map(|member| member.service.as_ref().map_or(0, |of| of.capacity)).collect::<Vec<_>>()
    };
    let load = || Policy { load: true, ..Policy::WEIGHTED };
    assert_eq!(capacities(load(), &["3", "0", "?", "1"]), [30, 10, 20, 10]);
    assert_eq!(capacities(load(), &["?", "-"]), [0; 4], "no number is known");
    assert_eq!(capacities(Policy::WEIGHTED, &["3", "1"]), [0; 4], "the policy has no load");
}

#[test]
fn weights_are_multiplied_by_ready_pods() {
    for (ready, expected) in [
        (&["3", "1"][..], "30 10 20 20"),
        (&["3+2", "1+?", "evil9"], "30 10 20! 20"),
        (&["3", "1", "2", "0"], "30 10 20 10!"),
        (&["?", "4"], "40 40 40 40"),
        (&["0", "0"], "10! 10! 10 10"),
        (&["9000", "1", "1", "1"], "65535 7 7 7"),
    ] {
        assert_eq!(weighed(true, ready), expected, "{ready:?}");
    }
}

/// Returns a split of an object that was created at a time. Each backend is `WEIGHT READY PLACE`: `-` for the cluster of the object, else
/// addresses of 192.0.2.0/24 by their last numbers, or a host name.
fn split(created: u64, object: &str, is_weighted: bool, backends: &[&str]) -> Split {
    let part = |backend: &&str| {
        let fields: Vec<&str> = backend.split(' ').collect();
        let addresses: Option<Box<[_]>> =
            fields[2].split(',').map(|number| Some([192, 0, 2, number.parse().ok()?].into())).collect();
        let host = || fields[2].parse().ok().filter(|_| fields[2] != "-").map(Place::Host);
        let place = addresses.map(Place::Addresses).or_else(host);
        SplitPart { weight: fields[0].parse().unwrap(), ready: fields[1].parse().ok(), place }
    };
    Split { created, object: object.parse().unwrap(), is_weighted, parts: backends.iter().map(part).collect() }
}

/// Returns the findings `3` in the first four clusters, with splits of namespaces of clusters in further rows.
fn with_splits(splits: &[(&str, &str, Split)]) -> Found {
    let mut found = found(&["3", "3", "3", "3"]);
    for (name, namespace, split) in splits {
        let of_cluster = Arc::make_mut(found.get_mut(&cluster(name)).unwrap());
        let before = of_cluster.names.get("shop.test").unwrap();
        let mut rows = before.rows.to_vec();
        let is_only = rows[0].split.is_none() && *namespace == "shop";
        let row = FoundRow {
            owner: format!("kubernetes:{name}/{namespace}").into(),
            tenant: Arc::new(Tenant::Namespace { cluster: (*name).to_owned(), namespace: (*namespace).to_owned() }),
            split: Some(Arc::new(split.clone())),
            ..rows[0].clone()
        };
        if is_only {
            rows[0] = row;
        } else {
            rows.push(row);
        }
        of_cluster.names.insert("shop.test".into(), Arc::new(FoundName { rows: rows.into() }));
    }
    found
}

/// Returns a state whose members have the weight 1.
fn unweighted() -> DesiredState {
    let mut desired = state(false);
    let pool = desired.pools.get_mut(&PoolName::new("shop").unwrap()).unwrap();
    pool.members.iter_mut().for_each(|member| member.weight = Weight(1));
    desired
}

#[test]
fn weights_of_backends_at_other_gateways_are_those_of_members() {
    for (backends, expected) in [
        (&["75 3 -", "25 3 2"][..], "75 25 1 1"),
        (&["75 3 -", "25 - b.gw.test"], "75 25 1 1"),
        (&["50 3 -", "20 3 -", "25 3 2", "5 3 2,77"], "70 30 1 1"),
        (&["1 3 -", "2 3 2", "3 3 3", "4 - d.gw.test"], "1 2 3 4"),
        (&["75 3 -", "0 3 2"], "75 0 1 1"),
        (&["0 3 -", "5 3 2"], "0 5 1 1"),
        (&["0 0 -", "5 3 2"], "0! 5 1 1"),
        (&["0 3 -", "0 3 2"], "1 1 1 1"),
        (&["7 3 -", "9 3 -"], "1 1 1 1"),
        (&["7 3 -", "9 3 77"], "1 1 1 1"),
        (&["7 3 -", "9 3 1"], "1 1 1 1"),
        (&["7 3 -", "9 3 2,3"], "1 1 1 1"),
        (&["7 3 -", "9 - other.test"], "1 1 1 1"),
        (&["3000000 3 -", "1000000 3 2"], "65535 21845 1 1"),
        // All traffic goes to another cluster.
        (&["9 3 2"], "1! 1 1 1"),
    ] {
        let found = with_splits(&[("a", "shop", split(1, "HTTPRoute shop/web", true, backends))]);
        assert_eq!(weigh(&mut unweighted(), &found, |_| true).1, expected, "{backends:?}");
    }
}

#[test]
fn backends_at_other_gateways_are_no_ready_endpoints() {
    for (backends, is_weighted, expected, ready) in [
        (&["75 0 -", "25 3 2"][..], true, "75! 25 1 1", Some(0)),
        (&["75 2 -", "25 3 2"], true, "75 25 1 1", Some(2)),
        (&["75 0 -", "25 3 77"], true, "1 1 1 1", Some(3)),
        (&["75 0 -", "25 - other.test"], true, "1 1 1 1", None),
        (&["75 0 -", "25 - b.gw.test"], true, "75! 25 1 1", Some(0)),
        (&["1 0 -", "1 3 2"], false, "1! 1 1 1", Some(0)),
        (&["0 5 -", "1 0 77"], true, "1! 1 1 1", Some(0)),
    ] {
        let found = with_splits(&[("a", "shop", split(1, "Ingress shop/web", is_weighted, backends))]);
        assert_eq!(weigh(&mut unweighted(), &found, |_| true).1, expected, "{backends:?}");
        let name: Name = "shop.test".parse().unwrap();
        let clusters = [Cluster::new(cluster("b"), vec![[192, 0, 2, 2].into()])];
        let mut clusters = clusters;
        let host = "b.gw.test".parse().unwrap();
        clusters[0].hosts = vec![fairway_model::ClusterHost { name: host, addresses: Arc::default() }];
        let clusters = DeclaredClusters::new(&clusters);
        let of_a = &found[&cluster("a")];
        assert_eq!(ready_endpoints(&cluster("a"), of_a, &clusters, [&name].into_iter()), ready, "{backends:?}");
    }
}

#[test]
fn declared_weight_precedes_that_of_a_split_and_pods_multiply_it() {
    let found = with_splits(&[("a", "shop", split(1, "HTTPRoute shop/web", true, &["75 2 -", "25 3 2"]))]);
    let (weights, shown) = weigh(&mut state(false), &found, |_| false);
    assert_eq!((weights, &*shown), (PoolWeights::default(), "10 10 10 10"), "all members have weights of their own");
    let mut desired = unweighted();
    desired.pools.get_mut(&PoolName::new("shop").unwrap()).unwrap().members[0].weight = Weight(50);
    let (weights, shown) = weigh(&mut desired, &found, |cluster| cluster != "a");
    assert_eq!(shown, "50 25 1 1");
    assert_eq!(weights.split, Some((cluster("a"), "HTTPRoute shop/web".parse().unwrap())));
    let mut desired = unweighted();
    desired.pools.get_mut(&PoolName::new("shop").unwrap()).unwrap().weight_by_pods = true;
    let (weights, shown) = weigh(&mut desired, &found, |_| true);
    assert_eq!(shown, "150 75 3 3");
    assert_eq!(weights.members[&cluster("a")], WeightFactors { split: Some(75), pods: Some(2) });
    assert_eq!(weights.members[&cluster("d")], WeightFactors { split: None, pods: Some(3) });
}

#[test]
fn oldest_of_several_splits_is_used_and_others_are_problems() {
    let of = |created, object, backends: &[&str]| split(created, object, true, backends);
    let old = || of(1, "HTTPRoute shop/web", &["75 3 -", "25 3 2"]);
    for (splits, expected, problems) in [
        (
            vec![("a", "shop", old()), ("b", "shop", of(2, "HTTPRoute shop/web", &["50 3 1", "50 3 -"]))],
            "75 25 1 1",
            &[
                "b HTTPRoute shop/web: its split of shop.test (a 50, b 50) is not used, because HTTPRoute shop/web of cluster a takes \
               precedence and has a 75, b 25",
            ][..],
        ),
        (vec![("a", "shop", old()), ("b", "shop", of(2, "HTTPRoute shop/web", &["3 3 1", "1 3 -"]))], "75 25 1 1", &[]),
        (
            vec![("b", "shop", of(0, "TrafficSplit shop/web", &["3 3 1", "5 3 -"])), ("a", "shop", old())],
            "3 5 1 1",
            &[
                "a HTTPRoute shop/web: its split of shop.test (a 75, b 25) is not used, because TrafficSplit shop/web of cluster b takes \
               precedence and has a 3, b 5",
            ],
        ),
        (
            vec![("a", "shop", old()), ("a", "shop", of(1, "GRPCRoute shop/web", &["1 3 -", "1 3 3"]))],
            "75 25 1 1",
            &[
                "a GRPCRoute shop/web: its split of shop.test (a 1, c 1) is not used, because HTTPRoute shop/web of cluster a takes precedence \
               and has a 75, b 25",
            ],
        ),
        (
            vec![("a", "shop", of(1, "HTTPRoute shop/web", &["0 3 -", "0 3 2"]))],
            "1 1 1 1",
            &["a HTTPRoute shop/web: all its weights of shop.test are 0, so the clusters get equal parts"],
        ),
    ] {
        // The others have weights of their own.
        let (weights, shown) = weigh(&mut unweighted(), &with_splits(&splits), |cluster| "ab".contains(cluster));
        let texts: Vec<_> =
            weights.problems.iter().map(|of| format!("{} {}: {}", of.cluster, of.object, of.message)).collect();
        assert_eq!((&*shown, &*texts), (expected, &problems.iter().map(ToString::to_string).collect::<Vec<_>>()[..]));
    }
}

#[test]
fn member_without_a_weight_next_to_a_split_is_a_problem() {
    let found = with_splits(&[("a", "shop", split(1, "HTTPRoute shop/web", true, &["75 3 -", "25 3 2"]))]);
    for (unweighted_members, missing) in [("abcd", Some("c, d")), ("abc", Some("c")), ("ab", None), ("a", None)] {
        let (weights, shown) = weigh(&mut unweighted(), &found, |cluster| unweighted_members.contains(cluster));
        let texts: Vec<_> =
            weights.problems.iter().map(|of| format!("{} {}: {}", of.cluster, of.object, of.message)).collect();
        let expected = missing.map(|missing| {
            format!(
                "a HTTPRoute shop/web: its split of shop.test (a 75, b 25) has no weight for {missing}, which counts as 1; set the \
                 annotation webhook-gslb-weight there"
            )
        });
        assert_eq!(texts, Vec::from_iter(expected), "{unweighted_members}");
        assert!(shown.ends_with(" 1 1"), "the weight stays: {shown}");
    }
}

#[test]
fn split_of_a_namespace_that_does_not_have_the_name_is_not_used() {
    let backends = ["1 3 -", "99 3 2"];
    for namespace in ["evil", "younger"] {
        let found = with_splits(&[("a", namespace, split(0, "HTTPRoute other/web", true, &backends))]);
        let (weights, shown) = weigh(&mut unweighted(), &found, |_| true);
        assert_eq!((weights, &*shown), (PoolWeights::default(), "1 1 1 1"), "{namespace}");
    }
}
