//! State of one load: files, environment, and the diagnostics so far.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use fairway_model::{Diagnostic, Secret};
use zeroize::Zeroize;

use super::{
    DIAGNOSTICS_MAX,
    cache::PreviousLoad,
    files::{Files, SECRET_MAX},
    reason::Reason,
};

/// Returns the value of an environment variable.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// State of one load.
pub(super) struct LoadContext<'a> {
    /// Kind of input.
    pub(super) input: Input,
    /// The files read so far.
    pub(super) files: Files,
    /// Errors and warnings so far, at most [`DIAGNOSTICS_MAX`] of each.
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Number of errors and of warnings, including those over the limit.
    pub(super) counts: [usize; 2],
    /// True if any error occurred, including those over the limit.
    pub(super) has_errors: bool,
    /// Input that was left out because of errors in it.
    pub(super) left_out: LeftOut,
    /// Environment variables that were read.
    pub(super) variables: BTreeSet<String>,
    /// The environment.
    pub(super) environment: Environment<'a>,
    /// Cache of the previous load.
    pub(super) previous: Option<PreviousLoad<'a>>,
    /// Secrets by path: many monitors may share one.
    secrets: BTreeMap<PathBuf, Result<Secret, Reason>>,
}

/// Kind of input of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A single object of the API. It cannot refer to files, and the caller checks the rules across objects.
    ApiObject,
    /// Files, with an environment and a data folder.
    Files,
    /// A configuration composed in memory. There is no data folder.
    Memory,
}

impl<'a> LoadContext<'a> {
    /// Returns the state before a load of files.
    pub(super) fn new(environment: Environment<'a>, previous: Option<PreviousLoad<'a>>) -> Self {
        Self {
            input: Input::Files,
            files: Files::default(),
            diagnostics: Vec::new(),
            counts: [0; 2],
            has_errors: false,
            left_out: LeftOut::default(),
            variables: BTreeSet::new(),
            environment,
            previous,
            secrets: BTreeMap::new(),
        }
    }

    /// Returns the state before a load of other input, without environment.
    pub(super) fn without_files(input: Input) -> Self {
        Self { input, ..Self::new(&|_| None, None) }
    }

    /// Records a diagnostic. Over the limit, only the number is kept. Warnings take no place of errors.
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.has_errors |= diagnostic.is_error();
        let count = &mut self.counts[usize::from(!diagnostic.is_error())];
        *count += 1;
        if *count <= DIAGNOSTICS_MAX {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Records several diagnostics.
    pub(super) fn report_all(&mut self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        for diagnostic in diagnostics {
            self.report(diagnostic);
        }
    }

    /// Returns an environment variable; an empty one counts as not set.
    pub(super) fn variable(&mut self, name: &str) -> Option<String> {
        self.variables.insert(name.to_owned());
        (self.environment)(name).filter(|value| !value.is_empty())
    }

    /// Returns the text of a secret file.
    pub(super) fn secret(&mut self, path: &Path) -> Result<Secret, Reason> {
        if self.input == Input::ApiObject {
            let what = "cannot be used here: objects of the API cannot refer to files of the server";
            return Err(Reason::new(what, "declare this object in a configuration file"));
        }
        if let Some(known) = self.secrets.get(path) {
            return known.clone();
        }
        let read = self.files.read(path, SECRET_MAX).and_then(|bytes| {
            let text = String::from_utf8(bytes).map(Secret::new);
            text.map_err(|error| {
                error.into_bytes().zeroize();
                Reason::new("is not text", "use PEM")
            })
        });
        self.secrets.insert(path.to_owned(), read.clone());
        read
    }
}

/// Input that was left out because of errors in it. An object that seems to be undeclared may be part of it.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// True if a file was left out, which may declare anything.
    pub(super) has_files: bool,
    /// Names of the elements of each section that were left out; `None` if a name is unknown.
    elements: BTreeMap<String, BTreeSet<Option<String>>>,
}

impl LeftOut {
    /// Adds an element of a section, with its name if that is known.
    pub(super) fn add(&mut self, section: &str, name: Option<String>) {
        self.elements.entry(section.to_owned()).or_default().insert(name);
    }

    /// True if all elements of a section are known.
    pub(super) fn is_complete(&self, section: &str) -> bool {
        !self.has_files && !self.elements.contains_key(section)
    }

    /// True if an element of this name may have been left out of a section.
    pub(super) fn may_include(&self, section: &str, name: &str) -> bool {
        let known = |names: &BTreeSet<_>| names.contains(&None) || names.contains(&Some(name.to_owned()));
        self.has_files || self.elements.get(section).is_some_and(known)
    }
}
