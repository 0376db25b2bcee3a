//! Files that are cut, foreign, unreadable or hostile: a clear fault, never a panic, never a wait.

use std::{fs, os::unix::fs::symlink};

use proptest::prelude::*;

use super::{good::EVERYTHING, *};
use crate::yaml;

/// A reading of these octets ends, and tells at least one fault if it is refused.
fn survives(octets: &[u8]) {
    let folder = Folder::new(&[]);
    folder.write("f.yaml", octets);
    if let Err(faults) = folder.load("f.yaml") {
        assert!(!faults.is_empty());
        assert!(faults.iter().all(|fault| fault.len() < 2_000), "{faults:?}");
    }
}

/// A file that can be told from each of its beginnings: what must stand once stands in its last line.
fn ending_with_its_version() -> String {
    format!("{}version: 1\n", EVERYTHING.replace("version: 1\n", ""))
}

/// The same in brackets, without a line break at its end.
fn in_brackets() -> String {
    let files = ["f.yaml".into()];
    yaml::parse(EVERYTHING, 0, &files).unwrap().unwrap().to_json().to_string()
}

#[test]
fn a_file_cut_at_any_octet_is_refused_or_says_what_it_said() {
    for whole in [ending_with_its_version(), in_brackets()] {
        let said = outcome(&whole).unwrap();
        for end in 0..whole.len() {
            match outcome(&whole.as_bytes()[..end]) {
                Ok(cut) => assert_eq!(cut, said, "cut at {end}"),
                Err(faults) => assert!(!faults.is_empty() && faults.iter().all(|fault| fault.len() < 2_000)),
            }
        }
    }
}

#[test]
fn a_file_that_lacks_its_last_line_break_alone_is_refused_where_it_ends() {
    let hint = "complete its last line and end it with a line break";
    let fault = format!("f.yaml:2:8: the text ends without a line break, so the file may be cut; {hint}");
    assert_eq!(faults_of("version: 1\nuser: \u{fc}"), [fault]);
    // One that holds nothing is told as what it is.
    assert!(!faults_of("").iter().any(|fault| fault.contains("line break")));
}

#[test]
fn each_file_of_a_folder_must_end_with_a_line_break() {
    let folder = Folder::new(&[("a.yaml", "version: 1"), ("b.yaml", "user: \"\u{fc}\""), ("c.yaml", "tcp: {}\r\n")]);
    let faults = folder.load("").unwrap_err();
    let places: Vec<_> = faults.iter().map(|fault| fault.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["a.yaml:1:11", "b.yaml:1:10"], "{faults:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_octets_are_refused(octets in proptest::collection::vec(any::<u8>(), 1..300)) {
        survives(&octets);
    }

    #[test]
    fn a_file_with_octets_changed_is_read_or_refused(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut octets = EVERYTHING.as_bytes().to_vec();
        for (at, octet) in changes {
            let at = at.index(octets.len());
            octets[at] = octet;
        }
        survives(&octets);
    }

    #[test]
    fn a_file_with_pieces_swapped_is_read_or_refused(cuts in (any::<prop::sample::Index>(), any::<prop::sample::Index>())) {
        let (a, b) = (cuts.0.index(EVERYTHING.len()), cuts.1.index(EVERYTHING.len()));
        let (a, b) = (a.min(b), a.max(b));
        let octets = [&EVERYTHING.as_bytes()[b..], &EVERYTHING.as_bytes()[a..b], &EVERYTHING.as_bytes()[..a]].concat();
        survives(&octets);
    }
}

