//! Reads configuration: YAML files, zone files, secrets, environment. All faults at once, each in its place.
//!
//! Nothing here is applied: what is read is handed over as model types. The old state is never touched.
#![forbid(unsafe_code)]

mod attempt;
mod bounds_wire;
mod convert;
mod data_dir;
pub mod environment;
mod files;
mod join;
mod kept;
mod lists;
mod lists_wire;
mod load_wire;
mod maps;
mod object;
mod otel;
mod policy_wire;
mod publish_to_wire;
mod publish_wire;
mod reader;
mod schema;
mod sections;
mod settings;
mod store_wire;
mod traces_wire;
mod tree;
mod tree_wire;
mod v1;
mod v1_access;
mod v1_place;
mod v1_records;
mod v1_schedule;
mod values;
mod values_access;
mod values_place;
mod values_schedule;
mod values_wire;
pub mod watch;
mod webhook_wire;
mod wording;
mod yaml;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, time::SystemTime};

use fairway_model::{DesiredState, Diagnostic, FileLocation, Name, Override, OverrideAction, Timestamp};
use fairway_zonefile::ZoneData;
use fairway_zones::{ServerOptions, compile};

pub use data_dir::data_dir;
pub use kept::{Before, KeptZones};
pub use maps::KeptMaps;
pub use maps::{check_latencies, pushed_file};
pub use object::{ObjectFault, object, objects};
pub use schema::{schema as schema_value, sound_example as format_example};
pub use sections::sections;
pub use settings::address_sets;
pub use settings::{
    AliasForm, Destination, HealthSettings, LogFormat, LogSettings, PublishTo, PublishedAlias, QueryLogSettings,
    QueryLogSink, ServedDelegation, Settings, Steered, StoreSettings, TcpSettings, TraceProtocol, TraceSettings,
    UdpSettings, WebhookSettings,
};

/// Asked for environment variables, so that tests need no environment.
pub type Environment = std::sync::Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Where the configuration comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A YAML file, or a folder of them.
    Path(PathBuf),
    /// `serve --listen … --zone NAME=FILE`: static zones, no data folder, no HTTP listener.
    Flags {
        /// Addresses to answer DNS on.
        listen: Vec<SocketAddr>,
        /// Zones and their files.
        zones: Vec<(Name, PathBuf)>,
    },
}

/// Everything that was read.
#[derive(Debug)]
pub struct Loaded {
    /// How the process itself runs.
    pub settings: Settings,
    /// What is wished for.
    pub desired: DesiredState,
    /// Records of every zone; empty where all are as before.
    pub zones: Vec<ZoneData>,
    /// Whether the zones were left unread, since they are those of the reading before.
    pub zones_as_before: bool,
    /// What the next reading needs to leave zones unread.
    pub kept: KeptZones,
    /// What the next reading needs to leave maps unread.
    pub kept_maps: KeptMaps,
    /// What an operator forces over verdicts.
    pub overrides: Vec<OverrideSpec>,
    /// Every file that was read (also includes, certificates, secrets): watched for changes.
    pub files: Vec<PathBuf>,
    /// What those files looked like when they were read.
    pub fingerprint: watch::Fingerprint,
    /// Environment variables that were asked for, for [`environment::unknown_variables`].
    pub variables: BTreeSet<String>,
    /// Faults that let the input through.
    pub warnings: Vec<Diagnostic>,
}

/// One override as declared: force over the verdicts of what it matches, with reason and expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideSpec {
    /// What it matches, as a [`fairway_model::OverrideScope`] is written. Its form is checked.
    pub pattern: String,
    /// What is forced.
    pub action: OverrideAction,
    /// Why, for people; never empty.
    pub reason: String,
    /// When it ends by itself. It may lie in the past: then it does nothing.
    pub until: SystemTime,
    /// Where it was declared.
    pub place: FileLocation,
}

/// What one reading gave, also where it was refused: a watcher must know which files to watch for the repair.
#[derive(Debug)]
pub struct Attempt {
    /// Every file that was looked at, and what it looked like then.
    pub fingerprint: watch::Fingerprint,
    /// What was read, or all faults: errors and warnings, sorted by place.
    pub outcome: Result<Loaded, Vec<Diagnostic>>,
}

