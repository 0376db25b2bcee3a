//! Certificates of an authority that a test makes, in files of a folder.

use std::{fs, path::Path, process::Command};

/// Creates the authority that signs certificates: `ca.pem` and `ca.key`.
pub fn authority(folder: &Path) {
    openssl(
        folder,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority",
    );
}

/// Creates the files `WHO.pem` and `WHO.key`: a certificate of the authority with an alternative name and a serial number.
pub fn issue(folder: &Path, who: &str, name: &str, serial: u32) {
    openssl(
        folder,
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout next.key -out next.csr -subj /CN=fairway",
    );
    fs::write(folder.join("names"), format!("subjectAltName={name}\n")).expect("the folder can be written");
    let line = format!(
        "x509 -req -in next.csr -CA ca.pem -CAkey ca.key -set_serial {serial} -days 2 -extfile names -out next.pem"
    );
    openssl(folder, &line);
    fs::rename(folder.join("next.key"), folder.join(format!("{who}.key"))).expect("the folder can be written");
    fs::rename(folder.join("next.pem"), folder.join(format!("{who}.pem"))).expect("the folder can be written");
}

/// Runs openssl in a folder; returns its output.
pub fn openssl(folder: &Path, line: &str) -> String {
    let output = Command::new("openssl").args(line.split(' ')).current_dir(folder).output().expect("openssl runs");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
