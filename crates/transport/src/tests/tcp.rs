//! TCP on loopback: messages split in any way.

use std::net::Shutdown;

use super::*;

#[test]
fn queries_in_one_segment_are_answered_in_order() {
    let (_server, at) = echo_with(TcpSettings::default());
    let mut stream = connect(at);
    let queries: Vec<u8> = (0..500).flat_map(|number| framed(&packet(number, "pipelined"))).collect();
    stream.write_all(&queries).unwrap();
    for number in 0..500 {
        assert_eq!(next_message(&mut stream).map(|answer| id(&answer)), Some(number));
    }
}

#[test]
fn query_split_at_any_octet_is_answered() {
    let (_server, at) = echo_with(TcpSettings::default());
    let (mut stream, mut other) = (connect(at), connect(at));
    stream.set_nodelay(true).unwrap();
    let queries = [framed(&packet(1, "one")), framed(&packet(2, "two, longer"))].concat();
    for cut in 1..queries.len() {
        stream.write_all(&queries[..cut]).unwrap();
        // When a later query of another client is answered, the server has read the octets before the cut.
        assert_eq!(ask_stream(&mut other, 3), Some(3));
        stream.write_all(&queries[cut..]).unwrap();
        let answers = [next_message(&mut stream), next_message(&mut stream)].map(|a| a.map(|a| id(&a)));
        assert_eq!(answers, [Some(1), Some(2)], "cut at {cut}");
    }
}

#[test]
fn query_sent_octet_by_octet_is_answered() {
    let (_server, at) = echo_with(TcpSettings::default());
    let mut stream = connect(at);
    stream.set_nodelay(true).unwrap();
    for octet in framed(&packet(77, "slowly")) {
        stream.write_all(&[octet]).unwrap();
        std::thread::yield_now();
    }
    assert_eq!(next_message(&mut stream).map(|answer| id(&answer)), Some(77));
}

#[test]
fn half_closed_stream_gets_all_answers() {
    let (server, at) = echo_with(TcpSettings::default());
    let mut stream = connect(at);
    let queries: Vec<u8> = (0..300).flat_map(|number| framed(&packet(number, "FILL2000"))).collect();
    stream.write_all(&queries).unwrap();
    stream.write_all(&[0, 50, 1, 2, 3]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    for number in 0..300 {
        assert_eq!(next_message(&mut stream).map(|answer| id(&answer)), Some(number));
    }
    assert!(is_closed(&mut stream));
    until("the close", || server.counters().stats().tcp.closed(CloseReason::Client) == 1);
}

#[test]
fn invalid_length_closes_after_the_earlier_answers() {
    let (server, at) = echo_with(TcpSettings::default());
    for length in [0, 1, 11] {
        let mut stream = connect(at);
        stream.write_all(&[framed(&packet(5, "good")), vec![0, length]].concat()).unwrap();
        assert_eq!(next_message(&mut stream).map(|answer| id(&answer)), Some(5));
        assert!(is_closed(&mut stream));
    }
    until("the closes", || server.counters().stats().tcp.closed(CloseReason::Length) == 3);
}

#[test]
fn message_of_65535_octets_passes_both_ways() {
    let (_server, at) = echo_with(TcpSettings::default());
    let mut stream = connect(at);
    for number in 0..20 {
        let longest = packet(number, &"x".repeat(65_535 - 12));
        stream.write_all(&framed(&longest)).unwrap();
        let answer = next_message(&mut stream).expect("an answer");
        assert_eq!((answer.len(), &answer[12..]), (65_535, &longest[12..]));
    }
}

#[test]
fn dropped_query_does_not_delay_the_next() {
    let (server, at) = echo_with(TcpSettings::default());
    let mut stream = connect(at);
    stream.write_all(&[framed(&packet(1, "DROP")), framed(&packet(2, "keep"))].concat()).unwrap();
    assert_eq!(next_message(&mut stream).map(|answer| id(&answer)), Some(2));
    let stats = server.counters().stats().tcp;
    assert_eq!((stats.accepted, stats.active(), stats.messages), (1, 1, 2));
}

#[test]
fn panic_closes_only_its_connection() {
    let (server, at) = echo_with(TcpSettings::default());
    let mut stream = connect(at);
    stream.write_all(&framed(&packet(1, "PANIC"))).unwrap();
    assert!(is_closed(&mut stream));
    assert_eq!(ask_stream(&mut connect(at), 2), Some(2));
    until("the count", || server.counters().stats().tcp.active() <= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drain_answers_a_started_query_and_then_closes() {
    let (server, at) = echo_with(TcpSettings::default());
    let (mut begun, mut idle) = (connect(at), connect(at));
    let query = framed(&packet(4, "begun before the drain"));
    begun.write_all(&query[..10]).unwrap();
    assert_eq!(ask_stream(&mut idle, 1), Some(1));
    let drain = tokio::spawn(server.drain(PATIENCE));
    let closed = tokio::task::spawn_blocking(move || is_closed(&mut idle)).await.unwrap();
    assert!(closed, "an idle connection is closed");
    begun.write_all(&query[10..]).unwrap();
    let answer = tokio::task::spawn_blocking(move || next_message(&mut begun)).await.unwrap();
    assert_eq!(answer.map(|answer| id(&answer)), Some(4));
    drain.await.unwrap();
    assert!(TcpStream::connect(at).is_err(), "the listener is closed");
}

#[tokio::test]
async fn drain_serves_a_connection_of_the_backlog() {
    let sockets = Sockets::bind(&[address("127.0.0.1:0")], 1).unwrap();
    let mut stream = connect(sockets.addresses()[0]);
    stream.write_all(&framed(&packet(6, "in the backlog"))).unwrap();
    Server::start_with(sockets, TcpSettings::default(), || Echo).unwrap().drain(PATIENCE).await;
    assert_eq!(next_message(&mut stream).map(|answer| id(&answer)), Some(6));
}

#[tokio::test]
async fn drain_limit_ends_a_client_that_never_stops() {
    let (server, at) = echo_with(TcpSettings::default());
    let mut stream = connect(at);
    assert_eq!(ask_stream(&mut stream, 0), Some(0));
    let asking = std::thread::spawn(move || (1..u16::MAX).find(|&number| ask_stream(&mut stream, number).is_none()));
    let started = Instant::now();
    server.drain(Duration::from_millis(500)).await;
    assert!(started.elapsed() < PATIENCE / 2);
    let _ = asking.join().unwrap();
}

#[tokio::test]
async fn leave_serves_open_connections_and_accepts_no_new_ones() {
    let sockets = Sockets::bind(&[address("127.0.0.1:0")], 1).unwrap();
    let (_kept, at) = (sockets.try_clone().unwrap(), sockets.addresses()[0]);
    let server = Server::start_with(sockets, TcpSettings::default(), || Echo).unwrap();
    let mut open = connect(at);
    assert_eq!(ask_stream(&mut open, 1), Some(1));
    let leaving = tokio::spawn(server.leave(PATIENCE));
    tokio::task::yield_now().await;
    let (open, newcomer) = tokio::task::spawn_blocking(move || {
        let answers: Vec<_> = (2..100).map(|number| ask_stream(&mut open, number)).collect();
        assert_eq!(answers, (2..100).map(Some).collect::<Vec<_>>());
        let mut newcomer = connect(at);
        newcomer.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        (open, ask_stream(&mut newcomer, 1))
    })
    .await
    .unwrap();
    assert_eq!(newcomer, None, "the connection waits for the next process");
    drop(open);
    leaving.await.unwrap();
}
