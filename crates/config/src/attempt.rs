//! Loads a configuration: files, YAML, structure, conversion, environment. Each step reports all its diagnostics
//! together, and works on what the step before found valid.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::{Path, PathBuf},
    slice,
    sync::Arc,
};

use fairway_model::{DesiredState, Diagnostic, FileLocation, Name, ZoneSpec};
use serde_json::Value;

use super::{
    Attempt, DIAGNOSTICS_MAX, Loaded, Settings, Source,
    cache::PreviousLoad,
    context::{Environment, Input, LoadContext},
    convert,
    environment::{apply, apply_data_dir, apply_dns, apply_health, apply_http},
    file_objects::FileObjects,
    files::CONFIG_MAX,
    join::join,
    reason::Reason,
    schema,
    schema_errors::SchemaError,
    tree::{Data, Node, Part, Tree},
    v1,
    yaml::{self, Documents},
};

/// Loads a configuration, without applying it, and returns its files even if it is rejected. Zones and maps that did
/// not change since the previous load are not read again.
///
/// `environment` returns `FAIRWAY_*` variables and those that secrets refer to.
pub fn attempt(source: &Source, environment: Environment<'_>, previous: Option<PreviousLoad<'_>>) -> Attempt {
    let mut context = LoadContext::new(environment, previous);
    let loaded = match source {
        Source::Path(path) => from_path(path, &mut context),
        Source::Flags { listen, zones } => Some(from_flags(listen, zones, &mut context)),
    };
    let LoadContext { files, mut diagnostics, counts, has_errors, variables, .. } = context;
    diagnostics.sort_by(|a, b| (a.severity, a).cmp(&(b.severity, b)));
    diagnostics.dedup();
    let last = |is_error: bool| diagnostics.iter().rfind(|of| of.is_error() == is_error).map(|of| of.location.clone());
    let ends = counts.map(|count| count > DIAGNOSTICS_MAX).into_iter().zip([true, false]);
    let ends: Vec<_> =
        ends.filter_map(|(is_over, is_error)| Some((is_error, last(is_error).filter(|_| is_over)?))).collect();
    diagnostics.extend(ends.into_iter().map(|(is_error, at)| match is_error {
        true => Diagnostic::error(at, format!("there are more than {DIAGNOSTICS_MAX} errors"), "fix these first"),
        false => Diagnostic::warning(at, format!("there are more than {DIAGNOSTICS_MAX} warnings"), "fix these first"),
    }));
    let fingerprint = files.fingerprint;
    let outcome = match loaded {
        Some(loaded) if !has_errors => {
            Ok(Loaded { fingerprint: fingerprint.clone(), variables, warnings: diagnostics, ..loaded })
        }
        _ => Err(diagnostics),
    };
    Attempt { fingerprint, outcome }
}

