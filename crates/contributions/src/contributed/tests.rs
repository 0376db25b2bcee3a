//! Merged contributions of webhook clients.

use fairway_access::NameGrants;
use fairway_model::{
    ClusterName, DeclaredClusters, Diagnostic, FileLocation, Permille, Rtype, SharedNamePolicy, ZoneSpec,
};
use fairway_providers::{Endpoint, webhook_server::Scope};

use super::*;
use crate::{ReadRow, Row, RowOwners, keys, names::pool_name, part_key, scope_of, tenant_of};

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
    ReadRow::new(Row { since: 1, endpoint, held: None })
}

fn zone() -> DesiredState {
    let name: Name = "gslb.example".parse().unwrap();
    DesiredState { zones: [(name.clone(), ZoneSpec::new(name))].into(), ..DesiredState::default() }
}

fn merged(rows: &[(Scope, Vec<ReadRow>)], rejected: &RejectedNames) -> Contributed {
    let clients: Vec<(_, Vec<&ReadRow>)> =
        rows.iter().map(|(scope, rows)| (scope.clone(), rows.iter().collect())).collect();
    let (zones, clusters) = (zone(), DeclaredClusters::default());
    let shared = SharedNamePolicy::Refuse;
    let names = &NameGrants::default();
    let context = MergeContext {
        zones: &zones,
        clusters: &clusters,
        steered: &|_| None,
        names,
        take_over: &|_, _, _| None,
        shared,
        rejected,
    };
    let mut owned = Vec::new();
    for (scope, rows) in &clients {
        let owners = RowOwners::of(scope, rows);
        let tenant = Arc::new(tenant_of(scope));
        let owned_row = |&row| {
            let (owner, tenant) = (owners.of_row(row), Arc::clone(&tenant));
            OwnedRow { owner, tenant, lease_weight: Permille::WHOLE, row }
        };
        owned.extend(rows.iter().map(owned_row));
    }
    Contributed::merged(None, owned, &context).unwrap()
}

fn scope(name: &str) -> Scope {
    Scope::owner(name).unwrap()
}

fn members(contributed: &Contributed) -> Vec<&str> {
    contributed
        .merged_names
        .desired()
        .pools
        .values()
        .flat_map(|pool| &pool.members)
        .map(|member| member.cluster.as_str())
        .collect()
}

#[test]
fn both_address_families_of_an_owner_are_one_member() {
    let rows = vec![
        row("shop.gslb.example", "A", "192.0.2.1", "", ""),
        row("shop.gslb.example", "AAAA", "2001:db8::1", "", ""),
        row("a-shop.gslb.example", "TXT", "\"heritage=external-dns,external-dns/owner=t1\"", "", ""),
    ];
    let all = merged(&[(scope("east"), rows)], &RejectedNames::new());
    assert_eq!(all.merged_names.desired().clusters.len(), 1);
    assert_eq!(all.merged_names.desired().clusters.values().next().unwrap().addresses.len(), 2);
    assert_eq!(members(&all).len(), 1);
    assert_eq!(all.records.records.keys().map(|(_, rtype)| *rtype).collect::<Vec<_>>(), [Rtype::TXT]);
    assert_eq!(all.warnings_len(), 0);
}

#[test]
fn owner_without_base_path_is_in_the_label_or_the_registry() {
    let rows = [
        row("a.gslb.example", "A", "192.0.2.1", "x", "t1"),
        row("a.gslb.example", "A", "192.0.2.2", "y", ""),
        row("a-a.gslb.example", "TXT", "\"heritage=external-dns,external-dns/owner=t2\"", "y", ""),
        row("b.gslb.example", "A", "192.0.2.3", "", ""),
    ];
    let row_owners = RowOwners::of(&Scope::Root, &rows.iter().collect::<Vec<_>>());
    let owners: Vec<_> = rows.iter().map(|row| row_owners.of_row(row).to_string()).collect();
    assert_eq!(owners, ["t1", "t2", "t2", "default"]);
}

