//! Holds the house to its plan: which crate may use which, and what may be used only in one room.
//!
//! Reads manifests and sources; builds and runs nothing. What it leaves out: order between the rooms inside `src/`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Most lines a source file may have, tests included.
const LINES_MAX: usize = 600;
/// Files that a program of the tree writes: nobody splits them by hand.
const GENERATED: &[&str] = &["crates/etcd/src/etcdserverpb.rs"];

/// The arrows: crate, and the crates of this workspace that it may use. Crates that share a row's right side never use
/// each other; what they share is a `model` type that `src/control` carries across.
const ARROWS: &[(&str, &[&str])] = &[
    ("fairway-model", &[]),
    ("fairway-etcd", &["fairway-model"]),
    ("fairway-telemetry", &["fairway-model"]),
    ("fairway-zones", &["fairway-model"]),
    ("fairway-http", &["fairway-model"]),
    ("fairway-health", &["fairway-model", "fairway-http"]),
    ("fairway-zonefile", &["fairway-model"]),
    ("fairway-zones", &["fairway-model", "fairway-zonefile"]),
    ("fairway-health", &["fairway-model"]),
    ("fairway-sources", &["fairway-model"]),
    ("fairway-providers", &["fairway-model", "fairway-http", "fairway-etcd", "fairway-zonefile"]),
    ("fairway-mesh", &["fairway-model"]),
    (
        "fairway",
        &[
            "fairway-model",
            "fairway-etcd",
            "fairway-http",
            "fairway-zonefile",
            "fairway-telemetry",
            "fairway-zones",
            "fairway-health",
            "fairway-sources",
            "fairway-providers",
            "fairway-mesh",
        ],
    ),
    ("fairway-bench", ANY_ROOM),
    ("fairway-integration", ANY_ROOM),
    (
        "fairway-fuzz",
        &["fairway", "fairway-model", "fairway-health", "fairway-zonefile", "fairway-zones", "fairway-integration"],
    ),
];

const ANY_ROOM: &[&str] = &[
    "fairway",
    "fairway-model",
    "fairway-etcd",
    "fairway-http",
    "fairway-zonefile",
    "fairway-telemetry",
    "fairway-zones",
    "fairway-health",
    "fairway-sources",
    "fairway-providers",
    "fairway-mesh",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").to_owned()
}

/// Every file below the workspace with this extension, its path relative to the workspace and with `/`.
fn files(extension: &str) -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("a readable entry").path();
            let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && (!name.starts_with('.') || name == ".ci") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                let relative = path.strip_prefix(&root).expect("found below the root");
                found.push((relative.to_string_lossy().replace('\\', "/"), text));
            }
        }
    }
    assert!(found.len() > 10, "no sources found below {}", root.display());
    found.sort();
    found
}

/// The identifiers of a Rust text, comments and literals left out.
fn identifiers(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let skipped = skip_literal_or_comment(bytes, at, !word.is_empty());
        if skipped == at && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
            word.push(char::from(bytes[at]));
        } else if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        at = skipped.max(at + 1);
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

/// The place after a comment or a literal that begins at `at`; `at` itself where none does.
fn skip_literal_or_comment(bytes: &[u8], at: usize, inside_word: bool) -> usize {
    let rest = &bytes[at..];
    let find = |from: usize, needle: &[u8]| {
        let place = rest.get(from..).and_then(|r| r.windows(needle.len()).position(|w| w == needle));
        place.map_or(bytes.len(), |p| at + from + p + needle.len())
    };
    if rest.starts_with(b"//") {
        return find(2, b"\n");
    }
    if rest.starts_with(b"/*") {
        return find(2, b"*/");
    }
    if !inside_word && rest.starts_with(b"r") {
        let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
        if rest.get(1 + hashes) == Some(&b'"') {
            return find(2 + hashes, &[&b"\""[..], &b"#".repeat(hashes)].concat());
        }
    }
    match rest {
        [b'"', ..] => end_of_string(bytes, at + 1),
        [b'\'', b'\\', _, ..] => find(3, b"'"),
        [b'\'', _, b'\'', ..] => at + 3,
        _ => at,
    }
}

fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// Files, apart from those `allowed`, in which one of the words stands as an identifier.
fn users<'a>(sources: &'a [(String, String)], words: &[&str], allowed: impl Fn(&str) -> bool) -> Vec<&'a str> {
    let uses = |text: &str| identifiers(text).iter().any(|word| words.contains(&word.as_str()));
    sources.iter().filter(|(path, text)| !allowed(path) && uses(text)).map(|(path, _)| path.as_str()).collect()
}

fn is_wire_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.strip_suffix(".rs").unwrap_or(name);
    let version = stem.strip_prefix('v').is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
    version || stem == "crd" || stem.ends_with("_wire")
}

/// Rooms that are shipped: the crates and the daemon, without tests, benches and fuzz targets.
fn is_shipped(path: &str) -> bool {
    !["integration/", "bench/", "fuzz/"].iter().any(|room| path.starts_with(room))
}

fn metadata() -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--format-version", "1", "--no-deps"]).current_dir(root());
    let output = cargo.output().expect("cargo runs, since it runs this test");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

/// Package name -> names of what it depends on, for every use (normal, dev, build).
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let text = |v: &Value| v.as_str().expect("a name is a text").to_owned();
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages are a list");
    let uses = |p: &Value| p["dependencies"].as_array().expect("a list").iter().map(|d| text(&d["name"])).collect();
    packages.iter().map(|p| (text(&p["name"]), uses(p))).collect()
}

#[test]
fn crates_use_each_other_only_along_the_arrows() {
    let dependencies = dependencies();
    let mut broken = Vec::new();
    for (package, uses) in &dependencies {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| name == package) else {
            broken.push(format!("{package} has no row in ARROWS: say there what it may use"));
            continue;
        };
        let ours = uses.iter().filter(|name| dependencies.contains_key(*name));
        broken.extend(ours.filter(|n| !allowed.contains(&n.as_str())).map(|n| format!("{package} -> {n}")));
    }
    assert!(broken.is_empty(), "arrows that the plan does not have: {broken:#?}");
}

#[test]
fn kubernetes_is_known_to_sources_and_mesh_only() {
    let dependencies = dependencies();
    let knows = |uses: &[String]| uses.iter().any(|n| ["kube", "k8s-openapi"].contains(&n.as_str()));
    let allowed = ["fairway-sources", "fairway-mesh"];
    let users: Vec<_> = dependencies.iter().filter(|(p, u)| knows(u) && !allowed.contains(&p.as_str())).collect();
    assert!(users.is_empty(), "{users:?}");
}

#[test]
fn serde_is_used_in_wire_files_only() {
    let sources = files("rs");
    let words = ["serde", "Serialize", "Deserialize"];
    let broken = users(&sources, &words, |path| is_wire_file(path) || !is_shipped(path));
    assert!(broken.is_empty(), "serde outside v*.rs, crd.rs, *_wire.rs: {broken:#?}");
}

#[test]
fn the_metrics_library_is_used_in_telemetry_only() {
    let sources = files("rs");
    let broken = users(&sources, &["prometheus"], |path| path.starts_with("crates/telemetry/"));
    assert!(broken.is_empty(), "prometheus outside crates/telemetry: {broken:#?}");
}

#[test]
fn the_libraries_of_traces_are_used_in_telemetry_only() {
    let sources = files("rs");
    let words = ["opentelemetry", "opentelemetry_proto", "opentelemetry_sdk"];
    let broken = users(&sources, &words, |path| {
        path.starts_with("crates/telemetry/") || path.starts_with("src/traces/") || !is_shipped(path)
    });
    assert!(broken.is_empty(), "OpenTelemetry outside crates/telemetry and src/traces: {broken:#?}");
}

