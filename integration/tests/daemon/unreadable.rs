//! Files that exist and cannot be read by any user: reported with their path at a start; at a reload the old state stays in use.
//!
//! Permissions are not tested here, because they do not apply to root, which runs many tests. The reader's unit tests cover them.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use fairway_integration::{
    load::{Load, wait_answer},
    real::{Fairway, Process, free_port, head, serve, wait_until},
};
use tempfile::TempDir;

use super::{LIMIT, said, state};

/// Things that may exist instead of a file, and the expected error.
const KINDS: [(Kind, &str); 6] = [
    (Kind::Nothing, "does not exist"),
    (Kind::Folder, "is a folder"),
    (Kind::Dangling, "is a link to a file that does not exist"),
    (Kind::Loop, "is a link that leads back to itself"),
    (Kind::Pipe, "is a pipe, socket or device"),
    (Kind::Device, "is a pipe, socket or device"),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Nothing,
    Folder,
    Dangling,
    Loop,
    Pipe,
    /// A file that never ends.
    Device,
}

impl Kind {
    /// Creates it in place of a file.
    fn put(self, path: &Path) {
        clear(path);
        match self {
            Self::Nothing => {}
            Self::Folder => fs::create_dir(path).expect("the place is free"),
            Self::Dangling => symlink("nowhere", path).expect("the place is free"),
            Self::Loop => symlink(path.file_name().expect("it has one"), path).expect("the place is free"),
            Self::Pipe => {
                let made = Command::new("mkfifo").arg(path).status();
                assert!(made.is_ok_and(|status| status.success()), "mkfifo {}", path.display());
            }
            Self::Device => symlink("/dev/zero", path).expect("the place is free"),
        }
    }
}

fn clear(path: &Path) {
    let gone = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
    gone.expect("the folder can be written");
}

const ZONE: &str =
    "$TTL 60\n@ SOA ns1.example.net. admin.example.net. 1 1d 2h 1000h 1m\n@ NS ns1.example.net.\n$INCLUDE hosts.zone\n";
const HOSTS: &str = "www A 192.0.2.1\n";
/// The same configuration with the next address.
const NEXT: &str = "www A 192.0.2.2\n";
const CA: &str = "zones: [{ name: gslb.example, file: gslb.zone }]
monitors: [{ name: gateway, type: https, port: 1, tls: { ca: { file: ca.pem } } }]
";
const WWW: &str = "www.gslb.example";

/// Creates a folder with all files of a server, except those that the test replaces.
fn folder() -> (TempDir, [SocketAddr; 2]) {
    let folder = TempDir::new().expect("a temporary folder");
    let at = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    for (name, text) in [("gslb.zone", ZONE), ("hosts.zone", HOSTS), ("ca.pem", include_str!("ca.pem"))] {
        fs::write(folder.path().join(name), text).expect("the folder can be written");
    }
    fs::write(folder.path().join("fairway.yaml"), head(at[0], at[1]) + CA).expect("the folder can be written");
    (folder, at)
}

/// The file, and the location of its error.
const FILES: [(&str, &str); 4] = [
    ("fairway.yaml", "fairway.yaml: the file "),
    ("gslb.zone", "fairway.yaml:3:37: zones[0].file: "),
    ("hosts.zone", "gslb.zone:4:10: cannot include 'hosts.zone': "),
    ("ca.pem", "fairway.yaml:4:"),
];

/// True if an error has this text. A folder in place of the configuration is read as a folder of configurations.
fn tells(text: &str, (file, place): (&str, &str), (kind, fact): (Kind, &str)) -> bool {
    let fact = if (file, kind) == ("fairway.yaml", Kind::Folder) { "contains no *.yaml" } else { fact };
    text.lines().any(|line| line.contains(place) && line.contains(fact) && line.contains("; "))
}

/// Returns the exit status and output of a failed start.
fn start_fails(folder: &Path) -> (Option<i32>, String) {
    let mut process = Process::start(&mut serve(folder), &folder.join("fairway.log"));
    (process.ended(LIMIT).code(), process.output())
}

