//! The system calls of the answering threads while they answer, seen by strace.

use std::{collections::BTreeMap, fs, process::Command};

use fairway_integration::{
    load::Load,
    real::{Fairway, Process, program, wait_until},
};

use super::{LIMIT, NAME, answering};

/// Returns the ids of the threads that answer over UDP.
fn workers(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let ids = tasks.filter_map(|task| task.ok()?.file_name().into_string().ok());
    let name = |id: &String| fs::read_to_string(format!("/proc/{pid}/task/{id}/comm")).unwrap_or_default();
    ids.filter(|id| name(id).starts_with("fairway-udp")).collect()
}

#[test]
fn answering_makes_only_socket_system_calls() {
    let server = Fairway::start(&answering(&["192.0.2.1"]), &[]);
    let workers = workers(server.process.pid());
    assert!(!workers.is_empty(), "no thread answers");
    let calls = server.folder.path().join("calls");
    let mut command = Command::new(program("strace", "strace"));
    command.arg("-qq").arg("-o").arg(&calls);
    for id in &workers {
        command.args(["-p", id]);
    }
    let mut strace = Process::start(&mut command, &server.folder.path().join("strace.log"));
    let load = Load::start(server.dns, 16, NAME, |reply| reply.is(&["192.0.2.1"]));
    wait_until("strace sees answers", LIMIT, || {
        assert!(strace.is_running(), "strace ended: {}", strace.output());
        fs::read_to_string(&calls).is_ok_and(|text| text.matches("send").count() > 200)
    });
    load.wait_for(500);
    load.stop().expect_whole(500);
    strace.signal("INT");
    strace.ended(LIMIT);
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for line in fs::read_to_string(&calls).expect("strace wrote it").lines() {
        // `1234  recvmmsg(5, …) = 1`; signals begin with `---`.
        let text = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let call = text.strip_prefix("<... ").unwrap_or(text);
        let call = call.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        *seen.entry(call.to_owned()).or_default() += 1;
    }
    let sockets = ["recvmmsg", "sendmmsg", "recvmsg", "sendmsg", "recvfrom", "sendto"];
    let waits = ["poll", "ppoll", "epoll_wait", "epoll_pwait", "restart_syscall", ""];
    let other: Vec<_> = seen.keys().filter(|call| !sockets.contains(&&***call) && !waits.contains(&&***call)).collect();
    assert!(other.is_empty(), "{other:?} among {seen:?}");
    assert!(seen.keys().any(|call| call.starts_with("send")), "{seen:?}");
}