/// Reads everything; the old state is untouched whatever happens here.
///
/// `env` is asked for `FAIRWAY_*` variables and for those that secrets name, so that tests need no environment.
pub fn load(source: &Source, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Vec<Diagnostic>> {
    attempt(source, env).outcome
}

/// Reads everything as [`load`] does, and tells what was looked at even if it is refused.
pub fn attempt(source: &Source, env: &dyn Fn(&str) -> Option<String>) -> Attempt {
    attempt::attempt(source, env, None)
}

/// As [`attempt`] does, but leaves zones unread that are those of the reading before.
pub fn attempt_after(before: Option<Before<'_>>, source: &Source, env: &dyn Fn(&str) -> Option<String>) -> Attempt {
    attempt::attempt(source, env, before)
}

/// Every fault of a configuration and its zones, errors and warnings, sorted by place: what `fairway check` prints.
///
/// Loads and compiles as a start or a reload does, and applies nothing.
pub fn check(source: &Source, env: &dyn Fn(&str) -> Option<String>) -> Vec<Diagnostic> {
    check_at(source, env, SystemTime::now())
}

/// The same at a given time: expiries are held against it.
fn check_at(source: &Source, env: &dyn Fn(&str) -> Option<String>, now: SystemTime) -> Vec<Diagnostic> {
    let loaded = match load(source, env) {
        Ok(loaded) => loaded,
        Err(faults) => return faults,
    };
    let mut faults = loaded.warnings;
    faults.extend(overrides(&loaded.overrides, now.into()).1);
    let options = ServerOptions { identity: loaded.settings.identity, ..ServerOptions::default() };
    match compile(&loaded.desired, &loaded.zones, &options, None) {
        Ok((_, warnings)) => faults.extend(warnings),
        Err(more) => faults.extend(more),
    }
    faults.sort();
    faults.dedup();
    faults
}

/// Returns the declared overrides that have not ended, and what is wrong with the others. One that has ended is a warning.
pub fn overrides(declared: &[OverrideSpec], now: Timestamp) -> (Vec<Override>, Vec<Diagnostic>) {
    let (mut valid, mut faults) = (Vec::new(), Vec::new());
    for OverrideSpec { pattern, action, reason, until, place } in declared {
        let scope = match pattern.parse::<fairway_model::OverrideScope>() {
            Ok(scope) => scope,
            Err(error) => {
                let hint = "health is forced for clusters and their addresses";
                faults.push(Diagnostic::error(place.clone(), error.to_string(), hint));
                continue;
            }
        };
        match Override::new(scope, *action, reason, (*until).into(), now) {
            Ok(said) if said.is_active(now) => valid.push(said),
            Ok(said) => {
                let what = format!("the override of {} ended at {}", said.scope, said.expires);
                faults.push(Diagnostic::warning(place.clone(), what, "it does nothing any more: take it out"));
            }
            Err(error) => faults.push(Diagnostic::error(place.clone(), error.to_string(), "")),
        }
    }
    (valid, faults)
}

/// A duration as a configuration writes it, or what is wrong with it and the way out.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let parsed = values::TextValue::parse(text);
    parsed.map_err(|refusal: values::Refusal| format!("{}; {}", refusal.what, refusal.hint))
}

/// The policy of the words of an intent; or which of them is at fault, and why.
pub fn policy_of_words(words: &[String]) -> Result<fairway_model::Policy, (usize, String)> {
    convert::policy_of_words(words)
}

/// Whether a text can be the id of an owner in a registry record.
pub fn is_owner(text: &str) -> bool {
    !text.contains([',', '"', '=']) && !text.chars().any(char::is_control)
}

/// A duration as a configuration writes it.
pub fn show_duration(duration: std::time::Duration) -> String {
    values::show(duration)
}

/// Reads a YAML file of another kind, within the same bounds; its faults come all, each in its place.
pub fn read_tree(path: &std::path::Path) -> Result<serde_json::Value, Vec<Diagnostic>> {
    let name: std::sync::Arc<str> = path.to_string_lossy().into();
    let fault = |what: String, hint: &str| vec![Diagnostic::error(FileLocation::file(&name), what, hint)];
    let size = std::fs::metadata(path).map_err(|error| fault(error.to_string(), "name a file that can be read"))?.len();
    if size > TREE_MAX {
        return Err(fault(format!("{size} octets are more than {TREE_MAX}"), "give a smaller file"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| fault(error.to_string(), "name a text file"))?;
    let root = yaml::parse(&text, 0, std::slice::from_ref(&name))?;
    root.map(|root| root.to_json()).ok_or_else(|| fault("holds nothing".to_owned(), "see the manual for what it holds"))
}

/// What a configuration that was put together in memory wishes for, or its faults; it names no files.
///
/// Tables of latencies are without measurements, since those come from files.
pub fn desired(tree: &serde_json::Value) -> Result<DesiredState, Vec<Diagnostic>> {
    let mut tree = tree.clone();
    // Nothing that a server keeps is meant.
    tree["dataDir"] = "/nonexistent".into();
    attempt::of_tree(&tree)
}

/// Most octets of a file that is read as a whole into a tree.
const TREE_MAX: u64 = 1 << 20;

/// The JSON Schema of the configuration, as indented text: what `fairway config schema` prints.
pub fn schema() -> String {
    format!("{:#}\n", schema::schema())
}

/// Most faults that one reading tells.
const FAULTS_MAX: usize = 1_000;
