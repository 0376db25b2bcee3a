//! Socket activation. A shell takes the place of the service manager: it passes descriptors 3 and 4.

use std::{
    os::fd::OwnedFd,
    process::{Command, Stdio},
};

use super::*;

const CHILD: &str = "FAIRWAY_TEST_ACTIVATED_AT";
const NAME: &str = "tests::activation::inherited_sockets_are_served_and_stay_open_afterwards";

/// Returns a command that runs this program with `passed` as descriptors 3 and 4.
fn activate(at: &str, passed: [OwnedFd; 2]) -> Command {
    let [third, fourth] = passed.map(Stdio::from);
    let shell = "exec 3<&0 4<&1 0</dev/null 1>&2; LISTEN_FDS=2 LISTEN_PID=$$ exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", shell, "sh"]).arg(std::env::current_exe().unwrap()).args(["--exact", NAME, "--nocapture"]);
    command.env(CHILD, at).stdin(third).stdout(fourth).stderr(Stdio::piped());
    command
}

#[test]
fn inherited_sockets_are_served_and_stay_open_afterwards() {
    if let Ok(at) = std::env::var(CHILD) {
        return activated(&at);
    }
    let bound = Sockets::bind(&[address("127.0.0.1:0")], 1).unwrap();
    let (at, udp, tcp) = (bound.addresses()[0], &bound.bound[0].udp[0], &bound.bound[0].tcp[0]);
    let passed = [tcp.try_clone().unwrap().into(), udp.try_clone().unwrap().into()];
    let child = activate(&at.to_string(), passed).spawn().unwrap();
    let client = client("127.0.0.1:0");
    client.send_to(&packet(1, "activated"), at).unwrap();
    client.recv(&mut [0; 64]).expect("an answer by UDP");
    assert_eq!(ask_stream(&mut connect(at), 2), Some(2));
    client.send_to(&packet(3, "DROP"), at).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The process has ended and the sockets are still open: new queries wait for the next process.
    client.send_to(&packet(4, "waits"), at).unwrap();
    udp.set_read_timeout(Some(PATIENCE)).unwrap();
    udp.recv(&mut [0; 64]).expect("the query is queued in the socket");
    TcpStream::connect(at).expect("connections are queued too");
}

/// The activated process: serves until it receives the query `DROP`.
fn activated(at: &str) {
    let inherited = Sockets::inherited();
    if at == "nowhere" {
        let error = inherited.unwrap_err().to_string();
        assert!(error.starts_with("socket 0 of LISTEN_FDS is neither a TCP listener nor a UDP socket"), "{error}");
        return;
    }
    let sockets = inherited.unwrap().complete(&[address(at)], 2).unwrap();
    assert!(sockets.bound[0].shared.is_held_by_service_manager() && sockets.bound[0].udp.len() == 2);
    let server = Server::start_with(sockets, TcpSettings::default(), || Echo).unwrap();
    until("the order to end", || server.counters().stats().udp.dropped == 1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(server.drain(PATIENCE));
}

#[test]
fn inherited_descriptor_that_is_no_socket_is_an_error() {
    let files = [(); 2].map(|()| tempfile::tempfile().unwrap().into());
    let output = activate("nowhere", files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn sockets_without_service_manager_are_empty() {
    assert!(Sockets::inherited().unwrap().is_empty());
}
