//! One reading from its source to model types: files, YAML, structure, meaning, environment. Each step needs the one
//! before to be sound, and gives all faults of its own at once.

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
    lists,
    maps::KeptMaps,
    reader::{Environment, Reader},
    schema,
    tree::{Data, Node, Part, Tree},
    v1,
    wording::Worded,
    yaml,
};

/// Reads a source; zones that are as they were `before` are left unread.
pub(super) fn attempt(source: &Source, environment: Environment<'_>, before: Option<Before<'_>>) -> Attempt {
    let mut reader = Reader::new(environment, before);
    let converted = match source {
        Source::Path(path) => from_path(path, &mut reader),
        Source::Flags { listen, zones } => Some(from_flags(listen, zones, &mut reader)),
    };
    let Reader { files, mut faults, refused, variables, .. } = reader;
    if faults.len() == FAULTS_MAX {
        let place = faults[FAULTS_MAX - 1].location.clone();
        faults.push(Diagnostic::error(place, format!("there are more than {FAULTS_MAX} faults"), "mend these first"));
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
    let (config, tree) = match json(&texts, &names).or_else(|| lists::read(&texts, &names)) {
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

/// A sound configuration in JSON, which programs write and which is read many times as fast as all of YAML. JSON is YAML
/// (YAML 1.2.2 section 1.2), so that whatever is at fault, or is said by another word, is left to the reader of YAML.
pub(super) fn json<'a>(texts: &'a [Option<String>], names: &'a [Arc<str>]) -> Option<(v1::Config, Tree<'a>)> {
    let [Some(text)] = texts else { return None };
    // serde_json takes null for a key that is not there, and it is a fault.
    let eligible = text.trim_start().starts_with('{') && !text.contains("null");
    let config = eligible.then(|| serde_json::from_str(text).ok())??;
    Some((config, Tree::ungrown(texts, names)))
}

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
        // What seems missing may stand in the file that is left out.
        tree.add("version", Data::Integer(1));
    }
    reader.faults(faults);
    if let Some(config) = tree.read() {
        debug_assert!(schema::faults(&tree.to_json()).is_empty(), "what the structs take, the schema takes");
        return Some((config, Tree::grown_from(tree, names)));
    }
    prune(&mut tree, names, reader)?;
    let Some(config) = tree.read() else {
        // The schema and the structs have one source, so this is a fault of ours; it must not be a panic.
        let what = "the configuration is sound by its schema and cannot be read";
        reader.fault(Diagnostic::error(FileLocation::file(&names[0]), what, "please report it"));
        return None;
    };
    Some((config, Tree::grown_from(tree, names)))
}

/// Reads a configuration that is at hand as a tree, and names neither files nor the environment.
pub(super) fn of_tree(tree: &Value) -> Result<DesiredState, Vec<Diagnostic>> {
    let (texts, names) = ([Some(tree.to_string())], [Arc::from("configuration")]);
    let mut reader = Reader::new(&|_| None, None);
    let config = from_yaml(&texts, &names, &mut reader);
    let converted = config.map(|(config, tree)| convert::convert(config, &tree, &mut reader));
    let Reader { faults, refused, .. } = reader;
    converted.filter(|_| !refused).map(|converted| converted.desired).ok_or(faults)
}

/// Leaves of a tree what its schema finds sound: what is at fault is told and taken out, so that the faults of meaning
/// in the rest are told at once, too. None if nothing sound is left.
fn prune(tree: &mut Node, names: &[Arc<str>], reader: &mut Reader<'_>) -> Option<()> {
    let found = schema::faults(&tree.to_json());
    reader.faults(found.iter().map(|worded| worded.fault(tree, names)).collect());
    let parts: BTreeSet<Part> = found.iter().filter_map(Worded::part).collect();
    // From the last to the first, so that what is taken out does not move what is still to be taken out.
    parts.iter().rev().for_each(|part| tree.prune(part));
    tree.add("version", Data::Integer(1));
    schema::faults(&tree.to_json()).is_empty().then_some(())
}

/// The files of a configuration.
pub(super) fn paths(path: &Path, reader: &mut Reader<'_>) -> Result<Vec<PathBuf>, Unreadable> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let paths = reader.files.list(path)?;
    if paths.is_empty() {
        return Err(Unreadable {
            what: "holds no configuration: no *.yaml and no *.yml".to_owned(),
            hint: "put one there, or give another folder",
        });
    }
    Ok(paths)
}

/// The text of one file; none if it is at fault.
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
    // A byte order mark is no part of the text (YAML 1.2.2 section 5.2), and would count as a column.
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Some(text)
}

pub(super) fn unreadable(path: &Path, why: &Unreadable) -> Diagnostic {
    Diagnostic::error(FileLocation::file(&path.to_string_lossy()), format!("the file {}", why.what), why.hint)
}

/// What tells that a text may be cut inside its last line, which may well read as another one: `weight: 6` of
/// `weight: 60`. A text in brackets needs no such sign: what cuts it leaves one of them open.
pub(super) fn unended(name: &Arc<str>, text: &str) -> Option<Diagnostic> {
    if text.is_empty() || text.ends_with(['\n', '\r']) || text.trim_start().starts_with('{') {
        return None;
    }
    let what = "the text ends without a line break, so the file may be cut";
    Some(Diagnostic::error(
        place_after(name, text.as_bytes()),
        what,
        "complete its last line and end it with a line break",
    ))
}

fn not_utf8(name: &Arc<str>, before: &[u8]) -> Diagnostic {
    Diagnostic::error(place_after(name, before), "the text is not UTF-8 from here on", "save it as UTF-8")
}

/// The place of what follows these octets.
fn place_after(name: &Arc<str>, before: &[u8]) -> FileLocation {
    let line = 1 + before.iter().filter(|octet| **octet == b'\n').count();
    let start = before.iter().rposition(|octet| *octet == b'\n').map_or(0, |at| at + 1);
    let column = 1 + String::from_utf8_lossy(&before[start..]).chars().count();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    FileLocation { file: Arc::clone(name), line: number(line), column: number(column) }
}

/// Static zones alone: no data folder, no HTTP listener, no steered names.
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
            reader.fault(Diagnostic::error(FileLocation::file("command line"), what, "keep one"));
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
