//! A new process replaces an old one without losing a query.

use std::{
    net::{SocketAddr, TcpListener, UdpSocket},
    os::unix::net::UnixDatagram,
    time::Duration,
};

use fairway_integration::{
    load::{Load, connect, query, receive, resolve},
    real::{Fairway, Process, fairway_binary, free_port, head, http_get, serve, wait_until},
};

use super::{LIMIT, NAME, answering, said, state, traces};

const HERE: [&str; 1] = ["192.0.2.1"];

#[test]
fn replacement_under_load_loses_no_query() {
    let mut server = Fairway::start(&answering(&HERE), &[]);
    let load = Load::start(server.dns, 64, NAME, |reply| reply.is(&HERE));
    for _ in 0..2 {
        load.wait_for(500);
        let mut next = server.start_beside(&["--replace"]);
        let pid = u64::from(next.pid());
        wait_until("the new process serves", LIMIT, || {
            assert!(next.is_running(), "the new process ended: {}", next.output());
            http_get(server.http, "/version").is_some_and(|(_, body)| body.contains(&format!(":{pid}")))
        });
        let status = server.process.ended(LIMIT);
        assert!(status.success(), "{status}: {}", server.process.output());
        load.wait_for(500);
        server.process = next;
    }
    load.stop().expect_whole(2_000);
    assert_eq!(state(server.http)["pid"], u64::from(server.process.pid()));
}

#[test]
fn log_lines_of_a_command_and_a_hand_over_have_a_trace_id() {
    let mut server = Fairway::start(&answering(&HERE), &[]);
    let added = server.command(&["override", "add", "eu1", "drain", "--reason", "disks", "--for", "1h", "--yes"]);
    assert!(added.status.success(), "{}", said(&added));
    let next = server.start_beside(&["--replace"]);
    assert!(server.process.ended(LIMIT).success());
    let old = server.process.output();
    let [command, begun, replaced, stopped] =
        ["override added", "handover started", "handover completed: replaced by a new process", "stopped"]
            .map(|msg| traces(&old, msg));
    assert!([&command, &begun].iter().all(|traces| traces.len() == 1 && traces[0].len() == 16), "{old}");
    assert_ne!(command, begun);
    assert_eq!((&replaced, &stopped), (&begun, &begun), "{old}");
    wait_until("the new process logs that it serves", LIMIT, || !traces(&next.output(), "serving").is_empty());
    let new = next.output();
    let serving = traces(&new, "serving");
    assert_eq!(serving[0].len(), 16, "{new}");
    assert_eq!(traces(&new, "handover completed: took over from the old process"), serving, "{new}");
}

#[test]
fn replacement_with_invalid_configuration_leaves_the_old_process_serving() {
    let mut server = Fairway::start(&answering(&HERE), &[]);
    let load = Load::start(server.dns, 16, NAME, |reply| reply.is(&HERE));
    server.write_config("pools: 7\n");
    let mut next = server.start_beside(&["--replace"]);
    assert_eq!(next.ended(LIMIT).code(), Some(1), "{}", next.output());
    load.wait_for(100);
    load.stop().expect_whole(100);
    assert!(server.process.is_running());
}

#[test]
fn sigterm_answers_queued_queries_and_exits_with_0() {
    let mut server = Fairway::start(&answering(&HERE), &[]);
    let sockets: Vec<_> = (0..200).map(|_| connect(server.dns)).collect();
    for (id, socket) in (1..).zip(&sockets) {
        socket.send(&query(NAME, id)).expect("the server listens");
    }
    server.process.signal("TERM");
    let answered = (1..).zip(&sockets).filter(|(id, socket)| receive(socket, *id).is_some()).count();
    assert_eq!(answered, sockets.len(), "of what had arrived before the signal");
    let status = server.process.ended(LIMIT);
    let said = server.process.output();
    assert_eq!(status.code(), Some(0), "{said}");
    let last = said.lines().find(|line| line.contains("stopped")).expect("it says that it stopped");
    let last: serde_json::Value = serde_json::from_str(last).expect("a line is JSON");
    assert_eq!(
        (&last["queries"], &last["responses"], &last["dropped"]),
        (&200.into(), &200.into(), &0.into()),
        "{last}"
    );
}

#[test]
fn port_in_use_is_reported_and_ends_the_start() {
    let server = Fairway::start(&answering(&HERE), &[]);
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let mut command = std::process::Command::new(fairway_binary());
    command.arg("serve").arg("--config").arg(server.folder.path().join("fairway.yaml"));
    command.arg("--data-dir").arg(elsewhere.path().join("data"));
    let mut second = Process::start(&mut command, &elsewhere.path().join("log"));
    assert_eq!(second.ended(LIMIT).code(), Some(1));
    let said = second.output();
    assert!(said.contains(&format!("port {}", server.dns.port())) && said.contains("in use"), "{said}");
    assert!(resolve(server.dns, NAME).is_some_and(|reply| reply.is(&HERE)), "the first one serves on");
}

