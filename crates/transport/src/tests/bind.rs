//! Binding addresses, and the errors.

use std::net::{TcpListener, UdpSocket};

use super::{super::BindErrorKind, *};

fn bind_errors(addresses: &[&str]) -> Vec<String> {
    let addresses: Vec<_> = addresses.iter().map(|text| address(text)).collect();
    let errors = Sockets::bind(&addresses, 1).unwrap_err();
    errors.to_string().lines().map(str::to_owned).collect()
}

#[test]
fn port_0_binds_the_same_port_for_udp_and_tcp() {
    let sockets = Sockets::bind(&[address("127.0.0.1:0")], 3).unwrap();
    let bound = &sockets.bound[0];
    assert_ne!(bound.address.port(), 0);
    assert_eq!(bound.udp.len(), 3);
    assert!(bound.udp.iter().all(|socket| socket.local_addr().unwrap() == bound.address));
    assert_eq!(bound.tcp[0].local_addr().unwrap(), bound.address);
}

#[test]
fn second_bind_of_the_same_port_is_an_error() {
    let first = Sockets::bind(&[address("127.0.0.1:0")], 1).unwrap();
    let error = Sockets::bind(&first.addresses(), 1).unwrap_err();
    assert!(matches!(error.0[0].kind, BindErrorKind::InUse { protocol: crate::Protocol::Tcp, .. }), "{error}");
}

#[test]
fn udp_port_in_use_with_reuseport_is_an_error() {
    let first = Sockets::bind(&[address("127.0.0.79:0")], 1).unwrap();
    let taken = first.addresses()[0];
    let udp_only = first.bound[0].udp[0].try_clone().unwrap();
    drop(first);
    let error = Sockets::bind(&[taken], 1).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("listen.dns {taken}: UDP port {} is in use by another process; ", taken.port())),
        "{text}"
    );
    drop(udp_only);
}

#[test]
fn bind_errors_are_returned_together_and_leave_nothing_bound() {
    // Addresses that only this test uses: elsewhere the client of another test may have the port.
    let free = UdpSocket::bind("127.0.0.77:0").unwrap().local_addr().unwrap();
    let taken = TcpListener::bind("127.0.0.78:0").unwrap();
    let errors = Sockets::bind(&[free, taken.local_addr().unwrap(), address("192.0.2.1:5353")], 1).unwrap_err();
    assert_eq!(errors.0.len(), 2, "{errors}");
    assert!(errors.to_string().contains("no interface of this machine has this address"));
    UdpSocket::bind(free).unwrap();
}

#[test]
fn overlapping_addresses_are_reported_with_both_addresses() {
    assert_eq!(
        bind_errors(&["127.0.0.1:5399", "127.0.0.1:5399"]),
        ["listen.dns 127.0.0.1:5399: listed twice; remove one"]
    );
    let covered = "listen.dns 127.0.0.1:5399: covered by [::]:5399, which is listed too; remove one of the two";
    assert_eq!(bind_errors(&["[::]:5399", "127.0.0.1:5399"]), [covered]);
    let covered = "listen.dns 127.0.0.1:5399: covered by 0.0.0.0:5399, which is listed too; remove one of the two";
    assert_eq!(bind_errors(&["[::]:5399", "127.0.0.1:5399", "0.0.0.0:5399"]), [covered]);
}

#[test]
fn ipv4_and_ipv6_wildcards_bind_together() {
    let v4 = Sockets::bind(&[address("0.0.0.0:0")], 1).unwrap().addresses()[0];
    let both = [address(&format!("[::]:{}", v4.port())), v4];
    assert_eq!(Sockets::bind(&both, 2).unwrap().addresses(), both);
}

#[test]
fn inherited_sockets_are_used_if_they_match_and_shared_by_all_workers() {
    let inherit_udp = || {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let wanted = udp.local_addr().unwrap();
        let mut inherited = Sockets::default();
        inherited.add_udp(udp, true).unwrap();
        // Another test may have this port on TCP; then the next one is tried.
        inherited.complete(&[wanted, address("127.0.0.1:0")], 2).ok().map(|sockets| (sockets, wanted))
    };
    let (sockets, wanted) = (0..20).find_map(|_| inherit_udp()).expect("a port free on TCP too");
    assert_eq!(sockets.addresses()[0], wanted);
    assert!(
        sockets.bound[0].shared.is_held_by_service_manager() && !sockets.bound[1].shared.is_held_by_service_manager()
    );
    assert!(sockets.bound.iter().all(|bound| bound.udp.len() == 2 && bound.tcp.len() == 1));
}
