//! A real browser: Debian's chromium, driven by playwright (PyPI).
//!
//! The scripts in `integration/tests/page` look, click and compare; they run as children and request actions of the parent. Screenshots
//! are left in `target/page/`.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
};

use crate::real::{Fairway, program, root};

/// A browser that runs a script on a server; it ends when it is dropped.
#[derive(Debug)]
pub struct Looker(Child);

impl Looker {
    /// Starts a script of `integration/tests/page`.
    pub fn start(script: &str, server: &Fairway, arguments: &[&str]) -> Self {
        Self::start_at(&format!("http://{}", server.http), script, server, arguments)
    }

    /// Starts it for a page at another URL.
    pub fn start_at(page: &str, script: &str, server: &Fairway, arguments: &[&str]) -> Self {
        let shots = root().join("target/page");
        std::fs::create_dir_all(&shots).expect("target/ can be written");
        let mut command = Command::new(program("playwright", "playwright-python"));
        command.arg(root().join("integration/tests/page").join(script));
        command.arg(page).arg(server.dns.to_string()).arg(server.folder.path());
        command.arg(program("chromium", "chromium")).arg(shots).args(arguments);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Self(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Executes the script's requests, a line `@ORDER` each, and prints its other output, until it exits with success.
    pub fn follow(mut self, mut carry_out: impl FnMut(&str)) {
        let mut answers = self.0.stdin.take().expect("it was piped");
        let lines = BufReader::new(self.0.stdout.take().expect("it was piped")).lines();
        for line in lines {
            let line = line.expect("the script writes text");
            let Some(order) = line.strip_prefix('@') else {
                println!("{line}");
                continue;
            };
            carry_out(order);
            answers.write_all(b"done\n").expect("the script waits for the answer");
        }
        let status = self.0.wait().expect("it is our child");
        assert!(status.success(), "the script ended with {status}; it says above what it saw");
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
