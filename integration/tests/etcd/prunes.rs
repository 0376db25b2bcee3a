//! Prunes at several servers on one etcd are weighed together. A deletion that one server accepted is not weighed again by the others.

use std::{ops::Range, process::Output};

use fairway_integration::{
    load::resolve,
    real::{Fairway, wait_until},
};

use super::{Etcd, LIMIT, done, said};

fn prune(server: &Fairway, numbers: Range<usize>, more: &[&str]) -> Output {
    let names: String = numbers.map(|number| format!("  - {{ name: n{number}.gslb.example, pool: shop }}\n")).collect();
    let names = if names.is_empty() { "names: []\n".to_owned() } else { format!("names:\n{names}") };
    let objects = format!(
        "clusters: [{{ name: eu1, addresses: [192.0.2.1] }}]
monitors: [{{ name: unchecked, type: always }}]
pools: [{{ name: shop, policy: failover, monitor: unchecked, members: [{{ cluster: eu1 }}] }}]
{names}"
    );
    let file = server.folder.path().join("objects.yaml");
    std::fs::write(&file, objects).expect("the folder can be written");
    let arguments = [&["apply", "-f", file.to_str().expect("a path in UTF-8"), "--prune"], more].concat();
    server.command(&arguments)
}

fn is_answered(server: &Fairway, number: usize) -> bool {
    resolve(server.dns, &format!("n{number}.gslb.example")).is_some_and(|reply| !reply.addresses.is_empty())
}

#[test]
fn prunes_at_two_servers_are_weighed_together_and_deletions_only_once() {
    let etcd = Etcd::start();
    let [one, other] = [(); 2].map(|()| Fairway::start(&etcd.config(), &[]));
    done(&prune(&one, 0..30, &[]));
    wait_until("the other server has the names", LIMIT, || is_answered(&other, 29));
    done(&prune(&one, 0..20, &[]));
    wait_until("the other server follows", LIMIT, || !is_answered(&other, 29));
    let refused = prune(&other, 0..19, &[]);
    let text = said(&refused);
    assert!(!refused.status.success() && text.contains("(after 10 by prunes of the last 10 minutes)"), "{text}");
    // All that one server accepted to delete is gone at the other one, too.
    done(&prune(&other, 0..0, &["--allow-removals"]));
    wait_until("the first server follows", LIMIT, || !(0..20).any(|number| is_answered(&one, number)));
}
