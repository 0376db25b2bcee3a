//! The shipped unit files, read by systemd itself where it is installed.

use std::{fs, path::Path, process::Command};

#[test]
fn shipped_systemd_units_verify() {
    let folder = tempfile::tempdir().unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd");
    let mut units = vec![];
    for name in ["fairway.service", "fairway.socket"] {
        let text = fs::read_to_string(shipped.join(name)).unwrap();
        // The binary is not installed here, and systemd checks that the program exists.
        let text = text.replace("/usr/bin/fairway serve", "/bin/true serve");
        units.push(folder.path().join(name));
        fs::write(units.last().unwrap(), text).unwrap();
    }
    let Ok(output) = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units).output() else {
        return eprintln!("skipped: systemd-analyze is not installed");
    };
    let messages = String::from_utf8_lossy(&output.stderr);
    let about_fairway: Vec<_> = messages.lines().filter(|line| line.contains("fairway")).collect();
    assert!(about_fairway.is_empty(), "{about_fairway:#?}");
}