fn from_path(path: &Path, context: &mut LoadContext<'_>) -> Option<Loaded> {
    let (names, texts) = read_texts(slice::from_ref(&path), context);
    if names.is_empty() {
        return None;
    }
    let (config, tree) = match json(&texts, &names) {
        Some(valid) => valid,
        None => from_yaml(&texts, &names, context)?,
    };
    let mut loaded = convert::convert(config, &tree, context);
    apply(&mut loaded.settings, context);
    apply_dns(&mut loaded.settings, context);
    apply_health(&mut loaded.settings, context);
    let is_from_environment = apply_http(&mut loaded.settings, context);
    if let Some(why) = convert::listener_error(&loaded.settings, context) {
        // Looked up for an error only: a file in JSON is parsed a second time, as YAML, for its positions.
        let location = if is_from_environment {
            FileLocation::file("environment")
        } else {
            tree.locate("/listen/http").position.location(tree.files)
        };
        context.report(Diagnostic::error(location, why.what, why.hint));
    }
    apply_data_dir(&mut loaded.settings, context);
    loaded.file_objects = FileObjects::new(names, texts);
    Some(loaded)
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
    let mut tree = join_yaml(texts, names, Documents::One, context)?;
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

/// Parses files and joins them. Reports all errors, and returns `None` if no file is left.
pub(super) fn join_yaml(
    texts: &[Option<String>],
    names: &[Arc<str>],
    documents: Documents,
    context: &mut LoadContext<'_>,
) -> Option<Node> {
    let mut trees = Vec::with_capacity(texts.len());
    for ((text, name), file) in texts.iter().zip(names).zip(0..) {
        let Some(text) = text else { continue };
        context.report_all(missing_line_end(name, text));
        match yaml::parse_documents(text, file, names, documents) {
            Ok(tree) => trees.extend(tree),
            Err(diagnostics) => context.report_all(diagnostics),
        }
    }
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
    Some(tree)
}

/// Converts a configuration in JSON that is not in a file.
pub(super) fn from_text(text: String, name: &str, input: Input) -> Result<DesiredState, Vec<Diagnostic>> {
    let (texts, names) = ([Some(text)], [Arc::from(name)]);
    let mut context = LoadContext::without_files(input);
    let config = json(&texts, &names).or_else(|| from_yaml(&texts, &names, &mut context));
    let loaded = config.map(|(config, tree)| convert::convert(config, &tree, &mut context));
    let LoadContext { diagnostics, has_errors, .. } = context;
    loaded.filter(|_| !has_errors).map(|loaded| loaded.desired).ok_or(diagnostics)
}

/// Converts a configuration that was composed in memory and names no files; or returns its errors.
///
/// Latency tables have no measurements, since those come from files.
pub fn desired(tree: &Value) -> Result<DesiredState, Vec<Diagnostic>> {
    from_text(tree.to_string(), "configuration", Input::Memory)
}

/// Reads another YAML file within the same limits. Returns all its errors.
pub fn read_tree(path: &Path) -> Result<Value, Vec<Diagnostic>> {
    let mut context = LoadContext::new(&|_| None, None);
    let name = Arc::from(path.to_string_lossy());
    let text = read_text(path, &name, TREE_MAX, &mut context).ok_or(context.diagnostics)?;
    let empty =
        || vec![Diagnostic::error(FileLocation::file(&name), "the file is empty", "the manual describes its content")];
    yaml::parse(&text, 0, slice::from_ref(&name))?.map(|root| root.to_json()).ok_or_else(empty)
}

/// Returns the location of a key of a configuration that was loaded before.
pub(super) fn locate(path: &Path, pointer: &str) -> FileLocation {
    let (names, texts) = read_texts(&[path], &mut LoadContext::new(&|_| None, None));
    match names.is_empty() {
        true => FileLocation::file(&path.to_string_lossy()),
        false => Tree::lazy(&texts, &names).locate(pointer).position.location(&names),
    }
}

/// Largest file that [`read_tree`] reads, in bytes: a replay or simulation is far smaller.
const TREE_MAX: u64 = 1 << 20;

/// Reports the structural errors of a tree, and removes the elements that have them, so that the rest can be converted
/// and checked as well. Returns `None` if nothing valid is left.
fn prune(tree: &mut Node, names: &[Arc<str>], context: &mut LoadContext<'_>) -> Option<()> {
    let found = schema::errors(&tree.to_json());
    let input = context.input;
    context.report_all(found.iter().map(|error| error.diagnostic(tree, names, input)));
    let parts: BTreeSet<Part> = found.iter().filter_map(SchemaError::part).collect();
    // From the last to the first: removing an element moves the later ones up.
    for part in parts.iter().rev() {
        context.left_out.add(&part.0, tree.name_of(part));
        tree.prune(part);
    }
    tree.add("version", Data::Integer(1));
    schema::errors(&tree.to_json()).is_empty().then_some(())
}

/// Returns the names and texts of files, and of those in folders. `None` is the text of one that cannot be used, which
/// is reported.
pub(super) fn read_texts(
    paths: &[impl AsRef<Path>],
    context: &mut LoadContext<'_>,
) -> (Vec<Arc<str>>, Vec<Option<String>>) {
    let (mut names, mut texts) = (Vec::new(), Vec::new());
    for path in paths {
        match config_files(path.as_ref(), context) {
            Ok(files) => {
                for file in files {
                    let name = Arc::from(file.to_string_lossy());
                    texts.push(read_text(&file, &name, CONFIG_MAX, context));
                    names.push(name);
                }
            }
            Err(why) => context.report(unreadable(path.as_ref(), why)),
        }
    }
    (names, texts)
}

/// Returns the files of a configuration: the file itself, or those of a folder.
fn config_files(path: &Path, context: &mut LoadContext<'_>) -> Result<Vec<PathBuf>, Reason> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let paths = context.files.list(path)?;
    if paths.is_empty() {
        return Err(Reason::new("contains no *.yaml and no *.yml file", "add one, or name another folder"));
    }
    Ok(paths)
}

/// Returns the text of a file, or `None` after reporting why it cannot be used.
fn read_text(path: &Path, name: &Arc<str>, limit: u64, context: &mut LoadContext<'_>) -> Option<String> {
    let read = context.files.read(path, limit);
    let bytes = read.map_err(|why| context.report(unreadable(path, why))).ok()?;
    decoded(bytes, name, context)
}

/// Returns the text of bytes in UTF-8, or `None` after reporting where they are not.
pub(super) fn decoded(bytes: Vec<u8>, name: &Arc<str>, context: &mut LoadContext<'_>) -> Option<String> {
    let not_utf8 = |error: std::string::FromUtf8Error| {
        let location = location_after(name, &error.as_bytes()[..error.utf8_error().valid_up_to()]);
        context.report(Diagnostic::error(location, "the text is not UTF-8 from here", "save it as UTF-8"));
    };
    let mut text = String::from_utf8(bytes).map_err(not_utf8).ok()?;
    // A byte order mark is not part of the text (YAML 1.2.2 section 5.2), and would count as a column.
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Some(text)
}

fn unreadable(path: &Path, why: Reason) -> Diagnostic {
    Diagnostic::error(FileLocation::file(&path.to_string_lossy()), format!("the file {}", why.what), why.hint)
}

/// Returns an error if the last line may be cut: `weight: 6` could be the beginning of `weight: 60`. Text that begins
/// with `{` needs no check, because a cut would leave a bracket open.
fn missing_line_end(name: &Arc<str>, text: &str) -> Option<Diagnostic> {
    if text.is_empty() || text.ends_with(['\n', '\r']) || text.trim_start().starts_with('{') {
        return None;
    }
    let what = "the file does not end with a line break, so it may be truncated";
    let hint = "complete the last line and end it with a line break";
    Some(Diagnostic::error(location_after(name, text.as_bytes()), what, hint))
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
fn from_flags(listen: &[SocketAddr], zones: &[(Name, PathBuf)], context: &mut LoadContext<'_>) -> Loaded {
    let settings = Settings { http: None, data_dir: None, ..Settings::default() };
    let mut loaded = Loaded { settings, ..Loaded::default() };
    apply(&mut loaded.settings, context);
    if listen.is_empty() {
        apply_dns(&mut loaded.settings, context);
    } else {
        loaded.settings.dns = listen.to_vec();
    }
    for (name, path) in zones {
        if loaded.desired.zones.insert(name.clone(), ZoneSpec::new(name.clone())).is_some() {
            let what = format!("zone {name} is given twice");
            context.report(Diagnostic::error(FileLocation::file("command line"), what, "remove one"));
            continue;
        }
        match convert::read_zone_file(&mut context.files, name, path) {
            Ok((mut zone, diagnostics)) => {
                context.report_all(diagnostics);
                context.report_all(convert::check_zone_data(&mut zone, &loaded.desired));
                loaded.zones.push(zone);
            }
            Err(why) => context.report(unreadable(path, why)),
        }
    }
    loaded
}
