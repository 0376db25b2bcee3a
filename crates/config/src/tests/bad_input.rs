//! Truncated, foreign, unreadable or hostile files: a clear error, without a panic and without blocking.

use std::{fs, os::unix::fs::symlink};

use proptest::prelude::*;

use super::{good::EVERYTHING, *};
use crate::yaml;

/// Loads these bytes; a rejected file must have at least one error.
fn survives(octets: &[u8]) {
    let folder = Folder::new(&[]);
    folder.write("f.yaml", octets);
    if let Err(errors) = folder.load("f.yaml") {
        assert!(!errors.is_empty());
        assert!(errors.iter().all(|error| error.len() < 2_000), "{errors:?}");
    }
}

/// Returns a file whose last line is required, so that no beginning of it is valid.
fn ending_with_its_version() -> String {
    format!("{}version: 1\n", EVERYTHING.replace("version: 1\n", ""))
}

/// Returns the same in JSON, without a line break at the end.
fn in_brackets() -> String {
    let files = ["f.yaml".into()];
    yaml::parse(EVERYTHING, 0, &files).unwrap().unwrap().to_json().to_string()
}

#[test]
fn file_cut_at_any_byte_is_rejected_or_unchanged() {
    for complete in [ending_with_its_version(), in_brackets()] {
        let expected = outcome(&complete).unwrap();
        for end in 0..complete.len() {
            match outcome(&complete.as_bytes()[..end]) {
                Ok(cut) => assert_eq!(cut, expected, "cut at {end}"),
                Err(errors) => assert!(!errors.is_empty() && errors.iter().all(|error| error.len() < 2_000)),
            }
        }
    }
}

#[test]
fn file_without_final_line_break_is_rejected() {
    let hint = "complete the last line and end it with a line break";
    let error = format!("f.yaml:2:8: the file does not end with a line break, so it may be truncated; {hint}");
    assert_eq!(errors_of("version: 1\nuser: \u{fc}"), [error]);
    // An empty file has its own error.
    assert!(!errors_of("").iter().any(|error| error.contains("line break")));
}

#[test]
fn every_file_of_a_folder_must_end_with_a_line_break() {
    let folder = Folder::new(&[("a.yaml", "version: 1"), ("b.yaml", "user: \"\u{fc}\""), ("c.yaml", "tcp: {}\r\n")]);
    let errors = folder.load("").unwrap_err();
    let locations: Vec<_> = errors.iter().map(|error| error.split(": ").next().unwrap()).collect();
    assert_eq!(locations, ["a.yaml:1:11", "b.yaml:1:10"], "{errors:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_do_not_panic(octets in proptest::collection::vec(any::<u8>(), 1..300)) {
        survives(&octets);
    }

    #[test]
    fn file_with_changed_bytes_does_not_panic(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut octets = EVERYTHING.as_bytes().to_vec();
        for (at, octet) in changes {
            let at = at.index(octets.len());
            octets[at] = octet;
        }
        survives(&octets);
    }

    #[test]
    fn file_with_swapped_parts_does_not_panic(cuts in (any::<prop::sample::Index>(), any::<prop::sample::Index>())) {
        let (a, b) = (cuts.0.index(EVERYTHING.len()), cuts.1.index(EVERYTHING.len()));
        let (a, b) = (a.min(b), a.max(b));
        let octets = [&EVERYTHING.as_bytes()[b..], &EVERYTHING.as_bytes()[a..b], &EVERYTHING.as_bytes()[..a]].concat();
        survives(&octets);
    }
}

