//! Random findings in Kubernetes clusters, for the tests of incremental reloads.

use std::sync::Arc;

use fairway_access::Tenant;
use fairway_contributions::{ReadRow, Row};
use fairway_model::{ClusterName, SplitMix};
use fairway_providers::{Endpoint, Property};
use fairway_sources::{Found, FoundCluster, FoundName, FoundRow, Kind, ObjectKey, Place, Split, SplitPart};

/// Changes a name, or now and then the addresses, of a cluster.
pub(super) fn edit_found(found: &mut Found, dice: &mut SplitMix) {
    let cluster = ["c0", "c1", "c2", "k0"][dice.below(4) as usize];
    let key = ClusterName::new(cluster).unwrap();
    if dice.below(40) == 0 {
        found.remove(&key);
        return;
    }
    let of_cluster = Arc::make_mut(found.entry(key).or_default());
    if dice.below(30) == 0 {
        of_cluster.addresses = (0..dice.below(3)).map(|_| [192, 0, 2, 60 + dice.below(3) as u8].into()).collect();
        of_cluster.addresses.dedup();
        return;
    }
    let name = ["a", "b", "c", "n0", "n1", "n2", "k", "*"][dice.below(8) as usize];
    let text = format!("{name}.gslb.example");
    match dice.below(4) {
        0 => _ = of_cluster.names.remove(&*text),
        _ => _ = of_cluster.names.insert(text.as_str().into(), Arc::new(exposed(cluster, &text, dice))),
    }
    let _: &FoundCluster = of_cluster;
}

fn exposed(cluster: &str, text: &str, dice: &mut SplitMix) -> FoundName {
    let property = |name: &str, value: &str| Property { name: name.to_owned(), value: value.to_owned() };
    let mut properties = vec![property("webhook/gslb-cluster", cluster)];
    match dice.below(4) {
        0 => properties.push(property("webhook/gslb-weight-by", "pods")),
        1 => properties.push(property("webhook/gslb-weight", "7")),
        2 => properties.extend([
            property("webhook/gslb-policy", "load, weighted"),
            property("webhook/gslb-capacity-per-pod", "10"),
        ]),
        _ => {}
    }
    let namespace = ["shop", "pay"][dice.below(2) as usize];
    let endpoint = Endpoint {
        dns_name: text.to_owned(),
        targets: vec![format!("192.0.2.{}", 70 + dice.below(3))],
        record_type: "A".to_owned(),
        set_identifier: cluster.to_owned(),
        provider_specific: if dice.below(5) == 0 { vec![] } else { properties },
        ..Endpoint::default()
    };
    let ready = dice.below(5);
    let other = Place::Addresses([[192, 0, 2, 1 + dice.below(3) as u8].into()].into());
    let places = [None, Some(other), Some(Place::Host("lb2.elb.example".parse().unwrap()))].into_iter();
    let part = |place| SplitPart { weight: dice.below(4), ready: Some(dice.below(2) as u32), place };
    let parts = places.map(part).collect();
    let object = ObjectKey::new(Kind::TrafficSplit, namespace, "s");
    let split = Split { created: dice.below(3), object, is_weighted: true, parts };
    let row = FoundRow {
        owner: format!("kubernetes:{cluster}/{namespace}").into(),
        tenant: Arc::new(Tenant::Namespace { cluster: cluster.to_owned(), namespace: namespace.to_owned() }),
        object: ObjectKey::new(Kind::HttpRoute, namespace, "r"),
        row: Arc::new(ReadRow::new(Row { since: dice.below(3), endpoint, held: None })),
        ready: (ready < 4).then_some(ready as u32),
        split: (dice.below(3) == 0).then(|| Arc::new(split)),
        services: Arc::default(),
    };
    FoundName { rows: [row].into() }
}
