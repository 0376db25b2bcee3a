//! Loads a configuration: files, YAML, structure, conversion, environment. Each step reports all its diagnostics
//! together, and works on what the step before found valid.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use fairway_model::{DesiredState, Diagnostic, FileLocation, Name, ZoneSpec};
use serde_json::Value;

use super::{
    Attempt, DIAGNOSTICS_MAX, Loaded, Settings, Source,
    cache::{PreviousLoad, ZoneCache},
    context::{Environment, Input, LoadContext},
    convert,
    environment::{apply, apply_data_dir, apply_dns, apply_http},
    files::{CONFIG_MAX, Unreadable},
    join::join,
    maps::MapCache,
    schema,
    schema_errors::SchemaError,
    tree::{Data, Node, Part, Tree},
    v1, yaml,
};

/// Loads a configuration. Zones and maps that did not change since the previous load are not read again.
pub(super) fn attempt(source: &Source, environment: Environment<'_>, previous: Option<PreviousLoad<'_>>) -> Attempt {
    let mut context = LoadContext::new(environment, previous);
    let converted = match source {
        Source::Path(path) => from_path(path, &mut context),
        Source::Flags { listen, zones } => Some(from_flags(listen, zones, &mut context)),
    };
    let LoadContext { files, mut diagnostics, has_errors, variables, .. } = context;
    if diagnostics.len() == DIAGNOSTICS_MAX {
        let location = diagnostics[DIAGNOSTICS_MAX - 1].location.clone();
        diagnostics.push(Diagnostic::error(
            location,
            format!("there are more than {DIAGNOSTICS_MAX} errors"),
            "fix these first",
        ));
    }
    diagnostics.sort();
    diagnostics.dedup();
    let fingerprint = files.fingerprint;
    let outcome = match converted {
        Some(converted) if !has_errors => Ok(Loaded {
            settings: converted.settings,
            desired: converted.desired,
            zones_unchanged: converted.zones.is_none(),
            zones: converted.zones.unwrap_or_default(),
            zone_cache: converted.zone_cache,
            map_cache: converted.map_cache,
            overrides: converted.overrides,
            files: fingerprint.files().map(Path::to_owned).collect(),
            fingerprint: fingerprint.clone(),
            variables,
            warnings: diagnostics,
        }),
        _ => Err(diagnostics),
    };
    Attempt { fingerprint, outcome }
}

fn from_path(path: &Path, context: &mut LoadContext<'_>) -> Option<convert::Converted> {
    let paths = match config_files(path, context) {
        Ok(paths) => paths,
        Err(why) => {
            context.report(unreadable(path, &why));
            return None;
        }
    };
    let names: Vec<Arc<str>> = paths.iter().map(|path| path.to_string_lossy().into()).collect();
    let texts: Vec<Option<String>> =
        paths.iter().zip(&names).map(|(path, name)| read_text(path, name, context)).collect();
    let (config, tree) = match json(&texts, &names) {
        Some(valid) => valid,
        None => from_yaml(&texts, &names, context)?,
    };
    let mut converted = convert::convert(config, &tree, context);
    apply(&mut converted.settings, context);
    apply_dns(&mut converted.settings, context);
    let is_from_environment = apply_http(&mut converted.settings, context);
    if let Some(error) = convert::listener_error(&converted.settings, context) {
        // Looked up for an error only: a file in JSON is parsed a second time, as YAML, for its positions.
        let location = if is_from_environment {
            FileLocation::file("environment")
        } else {
            tree.locate("/listen/http").position.location(tree.files)
        };
        context.report(Diagnostic { location, ..error });
    }
    apply_data_dir(&mut converted.settings, context);
    Some(converted)
}

/// Reads a single valid JSON file, which is many times as fast as YAML. JSON is YAML (YAML 1.2.2 section 1.2), so
/// `None` only means that the text must be read as YAML: it is not JSON, has an error, or uses an alias of a key.
pub(super) fn json<'a>(texts: &'a [Option<String>], names: &'a [Arc<str>]) -> Option<(v1::Config, Tree<'a>)> {
    let [Some(text)] = texts else { return None };
    // serde_json reads null as an absent key, but it is an error.
    let eligible = text.trim_start().starts_with('{') && !text.contains("null");
    let config = eligible.then(|| serde_json::from_str(text).ok())??;
    Some((config, Tree::lazy(texts, names)))
}

/// Reads files as YAML. Returns `None` if nothing valid is left.
pub(super) fn from_yaml<'a>(
    texts: &[Option<String>],
    names: &'a [Arc<str>],
    context: &mut LoadContext<'_>,
) -> Option<(v1::Config, Tree<'a>)> {
    context.report_all(texts.iter().zip(names).filter_map(|(text, name)| missing_line_end(name, text.as_ref()?)));
    let trees: Vec<Node> = texts
        .iter()
        .zip(0..)
        .filter_map(|(text, file)| {
            yaml::parse(text.as_ref()?, file, names).unwrap_or_else(|diagnostics| {
                context.report_all(diagnostics);
                None
            })
        })
        .collect();
    if trees.is_empty() && context.has_errors {
        return None;
    }
    let mut diagnostics = Vec::new();
    let mut tree = join(trees, names, &mut diagnostics);
    if context.has_errors {
        // The missing key may be in the file that could not be read.
        tree.add("version", Data::Integer(1));
    }
    context.report_all(diagnostics);
    context.left_out.has_files = context.has_errors;
    if let Some(config) = tree.read() {
        debug_assert!(
            schema::errors(&tree.to_json()).is_empty(),
            "a configuration that deserializes must match the schema"
        );
        return Some((config, Tree::parsed(tree, names)));
    }
    prune(&mut tree, names, context)?;
    let Some(config) = tree.read() else {
        // Schema and structs are derived from the same types, so this is a bug; it must not be a panic.
        let what = "the configuration matches its schema but cannot be read";
        context.report(Diagnostic::error(FileLocation::file(&names[0]), what, "please report this as a bug"));
        return None;
    };
    Some((config, Tree::parsed(tree, names)))
}