#[test]
fn name_outside_the_zones_and_cname_with_addresses_are_warnings() {
    let rows = vec![
        row("a.elsewhere.test", "A", "192.0.2.1", "", ""),
        row("b.gslb.example", "A", "192.0.2.1", "", ""),
        row("b.gslb.example", "CNAME", "c.example", "", ""),
    ];
    let all = merged(&[(scope("east"), rows)], &RejectedNames::new());
    let owners: Vec<_> = all.warnings().map(|owners| format!("{} {}", owners.name, owners.message)).collect();
    assert_eq!(owners[0], "a.elsewhere.test it is in no declared zone");
    assert!(owners[1].starts_with("b.gslb.example other records are contributed to the name"), "{owners:?}");
    assert_eq!(all.merged_names.desired().names.len(), 1);
}

#[test]
fn records_of_two_owners_are_joined_and_the_older_cname_is_used() {
    let own = |target: &str| {
        vec![row("t.gslb.example", "TXT", target, "", ""), row("c.gslb.example", "CNAME", target, "", "")]
    };
    let all = merged(&[(scope("a"), own("x.example")), (scope("b"), own("y.example"))], &RejectedNames::new());
    let count = |rtype| {
        all.records.records.values().filter(|set| set.rtype == rtype).map(|set| set.rdatas.len()).sum::<usize>()
    };
    assert_eq!((count(Rtype::TXT), count(Rtype::CNAME)), (2, 1));
    let warnings: Vec<_> = all.warnings().map(|of| (of.owner.to_string(), of.message, of.is_refused)).collect();
    let younger = "an older CNAME of a is contributed to the name, and a name has one at most";
    let older = "a younger CNAME of b to the name is rejected";
    assert_eq!(warnings, [("a".to_owned(), older.to_owned(), false), ("b".to_owned(), younger.to_owned(), true)]);
}

#[test]
fn only_the_name_with_an_error_is_rejected() {
    let rows = vec![row("a.gslb.example", "A", "192.0.2.1", "", ""), row("b.gslb.example", "A", "192.0.2.2", "", "")];
    let clients = [(scope("east"), rows)];
    let (mut rejected, whole) = (RejectedNames::new(), merged(&clients, &RejectedNames::new()));
    let name: Name = "a.gslb.example".parse().unwrap();
    let error = |subject| {
        Diagnostic::error(FileLocation::file("zone"), "the name has an address", "take it out").about(subject)
    };
    assert!(whole.reject(&[error(Subject::Pool(pool_name(&name)))], &mut rejected));
    assert!(!whole.reject(&[error(Subject::Name("else.example".parse().unwrap()))], &mut rejected));
    let rest = merged(&clients, &rejected);
    assert_eq!(members(&rest), ["at+192.0.2.2"]);
    assert!(rest.warnings().next().unwrap().message.contains("the name has an address"));
    assert!(!whole.reject(&[error(Subject::Name(name))], &mut rejected));
    assert!(whole.reject(&[error(Subject::Cluster(ClusterName::new("at+192.0.2.2").unwrap()))], &mut rejected));
}

#[test]
fn names_have_distinct_pools() {
    let long = |end: &str| format!("{}.{}.{}.{end}.example", "a".repeat(63), "b".repeat(63), "c".repeat(40));
    let names = ["*.gslb.example", "a.gslb.example", "+2a.gslb.example", "a-.example", &long("x"), &long("y")];
    let pools: BTreeSet<_> = names.iter().map(|name| pool_name(&name.parse().unwrap())).collect();
    assert_eq!(pools.len(), names.len());
}

#[test]
fn rows_of_a_name_are_in_one_part() {
    let key = part_key(&scope("east"), "shop.gslb.example");
    assert_eq!(scope_of(&key), Some(scope("east")));
    assert_eq!(scope_of(&part_key(&Scope::Root, "x")), Some(Scope::Root));
    let parts: BTreeSet<_> = (0..100_000).map(|n| part_key(&Scope::Root, &format!("n{n}.example"))).collect();
    assert_eq!(parts.len(), usize::try_from(keys::PARTS).unwrap());
}
