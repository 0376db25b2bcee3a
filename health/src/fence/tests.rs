use fairway_model::{Cluster, ClusterName, HttpCheck, Member, MonitorName, Policy, Pool, PoolName, Secret};

use super::*;

fn rules(allow: &[&str], deny: &[&str]) -> FenceRules {
    let networks = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    let networks = ProbeNetworks { allow: networks(allow), deny: networks(deny), credentials: vec![] };
    FenceRules::new(networks, &DesiredState::default(), false)
}

fn check(rules: &FenceRules, address: &str) -> Result<(), NotAllowed> {
    rules.check(SocketAddr::new(address.parse().unwrap(), 80), None, None, |_| false)
}

fn tcp(port: u16) -> Monitor {
    Monitor::new(Check::Tcp { port })
}

/// Files with one cluster at `address`, a monitor of `port`, and a member that is probed at `probe`.
fn files(address: &str, port: u16, probe: &str) -> DesiredState {
    let mut files = DesiredState::default();
    let name = ClusterName::new("eu1").unwrap();
    let cluster = Cluster::new(name.clone(), vec![address.parse().unwrap()]);
    files.clusters.insert(name.clone(), cluster);
    files.monitors.insert(MonitorName::new("m").unwrap(), Arc::new(tcp(port)));
    let pool = PoolName::new("shop").unwrap();
    let member = Member { probe: Some(probe.parse().unwrap()), ..Member::new(name) };
    files.pools.insert(pool.clone(), Pool { members: vec![member], ..Pool::new(pool, Policy::WEIGHTED) });
    files
}

#[test]
fn every_form_of_a_denied_address_is_denied() {
    let rules = rules(&[], &[]);
    for (addresses, reason) in [
        ("127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1 ::127.0.0.1 64:ff9b::127.0.0.1", NotAllowed::Loopback),
        ("0.0.0.0 0.1.2.3 :: ::ffff:0.0.0.0 ::ffff:0.1.2.3 64:ff9b::", NotAllowed::Unspecified),
        ("169.254.169.254 169.254.0.1 fe80::1 febf::1 ::ffff:169.254.169.254 ::a9fe:a9fe", NotAllowed::LinkLocal),
        ("fd00:ec2::254 100.100.100.200 ::ffff:100.100.100.200 64:ff9b::6464:64c8", NotAllowed::Metadata),
        ("224.0.0.1 239.1.2.3 ff02::1 255.255.255.255 ::ffff:224.0.0.1", NotAllowed::Multicast),
    ] {
        for address in addresses.split(' ') {
            assert_eq!(check(&rules, address), Err(reason), "{address}");
        }
    }
}

#[test]
fn private_and_public_addresses_are_allowed() {
    for address in [
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.100.100.199",
        "203.0.113.1",
        "fd00:ec2::253",
        "fd12::1",
        "2001:db8::1",
    ] {
        assert_eq!(check(&rules(&[], &[]), address), Ok(()), "{address}");
    }
}

#[test]
fn networks_of_the_configuration_change_the_default_and_deny_wins() {
    let rules = rules(&["127.0.0.0/8", "fe80::/10"], &["127.0.0.2/32", "10.0.0.0/8"]);
    for (address, result) in [
        ("127.0.0.1", Ok(())),
        ("::ffff:127.0.0.1", Ok(())),
        ("fe80::1", Ok(())),
        ("127.0.0.2", Err(NotAllowed::Denied)),
        ("::ffff:127.0.0.2", Err(NotAllowed::Denied)),
        ("10.1.2.3", Err(NotAllowed::Denied)),
        ("::1", Err(NotAllowed::Loopback)),
        ("169.254.169.254", Err(NotAllowed::LinkLocal)),
    ] {
        assert_eq!(check(&rules, address), result, "{address}");
    }
}

#[test]
fn addresses_endpoints_and_hosts_of_files_are_exempt() {
    let rules = FenceRules::new(ProbeNetworks::default(), &files("127.0.0.7", 80, "gw.internal:8080"), false);
    assert_eq!(check(&rules, "127.0.0.7"), Ok(()));
    assert_eq!(check(&rules, "::ffff:127.0.0.7"), Ok(()));
    assert_eq!(check(&rules, "127.0.0.8"), Err(NotAllowed::Loopback));
    let of_host = |host, port| rules.check(SocketAddr::new([127, 0, 0, 9].into(), port), Some(host), None, |_| false);
    assert_eq!(of_host("GW.internal.", 8080), Ok(()));
    assert_eq!(of_host("gw.internal", 8081), Err(NotAllowed::Loopback));
    assert_eq!(of_host("other.internal", 8080), Err(NotAllowed::Loopback));
    let rules = FenceRules::new(ProbeNetworks::default(), &files("192.0.2.1", 80, "127.0.0.1:8080"), false);
    let at = |port| rules.check(SocketAddr::new([127, 0, 0, 1].into(), port), None, None, |_| false);
    assert_eq!((at(8080), at(8081)), (Ok(()), Err(NotAllowed::Loopback)));
}

