//! The Debian package, unpacked into a folder: its files run, systemd accepts its units there, and its user is created there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use fairway_integration::real::{fairway_binary, program, root, used};
use tempfile::TempDir;

use crate::{run, text_of};

/// Runs a program with these arguments; fails with its error.
fn command(name: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(name);
    command.args(arguments);
    run(command).unwrap_or_else(|error| panic!("{name} {arguments:?}: {error}"))
}

/// Builds the package of the program under test, without its debug information; returns its path.
fn build(folder: &Path) -> PathBuf {
    used("cargo-deb");
    let stripped = folder.join("fairway");
    command("strip", &["-o", path(&stripped), path(fairway_binary())]);
    let tool = program("cargo-deb", "cargo-deb");
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::iter::once(tool.parent().expect("a folder").to_owned()).chain(std::env::split_paths(&dirs));
    let mut script = Command::new(root().join("deploy/debian/build"));
    // A release compresses for minutes.
    script
        .arg(&stripped)
        .arg(folder)
        .arg("--fast")
        .env("PATH", std::env::join_paths(dirs).expect("no colon in a path"));
    run(script).unwrap_or_else(|error| panic!("{error}")).trim_end().into()
}

/// Returns the commit of the tree; `None` without git, and at the tag of the release.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(root()).args(arguments);
        run(command).ok()
    };
    let commit = root().join(".git").exists().then(|| git(&["rev-parse", "--short", "HEAD"])).flatten()?;
    let tags = git(&["tag", "--points-at", "HEAD"])?;
    let is_release = tags.lines().any(|tag| tag == concat!("v", env!("CARGO_PKG_VERSION")));
    (!is_release).then(|| commit.trim_end().to_owned())
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn package_has_program_manual_units_and_user() {
    let folder = TempDir::new().expect("a temporary folder");
    let package = build(folder.path());
    let field = |name: &str| command("dpkg-deb", &["--field", path(&package), name]);
    let version = field("Version");
    let release = concat!(env!("CARGO_PKG_VERSION"), "-1");
    match commit() {
        Some(commit) => {
            assert!(version.starts_with(&format!("{release}+git")) && version.contains(&commit), "{commit}: {version}");
            // So apt installs it over the release.
            command("dpkg", &["--compare-versions", version.trim_end(), "gt", release]);
        }
        None => assert_eq!(version.trim_end(), release),
    }
    assert!(field("Depends").contains("libc6"), "{}", field("Depends"));

    let unpacked = folder.path().join("root");
    command("dpkg-deb", &["--raw-extract", path(&package), path(&unpacked)]);
    let at = |file: &str| unpacked.join(file);
    assert_eq!(text_of(&at("DEBIAN/conffiles")).trim_end(), "/etc/fairway/fairway.yaml");
    let fairway = at("usr/bin/fairway");
    command(path(&fairway), &["check", path(&at("etc/fairway/fairway.yaml"))]);
    for (shell, file) in [
        ("bash", "usr/share/bash-completion/completions/fairway"),
        ("fish", "usr/share/fish/vendor_completions.d/fairway.fish"),
        ("zsh", "usr/share/zsh/vendor-completions/_fairway"),
    ] {
        assert!(text_of(&at(file)) == command(path(&fairway), &["completions", shell]), "{file}");
    }
    for page in ["fairway", "fairway-serve"] {
        let text = command("gzip", &["-dc", path(&at(&format!("usr/share/man/man1/{page}.1.gz")))]);
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }

    command("systemd-sysusers", &["--root", path(&unpacked), path(&at("usr/lib/sysusers.d/fairway.conf"))]);
    assert!(text_of(&at("etc/passwd")).contains("fairway:x:"), "{}", text_of(&at("etc/passwd")));
    // The units as they are, but for the path of the program, which is not installed here.
    let units = ["fairway.service", "fairway.socket"].map(|unit| {
        let text = text_of(&at("usr/lib/systemd/system").join(unit)).replace("/usr/bin/fairway", path(&fairway));
        let file = folder.path().join(unit);
        fs::write(&file, text).expect("the folder can be written");
        file
    });
    let [service, socket] = units.each_ref().map(|unit| path(unit));
    let said = command("systemd-analyze", &["verify", "--man=no", service, socket]);
    assert!(said.is_empty(), "{said}");
    let postinst = text_of(&at("DEBIAN/postinst"));
    for part in ["systemd-sysusers", "deb-systemd-helper update-state fairway.socket", "try-restart fairway.service >"]
    {
        assert!(postinst.contains(part), "{part}: {postinst}");
    }
    assert!(!postinst.contains("fairway.service fairway.socket"), "an upgrade restarts the socket: {postinst}");
    let status = Command::new("sh").arg("-n").arg(at("DEBIAN/postinst")).status();
    assert!(status.is_ok_and(|status| status.success()));
}
