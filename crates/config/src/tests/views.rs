//! Views: networks of members, internal members, the visibility of zones.

use fairway_model::Visibility;

use super::*;

fn config(member: &str, zone: &str) -> String {
    format!(
        "version: 1\nclusters: [{{name: c, addresses: [192.0.2.1]}}]\n\
        zones: [{{name: a.example, ns: [ns.example.net]{zone}}}]\n\
        pools: [{{name: p, policy: weighted, members: [{{cluster: c{member}}}]}}]\n\
        names: [{{name: shop.a.example, pool: p}}]\n"
    )
}

#[test]
fn members_and_zones_are_public_by_default() {
    let loaded = loaded(&config("", ""));
    let member = &loaded.desired.pools.values().next().unwrap().members[0];
    assert_eq!((&*member.networks, member.internal), (&[][..], false));
    assert_eq!(loaded.desired.zones.values().next().unwrap().visibility, Visibility::Public);
}

#[test]
fn networks_internal_and_visibility_are_converted() {
    let loaded = loaded(&config(
        ", networks: [10.0.0.0/8, \"2001:db8::/32\", 192.0.2.7], internal: true",
        ", visibility: private",
    ));
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    let what = "f.yaml:4:9: warning: pool p hides all of its members from clients outside of their networks, such as 0.0.0.0/5: ";
    let hint = "; give the pool a fallback in down, or a member without networks";
    assert!(matches!(&warnings[..], [one] if one.contains(what) && one.ends_with(hint)), "{warnings:?}");
    let member = &loaded.desired.pools.values().next().unwrap().members[0];
    let networks: Vec<_> = member.networks.iter().map(ToString::to_string).collect();
    assert_eq!(
        (networks, member.internal),
        (["10.0.0.0/8", "2001:db8::/32", "192.0.2.7/32"].map(String::from).into(), true)
    );
    assert_eq!(loaded.desired.zones.values().next().unwrap().visibility, Visibility::Private);
}

#[test]
fn pool_with_internal_members_only_warns_in_public_zone() {
    let warnings = loaded(&config(", internal: true", "")).warnings;
    let shown: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    let what = "every member of pool p is internal, but the zone of shop.a.example. is public";
    assert!(
        matches!(&shown[..], [one] if one.contains("f.yaml:5:") && one.contains(what) && one.contains("set visibility of the zone to private")),
        "{shown:?}"
    );
}

#[test]
fn invalid_network_or_visibility_is_rejected() {
    for (member, zone, expected) in [
        (
            ", networks: [10.1.2.3/8]",
            "",
            "f.yaml:4:71: pools[0].members[0].networks[0]: \"10.1.2.3/8\" has bits set past its length; write 10.0.0.0/8",
        ),
        (
            ", networks: [office]",
            "",
            "f.yaml:4:71: pools[0].members[0].networks[0]: \"office\" is not a network; write it like 10.0.0.0/8 or \"2001:db8::/32\"",
        ),
        (", networks: []", "", "f.yaml:4:70: pools[0].members[0].networks: "),
        ("", ", visibility: secret", "f.yaml:3:61: zones[0].visibility: "),
        (", internal: 1", "", "f.yaml:4:70: pools[0].members[0].internal: "),
    ] {
        let errors = errors_of(&config(member, zone));
        assert!(matches!(&errors[..], [error] if error.starts_with(expected)), "{errors:?}");
    }
}

#[test]
fn too_many_networks_in_a_pool_are_rejected() {
    let networks = |count: u16| {
        let networks: Vec<_> = (0..count).map(|i| format!("10.{}.{}.0/24", i / 256, i % 256)).collect();
        format!(", networks: [{}]", networks.join(", "))
    };
    loaded(&config(&networks(4096), ""));
    let one_more = format!("{}, {{cluster: d, networks: [192.0.2.0/24]}}", &networks(4096));
    let text = config("", "").replace("{cluster: c}", &format!("{{cluster: c{}", one_more));
    let text = text
        .replace("clusters: [", "clusters: [{name: d, addresses: [192.0.2.2]}, ")
        .replace("networks: [192.0.2.0/24]}}", "networks: [192.0.2.0/24]}");
    let text = text.replace("], {cluster: d", "]}, {cluster: d");
    let errors = errors_of(&text);
    assert!(
        matches!(&errors[..], [error, _] if error.contains("pool p has 4097 client networks, over the limit of 4096")),
        "{errors:?}"
    );
}
