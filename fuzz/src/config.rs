//! Configuration text: it is loaded or rejected with errors that name locations; a loaded configuration is valid, and the same if it is
//! loaded again.

use std::{io, path::PathBuf};

use fairway_config::{Loaded, Source, load};
use fairway_model::{Diagnostic, Severity};
use tempfile::TempDir;

use crate::{Target, mutate, rng::Rng};

/// The loader under test: the real one, or one with a planted bug.
pub type Load = fn(&Source) -> Result<Loaded, Vec<Diagnostic>>;

/// The configuration target. Each input is written to a file in a folder that also holds a zone.
pub struct ConfigText {
    /// Removes the folder when it is dropped.
    _folder: TempDir,
    path: PathBuf,
    load: Load,
}

/// Loads with the real loader and a fixed environment.
pub fn real(source: &Source) -> Result<Loaded, Vec<Diagnostic>> {
    load(source, &|_| None)
}

/// Words of the configuration's language.
const WORDS: &[&str] = &[
    "version: 1",
    "zones:",
    "clusters:",
    "monitors:",
    "pools:",
    "names:",
    "listen:",
    "name:",
    "file:",
    "addresses:",
    "type:",
    "port:",
    "period:",
    "timeout:",
    "rise:",
    "fall:",
    "members:",
    "cluster:",
    "weight:",
    "tier:",
    "policy:",
    "weighted",
    "failover",
    "ttl:",
    "30s",
    "1h",
    "0s",
    "-1",
    "70000",
    "65535",
    "1.5",
    "true",
    "null",
    "~",
    "\"\"",
    "[",
    "]",
    "{",
    "}",
    ":",
    "- ",
    "&a",
    "*a",
    "<<:",
    "!!str",
    "|",
    ">",
    "#",
    "\t",
    "'",
    "192.0.2.1",
    "2001:db8::1",
    "10.0.0.0/8",
    "down:",
    "all",
    "fallback:",
    "example.zone",
    "gslb.test",
    "*.gslb.test",
    "probe:",
    "127.0.0.1:80",
    "http",
    "https",
    "grpc",
    "always",
];

impl ConfigText {
    /// Returns the target with the real loader.
    pub fn new() -> io::Result<Self> {
        Self::with(real)
    }

    /// Returns the target with another loader.
    pub fn with(load: Load) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let zone = "@ 60 IN SOA ns1 admin 1 2 3 4 5\n@ 60 IN NS ns1\nns1 60 IN A 192.0.2.53\n";
        std::fs::write(folder.path().join("example.zone"), zone)?;
        let path = folder.path().join("fairway.yaml");
        Ok(Self { _folder: folder, path, load })
    }
}

impl Target for ConfigText {
    fn run(&mut self, input: &[u8]) -> Result<Vec<u64>, String> {
        std::fs::write(&self.path, input).map_err(|e| e.to_string())?;
        let source = Source::Path(self.path.clone());
        match ((self.load)(&source), (self.load)(&source)) {
            (Err(faults), Err(again)) if faults == again => check_refusal(&faults),
            (Ok(loaded), Ok(again)) if loaded.desired == again.desired => check_loaded(&loaded),
            _ => Err("the same text is read differently the second time".to_owned()),
        }
    }

    fn mutate(&self, rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
        mutate::text(rng, input, other, WORDS)
    }
}

fn check_refusal(faults: &[Diagnostic]) -> Result<Vec<u64>, String> {
    if !faults.iter().any(Diagnostic::is_error) {
        return Err(format!("refused without an error: {faults:?}"));
    }
    match faults.iter().find(|f| f.fact.is_empty() || f.location.file.is_empty()) {
        Some(fault) => Err(format!("a fault without place or fact: {fault:?}")),
        None => Ok(faults.iter().map(|f| crate::kind(&f.fact)).collect()),
    }
}

fn check_loaded(loaded: &Loaded) -> Result<Vec<u64>, String> {
    let broken = loaded.desired.violations().into_iter().find(|p| p.severity == Severity::Error);
    if let Some(problem) = broken {
        return Err(format!("a desired state with an error is accepted: {problem:?}"));
    }
    let desired = &loaded.desired;
    let counts =
        [desired.zones.len(), desired.clusters.len(), desired.monitors.len(), desired.pools.len(), desired.names.len()];
    Ok(vec![counts.iter().fold(3, |hash, count| crate::mix(hash ^ (*count).min(8) as u64))])
}
