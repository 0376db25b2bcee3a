//! Compares the tree with the drawing in `ARCHITECTURE.md`: the dependencies between crates, and code that is allowed in one place only.
//!
//! Reads manifests and sources; builds and runs nothing. Skips nothing: a crate that the drawing lacks fails, and so does an arrow,
//! an exception or a file named here that no longer exists.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use fairway_integration::tree::{TreeFile, files, root};
use serde_json::Value;

/// Libraries that only some crates may use, with the crates that may name them in their manifests.
const FENCED_LIBRARIES: &[(&str, &[&str])] = &[
    ("kube", &["sources"]),
    ("k8s-openapi", &["sources"]),
    ("prometheus", &["telemetry"]),
    ("opentelemetry", &["telemetry"]),
    ("opentelemetry-http", &["telemetry"]),
    ("opentelemetry-otlp", &["telemetry"]),
    ("opentelemetry-proto", &["integration", "telemetry"]), // collectors of tests read what was sent
    ("opentelemetry_sdk", &["telemetry"]),
    ("redb", &["store"]),
    ("reqwest", &["http"]),
];

/// Files with `unsafe` code. The load generator is not shipped.
const UNSAFE_FILES: &[&str] = &["bench/src/sys.rs", "crates/transport/src/batch.rs", "zones/src/memory.rs"];

/// Maximum lines of a source file, with tests.
const FILE_LINES_MAX: usize = 500;

/// Files over that limit; the list may only get shorter.
const LONG_FILES: &[&str] = &[];

/// Packages outside the workspace.
const OTHER_PACKAGES: &[&str] = &["crates/etcd/generate"];

/// One row of the drawing.
struct Row {
    name: String,
    uses: Uses,
}

enum Uses {
    /// Tests and benchmarks: every crate above.
    AllAbove,
    These(Vec<String>),
}

/// Returns the rows of the drawing, the block of ARCHITECTURE.md that begins with "```arrows". A row is `name -> uses, uses`; what
/// follows a `#` is a remark, and a line that begins with a space goes on with the row above it.
fn drawing() -> Vec<Row> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is readable");
    let (_, block) = page.split_once("\n```arrows\n").expect("ARCHITECTURE.md has a block of arrows");
    let (block, _) = block.split_once("\n```").expect("the block of arrows ends");
    parse_drawing(block)
}

fn parse_drawing(block: &str) -> Vec<Row> {
    let lines = block.lines().map(|line| line.split('#').next().unwrap_or(line).trim_end());
    let joined = lines.fold(String::new(), |mut text, line| {
        text.push_str(if line.starts_with(' ') { " " } else { "\n" });
        text.push_str(line.trim());
        text
    });
    let rows = joined.lines().filter(|line| !line.is_empty()).map(|line| {
        let (name, uses) = line.split_once("->").unwrap_or_else(|| panic!("a row without an arrow: {line}"));
        let names = || uses.split(',').map(str::trim).filter(|u| !u.is_empty()).map(str::to_owned).collect();
        let uses = if uses.trim() == "all above" { Uses::AllAbove } else { Uses::These(names()) };
        Row { name: name.trim().to_owned(), uses }
    });
    rows.collect()
}

/// A crate of the workspace, as Cargo sees it.
struct Package {
    /// Folder relative to the workspace; empty for the root.
    folder: String,
    /// Full names of what it depends on, for every use (normal, dev, build).
    dependencies: BTreeSet<String>,
}

/// Returns the name of a crate in the drawing.
fn short_name(package: &str) -> &str {
    package.strip_prefix("fairway-").unwrap_or(package)
}

/// Returns each package of the workspace by its name without `fairway-`.
fn packages() -> BTreeMap<String, Package> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--format-version", "1", "--no-deps"]).current_dir(root());
    let output = cargo.output().expect("cargo runs, since it runs this test");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let text = |v: &Value| v.as_str().expect("a text").to_owned();
    let list = |v: &Value| v.as_array().expect("a list").clone();
    let package = |p: Value| {
        let manifest = text(&p["manifest_path"]);
        let folder = manifest.strip_prefix(&*root().to_string_lossy()).and_then(|f| f.strip_suffix("Cargo.toml"));
        let folder =
            folder.unwrap_or_else(|| panic!("{manifest} lies outside the workspace")).trim_matches('/').to_owned();
        let dependencies = list(&p["dependencies"]).iter().map(|d| text(&d["name"])).collect();
        (short_name(&text(&p["name"])).to_owned(), Package { folder, dependencies })
    };
    list(&metadata["packages"]).into_iter().map(package).collect()
}

fn rust_files() -> Vec<TreeFile> {
    files(|path| path.ends_with(".rs"))
}

fn is_generated(file: &TreeFile) -> bool {
    file.text.lines().take(5).any(|line| line.contains("@generated"))
}

/// Returns the identifiers of a Rust text; comments and literals are left out.
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