#[test]
fn start_with_unreadable_file_names_it_and_ends() {
    let (folder, _) = folder();
    for file in FILES {
        let path = folder.path().join(file.0);
        let whole = fs::read(&path).expect("it was written");
        for kind in KINDS {
            kind.0.put(&path);
            let (status, text) = start_fails(folder.path());
            assert_eq!(status, Some(1), "{file:?} {kind:?}: {text}");
            assert!(tells(&text, file, kind), "{file:?} {kind:?}: {text}");
            clear(&path);
        }
        fs::write(&path, whole).expect("the place is free");
    }
    // Invalid UTF-8 in a file that must be text; a zone file may contain any octets.
    fs::write(folder.path().join("fairway.yaml"), b"version: 1\nuser: m\xfcller\n").expect("it was written before");
    let (status, text) = start_fails(folder.path());
    assert!(status == Some(1) && text.contains("fairway.yaml:2:8: the text is not UTF-8 from here"), "{text}");
}

#[test]
fn start_with_invalid_data_folder_names_it_and_ends() {
    let (folder, _) = folder();
    let data = folder.path().join("data");
    for kind in [Kind::Dangling, Kind::Loop, Kind::Pipe, Kind::Device] {
        kind.put(&data);
        let (status, text) = start_fails(folder.path());
        assert_eq!(status, Some(1), "{kind:?}: {text}");
        let faults: Vec<_> = text.lines().filter(|line| line.contains("data folder")).collect();
        let [fault] = faults[..] else { panic!("{kind:?}: {text}") };
        assert!(fault.contains(&format!("data folder {}: not a directory; ", data.display())), "{fault}");
        assert!(fault.ends_with("give another --data-dir"), "the cause is repeated: {fault}");
    }
}

#[test]
fn unreadable_state_file_does_not_prevent_the_start() {
    for name in ["health.json", "overrides.json"] {
        for kind in [Kind::Folder, Kind::Dangling, Kind::Loop, Kind::Pipe, Kind::Device] {
            let (folder, [dns, http]) = folder();
            fs::create_dir(folder.path().join("data")).expect("it is new");
            kind.put(&folder.path().join("data").join(name));
            let server = Fairway::start_in(folder, dns, http);
            wait_answer(dns, WWW, &["192.0.2.1"], LIMIT);
            let output = server.process.output();
            assert!(kind == Kind::Dangling || output.contains(name), "{name} {kind:?}: {output}");
        }
    }
}

/// Checks that a reload is rejected with this error: by its command, in `status` and in the state.
fn refused(server: &Fairway) -> String {
    let reload = server.command(&["reload"]);
    assert_eq!(reload.status.code(), Some(1), "{}", said(&reload));
    assert_eq!(state(server.http)["config"]["stale"], true);
    let status = server.command(&["status"]);
    assert!(status.status.success(), "{}", said(&status));
    let text = said(&status);
    assert!(text.contains("was rejected"), "{text}");
    text
}

#[test]
fn unreadable_file_changes_no_answer_and_is_in_the_status() {
    let (folder, [dns, http]) = folder();
    let server = Fairway::start_in(folder, dns, http);
    let load = Load::start(dns, 4, WWW, |reply| reply.is(&["192.0.2.1"]));
    let place = |name: &str| -> PathBuf { server.folder.path().join(name) };
    for file in FILES {
        let whole = fs::read(place(file.0)).expect("it was written");
        for kind in KINDS {
            kind.0.put(&place(file.0));
            let text = refused(&server);
            assert!(tells(&text, file, kind), "{file:?} {kind:?}: {text}");
            clear(&place(file.0));
        }
        fs::write(place(file.0), whole).expect("the place is free");
        let reload = server.command(&["reload"]);
        assert!(reload.status.success(), "{file:?} is there again: {}", said(&reload));
        assert_eq!(state(http)["config"]["stale"], false);
    }
    load.wait_for(50);
    load.stop().expect_whole(50);
    // A watcher that saw the file disappear sees it come back with a change.
    clear(&place("hosts.zone"));
    wait_until("its absence is noticed", LIMIT, || state(http)["config"]["stale"] == true);
    fs::write(place("hosts.zone"), NEXT).expect("the place is free");
    wait_answer(dns, WWW, &["192.0.2.2"], LIMIT);
}
