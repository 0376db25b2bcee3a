//! A restart by SIGTERM loses no more queries than one by `kill -9`: the server answers until everything else has ended.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use fairway_integration::{
    load::{query, resolve},
    real::{Fairway, wait_until},
};

use super::{LIMIT, NAME, answering, hold, serve_again};

/// Sends 1,000 queries a second, whether or not they are answered.
struct OpenLoop {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(Instant, bool)>>,
}

impl OpenLoop {
    fn start(server: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&stop);
        Self { stop, thread: std::thread::spawn(move || send(server, &ending)) }
    }

    /// Returns for each query when it was sent, and true if it was answered.
    fn stop(self) -> Vec<(Instant, bool)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the loop does not panic")
    }
}

fn send(server: SocketAddr, ending: &AtomicBool) -> Vec<(Instant, bool)> {
    // Not connected, so that a refused query is no error of the next one. Several, so that every worker gets queries.
    let sockets: Vec<_> = (0..16).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port")).collect();
    sockets.iter().for_each(|socket| socket.set_nonblocking(true).expect("a socket"));
    let (mut sent, begin): (Vec<(Instant, bool)>, _) = (vec![], Instant::now());
    let receive = |sent: &mut Vec<(Instant, bool)>| {
        let mut answer = [0; 512];
        for socket in &sockets {
            while let Ok(length) = socket.recv(&mut answer) {
                if let [high, low, ..] = answer[..length]
                    && let Some((_, is_answered)) = sent.get_mut(usize::from(u16::from_be_bytes([high, low])))
                {
                    *is_answered = true;
                }
            }
        }
    };
    while !ending.load(Ordering::Relaxed) && sent.len() < usize::from(u16::MAX) {
        while (sent.len() as u128) < begin.elapsed().as_millis() && sent.len() < usize::from(u16::MAX) {
            let packet = query(NAME, sent.len() as u16);
            let _ = sockets[sent.len() % sockets.len()].send_to(&packet, server);
            sent.push((Instant::now(), false));
        }
        receive(&mut sent);
        std::thread::park_timeout(Duration::from_millis(1));
    }
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end && !sent.iter().rev().take(1_000).all(|(_, is_answered)| *is_answered) {
        receive(&mut sent);
        std::thread::park_timeout(Duration::from_millis(1));
    }
    sent
}

/// A restart: the signal, when it was sent, when the process had ended, and when the next one answered.
type Restart = (&'static str, [Instant; 3]);

#[test]
fn restart_by_sigterm_loses_no_more_queries_than_by_sigkill() {
    let mut server = Fairway::start(&answering(&["192.0.2.1"]), &[]);
    let load = OpenLoop::start(server.dns);
    let mut restarts: Vec<Restart> = vec![];
    // In turn, so that both meet the same machine.
    for round in 0..10 {
        hold(Duration::from_millis(300), || {});
        let signal = ["KILL", "TERM"][round % 2];
        let sent = Instant::now();
        server.process.signal(signal);
        server.process.ended(LIMIT);
        let ended = Instant::now();
        server.process = serve_again(&server, &format!("again-{round}.log"));
        wait_until("the next process answers", LIMIT, || resolve(server.dns, NAME).is_some());
        restarts.push((signal, [sent, ended, Instant::now()]));
    }
    let queries = load.stop();
    let lost = |from: Instant, to: Instant| {
        queries.iter().filter(|(at, is_answered)| !is_answered && (from..to).contains(at)).count()
    };
    let by = |signal: &str, phase: usize| -> Vec<usize> {
        let mut lost: Vec<_> =
            restarts.iter().filter(|(of, _)| *of == signal).map(|(_, at)| lost(at[0], at[phase])).collect();
        lost.sort_unstable();
        lost
    };
    println!("of {} queries at 1,000 a second, lost in each restart, sorted:", queries.len());
    for (what, phase) in [("until the process had ended", 1), ("until the next one answered", 2)] {
        println!("  {what}: SIGTERM {:?}, SIGKILL {:?}", by("TERM", phase), by("KILL", phase));
    }
    let median = |signal, phase| by(signal, phase)[2];
    // 30 ms for a process that frees its memory itself, and for a test that notices the end late.
    assert!(median("TERM", 1) <= median("KILL", 1) + 30, "while the process ended");
    assert!(median("TERM", 2) <= median("KILL", 2) * 3 / 2 + 30, "over the whole restart");
}
