//! The demo from its first line to its last, as a user runs it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        mpsc::{self, Receiver},
    },
    time::{Duration, Instant},
};

/// Time limit: four times the 15 seconds that the manual promises, for a build without optimisation on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs one demo at a time: two that start at the same moment would find the same ports free.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn demo_once_shows_a_failure_and_its_recovery_and_ends() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let start = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairway"));
    command.args(["demo", "--once"]).stdin(Stdio::null());
    let output = command.output().expect("the program was built with this test");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(start.elapsed() < LIMIT, "the demo took {:?}", start.elapsed());
    for part in ["dig @127.0.0.1 -p ", "eu1 is down", "eu1 is up", "127.0.1.1 (eu1) → 127.0.2.1 (us1)", "kept theirs"]
    {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "output to a pipe must not be coloured");
    let wide = text.lines().find(|line| line.chars().count() > 100);
    assert_eq!(wide, None, "a line is wider than 100 columns");
}

/// A running demo. It is killed when the value is dropped.
struct Running {
    child: Child,
    lines: Receiver<String>,
    output: String,
}

impl Running {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairway"));
        command.arg("demo").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program was built with this test");
        let output = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, output: String::new() }
    }

    /// Waits for a line that contains a text.
    fn wait_for(&mut self, part: &str) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let line = self.lines.recv_timeout(end.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|error| panic!("{part:?} is missing ({error}):\n{}", self.output));
            self.output += &format!("{line}\n");
            if line.contains(part) {
                return line;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a POST request. Returns the response.
fn post(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the demo listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a time above 0");
    write!(stream, "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .expect("it takes a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn demo_runs_commands_until_an_interrupt_and_exits_with_0() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut demo = Running::start();
    demo.wait_for("Your turn: effects are shown here; Ctrl-C ends the demo");
    let line = demo.wait_for("curl -X POST http://");
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
    for (path, reply) in [("/us1/down", "us1 goes down"), ("/us1/up", "us1 comes up")] {
        let answer = post(address, path);
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.trim_end().ends_with(reply), "{answer}");
        demo.wait_for(reply);
        // The health transition, and then the changed shares.
        demo.wait_for("us1");
        demo.wait_for("shares");
    }
    assert!(
        demo.child.try_wait().expect("it is a child process").is_none(),
        "the demo ended without an interrupt:\n{}",
        demo.output
    );
    let sent = Command::new("kill").args(["-s", "INT", &demo.child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill -s INT");
    demo.wait_for("Ended. Nothing is left behind.");
    let end = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = demo.child.try_wait().expect("it is a child process") {
            break status;
        }
        assert!(Instant::now() < end, "the demo does not end after an interrupt");
        std::thread::park_timeout(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}:\n{}", demo.output);
}