/// Returns the position after a comment or literal that begins at `at`, or `at` if none begins there.
fn skip_literal_or_comment(bytes: &[u8], at: usize, inside_word: bool) -> usize {
    let rest = &bytes[at..];
    let find = |from: usize, needle: &[u8]| {
        let found = rest.get(from..).and_then(|r| r.windows(needle.len()).position(|w| w == needle));
        found.map_or(bytes.len(), |p| at + from + p + needle.len())
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

/// True if one of the words stands in the file as an identifier.
fn names_any(file: &TreeFile, words: &[&str]) -> bool {
    identifiers(&file.text).iter().any(|word| words.contains(&word.as_str()))
}

/// True for files that hold a format as it is written outside: `v1.rs`, `crd.rs`, `status_wire.rs`, and the bodies of the API.
fn is_wire_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.strip_suffix(".rs").unwrap_or(name);
    let version = stem.strip_prefix('v').is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
    version
        || stem == "crd"
        || stem.ends_with("_wire")
        || path.starts_with("crates/api-types/")
        || path.starts_with("crates/model/")
}

/// True for what is part of the product, unlike tests, benchmarks and fuzz targets.
fn is_shipped(path: &str) -> bool {
    !["integration/", "bench/", "fuzz/"].iter().any(|folder| path.starts_with(folder))
}

#[test]
fn crates_and_arrows_are_those_of_the_drawing() {
    let (rows, packages) = (drawing(), packages());
    let drawn: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let mut wrong = Vec::new();
    for name in packages.keys().filter(|name| !drawn.contains(&name.as_str())) {
        wrong.push(format!("the drawing lacks the crate {name}: add a row below what it uses"));
    }
    for (at, row) in rows.iter().enumerate() {
        let Some(package) = packages.get(&row.name) else {
            wrong.push(format!("the drawing has {}, which is no crate of the workspace", row.name));
            continue;
        };
        let ours = package.dependencies.iter().filter(|d| *d == "fairway" || d.starts_with("fairway-"));
        let used: BTreeSet<&str> = ours.map(|d| short_name(d)).collect();
        let above: BTreeSet<&str> = drawn[..at].iter().copied().collect();
        wrong.extend(
            used.difference(&above)
                .map(|u| format!("{} -> {u}: a crate uses only what the drawing has above it", row.name)),
        );
        if let Uses::These(allowed) = &row.uses {
            let allowed: BTreeSet<&str> = allowed.iter().map(String::as_str).collect();
            wrong.extend(
                used.difference(&allowed).map(|u| format!("{} -> {u}: the drawing lacks this arrow", row.name)),
            );
            wrong.extend(
                allowed.difference(&used).map(|u| format!("{} -> {u}: drawn, but no manifest has it", row.name)),
            );
        }
    }
    assert!(wrong.is_empty(), "ARCHITECTURE.md and the manifests differ: {wrong:#?}");
}

#[test]
fn every_manifest_is_of_the_workspace_or_listed_here() {
    let manifests = files(|path| path.ends_with("Cargo.toml"));
    let folders: BTreeSet<String> =
        manifests.iter().map(|f| f.path.trim_end_matches("Cargo.toml").trim_matches('/').to_owned()).collect();
    let members = packages().into_values().map(|p| p.folder);
    let known: BTreeSet<String> = members.chain(OTHER_PACKAGES.iter().map(|p| (*p).to_owned())).collect();
    assert_eq!(folders, known, "folders with a Cargo.toml (left), members and OTHER_PACKAGES (right)");
}

#[test]
fn fenced_libraries_are_named_by_their_crates_only() {
    let packages = packages();
    for (library, allowed) in FENCED_LIBRARIES {
        let users: Vec<&str> =
            packages.iter().filter(|(_, p)| p.dependencies.contains(*library)).map(|(n, _)| n.as_str()).collect();
        assert_eq!(users, *allowed, "crates whose manifests name {library} (left), and those that may (right)");
    }
}

#[test]
fn serde_is_used_in_wire_files_only() {
    let words = ["serde", "Serialize", "Deserialize"];
    let broken =
        rust_files().into_iter().filter(|f| is_shipped(&f.path) && !is_wire_file(&f.path) && names_any(f, &words));
    let broken: Vec<_> = broken.map(|f| f.path).collect();
    assert!(
        broken.is_empty(),
        "serde outside v*.rs, crd.rs, *_wire.rs, crates/api-types and crates/model: {broken:#?}"
    );
}

#[test]
fn kinds_of_events_are_those_of_the_manual() {
    let in_quotes = |text: &str, mark: &str| -> BTreeSet<String> {
        text.split(mark).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
    };
    let sources = rust_files().into_iter().filter(|file| is_shipped(&file.path));
    let used: BTreeSet<String> = sources
        .flat_map(|file| in_quotes(&file.text, "event = \"").into_iter().chain(in_quotes(&file.text, r#""event":""#)))
        .collect();
    let manual = fs::read_to_string(root().join("docs/operations/events.md")).expect("the page");
    let rows = manual.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()));
    assert_eq!(used, rows.collect(), "kinds in the sources (left) and in docs/operations/events.md (right)");
    let api = fs::read_to_string(root().join("crates/api/src/history.rs")).expect("the source");
    let kinds = api.split_once("const KINDS").and_then(|(_, rest)| rest.split_once("];")).expect("the list").0;
    let missing: Vec<_> = used.iter().filter(|kind| !kinds.contains(&format!("\"{kind}\""))).collect();
    assert!(missing.is_empty(), "kinds that /v1/events does not know: {missing:?}");
}

#[test]
fn unsafe_code_stands_in_the_listed_files_only() {
    let with_unsafe = rust_files().into_iter().filter(|f| names_any(f, &["unsafe"]));
    let with_unsafe: Vec<_> = with_unsafe.map(|f| f.path).collect();
    assert_eq!(with_unsafe, UNSAFE_FILES, "files with unsafe code (left), and those that may have it (right)");
}

#[test]
fn crates_without_unsafe_code_forbid_it_at_their_root() {
    let sources = rust_files();
    let mut missing = Vec::new();
    for (name, package) in packages() {
        let folder = if package.folder.is_empty() { "src/".to_owned() } else { format!("{}/src/", package.folder) };
        if UNSAFE_FILES.iter().any(|file| file.starts_with(&folder)) {
            continue;
        }
        let roots = [format!("{folder}lib.rs"), format!("{folder}main.rs")];
        let root = sources
            .iter()
            .find(|f| roots.contains(&f.path))
            .unwrap_or_else(|| panic!("{name} has no root in {folder}"));
        if !root.text.contains("#![forbid(unsafe_code)]") {
            missing.push(root.path.clone());
        }
    }
    assert!(missing.is_empty(), "crates without unsafe code that do not say #![forbid(unsafe_code)]: {missing:#?}");
}

#[test]
fn source_files_over_the_bound_are_the_listed_ones() {
    let long = rust_files().into_iter().filter(|f| !is_generated(f) && f.text.lines().count() > FILE_LINES_MAX);
    let long: Vec<_> = long.map(|f| f.path).collect();
    assert_eq!(long, LONG_FILES, "files over {FILE_LINES_MAX} lines (left), and those that may be (right)");
}

/// A file of unit tests is part of the module that it tests, whose header speaks for both.
#[test]
fn every_source_file_begins_with_a_header() {
    let bare = rust_files()
        .into_iter()
        .filter(|f| !f.path.ends_with("tests.rs") && !f.text.starts_with("//!") && !is_generated(f));
    let bare: Vec<_> = bare.map(|f| f.path).collect();
    assert!(bare.is_empty(), "files without a header (`//!`): {bare:#?}");
}

#[test]
fn every_folder_is_named_in_architecture_md() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is readable");
    let folders = |of: &str| -> Vec<String> {
        let entries = fs::read_dir(root().join(of)).unwrap_or_else(|e| panic!("{of}: {e}"));
        let entries = entries.map(|e| e.expect("a readable entry").path()).filter(|p| p.is_dir());
        entries.map(|p| p.file_name().expect("it has a name").to_string_lossy().into_owned()).collect()
    };
    let visible = |name: &String| name != "target" && !name.starts_with('.');
    let all = [".", "src", "crates"].into_iter().flat_map(folders).filter(visible);
    let missing: Vec<_> = all.filter(|name| !page.contains(&format!("{name}/"))).collect();
    assert!(missing.is_empty(), "folders that ARCHITECTURE.md does not name as `folder/`: {missing:#?}");
}

#[test]
fn drawing_with_remarks_and_long_rows_is_parsed() {
    let rows = parse_drawing("model ->\nhttp -> model # a remark\ncontrol -> model,\n  http\nbench -> all above");
    let parsed: Vec<_> = rows.iter().map(|row| (row.name.as_str(), matches!(row.uses, Uses::AllAbove))).collect();
    assert_eq!(parsed, [("model", false), ("http", false), ("control", false), ("bench", true)]);
    assert!(matches!(&rows[0].uses, Uses::These(uses) if uses.is_empty()));
    assert!(matches!(&rows[2].uses, Uses::These(uses) if uses == &["model", "http"]));
}

#[test]
fn identifiers_leave_comments_and_literals_out() {
    let text =
        "// unsafe\n/* unsafe */ let a = \"unsafe \\\" unsafe\"; let b = r#\"unsafe\"#; let c = 'u'; x!(\"//\", safe)";
    assert!(!identifiers(text).contains(&"unsafe".to_owned()));
    assert!(identifiers(text).contains(&"safe".to_owned()));
    assert!(identifiers("fn f<'a>(x: &'a u8) { unsafe { *x } }").contains(&"unsafe".to_owned()));
    assert!(!identifiers("#![forbid(unsafe_code)]").contains(&"unsafe".to_owned()));
}

#[test]
fn wire_files_are_known_by_their_names() {
    for path in
        ["src/config/v1.rs", "src/api/state_wire.rs", "crates/sources/src/crd.rs", "crates/api-types/src/explain.rs"]
    {
        assert!(is_wire_file(path), "{path}");
    }
    assert!(!is_wire_file("src/view.rs"));
}
