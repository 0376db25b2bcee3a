//! Loads the configuration: YAML files, zone files, secrets, environment. Reports all errors together, each with its
//! location.
//!
//! Returns model types and applies nothing.
#![forbid(unsafe_code)]

mod attempt;
mod bounds_wire;
mod cache;
mod context;
mod convert;
mod data_dir;
pub mod environment;
mod file_objects;
mod files;
mod health_listener;
mod history_wire;
mod join;
mod landlock_wire;
mod limits_wire;
mod load_wire;
mod maps;
mod object;
mod otel;
mod override_rules;
mod policy_wire;
mod publish_to_wire;
mod publish_wire;
mod reason;
mod schema;
mod schema_errors;
mod sections;
mod settings;
mod store_wire;
mod traces_wire;
mod tree;
mod tree_wire;
mod user;
mod v1;
mod v1_abuse;
mod v1_access;
mod v1_kubernetes;
mod v1_location;
mod v1_process;
mod v1_records;
mod v1_schedule;
mod values;
mod values_access;
mod values_location;
mod values_schedule;
mod values_wire;
pub mod watch;
mod webhook;
mod webhook_wire;
mod words;
mod yaml;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use fairway_model::{DesiredState, Diagnostic, FileLocation, Name, Override, OverrideKind, OverrideOrigin, Timestamp};
use fairway_zonefile::ZoneData;
use fairway_zones::{ServerOptions, compile};

use self::reason::Reason;

pub use attempt::{attempt, desired, read_tree};
pub use cache::{PreviousLoad, ZoneCache};
pub use convert::{parse_policy, store_keys};
pub use data_dir::data_dir;
pub use file_objects::{FileObject, FileObjects};
pub use health_listener::HealthListenerSettings;
pub use history_wire::HistorySettings;
pub use landlock_wire::LandlockSettings;
pub use limits_wire::DeclaredLimits;
pub use maps::MapCache;
pub use maps::{check_latencies, pushed_file};
pub use object::{ObjectError, object, objects};
pub use publish_wire::AliasForm;
pub use schema::{schema as schema_value, sound_example as format_example};
pub use sections::Sections;
pub use settings::{
    CookieSettings, Destination, HealthSettings, LogSettings, ObjectPlace, PublishTo, PublishedAlias, QueryLogSettings,
    QueryLogSink, ServedDelegation, Settings, Steered, StoreBackend, StoreSettings, TcpSettings, TraceSettings,
    UdpSettings, WithdrawalSettings, address_sets,
};
pub use traces_wire::TraceProtocol;
pub use user::missing_user;
pub use v1_process::LogFormat;
pub use values::show as show_duration;
pub use webhook::{OwnerCredentials, WebhookSettings};

/// Returns the value of an environment variable; a parameter, so that tests need no environment.
pub type Environment = std::sync::Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Source of the configuration.
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

/// A loaded configuration.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Settings of the process.
    pub settings: Settings,
    /// Desired state.
    pub desired: DesiredState,
    /// Records of every zone; empty if `zones_unchanged`.
    pub zones: Vec<ZoneData>,
    /// True if the zones did not change since the previous load and were not read again.
    pub zones_unchanged: bool,
    /// Cache of zones for the next load.
    pub zone_cache: ZoneCache,
    /// Cache of maps and latency tables for the next load.
    pub map_cache: MapCache,
    /// Overrides.
    pub overrides: Vec<OverrideSpec>,
    /// Objects as they are written in the files.
    pub file_objects: FileObjects,
    /// Fingerprint, when they were read, of all files: included zone files, certificates and secrets too. All are
    /// watched.
    pub fingerprint: watch::Fingerprint,
    /// Environment variables that the configuration refers to, for [`environment::unknown_variables`].
    pub variables: BTreeSet<String>,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
}

/// An override as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideSpec {
    /// Its kind: the clusters with their health, or the pools.
    pub kind: OverrideKind,
    /// Reason, for people who find it later.
    pub reason: String,
    /// Expiry. An expired override has no effect.
    pub until: SystemTime,
    /// Location of the declaration.
    pub location: FileLocation,
}

/// Result of one load. It includes the files, because a rejected configuration is loaded again when one of them
/// changes.
#[derive(Debug)]
pub struct Attempt {
    /// Fingerprint of every file that was opened.
    pub fingerprint: watch::Fingerprint,
    /// The configuration, or all errors and warnings, sorted by location.
    pub outcome: Result<Loaded, Vec<Diagnostic>>,
}

/// Loads a configuration, as [`attempt`] does.
pub fn load(source: &Source, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Vec<Diagnostic>> {
    attempt(source, env, None).outcome
}

/// Returns all errors and warnings of a configuration and its zones, sorted by location, for `fairway check`.
///
/// Loads and compiles as a start or a reload does.
pub fn check(source: &Source, env: &dyn Fn(&str) -> Option<String>) -> Vec<Diagnostic> {
    check_at(source, env, SystemTime::now())
}

/// Does the same at a given time, which decides on expired overrides.
fn check_at(source: &Source, env: &dyn Fn(&str) -> Option<String>, now: SystemTime) -> Vec<Diagnostic> {
    let loaded = match load(source, env) {
        Ok(loaded) => loaded,
        Err(diagnostics) => return diagnostics,
    };
    let mut diagnostics = override_rules::broken(&loaded, now);
    diagnostics.extend(loaded.warnings);
    diagnostics.extend(overrides(&loaded.overrides, now.into()).1);
    let options = ServerOptions { identity: loaded.settings.identity, ..ServerOptions::default() };
    match compile(&loaded.desired, &loaded.zones, &options, None) {
        Ok((_, warnings)) => diagnostics.extend(warnings),
        Err(more) => diagnostics.extend(more),
    }
    diagnostics.sort();
    diagnostics.dedup();
    diagnostics
}

/// Returns the declared overrides that have not expired, and the errors of the others. An expired one is a warning.
pub fn overrides(declared: &[OverrideSpec], now: Timestamp) -> (Vec<Override>, Vec<Diagnostic>) {
    let mut valid = Vec::new();
    let mut diagnostics = Vec::new();
    for OverrideSpec { kind, reason, until, location } in declared {
        match Override::new(kind.clone(), reason, (*until).into(), now) {
            Ok(active) if active.is_active(now) => {
                let origin = OverrideOrigin { from: location.to_string(), ..OverrideOrigin::default() };
                valid.push(active.with_origin(origin));
            }
            Ok(expired) => {
                let what = format!("the override of {} expired at {}", expired.kind.scope(), expired.expires);
                diagnostics.push(Diagnostic::warning(location.clone(), what, "remove it"));
            }
            Err(error) => diagnostics.push(Diagnostic::error(location.clone(), error.to_string(), "")),
        }
    }
    (valid, diagnostics)
}

/// Parses a duration as written in a configuration; the error is a message with a hint.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    values::TextValue::parse(text).map_err(|why: Reason| why.to_string())
}

/// True if a text can be the owner id in a registry record.
pub fn is_owner(text: &str) -> bool {
    !text.contains([',', '"', '=']) && !text.chars().any(char::is_control)
}

/// Returns the JSON Schema of the configuration as indented text, for `fairway config schema`.
pub fn schema() -> String {
    format!("{:#}\n", schema::schema())
}

/// Largest number of errors and warnings of one load.
const DIAGNOSTICS_MAX: usize = 1_000;