#[test]
fn unsafe_code_stands_in_two_files_only() {
    let sources = files("rs");
    // The load generator sends in batches, too; it is not shipped.
    let allowed = ["src/serve/batch.rs", "zones/src/memory.rs", "bench/src/sys.rs"];
    let broken = users(&sources, &["unsafe"], |path| allowed.contains(&path));
    assert!(broken.is_empty(), "unsafe outside {allowed:?}: {broken:#?}");
}

#[test]
fn pure_crates_forbid_unsafe_code_at_their_root() {
    let sources = files("rs");
    for room in ["crates/model", "crates/zonefile", "health", "sources", "providers", "mesh"] {
        let path = format!("{room}/src/lib.rs");
        let Some((_, text)) = sources.iter().find(|(p, _)| *p == path) else { continue };
        assert!(text.contains("#![forbid(unsafe_code)]"), "{path} does not forbid unsafe code");
    }
}

#[test]
fn no_source_file_is_longer_than_600_lines() {
    let written = files("rs").into_iter().filter(|(path, _)| !GENERATED.contains(&path.as_str()));
    let long: Vec<_> = written.map(|(path, text)| (path, text.lines().count())).collect();
    let long: Vec<_> = long.into_iter().filter(|(_, lines)| *lines > LINES_MAX).collect();
    assert!(long.is_empty(), "files over {LINES_MAX} lines: {long:#?}");
}

/// A file of unit tests is part of the module it tests, whose header speaks for both.
#[test]
fn every_source_file_says_first_what_it_is_for() {
    let mute = |(path, text): &(String, String)| !path.ends_with("tests.rs") && !text.starts_with("//!");
    let mute: Vec<_> = files("rs").into_iter().filter(mute).map(|(path, _)| path).collect();
    assert!(mute.is_empty(), "files without a header (`//!`): {mute:#?}");
}

#[test]
fn every_room_stands_in_the_map_of_the_house() {
    let Ok(map) = fs::read_to_string(root().join("ARCHITECTURE.md")) else { return };
    let folders = |of: &str| -> Vec<String> {
        let entries = fs::read_dir(root().join(of)).expect("a folder of the workspace");
        let entries = entries.map(|e| e.expect("a readable entry").path()).filter(|p| p.is_dir());
        entries.map(|p| p.file_name().expect("it has a name").to_string_lossy().into_owned()).collect()
    };
    let mut rooms: Vec<_> = folders(".").into_iter().filter(|r| r != "target" && !r.starts_with('.')).collect();
    rooms.extend(folders("src"));
    let missing: Vec<_> = rooms.into_iter().filter(|room| !map.contains(&format!("{room}/"))).collect();
    assert!(missing.is_empty(), "rooms that ARCHITECTURE.md does not name as `room/`: {missing:#?}");
}

/// The scanner itself: it must see what breaks a fence and pass over what only looks so.
#[test]
fn the_scanner_sees_code_and_passes_over_comments_and_literals() {
    let text =
        "// unsafe\n/* unsafe */ let a = \"unsafe \\\" unsafe\"; let b = r#\"unsafe\"#; let c = 'u'; x!(\"//\", safe)";
    assert!(!identifiers(text).contains(&"unsafe".to_owned()));
    assert!(identifiers(text).contains(&"safe".to_owned()));
    assert!(identifiers("fn f<'a>(x: &'a u8) { unsafe { *x } }").contains(&"unsafe".to_owned()));
    assert!(!identifiers("#![forbid(unsafe_code)]").contains(&"unsafe".to_owned()));
    let planted = [("src/api/mod.rs".to_owned(), "use serde::Serialize;".to_owned())];
    assert_eq!(users(&planted, &["serde"], is_wire_file), ["src/api/mod.rs"]);
    assert!(is_wire_file("src/config/v1.rs") && is_wire_file("src/api/state_wire.rs") && !is_wire_file("src/view.rs"));
}