#[test]
fn second_process_on_a_data_folder_names_the_first() {
    let server = Fairway::start(&answering(&HERE), &[]);
    // On other ports, so that only the data folder conflicts.
    let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let file = server.folder.path().join("second.yaml");
    std::fs::write(&file, head(dns, http) + &answering(&HERE)).expect("the folder can be written");
    let mut command = std::process::Command::new(fairway_binary());
    command.arg("serve").arg("--config").arg(file).arg("--data-dir").arg(server.folder.path().join("data"));
    let mut second = Process::start(&mut command, &server.folder.path().join("second.log"));
    assert_eq!(second.ended(LIMIT).code(), Some(1));
    let said = second.output();
    assert!(said.contains(&format!("process id {}", server.process.pid())), "{said}");
}

#[test]
fn start_after_kill_answers_correctly_within_two_seconds() {
    // The first gateway is down, and its status is known.
    let port = free_port();
    let alive = super::Gateway::healthy("127.0.0.3", port);
    let monitor = format!("type: http, port: {port}, period: 200ms, timeout: 200ms, rise: 2, fall: 2");
    let config = super::failing_over(&[("eu1", "127.0.0.2"), ("us1", "127.0.0.3")], &monitor);
    let mut server = Fairway::start(&config, &[]);
    fairway_integration::load::wait_answer(server.dns, NAME, &["127.0.0.3"], LIMIT);
    // A machine that stalls for a moment does so once; a slow start is slow each time.
    let mut took = vec![];
    while took.last().is_none_or(|took| *took >= Duration::from_secs(2)) {
        assert!(took.len() < 3, "the first answers took {took:?}");
        server.process.signal("KILL");
        server.process.ended(LIMIT);
        let began = std::time::Instant::now();
        server.process = super::serve_again(&server, &format!("again-{}.log", took.len()));
        let mut first = None;
        wait_until("the first answer", LIMIT, || {
            first = resolve(server.dns, NAME);
            first.is_some()
        });
        took.push(began.elapsed());
        assert!(first.as_ref().is_some_and(|reply| reply.is(&["127.0.0.3"])), "{first:?}");
    }
    drop(alive);
}

#[test]
fn service_manager_receives_main_pid_and_no_stop_during_replacement() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let manager = UnixDatagram::bind(folder.path().join("notify")).expect("the folder is new");
    manager.set_read_timeout(Some(LIMIT)).expect("the limit is not zero");
    let hears = || {
        let mut message = [0; 512];
        let length = manager.recv(&mut message).expect("a message");
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    std::fs::write(folder.path().join("fairway.yaml"), head(dns, http) + &answering(&HERE)).expect("it can be written");
    let start = |arguments: &[&str], log: &str| {
        let mut command = serve(folder.path());
        command.args(arguments).env("NOTIFY_SOCKET", folder.path().join("notify"));
        Process::start(&mut command, &folder.path().join(log))
    };
    let mut old = start(&[], "old.log");
    assert!(hears().starts_with("READY=1\n"));
    let next = start(&["--replace"], "next.log");
    let mut heard = [hears(), hears()];
    heard.sort();
    assert_eq!(heard[0], format!("MAINPID={}", next.pid()));
    assert!(heard[1].starts_with("READY=1\n"), "{heard:?}");
    assert_eq!(old.ended(LIMIT).code(), Some(0), "{}", old.output());
    next.signal("TERM");
    assert!(hears().starts_with("STOPPING=1\n"));
}

#[test]
fn queries_wait_in_activated_sockets_for_the_next_process() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dns = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (udp, tcp) = (UdpSocket::bind(dns).expect("the port is free"), TcpListener::bind(dns).expect("for both"));
    let http = SocketAddr::from(([127, 0, 0, 1], free_port()));
    std::fs::write(folder.path().join("fairway.yaml"), head(dns, http) + &answering(&HERE)).expect("it can be written");
    let activated = |log: &str| {
        let passed = [tcp.try_clone().expect("a descriptor").into(), udp.try_clone().expect("a descriptor").into()];
        Process::start_activated(&serve(folder.path()), passed, &folder.path().join(log))
    };
    let answers = |sockets: &[UdpSocket]| (1..).zip(sockets).filter(|(id, s)| receive(s, *id).is_some()).count();
    let serves = || wait_until("it serves", LIMIT, || resolve(dns, NAME).is_some_and(|reply| reply.is(&HERE)));
    let mut process = activated("first.log");
    serves();
    for round in ["second.log", "third.log"] {
        if round == "third.log" {
            // A process that takes over must not close sockets of the service manager.
            let mut next = Process::start(serve(folder.path()).arg("--replace"), &folder.path().join("next.log"));
            assert!(process.ended(LIMIT).success() && next.is_running(), "{}", next.output());
            process = next;
        }
        process.signal("TERM");
        assert!(process.ended(LIMIT).success(), "{}", process.output());
        let sockets: Vec<_> = (0..50).map(|_| connect(dns)).collect();
        for (id, socket) in (1..).zip(&sockets) {
            socket.send(&query(NAME, id)).expect("the socket is still there");
        }
        process = activated(round);
        serves();
        assert_eq!(answers(&sockets), sockets.len(), "{}", process.output());
    }
}
