//! Loads a configuration: files, YAML, structure, conversion, environment. Each step reports all its diagnostics
//! together, and works
//! on what the step before found valid.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use fairway_model::{DesiredState, Diagnostic, FileLocation, Name, ZoneSpec};
use serde_json::Value;

use super::{
    Attempt, FAULTS_MAX, Loaded, Settings, Source, convert,
    environment::{apply, apply_data_dir, apply_dns, apply_http},
    files::{CONFIG_MAX, Unreadable},
    join::join,
    kept::{Before, KeptZones},
    maps::KeptMaps,
    reader::{Environment, Reader},
    schema,
    tree::{Data, Node, Part, Tree},
    v1,
    wording::Worded,
    yaml,
};

/// Loads a configuration. Zones and maps that did not change since `before` are not read again.
pub(super) fn attempt(source: &Source, environment: Environment<'_>, before: Option<Before<'_>>) -> Attempt {
    let mut reader = Reader::new(environment, before);
    let converted = match source {
        Source::Path(path) => from_path(path, &mut reader),
        Source::Flags { listen, zones } => Some(from_flags(listen, zones, &mut reader)),
    };
    let Reader { files, mut faults, refused, variables, .. } = reader;
    if faults.len() == FAULTS_MAX {
        let place = faults[FAULTS_MAX - 1].location.clone();
        faults.push(Diagnostic::error(place, format!("there are more than {FAULTS_MAX} errors"), "fix these first"));
    }
    faults.sort();
    faults.dedup();
    let fingerprint = files.fingerprint;
    let outcome = match converted {
        Some(converted) if !refused => Ok(Loaded {
            settings: converted.settings,
            desired: converted.desired,
            zones_as_before: converted.zones.is_none(),
            zones: converted.zones.unwrap_or_default(),
            kept: converted.kept,
            kept_maps: converted.kept_maps,
            overrides: converted.overrides,
            files: fingerprint.files().map(Path::to_owned).collect(),
            fingerprint: fingerprint.clone(),
            variables,
            warnings: faults,
        }),
        _ => Err(faults),
    };
    Attempt { fingerprint, outcome }
}

fn from_path(path: &Path, reader: &mut Reader<'_>) -> Option<convert::Converted> {
    let paths = match paths(path, reader) {
        Ok(paths) => paths,
        Err(why) => {
            reader.fault(unreadable(path, &why));
            return None;
        }
    };
    let names: Vec<Arc<str>> = paths.iter().map(|path| path.to_string_lossy().into()).collect();
    let texts: Vec<Option<String>> = paths.iter().zip(&names).map(|(path, name)| text(path, name, reader)).collect();
    let (config, tree) = match json(&texts, &names) {
        Some(sound) => sound,
        None => from_yaml(&texts, &names, reader)?,
    };
    let mut converted = convert::convert(config, &tree, reader);
    apply(&mut converted.settings, reader);
    apply_dns(&mut converted.settings, reader);
    let http = match apply_http(&mut converted.settings, reader) {
        true => FileLocation::file("environment"),
        false => tree.locate("/listen/http").spot.place(tree.files),
    };
    convert::check_listener(&converted.settings, http, reader);
    apply_data_dir(&mut converted.settings, reader);
    Some(converted)
}

/// Reads a single valid JSON file, which is many times as fast as YAML. JSON is YAML (YAML 1.2.2 section 1.2), so
/// `None` only
/// means that the text must be read as YAML: it is not JSON, has an error, or uses an alias of a key.
pub(super) fn json<'a>(texts: &'a [Option<String>], names: &'a [Arc<str>]) -> Option<(v1::Config, Tree<'a>)> {
    let [Some(text)] = texts else { return None };
    // serde_json reads null as an absent key, but it is an error.
    let eligible = text.trim_start().starts_with('{') && !text.contains("null");
    let config = eligible.then(|| serde_json::from_str(text).ok())??;
    Some((config, Tree::ungrown(texts, names)))
}

/// Reads files as YAML. Returns `None` if nothing valid is left.
pub(super) fn from_yaml<'a>(
    texts: &[Option<String>],
    names: &'a [Arc<str>],
    reader: &mut Reader<'_>,
) -> Option<(v1::Config, Tree<'a>)> {
    reader.faults(texts.iter().zip(names).filter_map(|(text, name)| unended(name, text.as_ref()?)).collect());
    let trees: Vec<Node> = texts
        .iter()
        .zip(0..)
        .filter_map(|(text, file)| {
            yaml::parse(text.as_ref()?, file, names).unwrap_or_else(|faults| {
                reader.faults(faults);
                None
            })
        })
        .collect();
    if trees.is_empty() && reader.refused {
        return None;
    }
    let mut faults = Vec::new();
    let mut tree = join(trees, names, &mut faults);
    if reader.refused {
        // The missing key may be in the file that could not be read.
        tree.add("version", Data::Integer(1));
    }
    reader.faults(faults);
    if let Some(config) = tree.read() {
        debug_assert!(schema::faults(&tree.to_json()).is_empty(), "what the structs take, the schema takes");
        return Some((config, Tree::grown_from(tree, names)));
    }
    prune(&mut tree, names, reader)?;
    let Some(config) = tree.read() else {
        // Schema and structs are derived from the same types, so this is a bug; it must not be a panic.
        let what = "the configuration matches its schema but cannot be read";
        reader.fault(Diagnostic::error(FileLocation::file(&names[0]), what, "please report this as a bug"));
        return None;
    };
    Some((config, Tree::grown_from(tree, names)))
}

