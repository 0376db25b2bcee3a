//! Whole loads, from files to model types and errors.

mod access;
mod bad_input;
mod cache;
mod cookies;
mod docs;
mod errors;
mod good;
mod json;
mod limits;
mod load;
mod locations;
mod policies;
mod publish_to;
mod rate_limit;
mod records;
mod schedules;
mod sources;
mod store;
mod tenants;
mod traces;
mod views;
mod warnings;

use std::{fs, path::Path};

use fairway_model::{Diagnostic, SharedSet};
use tempfile::TempDir;

use super::{Loaded, PreviousLoad, Source, attempt, check_at};

/// A folder of files that are loaded as one configuration.
struct Folder(TempDir);

impl Folder {
    /// Loads a configuration with the caches of the previous load.
    fn load_after(&self, name: &str, before: &Loaded) -> Loaded {
        let before = PreviousLoad {
            zones: &before.zone_cache,
            maps: &before.map_cache,
            names: &before.desired.names,
            not_in_files: &SharedSet::new(),
        };
        attempt(&Source::Path(self.0.path().join(name)), &|_| None, Some(before)).outcome.unwrap()
    }

    /// Returns a folder with these files.
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            folder.write(name, text);
        }
        folder
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn load(&self, name: &str) -> Result<Loaded, Vec<String>> {
        self.load_with(name, &[])
    }

    /// Loads the file of this name, or the folder itself if the name is empty.
    fn load_with(&self, name: &str, env: &[(&str, &str)]) -> Result<Loaded, Vec<String>> {
        let outcome = attempt(&Source::Path(self.path().join(name)), &|wanted| variable(env, wanted), None).outcome;
        outcome.map_err(|errors| self.lines(&errors))
    }

    /// Returns all diagnostics of `check` at the beginning of 2026.
    fn check(&self, name: &str) -> Vec<String> {
        let start_of_2026 = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_767_225_600);
        self.lines(&check_at(&Source::Path(self.path().join(name)), &|wanted| variable(&[], wanted), start_of_2026))
    }

    /// Formats diagnostics without the folder's own path.
    fn lines(&self, errors: &[Diagnostic]) -> Vec<String> {
        let prefix = format!("{}/", self.path().display());
        errors.iter().map(|error| error.to_string().replace(&prefix, "")).collect()
    }
}

/// Returns a variable of an environment with a home folder, so that there is a data folder.
fn variable(env: &[(&str, &str)], wanted: &str) -> Option<String> {
    let all = env.iter().copied().chain([("HOME", "/home/fairway")]);
    all.into_iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned())
}

/// Returns the errors of one file.
fn errors_of(text: &str) -> Vec<String> {
    Folder::new(&[("f.yaml", text)]).load("f.yaml").map(|_| ()).unwrap_err()
}

/// Loads one valid file.
fn loaded(text: &str) -> Loaded {
    Folder::new(&[("f.yaml", text)]).load("f.yaml").unwrap()
}

/// Returns the loaded configuration as text, or the errors.
fn outcome(text: &(impl AsRef<[u8]> + ?Sized)) -> Result<String, Vec<String>> {
    let folder = Folder::new(&[]);
    folder.write("f.yaml", text);
    let loaded = folder.load("f.yaml")?;
    let Loaded { settings, desired, overrides, warnings, .. } = loaded;
    let shown = format!("{settings:?} {desired:?} {overrides:?} {warnings:?}");
    Ok(shown.replace(&folder.path().display().to_string(), ""))
}