#[test]
fn own_listeners_are_denied_at_every_address_of_this_machine() {
    let mut rules = rules(&["127.0.0.0/8", "0.0.0.0/8"], &[]);
    rules.listeners = vec!["[::]:53".parse().unwrap(), "192.0.2.1:8053".parse().unwrap()];
    let is_local = |address: IpAddr| address == IpAddr::from([192, 0, 2, 1]);
    let check = |to: &str| rules.check(to.parse().unwrap(), None, None, is_local);
    for to in ["192.0.2.1:53", "127.0.0.1:53", "[::ffff:192.0.2.1]:53", "192.0.2.1:8053", "0.0.0.0:53"] {
        assert_eq!(check(to), Err(NotAllowed::OwnListener), "{to}");
    }
    for to in ["192.0.2.2:53", "192.0.2.1:54", "127.0.0.1:8053", "192.0.2.2:8053"] {
        assert_eq!(check(to), Ok(()), "{to}");
    }
}

#[test]
fn own_listener_is_probed_only_with_a_monitor_of_the_files() {
    let mut rules = FenceRules::new(ProbeNetworks::default(), &files("192.0.2.1", 53, "192.0.2.9:80"), false);
    rules.listeners = vec!["192.0.2.1:53".parse().unwrap(), "192.0.2.1:8053".parse().unwrap()];
    let target = |port| Target {
        address: ProbeAddress::Address([192, 0, 2, 1].into()),
        monitor: Arc::new(tcp(port)),
        label: MonitorName::new("m").unwrap(),
    };
    assert_eq!(rules.check_target(&target(53)), Ok(()));
    assert_eq!(rules.check_target(&target(8053)), Err(NotAllowed::OwnListener));
}

#[test]
fn target_without_a_probe_is_not_checked() {
    let label = MonitorName::new("m").unwrap();
    let address = ProbeAddress::Address([127, 0, 0, 1].into());
    let target =
        |check| Target { address: address.clone(), monitor: Arc::new(Monitor::new(check)), label: label.clone() };
    assert_eq!(rules(&[], &[]).check_target(&target(Check::Always)), Ok(()));
    assert_eq!(rules(&[], &[]).check_target(&target(Check::Tcp { port: 80 })), Err(NotAllowed::Loopback));
}

#[test]
fn fence_keeps_its_listeners_over_new_rules() {
    let fence = Fence::new(rules(&["127.0.0.0/8"], &[]));
    let to: SocketAddr = "127.0.0.1:8053".parse().unwrap();
    fence.set_listeners(vec![to]);
    assert_eq!(fence.check(to, None, None), Err(NotAllowed::OwnListener));
    fence.set_rules(rules(&["127.0.0.0/8"], &[]));
    assert_eq!(fence.check(to, None, None), Err(NotAllowed::OwnListener));
    assert!(is_local(to.ip()) && !is_local([192, 0, 2, 1].into()));
}

#[test]
fn secrets_of_monitors_go_to_networks_of_the_operator_only() {
    let http = HttpCheck {
        port: 80,
        path: "/".into(),
        method: "GET".into(),
        host: None,
        headers: vec![("X-Token".into(), Secret::new("secret"))],
        status: "2xx".parse().unwrap(),
        body: None,
        response_header: None,
        tls: None,
    };
    let (secret, plain) = (Monitor::new(Check::Http(http)), tcp(80));
    let networks = ProbeNetworks { credentials: vec!["198.51.100.0/24".parse().unwrap()], ..ProbeNetworks::default() };
    let files = files("192.0.2.1", 80, "gw.internal:8080");
    let check = |has_tenants, monitor: &Monitor, to: &str, host: Option<&str>| {
        let rules = FenceRules::new(networks.clone(), &files, has_tenants);
        rules.check(to.parse().unwrap(), host, Some(monitor), |_| false)
    };
    let denied = Err(NotAllowed::Credentials);
    assert_eq!(check(true, &secret, "203.0.113.1:80", None), denied);
    assert_eq!(check(true, &secret, "203.0.113.1:8080", Some("gw.tenant")), denied);
    assert_eq!(check(true, &secret, "192.0.2.1:81", None), denied, "another port of an address of the files");
    for (has_tenants, monitor, to, host) in [
        (true, &secret, "192.0.2.1:80", None),
        (true, &secret, "203.0.113.1:8080", Some("gw.internal")),
        (true, &secret, "198.51.100.1:80", None),
        (true, &plain, "203.0.113.1:80", None),
        (false, &secret, "203.0.113.1:80", None),
    ] {
        assert_eq!(check(has_tenants, monitor, to, host), Ok(()), "{to}");
    }
}