/// Reads a configuration that is already a tree and names no files and no environment variables.
pub(super) fn of_tree(tree: &Value) -> Result<DesiredState, Vec<Diagnostic>> {
    let (texts, names) = ([Some(tree.to_string())], [Arc::from("configuration")]);
    let mut reader = Reader::new(&|_| None, None);
    let config = from_yaml(&texts, &names, &mut reader);
    let converted = config.map(|(config, tree)| convert::convert(config, &tree, &mut reader));
    let Reader { faults, refused, .. } = reader;
    converted.filter(|_| !refused).map(|converted| converted.desired).ok_or(faults)
}

/// Reports the structural errors of a tree, and removes the elements that have them, so that the rest can be converted
/// and checked
/// as well. Returns `None` if nothing valid is left.
fn prune(tree: &mut Node, names: &[Arc<str>], reader: &mut Reader<'_>) -> Option<()> {
    let found = schema::faults(&tree.to_json());
    reader.faults(found.iter().map(|worded| worded.fault(tree, names)).collect());
    let parts: BTreeSet<Part> = found.iter().filter_map(Worded::part).collect();
    // From the last to the first: removing an element moves the later ones up.
    parts.iter().rev().for_each(|part| tree.prune(part));
    tree.add("version", Data::Integer(1));
    schema::faults(&tree.to_json()).is_empty().then_some(())
}

/// Returns the files of a configuration: the file itself, or those of a folder.
pub(super) fn paths(path: &Path, reader: &mut Reader<'_>) -> Result<Vec<PathBuf>, Unreadable> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let paths = reader.files.list(path)?;
    if paths.is_empty() {
        return Err(Unreadable {
            what: "contains no *.yaml and no *.yml file".to_owned(),
            hint: "add one, or name another folder",
        });
    }
    Ok(paths)
}

/// Returns the text of a file, or `None` after reporting why it cannot be used.
pub(super) fn text(path: &Path, name: &Arc<str>, reader: &mut Reader<'_>) -> Option<String> {
    let octets = match reader.files.read(path, CONFIG_MAX) {
        Ok(octets) => octets,
        Err(why) => {
            reader.fault(unreadable(path, &why));
            return None;
        }
    };
    let mut text = match String::from_utf8(octets) {
        Ok(text) => text,
        Err(error) => {
            reader.fault(not_utf8(name, &error.as_bytes()[..error.utf8_error().valid_up_to()]));
            return None;
        }
    };
    // A byte order mark is not part of the text (YAML 1.2.2 section 5.2), and would count as a column.
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Some(text)
}

pub(super) fn unreadable(path: &Path, why: &Unreadable) -> Diagnostic {
    Diagnostic::error(FileLocation::file(&path.to_string_lossy()), format!("the file {}", why.what), why.hint)
}

/// Returns an error if the last line may be cut: `weight: 6` could be the beginning of `weight: 60`. Text that begins
/// with `{`
/// needs no check, because a cut would leave a bracket open.
pub(super) fn unended(name: &Arc<str>, text: &str) -> Option<Diagnostic> {
    if text.is_empty() || text.ends_with(['\n', '\r']) || text.trim_start().starts_with('{') {
        return None;
    }
    let what = "the file does not end with a line break, so it may be truncated";
    Some(Diagnostic::error(
        place_after(name, text.as_bytes()),
        what,
        "complete the last line and end it with a line break",
    ))
}

fn not_utf8(name: &Arc<str>, before: &[u8]) -> Diagnostic {
    Diagnostic::error(place_after(name, before), "the text is not UTF-8 from here", "save it as UTF-8")
}

/// Returns the location right after these bytes.
fn place_after(name: &Arc<str>, before: &[u8]) -> FileLocation {
    let line = 1 + before.iter().filter(|octet| **octet == b'\n').count();
    let start = before.iter().rposition(|octet| *octet == b'\n').map_or(0, |at| at + 1);
    let column = 1 + String::from_utf8_lossy(&before[start..]).chars().count();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    FileLocation { file: Arc::clone(name), line: number(line), column: number(column) }
}

/// Builds a configuration of static zones only: no data folder, no HTTP listener, no steered names.
fn from_flags(
    listen: &[std::net::SocketAddr],
    zones: &[(Name, PathBuf)],
    reader: &mut Reader<'_>,
) -> convert::Converted {
    let mut settings = Settings { http: None, data_dir: None, ..Settings::default() };
    apply(&mut settings, reader);
    if listen.is_empty() {
        apply_dns(&mut settings, reader);
    } else {
        settings.dns = listen.to_vec();
    }
    let (mut desired, mut data) = (DesiredState::default(), Vec::new());
    for (name, path) in zones {
        if desired.zones.insert(name.clone(), ZoneSpec::new(name.clone())).is_some() {
            let what = format!("zone {name} is given twice");
            reader.fault(Diagnostic::error(FileLocation::file("command line"), what, "remove one"));
            continue;
        }
        match convert::read_zone_file(&mut reader.files, name, path) {
            Ok((mut zone, faults)) => {
                reader.faults(faults);
                reader.faults(convert::check_zone_data(&mut zone, &desired));
                data.push(zone);
            }
            Err(why) => reader.fault(unreadable(path, &why)),
        }
    }
    convert::Converted {
        settings,
        desired,
        zones: Some(data),
        kept: KeptZones::default(),
        kept_maps: KeptMaps::default(),
        overrides: Vec::new(),
    }
}
