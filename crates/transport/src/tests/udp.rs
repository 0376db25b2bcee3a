//! UDP on loopback.

use super::*;

fn ask(client: &UdpSocket, to: SocketAddr, query: &[u8]) -> (Vec<u8>, SocketAddr) {
    client.send_to(query, to).unwrap();
    let mut answer = [0; 4_096];
    let (length, from) = client.recv_from(&mut answer).expect("an answer");
    (answer[..length].to_vec(), from)
}

#[test]
fn answer_reaches_the_client_of_its_query() {
    let (server, at) = echo_on("127.0.0.1:0", 2);
    for number in 0..100 {
        let (answer, from) = ask(&client("127.0.0.1:0"), at, &packet(number, "hello"));
        assert_eq!((id(&answer), from), (number, at));
    }
    until("the count", || server.counters().stats().udp.answered == 100);
}

#[test]
fn answers_of_one_batch_in_sixteen_are_timed() {
    let (server, at) = echo_on("127.0.0.1:0", 1);
    let client = client("127.0.0.1:0");
    for number in 0..33 {
        ask(&client, at, &packet(number, if number == 16 { "SLOW" } else { "hello" }));
    }
    let stats = || server.counters().stats().udp;
    until("the count", || stats().times.count == 3);
    let times = stats().times;
    assert!(times.nanos > 10_000_000, "one took 10 ms: {times:?}");
    assert!(times.between[9] >= 1 || times.between.iter().sum::<u64>() < 3, "over 10 ms: {times:?}");
    assert_eq!(stats().bytes, 32 * 17 + 16, "bytes of all answers");
}

#[test]
fn spare_workers_answer_in_turn_during_a_computation() {
    let (server, at) = echo_on("127.0.0.1:0", 1);
    let client = client("127.0.0.1:0");
    let _computing = ComputeGuard::begin();
    let mut number = 0;
    until("an answer of every worker", || {
        number += 1;
        assert_eq!(id(&ask(&client, at, &packet(number, "hello")).0), number);
        server.counters().udp.iter().all(|counters| counters.received.get() > 0)
    });
    assert_eq!(server.counters().udp.len(), 6);
    until("the count", || server.counters().stats().udp.answered == u64::from(number));
    assert_eq!(server.counters().tallies_by_thread().count(), 7, "the six UDP workers and the TCP thread");
}

#[test]
fn spare_workers_pause_during_a_flood() {
    let (server, at) = echo_on("127.0.0.1:0", 1);
    let _computing = ComputeGuard::begin();
    let received = || server.counters().udp.iter().map(|counters| counters.received.get()).collect::<Vec<_>>();
    let flood = || {
        let socket = client("127.0.0.1:0");
        (0..20_000).for_each(|_| drop(socket.send_to(&packet(1, "DROP"), at)));
    };
    until("a flood of which the first worker receives most", || {
        let before = received();
        std::thread::scope(|scope| _ = [scope.spawn(flood), scope.spawn(flood)]);
        let taken: Vec<u64> = received().iter().zip(before).map(|(now, before)| now - before).collect();
        taken[5] * 2 > taken.iter().sum()
    });
}

#[test]
fn answer_leaves_from_the_queried_address() {
    let (_server, at) = echo_on("0.0.0.0:0", 2);
    for asked in ["127.0.0.1", "127.0.0.2", "127.8.8.8"] {
        let asked = SocketAddr::new(asked.parse().unwrap(), at.port());
        assert_eq!(ask(&client("127.0.0.1:0"), asked, &packet(1, "who")).1, asked);
    }
}

#[test]
fn dual_stack_wildcard_answers_both_families_from_the_queried_address() {
    let (_server, at) = echo_on("[::]:0", 1);
    for asked in ["127.0.0.1", "127.0.0.2"] {
        let asked = SocketAddr::new(asked.parse().unwrap(), at.port());
        assert_eq!(ask(&client("127.0.0.1:0"), asked, &packet(1, "four")).1, asked);
    }
    let asked = SocketAddr::new("::1".parse().unwrap(), at.port());
    assert_eq!(ask(&client("[::1]:0"), asked, &packet(2, "six")).1, asked);
}

#[test]
fn dropped_query_does_not_affect_its_batch() {
    let (server, at) = echo_on("127.0.0.1:0", 1);
    let client = client("127.0.0.1:0");
    for number in 0..200 {
        client.send_to(&packet(number, if number % 3 == 0 { "DROP" } else { "keep" }), at).unwrap();
    }
    let mut seen = vec![];
    let mut answer = [0; 512];
    while seen.len() < 133 {
        let length = client.recv(&mut answer).expect("the others are answered");
        seen.push(id(&answer[..length]));
    }
    // Spare workers answer their own batches, so the order can differ.
    seen.sort_unstable();
    assert_eq!(seen, (0..200).filter(|n| n % 3 != 0).collect::<Vec<_>>());
    until("the counts", || {
        (server.counters().stats().udp.received, server.counters().stats().udp.dropped) == (200, 67)
    });
}

