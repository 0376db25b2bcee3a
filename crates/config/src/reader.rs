//! State of one load: files, environment, and the errors so far.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use fairway_model::{Diagnostic, Secret};

use super::{
    FAULTS_MAX,
    files::{Files, SECRET_MAX, Unreadable},
    kept::Before,
};

/// Returns the value of an environment variable.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// State of one load.
pub(super) struct Reader<'a> {
    /// The files read so far.
    pub(super) files: Files,
    /// Errors and warnings so far, at most [`FAULTS_MAX`].
    pub(super) faults: Vec<Diagnostic>,
    /// True if any error occurred, including those over the limit.
    pub(super) refused: bool,
    /// Environment variables that were read.
    pub(super) variables: BTreeSet<String>,
    /// The environment.
    pub(super) environment: Environment<'a>,
    /// Cache of the previous load.
    pub(super) before: Option<Before<'a>>,
    /// True for a single object of the API: it cannot name files, and rules across objects are not checked.
    pub(super) apart: bool,
    /// Secrets by path: many monitors may share one.
    secrets: BTreeMap<PathBuf, Result<Secret, Unreadable>>,
}

impl<'a> Reader<'a> {
    /// Returns the state before a load.
    pub(super) fn new(environment: Environment<'a>, before: Option<Before<'a>>) -> Self {
        Self {
            files: Files::default(),
            faults: Vec::new(),
            refused: false,
            variables: BTreeSet::new(),
            environment,
            before,
            apart: false,
            secrets: BTreeMap::new(),
        }
    }

    /// Returns the state for loading objects of the API.
    pub(super) fn apart() -> Self {
        Self { apart: true, ..Self::new(&|_| None, None) }
    }

    /// Records a diagnostic. Over the limit, only the fact that there was an error is kept.
    pub(super) fn fault(&mut self, fault: Diagnostic) {
        self.refused |= fault.is_error();
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }

    /// Records several diagnostics.
    pub(super) fn faults(&mut self, faults: Vec<Diagnostic>) {
        faults.into_iter().for_each(|fault| self.fault(fault));
    }

    /// Returns an environment variable; an empty one counts as not set.
    pub(super) fn variable(&mut self, name: &str) -> Option<String> {
        self.variables.insert(name.to_owned());
        (self.environment)(name).filter(|value| !value.is_empty())
    }

    /// Returns the text of a secret file.
    pub(super) fn secret(&mut self, path: &Path) -> Result<Secret, Unreadable> {
        if self.apart {
            let what = "cannot be used here: objects of the API cannot refer to files of the server".to_owned();
            return Err(Unreadable { what, hint: "declare this object in a configuration file" });
        }
        if let Some(known) = self.secrets.get(path) {
            return known.clone();
        }
        let read = self.files.read(path, SECRET_MAX).and_then(|octets| {
            let not_text = || Unreadable { what: "is not text".to_owned(), hint: "use PEM" };
            String::from_utf8(octets).map(Secret::new).map_err(|_| not_text())
        });
        self.secrets.insert(path.to_owned(), read.clone());
        read
    }
}
