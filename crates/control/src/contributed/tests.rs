//! What clients contribute, as it would be served.

use fairway_model::{ClusterName, DeclaredClusters, Diagnostic, FileLocation, Rtype, SharedNamePolicy, ZoneSpec};
use fairway_providers::Endpoint;

use super::*;
use crate::contributed::rows_wire::Row;

fn row(name: &str, rtype: &str, target: &str, set: &str, owner: &str) -> ReadRow {
    let labels = [("owner".to_owned(), owner.to_owned())].into_iter().filter(|(_, owner)| !owner.is_empty());
    let endpoint = Endpoint {
        dns_name: name.to_owned(),
        record_type: rtype.to_owned(),
        targets: vec![target.to_owned()],
        set_identifier: set.to_owned(),
        labels: labels.collect(),
        ..Endpoint::default()
    };
    ReadRow::new(Row { since: 1, endpoint })
}

fn zone() -> DesiredState {
    let name: Name = "gslb.example".parse().unwrap();
    DesiredState { zones: [(name.clone(), ZoneSpec::new(name))].into(), ..DesiredState::default() }
}

fn joined(rows: &[(Scope, Vec<ReadRow>)], left: &LeftNames) -> Contributed {
    let clients: Vec<Rows<'_>> = rows.iter().map(|(scope, rows)| (scope.clone(), rows.iter().collect())).collect();
    let (zones, clusters) = (zone(), DeclaredClusters::default());
    let beside =
        Beside { zones: &zones, clusters: &clusters, steered: &|_| None, shared: SharedNamePolicy::Refuse, left };
    Contributed::merged(None, brought(&clients, |_| Permille::WHOLE), &beside).unwrap()
}

fn scope(name: &str) -> Scope {
    Scope::owner(name).unwrap()
}

fn members(contributed: &Contributed) -> Vec<&str> {
    contributed
        .united
        .desired()
        .pools
        .values()
        .flat_map(|pool| &pool.members)
        .map(|member| member.cluster.as_str())
        .collect()
}

#[test]
fn both_families_of_an_owner_are_one_member_and_its_registry_is_none() {
    let rows = vec![
        row("shop.gslb.example", "A", "192.0.2.1", "", ""),
        row("shop.gslb.example", "AAAA", "2001:db8::1", "", ""),
        row("a-shop.gslb.example", "TXT", "\"heritage=external-dns,external-dns/owner=t1\"", "", ""),
    ];
    let joined = joined(&[(scope("east"), rows)], &LeftNames::new());
    assert_eq!(joined.united.desired().clusters.len(), 1);
    assert_eq!(joined.united.desired().clusters.values().next().unwrap().addresses.len(), 2);
    assert_eq!(members(&joined).len(), 1);
    assert_eq!(joined.records.keys().map(|(_, rtype)| *rtype).collect::<Vec<_>>(), [Rtype::TXT]);
    assert_eq!(joined.conditions_len(), 0);
}

#[test]
fn at_the_root_labels_then_the_registry_tell_whose_a_row_is() {
    let rows = [
        row("a.gslb.example", "A", "192.0.2.1", "x", "t1"),
        row("a.gslb.example", "A", "192.0.2.2", "y", ""),
        row("a-a.gslb.example", "TXT", "\"heritage=external-dns,external-dns/owner=t2\"", "y", ""),
        row("b.gslb.example", "A", "192.0.2.3", "", ""),
    ];
    let owners = Owners::of(&Scope::Root, &rows.iter().collect::<Vec<_>>());
    let told: Vec<_> = rows.iter().map(|row| owners.of_row(row).to_string()).collect();
    assert_eq!(told, ["t1", "t2", "t2", "default"]);
}

#[test]
fn a_name_outside_the_zones_and_a_cname_beside_addresses_are_told() {
    let rows = vec![
        row("a.elsewhere.test", "A", "192.0.2.1", "", ""),
        row("b.gslb.example", "A", "192.0.2.1", "", ""),
        row("b.gslb.example", "CNAME", "c.example", "", ""),
    ];
    let joined = joined(&[(scope("east"), rows)], &LeftNames::new());
    let told: Vec<_> = joined.conditions().map(|told| format!("{} {}", told.name, told.message)).collect();
    assert_eq!(told[0], "a.elsewhere.test it is in no declared zone");
    assert!(told[1].starts_with("b.gslb.example other records are offered for the name"), "{told:?}");
    assert_eq!(joined.united.desired().names.len(), 1);
}

#[test]
fn records_of_two_owners_unite_and_of_two_cnames_the_first_holds() {
    let own = |target: &str| {
        vec![row("t.gslb.example", "TXT", target, "", ""), row("c.gslb.example", "CNAME", target, "", "")]
    };
    let joined = joined(&[(scope("a"), own("x.example")), (scope("b"), own("y.example"))], &LeftNames::new());
    let count =
        |rtype| joined.records.values().filter(|set| set.rtype == rtype).map(|set| set.rdatas.len()).sum::<usize>();
    assert_eq!((count(Rtype::TXT), count(Rtype::CNAME)), (2, 1));
    assert_eq!(joined.conditions_len(), 1);
}

#[test]
fn a_name_that_is_at_fault_is_left_out_alone() {
    let rows = vec![row("a.gslb.example", "A", "192.0.2.1", "", ""), row("b.gslb.example", "A", "192.0.2.2", "", "")];
    let clients = [(scope("east"), rows)];
    let (mut left, whole) = (LeftNames::new(), joined(&clients, &LeftNames::new()));
    let name: Name = "a.gslb.example".parse().unwrap();
    let fault = |subject| {
        Diagnostic::error(FileLocation::file("zone"), "an address stands there", "take it out").about(subject)
    };
    assert!(whole.leave_out(&[fault(Subject::Pool(pool_name(&name)))], &mut left));
    assert!(!whole.leave_out(&[fault(Subject::Name("else.example".parse().unwrap()))], &mut left));
    let rest = joined(&clients, &left);
    assert_eq!(members(&rest), ["at+192.0.2.2"]);
    assert!(rest.conditions().next().unwrap().message.contains("an address stands there"));
    assert!(!whole.leave_out(&[fault(Subject::Name(name))], &mut left));
    assert!(whole.leave_out(&[fault(Subject::Cluster(ClusterName::new("at+192.0.2.2").unwrap()))], &mut left));
}

#[test]
fn no_two_names_share_a_pool_and_every_name_has_one() {
    let long = |end: &str| format!("{}.{}.{}.{end}.example", "a".repeat(63), "b".repeat(63), "c".repeat(40));
    let names = ["*.gslb.example", "a.gslb.example", "+2a.gslb.example", "a-.example", &long("x"), &long("y")];
    let pools: BTreeSet<_> = names.iter().map(|name| pool_name(&name.parse().unwrap())).collect();
    assert_eq!(pools.len(), names.len());
}

#[test]
fn the_rows_of_a_name_lie_in_one_part_whatever_their_type() {
    let key = part_key(&scope("east"), "shop.gslb.example");
    assert_eq!(scope_of(&key), Some(scope("east")));
    assert_eq!(scope_of(&part_key(&Scope::Root, "x")), Some(Scope::Root));
    let parts: BTreeSet<_> = (0..100_000).map(|n| part_key(&Scope::Root, &format!("n{n}.example"))).collect();
    assert_eq!(parts.len(), usize::try_from(PARTS).unwrap());
}