/// Reads a configuration that is already a tree and names no files and no environment variables.
pub(super) fn from_tree(tree: &Value) -> Result<DesiredState, Vec<Diagnostic>> {
    let (texts, names) = ([Some(tree.to_string())], [Arc::from("configuration")]);
    let mut context = LoadContext::without_files(Input::Memory);
    let config = from_yaml(&texts, &names, &mut context);
    let converted = config.map(|(config, tree)| convert::convert(config, &tree, &mut context));
    let LoadContext { diagnostics, has_errors, .. } = context;
    converted.filter(|_| !has_errors).map(|converted| converted.desired).ok_or(diagnostics)
}

/// Reports the structural errors of a tree, and removes the elements that have them, so that the rest can be converted
/// and checked as well. Returns `None` if nothing valid is left.
fn prune(tree: &mut Node, names: &[Arc<str>], context: &mut LoadContext<'_>) -> Option<()> {
    let found = schema::errors(&tree.to_json());
    context.report_all(found.iter().map(|error| error.diagnostic(tree, names)));
    let parts: BTreeSet<Part> = found.iter().filter_map(SchemaError::part).collect();
    // From the last to the first: removing an element moves the later ones up.
    for part in parts.iter().rev() {
        context.left_out.add(&part.0, tree.name_of(part));
        tree.prune(part);
    }
    tree.add("version", Data::Integer(1));
    schema::errors(&tree.to_json()).is_empty().then_some(())
}

/// Returns the files of a configuration: the file itself, or those of a folder.
pub(super) fn config_files(path: &Path, context: &mut LoadContext<'_>) -> Result<Vec<PathBuf>, Unreadable> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let paths = context.files.list(path)?;
    if paths.is_empty() {
        return Err(Unreadable {
            what: "contains no *.yaml and no *.yml file".to_owned(),
            hint: "add one, or name another folder",
        });
    }
    Ok(paths)
}

/// Returns the text of a file, or `None` after reporting why it cannot be used.
pub(super) fn read_text(path: &Path, name: &Arc<str>, context: &mut LoadContext<'_>) -> Option<String> {
    let bytes = match context.files.read(path, CONFIG_MAX) {
        Ok(bytes) => bytes,
        Err(why) => {
            context.report(unreadable(path, &why));
            return None;
        }
    };
    let mut text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            context.report(not_utf8(name, &error.as_bytes()[..error.utf8_error().valid_up_to()]));
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
/// with `{` needs no check, because a cut would leave a bracket open.
pub(super) fn missing_line_end(name: &Arc<str>, text: &str) -> Option<Diagnostic> {
    if text.is_empty() || text.ends_with(['\n', '\r']) || text.trim_start().starts_with('{') {
        return None;
    }
    let what = "the file does not end with a line break, so it may be truncated";
    Some(Diagnostic::error(
        location_after(name, text.as_bytes()),
        what,
        "complete the last line and end it with a line break",
    ))
}

fn not_utf8(name: &Arc<str>, before: &[u8]) -> Diagnostic {
    Diagnostic::error(location_after(name, before), "the text is not UTF-8 from here", "save it as UTF-8")
}

/// Returns the location right after these bytes.
fn location_after(name: &Arc<str>, before: &[u8]) -> FileLocation {
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let column = 1 + String::from_utf8_lossy(&before[start..]).chars().count();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    FileLocation { file: Arc::clone(name), line: number(line), column: number(column) }
}

/// Builds a configuration of static zones only: no data folder, no HTTP listener, no steered names.
fn from_flags(
    listen: &[std::net::SocketAddr],
    zones: &[(Name, PathBuf)],
    context: &mut LoadContext<'_>,
) -> convert::Converted {
    let mut settings = Settings { http: None, data_dir: None, ..Settings::default() };
    apply(&mut settings, context);
    if listen.is_empty() {
        apply_dns(&mut settings, context);
    } else {
        settings.dns = listen.to_vec();
    }
    let (mut desired, mut data) = (DesiredState::default(), Vec::new());
    for (name, path) in zones {
        if desired.zones.insert(name.clone(), ZoneSpec::new(name.clone())).is_some() {
            let what = format!("zone {name} is given twice");
            context.report(Diagnostic::error(FileLocation::file("command line"), what, "remove one"));
            continue;
        }
        match convert::read_zone_file(&mut context.files, name, path) {
            Ok((mut zone, diagnostics)) => {
                context.report_all(diagnostics);
                context.report_all(convert::check_zone_data(&mut zone, &desired));
                data.push(zone);
            }
            Err(why) => context.report(unreadable(path, &why)),
        }
    }
    convert::Converted {
        settings,
        desired,
        zones: Some(data),
        zone_cache: ZoneCache::default(),
        map_cache: MapCache::default(),
        overrides: Vec::new(),
    }
}
