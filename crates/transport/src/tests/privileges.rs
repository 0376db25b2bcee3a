//! Privileges after a switch of user.

use nix::unistd::{geteuid, getgroups};

use super::{
    super::{become_owner, drop_to, raise_open_files},
    *,
};

const CHILD: &str = "FAIRWAY_TEST_DROP_PRIVILEGES";

#[test]
fn unprivileged_process_keeps_only_its_sockets() {
    if std::env::var_os(CHILD).is_none() {
        return run_in_child_process("tests::privileges::unprivileged_process_keeps_only_its_sockets", CHILD);
    }
    if !geteuid().is_root() {
        let error = drop_to("nobody").unwrap_err();
        assert!(error.to_string().contains("only root can switch users"), "{error}");
        return;
    }
    let (_server, at) = echo_on("127.0.0.1:0", 2);
    drop_to("nobody").unwrap();
    // All threads, including the workers.
    for thread in std::fs::read_dir("/proc/self/task").unwrap() {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let line = |key: &str| status.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
        assert!(!line("Uid:").split_whitespace().skip(1).any(|id| id == "0"), "{status}");
        assert!(!line("Gid:").split_whitespace().skip(1).any(|id| id == "0"), "{status}");
        for capabilities in ["CapEff:", "CapPrm:"] {
            assert!(line(capabilities).ends_with("\t0000000000000000"), "{status}");
        }
    }
    assert!(getgroups().unwrap().iter().all(|group| group.as_raw() != 0));
    assert!(std::fs::read("/etc/shadow").is_err());
    let client = client("127.0.0.1:0");
    client.send_to(&packet(1, "still served"), at).unwrap();
    client.recv(&mut [0; 64]).expect("an answer");
    assert_eq!(ask_stream(&mut connect(at), 2), Some(2));
    drop_to("nobody").expect("switching to the current user does nothing");
    drop_to("daemon").expect_err("an unprivileged user cannot switch");
}

#[test]
fn root_becomes_the_owner_of_a_folder() {
    const CHILD: &str = "FAIRWAY_TEST_BECOME_OWNER";
    if std::env::var_os(CHILD).is_none() {
        return run_in_child_process("tests::privileges::root_becomes_the_owner_of_a_folder", CHILD);
    }
    let folder = tempfile::tempdir().unwrap();
    become_owner(folder.path()).unwrap();
    if geteuid().is_root() {
        std::os::unix::fs::chown(folder.path(), Some(4_711), Some(4_712)).unwrap();
        become_owner(folder.path()).unwrap();
        assert_eq!((geteuid().as_raw(), nix::unistd::getegid().as_raw()), (4_711, 4_712));
        assert!(std::fs::read("/etc/shadow").is_err());
    }
}

#[test]
fn root_and_unknown_users_are_refused_with_a_hint() {
    let root = drop_to("root").unwrap_err().to_string();
    assert_eq!(
        root,
        "cannot switch to user \"root\": it has user id 0 and keeps every privilege; use an unprivileged user"
    );
    let unknown = drop_to("fairway-no-such-user").unwrap_err().to_string();
    assert!(unknown.contains("no such user; create it"), "{unknown}");
}

#[test]
fn open_files_are_raised_to_the_hard_limit() {
    let raised = raise_open_files().unwrap();
    let (soft, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
    assert_eq!((soft, hard), (raised, raised));
}
