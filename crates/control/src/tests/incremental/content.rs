//! Parts of two states, to be compared.

use fairway_zones::{Snapshot, TargetIndex, steer::SteerPool};

use crate::configured::{Configured, MergedState};

/// Returns the content of a snapshot, independent of its numbers.
pub(super) fn content(configured: &Configured, snapshot: &Snapshot) -> Vec<String> {
    let uses = &configured.uses;
    let mut content = vec![format!("{:x}", snapshot.id())];
    for target in snapshot.targets() {
        let number = uses.number_of(target).unwrap();
        let addresses: Vec<_> = uses.addresses(number).collect();
        content.push(format!(
            "{} {:?}: {addresses:?} {:?}",
            target.address,
            target.monitor,
            uses.pools(number).keys().collect::<Vec<_>>()
        ));
    }
    let table = |class: usize| {
        let (group, class) = snapshot.load_classes().place(class);
        snapshot.load_classes().groups()[group].costs_of(class).collect::<Vec<_>>()
    };
    for (pool, info) in snapshot.steer_pools().iter().zip(snapshot.pool_infos().iter()) {
        let member = |(number, cluster, target): (u8, &_, TargetIndex)| {
            let target = &snapshot.targets()[target.0 as usize];
            format!("{number} {cluster} {} {:?}", target.address, target.monitor)
        };
        let members: Vec<String> = SteerPool::member_targets(pool).map(member).collect();
        let table = snapshot.load_classes().class(pool, 0).map(table);
        content.push(format!("{} {:?} {members:?} {table:?}", info.name, info.names));
    }
    content.sort();
    content
}

/// Returns the names of the parts in which two states differ. The parts are too long to be printed.
pub(super) fn differences(ours: &MergedState, theirs: &MergedState) -> Vec<&'static str> {
    let parts = [
        ("declared", ours.declared == theirs.declared),
        ("pools", ours.desired.pools == theirs.desired.pools),
        ("names", ours.desired.names == theirs.desired.names),
        ("records", ours.desired.records == theirs.desired.records),
        ("monitors", ours.desired.monitors == theirs.desired.monitors),
        ("clusters", ours.desired.clusters == theirs.desired.clusters),
        ("desired", ours.desired == theirs.desired),
        ("weighed", ours.weighed == theirs.weighed),
        ("not_in_files", ours.not_in_files == theirs.not_in_files),
        ("conflicts", ours.conflicts == theirs.conflicts),
        ("contributed", ours.contributed == theirs.contributed),
        ("declared clusters", ours.clusters == theirs.clusters),
        ("unserved intents", ours.unserved_intents == theirs.unserved_intents),
    ];
    parts.into_iter().filter(|(_, are_equal)| !are_equal).map(|(part, _)| part).collect()
}
