//! The demo from its first line to its last, as a newcomer runs it.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// What the manual promises for the whole run is 15 seconds; a build without optimisation on a busy machine gets four times that.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn the_demo_shows_a_failure_and_its_repair_and_ends() {
    let began = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairway"));
    command.args(["demo", "--once"]).stdin(Stdio::null());
    let output = command.output().expect("the program was built with this test");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(began.elapsed() < LIMIT, "it took {:?}", began.elapsed());
    for part in ["dig @127.0.0.1 -p ", "eu1 is down", "eu1 is up", "127.0.1.1 (eu1) → 127.0.2.1 (us1)", "kept theirs"]
    {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "colours in a pipe");
    let wide = text.lines().find(|line| line.chars().count() > 100);
    assert_eq!(wide, None, "a line is wider than a terminal");
}
