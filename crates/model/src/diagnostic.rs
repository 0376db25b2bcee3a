//! One fault of an input, as its author needs to hear it: place, fact, way out.

use std::{fmt, sync::Arc};

use crate::Subject;

/// Where in a file something stands. Lines and columns count from 1; 0 means "the file as a whole".
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileLocation {
    /// Path as the user gave it.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl FileLocation {
    /// A file as a whole.
    pub fn file(path: &str) -> Self {
        Self { file: path.into(), line: 0, column: 0 }
    }
}

impl fmt::Display for FileLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => write!(f, "{}", self.file),
            (line, 0) => write!(f, "{}:{line}", self.file),
            (line, column) => write!(f, "{}:{line}:{column}", self.file),
        }
    }
}

/// Whether an input with this fault can still be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The input is refused; what was there before keeps serving.
    Error,
    /// The input is used; its author should know.
    Warning,
}

/// One fault: place, fact (what and why), way out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// Where it is.
    pub place: FileLocation,
    /// Error or warning.
    pub severity: Severity,
    /// What is wrong, and why it is wrong.
    pub what: String,
    /// What to do about it; empty where the fact says it all.
    pub hint: String,
    /// The object it is about, where it is about one alone.
    pub about: Option<Subject>,
}

impl Diagnostic {
    /// A fault that refuses its input.
    pub fn error(place: FileLocation, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place, severity: Severity::Error, what: what.into(), hint: hint.into(), about: None }
    }

    /// A fault that lets its input through.
    pub fn warning(place: FileLocation, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, what, hint) }
    }

    /// The same, about an object.
    pub fn about(self, subject: Subject) -> Self {
        Self { about: Some(subject), ..self }
    }

    /// Whether the input must be refused.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_error() { "" } else { "warning: " };
        write!(f, "{}: {kind}{}", self.place, self.what)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "; {}", self.hint) }
    }
}
