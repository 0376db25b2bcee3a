//! TCP on loopback: clients that use more than their share.

use super::*;

const SHORT: Duration = Duration::from_millis(150);

#[test]
fn idle_connection_is_closed() {
    let (server, at) = echo_with(TcpSettings { idle: SHORT, ..TcpSettings::default() });
    let mut stream = connect(at);
    assert_eq!(ask_stream(&mut stream, 1), Some(1));
    let asked = Instant::now();
    assert!(is_closed(&mut stream));
    assert!(asked.elapsed() > SHORT / 2, "the idle timeout has passed");
    until("the count", || server.counters().stats().tcp.closed(CloseReason::Idle) == 1);
}

#[test]
fn slow_message_is_closed_at_its_deadline() {
    let (server, at) = echo_with(TcpSettings { message: SHORT, ..TcpSettings::default() });
    let mut stream = connect(at);
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    stream.write_all(&[0, 200]).unwrap();
    let begun = Instant::now();
    while stream.write_all(&[1]).is_ok()
        && stream.read(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock)
    {
        assert!(begun.elapsed() < PATIENCE, "single octets must not extend the deadline");
    }
    until("the count", || server.counters().stats().tcp.closed(CloseReason::SlowMessage) == 1);
}

#[test]
fn client_that_does_not_read_costs_bounded_memory_and_delays_nobody() {
    let (server, at) = echo_with(TcpSettings { write: 4 * SHORT, ..TcpSettings::default() });
    let mut greedy = connect(at);
    greedy.set_nonblocking(true).unwrap();
    let query = framed(&packet(1, "FILL65000"));
    let mut other = connect(at);
    let mut asked = 0;
    while server.counters().stats().tcp.closed(CloseReason::SlowReader) == 0 {
        // Requests 65 kB again and again and reads nothing.
        asked += usize::from(greedy.write(&query).is_ok());
        assert_eq!(ask_stream(&mut other, 9), Some(9));
        assert!(asked < 100_000, "the server must stop reading");
    }
    let answered = server.counters().stats().tcp.messages;
    assert!(answered > 1);
    assert_eq!(server.counters().stats().tcp.active(), 1);
}

#[test]
fn flood_of_incomplete_queries_does_not_block_new_clients() {
    let settings = TcpSettings { connections: 40, per_client: 1_000, ..TcpSettings::default() };
    let (server, at) = echo_with(settings);
    let mut half_sent = vec![];
    for number in 0..300 {
        let mut stream = connect(at);
        stream.write_all(&[0, 40, 1]).unwrap();
        half_sent.push(stream);
        if number % 10 == 0 {
            assert_eq!(ask_stream(&mut connect(at), number), Some(number));
        }
    }
    until("the evictions", || {
        server.counters().stats().tcp.accepted == 330 && server.counters().stats().tcp.active() == 40
    });
}

#[test]
fn full_server_closes_the_connection_with_the_oldest_query() {
    let (_server, at) = echo_with(TcpSettings { connections: 3, ..TcpSettings::default() });
    let [mut early, mut idlest, mut late] = [connect(at), connect(at), connect(at)];
    for stream in [&mut early, &mut idlest, &mut late] {
        assert_eq!(ask_stream(stream, 1), Some(1));
    }
    assert_eq!(ask_stream(&mut early, 2), Some(2));
    let mut newcomer = connect(at);
    assert_eq!(ask_stream(&mut newcomer, 2), Some(2));
    assert!(is_closed(&mut idlest));
    assert_eq!([ask_stream(&mut early, 3), ask_stream(&mut late, 3)], [Some(3), Some(3)]);
}

#[test]
fn client_at_its_limit_does_not_affect_others() {
    let (_server, at) = echo_with(TcpSettings { per_client: 2, ..TcpSettings::default() });
    let mut other = connect_from("127.0.0.9:0", at);
    assert_eq!(ask_stream(&mut other, 1), Some(1));
    let mut streams: Vec<_> = (0..5).map(|_| connect_from("127.0.0.8:0", at)).collect();
    assert_eq!(ask_stream(&mut streams[4], 2), Some(2));
    assert!(streams[..3].iter_mut().all(is_closed));
    assert_eq!([ask_stream(&mut streams[3], 3), ask_stream(&mut other, 3)], [Some(3), Some(3)]);
}

#[test]
fn thousands_of_connections_do_not_affect_udp() {
    let (_server, at) = echo_with(TcpSettings { connections: 100, per_client: 100, ..TcpSettings::default() });
    let udp = client("127.0.0.1:0");
    let mut answer = [0; 64];
    for number in 0..2_000 {
        let mut stream = connect(at);
        stream.write_all(&[0, 99]).unwrap();
        udp.send_to(&packet(number, "udp"), at).unwrap();
        let length = udp.recv(&mut answer).expect("an answer by UDP");
        assert_eq!(id(&answer[..length]), number);
    }
}

/// Runs in a child process, because it lowers the limit of open files.
#[test]
fn idlest_connection_is_evicted_when_descriptors_run_out() {
    const CHILD: &str = "FAIRWAY_TEST_FEW_DESCRIPTORS";
    if std::env::var_os(CHILD).is_some() {
        return few_descriptors();
    }
    let name = "tests::tcp_bounds::idlest_connection_is_evicted_when_descriptors_run_out";
    run_in_child_process(name, CHILD);
}

fn few_descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let (server, at) = echo_with(TcpSettings::default());
    // Both ends of a connection are in this process, so the client sockets are created before the limit is lowered.
    let mut clients: Vec<_> =
        (0..60).map(|_| socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap()).collect();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, descriptors() + 5, hard).unwrap();
    for client in &clients {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.connect(&at.into()).unwrap();
    }
    let mut last: TcpStream = clients.pop().unwrap().into();
    assert_eq!(ask_stream(&mut last, 8), Some(8), "the new connection is served");
    let stats = server.counters().stats().tcp;
    assert!(stats.accept_errors > 0 && stats.closed(CloseReason::Evicted) > 40, "{stats:?}");
    assert!(stats.accept_errors < 200, "no busy loop: {stats:?}");
    drop(clients);
    until("the closes", || server.counters().stats().tcp.active() <= 1);
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(1_024), hard).unwrap();
}
