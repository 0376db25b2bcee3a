//! Real answers over the real transports.

use std::sync::Arc;

use arc_swap::ArcSwap;
use fairway_model::{DesiredState, Health, HealthStatus, Name, Rtype, ZoneSpec};
use fairway_zonefile::read_zone;
use fairway_zones::{RuntimeState, ServerOptions, ServingState, compile, decode};

use super::*;

fn serving(address: &str) -> ServingState {
    let origin: Name = "example.test".parse().unwrap();
    let text = format!("$TTL 60\n@ SOA ns1 hostmaster 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.53\nwww A {address}\n");
    let (zone, faults) = read_zone(&origin, "test.zone", text.as_bytes(), &mut |_| Err("none".into()));
    assert!(faults.iter().all(|fault| !fault.is_error()), "{faults:?}");
    let zones = [(origin.clone(), ZoneSpec::new(origin))].into();
    let desired = DesiredState { zones, ..DesiredState::default() };
    let (snapshot, _) = compile(&desired, &[zone], &ServerOptions::default(), None).unwrap();
    let runtime = RuntimeState::new(&snapshot, |_| Health::new(HealthStatus::Up, None));
    ServingState { snapshot: Arc::new(snapshot), runtime: Arc::new(runtime) }
}

fn query(owner: &str) -> Vec<u8> {
    let mut query = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend_from_slice(owner.parse::<Name>().unwrap().as_wire());
    query.extend_from_slice(&Rtype::A.0.to_be_bytes());
    query.extend_from_slice(&[0, 1]);
    query
}

fn first_answer(response: &[u8]) -> String {
    decode(response).expect("well-formed").answer[0].rdata.clone()
}

#[test]
fn both_transports_answer_from_the_current_serving_state() {
    let pointer = Arc::new(ArcSwap::from_pointee(serving("192.0.2.1")));
    let sockets = Sockets::bind(&[address("127.0.0.1:0")], 2).unwrap();
    let at = sockets.addresses()[0];
    let server = Server::start(sockets, Arc::clone(&pointer), TcpSettings::default()).unwrap();
    let (udp, mut tcp) = (client("127.0.0.1:0"), connect(at));
    for expected in ["192.0.2.1", "192.0.2.2"] {
        pointer.store(Arc::new(serving(expected)));
        udp.send_to(&query("www.example.test"), at).unwrap();
        let mut response = [0; 512];
        let length = udp.recv(&mut response).expect("an answer");
        assert_eq!(first_answer(&response[..length]), expected);
        tcp.write_all(&framed(&query("www.example.test"))).unwrap();
        assert_eq!(first_answer(&next_message(&mut tcp).expect("an answer")), expected);
    }
    until("the counts of all threads", || server.counters().tallies().queries == [2, 0, 2, 0]);
    assert_eq!(server.counters().stats().tcp.messages, 2);
}

#[test]
fn idle_threads_release_the_old_serving_state() {
    let pointer = Arc::new(ArcSwap::from_pointee(serving("192.0.2.1")));
    let sockets = Sockets::bind(&[address("127.0.0.1:0")], 2).unwrap();
    let at = sockets.addresses()[0];
    let _server = Server::start(sockets, Arc::clone(&pointer), TcpSettings::default()).unwrap();
    let udp = client("127.0.0.1:0");
    udp.send_to(&query("www.example.test"), at).unwrap();
    udp.recv(&mut [0; 512]).expect("an answer");
    let old = Arc::downgrade(&pointer.swap(Arc::new(serving("192.0.2.2"))));
    until("no worker holds the old state", || old.upgrade().is_none());
}