#[test]
fn what_cannot_be_read_is_told_by_its_path() {
    let folder = Folder::new(&[("empty/readme.txt", ""), ("latin1.yaml", "")]);
    folder.write("latin1.yaml", b"version: 1\nuser: m\xfcller\n");
    nix::unistd::mkfifo(&folder.path().join("pipe.yaml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let long = fs::File::create(folder.path().join("long.yaml")).unwrap();
    long.set_len((64 << 20) + 1).unwrap();
    let table = [
        (
            "none.yaml",
            "none.yaml: the file does not exist; mend the path; relative ones begin at the configuration file's folder",
        ),
        ("pipe.yaml", "pipe.yaml: the file is a pipe, socket or device; give a regular file"),
        ("long.yaml", "long.yaml: the file is longer than 67108864 octets; split it"),
        ("latin1.yaml", "latin1.yaml:2:8: the text is not UTF-8 from here on; save it as UTF-8"),
        (
            "empty",
            "empty: the file holds no configuration: no *.yaml and no *.yml; put one there, or give another folder",
        ),
        ("latin1.yaml/x", "latin1.yaml/x: the file leads through something that is no folder; mend the path"),
    ];
    for (name, expected) in table {
        let attempt = attempt(&Source::Path(folder.path().join(name)), &|_| None);
        assert_eq!(folder.lines(&attempt.outcome.unwrap_err()), [expected]);
        // A watcher learns of the repair.
        assert!(attempt.fingerprint.files().any(|file| file == folder.path().join(name)), "{name}");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_text() {
    assert_eq!(faults_of("\u{feff}version: 2\n")[0].split(": ").next(), Some("f.yaml:1:10"));
}

#[test]
fn a_thousand_faults_are_told_and_one_more_is_not() {
    let faults = faults_of(&format!("version: 1\n{}", (0..1_500).map(|i| format!("x{i}: 1\n")).collect::<String>()));
    assert_eq!(faults.len(), 1_001);
    assert!(faults.iter().any(|fault| fault.ends_with("there are more than 1000 faults; mend these first")));
}

#[test]
fn a_folder_joins_its_files_and_leaves_out_what_is_hidden() {
    let folder = Folder::new(&[
        ("conf/10-process.yaml", "version: 1\nuser: a\n"),
        ("conf/20-eu.yml", "clusters: [{name: eu1, addresses: [192.0.2.1]}]\n"),
        ("conf/30-us.yaml", "clusters: [{name: us1, addresses: [192.0.2.2]}]\n"),
        ("conf/.swap.yaml", "nonsense"),
        ("conf/..2024_01/10-process.yaml", "nonsense"),
        ("conf/notes.txt", "nonsense"),
    ]);
    let loaded = folder.load("conf").unwrap();
    assert_eq!(loaded.desired.clusters.len(), 2);
    let names: Vec<_> = loaded.files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["conf", "10-process.yaml", "20-eu.yml", "30-us.yaml"]);
    folder.write("conf/40.yaml", "user: b\nclusters: [{name: eu1, addresses: [192.0.2.3]}, {name: x}]\n");
    let expected = [
        "conf/40.yaml:1:1: user stands in conf/10-process.yaml:2:1 already; say it in one file only",
        "conf/40.yaml:2:19: clusters[0].name: cluster eu1 is declared in conf/20-eu.yml:1:12 already; rename or remove one of both",
        "conf/40.yaml:2:49: clusters[1]: key addresses is missing; add addresses: a list",
    ];
    assert_eq!(folder.load("conf").unwrap_err(), expected);
}

#[test]
fn a_config_map_is_read_through_its_links_and_its_swap_is_seen() {
    let folder = Folder::new(&[
        ("..2024_01/fairway.yaml", "version: 1\nuser: old\n"),
        ("..2024_02/fairway.yaml", "version: 1\nuser: new\n"),
    ]);
    let at = |name: &str| folder.path().join(name);
    symlink("..2024_01", at("..data")).unwrap();
    symlink("..data/fairway.yaml", at("fairway.yaml")).unwrap();
    let before = folder.load("").unwrap();
    assert_eq!(before.settings.user.as_deref(), Some("old"));
    assert!(before.fingerprint.is_current());
    symlink("..2024_02", at("..data_tmp")).unwrap();
    fs::rename(at("..data_tmp"), at("..data")).unwrap();
    assert!(!before.fingerprint.is_current());
    assert_eq!(folder.load("").unwrap().settings.user.as_deref(), Some("new"));
}
