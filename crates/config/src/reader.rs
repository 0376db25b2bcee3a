//! What one reading has at hand: files, environment, and the faults found so far.

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

/// Gives the value of an environment variable.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What one reading has at hand.
pub(super) struct Reader<'a> {
    /// The files it may open.
    pub(super) files: Files,
    /// The faults so far, at most [`FAULTS_MAX`].
    pub(super) faults: Vec<Diagnostic>,
    /// Whether one of the faults was an error, kept or not.
    pub(super) refused: bool,
    /// Variables that were asked for.
    pub(super) variables: BTreeSet<String>,
    /// The environment itself.
    pub(super) environment: Environment<'a>,
    /// What the reading before left.
    pub(super) before: Option<Before<'a>>,
    /// Whether what is read names no files, and no rule across objects can be looked at.
    pub(super) apart: bool,
    /// Secrets by their path: many monitors may share one.
    secrets: BTreeMap<PathBuf, Result<Secret, Unreadable>>,
}

impl<'a> Reader<'a> {
    /// A reader that has read nothing.
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

    /// A reader of one object that came by another way than a file.
    pub(super) fn apart() -> Self {
        Self { apart: true, ..Self::new(&|_| None, None) }
    }

    /// Records a fault. Past the bound only the fact that there was an error is kept.
    pub(super) fn fault(&mut self, fault: Diagnostic) {
        self.refused |= fault.is_error();
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }

    /// Records several.
    pub(super) fn faults(&mut self, faults: Vec<Diagnostic>) {
        faults.into_iter().for_each(|fault| self.fault(fault));
    }

    /// An environment variable; an empty one counts as not set.
    pub(super) fn variable(&mut self, name: &str) -> Option<String> {
        self.variables.insert(name.to_owned());
        (self.environment)(name).filter(|value| !value.is_empty())
    }

    /// The text of a secret file.
    pub(super) fn secret(&mut self, path: &Path) -> Result<Secret, Unreadable> {
        if self.apart {
            let what = "cannot be named here: objects of the API name no files of the server".to_owned();
            return Err(Unreadable { what, hint: "declare this object in a configuration file" });
        }
        if let Some(known) = self.secrets.get(path) {
            return known.clone();
        }
        let read = self.files.read(path, SECRET_MAX).and_then(|octets| {
            let not_text = || Unreadable { what: "is not text".to_owned(), hint: "give it in PEM" };
            String::from_utf8(octets).map(Secret::new).map_err(|_| not_text())
        });
        self.secrets.insert(path.to_owned(), read.clone());
        read
    }
}