#[test]
fn long_query_is_truncated_and_counted() {
    let (server, at) = echo_on("127.0.0.1:0", 1);
    let client = client("127.0.0.1:0");
    let (answer, _) = ask(&client, at, &packet(7, &"x".repeat(9_000)));
    assert_eq!((id(&answer), answer.len()), (7, 1_232));
    until("the count", || server.counters().stats().udp.cut == 1);
    assert_eq!(ask(&client, at, &packet(8, "FILL9000")).0.len(), 1_232);
}

#[test]
fn panic_loses_only_its_batch() {
    let (server, at) = echo_on("127.0.0.1:0", 1);
    let client = client("127.0.0.1:0");
    client.send_to(&packet(1, "PANIC"), at).unwrap();
    until("the panic", || server.counters().stats().udp.panics == 1);
    assert_eq!(id(&ask(&client, at, &packet(2, "still there")).0), 2);
}

#[test]
fn unreachable_client_does_not_affect_others() {
    let (_server, at) = echo_on("127.0.0.1:0", 1);
    let stays = client("127.0.0.1:0");
    for number in 0..200 {
        // The answer reaches a closed port, which causes an ICMP error.
        client("127.0.0.1:0").send_to(&packet(number, "gone"), at).unwrap();
        assert_eq!(id(&ask(&stays, at, &packet(number, "stays")).0), number);
    }
}

/// Waits until the port is free. A child process of another test holds all sockets until its `exec`.
fn wait_until_free(at: SocketAddr) {
    until("the port is free again", || Sockets::bind(&[at], 1).is_ok());
}

#[tokio::test]
async fn drain_answers_the_queue_and_refuses_later_queries() {
    for listen in ["127.0.0.76:0", "[::]:0", "0.0.0.0:0"] {
        let sockets = Sockets::bind(&[address(listen)], 2).unwrap();
        let at = SocketAddr::new("127.0.0.76".parse().unwrap(), sockets.addresses()[0].port());
        let clients: Vec<_> = (0..200).map(|_| client("127.0.0.1:0")).collect();
        for (number, client) in clients.iter().enumerate() {
            client.connect(at).unwrap();
            client.send(&packet(number as u16, "queued")).unwrap();
        }
        let server = Server::start_with(sockets, TcpSettings::default(), || Echo).unwrap();
        let counters = server.counters().clone();
        server.drain(PATIENCE).await;
        assert_eq!(counters.stats().udp.answered, 200, "of {listen}: {:?}", counters.stats().udp);
        let mut answer = [0; 512];
        for (number, client) in clients.iter().enumerate() {
            let length = client.recv(&mut answer).expect("the queued query is answered");
            assert_eq!(usize::from(id(&answer[..length])), number);
        }
        let late = &clients[0];
        late.send(&packet(9, "late")).unwrap();
        assert_eq!(late.recv(&mut answer).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        wait_until_free(at);
    }
}

#[tokio::test]
async fn drain_answers_the_whole_queue_with_slow_answers() {
    let sockets = Sockets::bind(&[address("127.0.0.1:0")], 1).unwrap();
    let (client, at) = (client("127.0.0.1:0"), sockets.addresses()[0]);
    for number in 0..200 {
        client.send_to(&packet(number, "SLOW"), at).unwrap();
    }
    let server = Server::start_with(sockets, TcpSettings::default(), || Echo).unwrap();
    let counters = server.counters().clone();
    server.drain(PATIENCE).await;
    assert_eq!(counters.stats().udp.answered, 200);
}

#[tokio::test]
async fn drain_ends_at_its_limit() {
    let sockets = Sockets::bind(&[address("127.0.0.1:0")], 1).unwrap();
    let (client, at) = (client("127.0.0.1:0"), sockets.addresses()[0]);
    for number in 0..2_000 {
        client.send_to(&packet(number, "SLOW"), at).unwrap();
    }
    let server = Server::start_with(sockets, TcpSettings::default(), || Echo).unwrap();
    let counters = server.counters().clone();
    // One batch takes 320 ms (32 answers of 10 ms).
    server.drain(Duration::from_millis(700)).await;
    wait_until_free(at);
    assert!(counters.stats().udp.answered < 2_000, "{:?}", counters.stats().udp);
}

#[tokio::test]
async fn leave_keeps_the_queue_for_the_next_process() {
    let sockets = Sockets::bind(&[address("127.0.0.1:0")], 1).unwrap();
    let (kept, at) = (sockets.try_clone().unwrap(), sockets.addresses()[0]);
    Server::start_with(sockets, TcpSettings::default(), || Echo).unwrap().leave(PATIENCE).await;
    let client = client("127.0.0.1:0");
    client.send_to(&packet(3, "waits"), at).unwrap();
    let _next = Server::start_with(kept, TcpSettings::default(), || Echo).unwrap();
    let mut answer = [0; 512];
    assert_eq!(client.recv(&mut answer).expect("the next server answers"), 17);
}