#[test]
fn unreadable_file_is_reported_and_watched() {
    let folder = Folder::new(&[("empty/readme.txt", ""), ("latin1.yaml", "")]);
    folder.write("latin1.yaml", b"version: 1\nuser: m\xfcller\n");
    nix::unistd::mkfifo(&folder.path().join("pipe.yaml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let long = fs::File::create(folder.path().join("long.yaml")).unwrap();
    long.set_len((64 << 20) + 1).unwrap();
    let table = [
        (
            "none.yaml",
            "none.yaml: the file does not exist; fix the path; relative paths start at the configuration file's folder",
        ),
        ("pipe.yaml", "pipe.yaml: the file is a pipe, socket or device; name a regular file"),
        ("long.yaml", "long.yaml: the file is larger than 67108864 bytes; split it"),
        ("latin1.yaml", "latin1.yaml:2:8: the text is not UTF-8 from here; save it as UTF-8"),
        ("empty", "empty: the file contains no *.yaml and no *.yml file; add one, or name another folder"),
        ("latin1.yaml/x", "latin1.yaml/x: the file has a component that is not a folder; fix the path"),
    ];
    for (name, expected) in table {
        let attempt = attempt(&Source::Path(folder.path().join(name)), &|_| None, None);
        assert_eq!(folder.lines(&attempt.outcome.unwrap_err()), [expected]);
        // A watcher must detect the repair.
        assert!(attempt.fingerprint.files().any(|file| file == folder.path().join(name)), "{name}");
    }
}

#[test]
fn byte_order_mark_does_not_count_as_a_column() {
    assert_eq!(errors_of("\u{feff}version: 2\n")[0].split(": ").next(), Some("f.yaml:1:10"));
}

#[test]
fn errors_over_the_limit_are_not_reported() {
    let errors = errors_of(&format!("version: 1\n{}", (0..1_500).map(|i| format!("x{i}: 1\n")).collect::<String>()));
    assert_eq!(errors.len(), 1_001);
    assert!(errors.iter().any(|error| error.ends_with("there are more than 1000 errors; fix these first")));
}

/// Zone files list up to 100 warnings each, so that it takes several to exceed the limit of all.
#[test]
fn warnings_over_the_limit_do_not_hide_an_error() {
    let mut config = "version: 1\nzones:\n".to_owned();
    let mut files: Vec<(String, String)> = (0..11)
        .map(|zone| {
            config += &format!("  - {{ name: z{zone}.example, file: z{zone}.zone }}\n");
            let records: String = (0..100).map(|at| format!("a_{at} A 192.0.2.1\n")).collect();
            let head = "$TTL 60\n@ SOA ns1.example.net. a.example.net. 1 2 3 4 5\n@ NS ns1.example.net.\n";
            (format!("z{zone}.zone"), format!("{head}{records}"))
        })
        .collect();
    files[10].1 += "www A 192.0.2.300\n";
    files.push(("f.yaml".to_owned(), config));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let folder = Folder::new(&files);
    let lines = folder.load("f.yaml").unwrap_err();
    let [errors, warnings]: [Vec<_>; 2] =
        [false, true].map(|is| lines.iter().filter(|line| line.contains(": warning: ") == is).collect());
    assert!(errors.len() == 1 && errors[0].starts_with("z10.zone:104:"), "{errors:?}");
    assert_eq!(lines[0], *errors[0], "errors are listed first");
    assert_eq!(warnings.len(), 1_001);
    assert!(warnings[1_000].ends_with("there are more than 1000 warnings; fix these first"), "{}", warnings[1_000]);
}

#[test]
fn folder_is_joined_without_hidden_files() {
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
    let names: Vec<_> = loaded.fingerprint.files().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["conf", "10-process.yaml", "20-eu.yml", "30-us.yaml"]);
    folder.write("conf/40.yaml", "user: b\nclusters: [{name: eu1, addresses: [192.0.2.3]}, {name: x}]\n");
    let expected = [
        "conf/40.yaml:1:1: user is already in conf/10-process.yaml:2:1; write it in one file only",
        "conf/40.yaml:2:19: clusters[0].name: cluster eu1 is already declared in conf/20-eu.yml:1:12; rename or remove one of them",
        "conf/40.yaml:2:49: cluster x has no address; give at least one ingress address, or kubernetes, whose gateway has one",
    ];
    assert_eq!(folder.load("conf").unwrap_err(), expected);
}

#[test]
fn config_map_is_read_through_links_and_its_swap_is_detected() {
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
