//! Warnings about values that are valid, and seldom meant.

use super::*;
use crate::missing_user;

#[test]
fn ttl_of_zero_is_a_warning() {
    let text = "version: 1
zones: [{name: a.example, ns: [ns.example.net], ttl: 0s}]
clusters: [{name: c, addresses: [192.0.2.1]}]
pools:
  - {name: p, policy: failover, ttl: 0s, members: [{cluster: c}]}
  - {name: q, policy: failover, ttlMin: 0s, members: [{cluster: c}]}
names: [{name: x.a.example, pool: p, ttl: 0s}, {name: y.a.example, pool: q, ttl: 1s}]
records: [{name: z.a.example, sets: [{type: A, ttl: 0s, data: [192.0.2.9]}]}]
";
    let places = [
        "2:54: warning: zones[0].ttl",
        "5:38: warning: pools[0].ttl",
        "6:41: warning: pools[1].ttlMin",
        "7:43: warning: names[0].ttl",
        "8:53: warning: records[0].sets[0].ttl",
    ];
    let expected = places.map(|place| {
        format!(
            "f.yaml:{place}: resolvers do not cache answers with TTL 0, and send the query of every client to this \
             server; give a few seconds at least"
        )
    });
    assert_eq!(Folder::new(&[("f.yaml", text)]).check("f.yaml"), expected);
}

#[test]
fn address_of_two_clusters_is_a_warning_at_the_second() {
    let text = "version: 1
clusters:
  - {name: us1, addresses: [192.0.2.1, 192.0.2.2]}
  - {name: eu1, addresses: [192.0.2.2]}
";
    let expected = "f.yaml:3:28: warning: clusters eu1 and us1 both have 192.0.2.2, so a drain of one does not remove it; \
                    keep it in one cluster, which may be a member of many pools";
    assert_eq!(Folder::new(&[("f.yaml", text)]).check("f.yaml"), [expected]);
}

#[test]
fn user_that_the_machine_lacks_is_a_warning() {
    let found = |user: &str, env: &[(&str, &str)]| {
        let folder = Folder::new(&[("a.yaml", "version: 1\n"), ("b.yaml", &format!("user: {user}\n"))]);
        let source = Source::Path(folder.path().to_owned());
        let loaded = folder.load_with("", env).unwrap();
        assert_eq!(loaded.warnings, [], "the load does not depend on the users of the machine");
        let warning = missing_user(&source, &loaded, &|wanted| variable(env, wanted));
        folder.lines(warning.as_slice())
    };
    let nobody_has = "no-such-user";
    let expected = "there is no user no-such-user on this machine, so the server would not start here; create it \
                    (`useradd --system no-such-user`), or remove `user`";
    assert_eq!(found(nobody_has, &[]), [format!("b.yaml:1:7: warning: user: {expected}")]);
    let env = [("FAIRWAY_USER", nobody_has)];
    assert_eq!(found("root", &env), [format!("environment: warning: user: {expected}")]);
    assert_eq!((found("root", &[]), found(nobody_has, &[("FAIRWAY_USER", "root")])), (vec![], vec![]));
}
