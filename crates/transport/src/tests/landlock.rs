//! Enforcement of Landlock by the kernel. Fails on a kernel without it.

use std::{fs, io, os::unix::net::UnixListener, path::Path, process::Command, thread};

use super::super::FileAccess;

fn is_denied<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

#[test]
fn restricted_thread_reads_and_writes_its_folders_only() {
    let scratch = tempfile::tempdir().unwrap();
    let [read, write, other] = ["read", "write", "other"].map(|name| scratch.path().join(name));
    for folder in [&read, &write, &other] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("f"), "text").unwrap();
    }
    let access = FileAccess { read: [read.clone()].into(), write: [write.clone()].into(), ..FileAccess::default() };
    let program = std::env::current_exe().unwrap();
    let checks = move || {
        access.restrict_thread().expect("NOT TESTED: this test needs a kernel with Landlock");
        let rename = |from: &Path, to: &Path| fs::rename(from.join("f"), to.join("g"));
        assert!(fs::read(read.join("f")).is_ok() && fs::read_dir(&read).is_ok());
        assert!(is_denied(fs::write(read.join("f"), "x")) && is_denied(fs::write(read.join("new"), "x")));
        assert!(is_denied(fs::remove_file(read.join("f"))) && rename(&read, &write).is_err());
        for hidden in [other.join("f"), program.clone(), "/etc/passwd".into()] {
            assert!(is_denied(fs::read(&hidden)), "{}", hidden.display());
        }
        assert!(is_denied(fs::read_dir(&other)) && is_denied(fs::write(other.join("f"), "x")));
        assert!(is_denied(UnixListener::bind(other.join("s"))));
        fs::create_dir(write.join("below")).unwrap();
        fs::write(write.join("below/f"), "text").unwrap();
        rename(&write.join("below"), &write).unwrap();
        UnixListener::bind(write.join("s")).unwrap();
        fs::remove_file(write.join("s")).unwrap();
        // A folder that is read and written allows no program either.
        fs::copy(write.join("f"), write.join("program")).unwrap();
        assert!(is_denied(Command::new(&program).status()) && is_denied(Command::new("/bin/true").status()));
        let inherited = thread::spawn(move || is_denied(fs::read(other.join("f"))));
        assert!(inherited.join().unwrap(), "a thread inherits the restriction");
    };
    thread::spawn(checks).join().unwrap();
    let programs = FileAccess { execute: ["/usr", "/dev/null"].map(Into::into).into(), ..FileAccess::default() };
    let executes = move || {
        programs.restrict_thread().expect("it was restricted above");
        Command::new("/usr/bin/true").stdin(std::process::Stdio::null()).status()
    };
    assert!(thread::spawn(executes).join().unwrap().unwrap().success());
    // Other threads are not restricted.
    assert!(fs::read(scratch.path().join("other/f")).is_ok());
}
