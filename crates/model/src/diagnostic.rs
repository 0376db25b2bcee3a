//! Errors and warnings about an input: location, fact and hint.

use std::{fmt, sync::Arc};

use crate::Subject;

/// A location in a file. Lines and columns count from 1; 0 means the file as a whole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileLocation {
    /// The path as the user gave it.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl FileLocation {
    /// Returns the location that means the whole file.
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

/// The consequence of a diagnostic for its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The input is rejected; the previous one stays in use.
    Error,
    /// The input is accepted, but its author should know.
    Warning,
}

/// An error or a warning about an input. Displays as `LOCATION: FACT; HINT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The location in the input.
    pub location: FileLocation,
    /// Error or warning.
    pub severity: Severity,
    /// The fact: what is wrong and why.
    pub fact: String,
    /// The hint: what to do about it; empty if the fact says so already.
    pub hint: String,
    /// The object it is about, if there is exactly one.
    pub about: Option<Subject>,
    /// JSON pointer to the field of that object; empty for the whole object.
    pub field: &'static str,
}

impl Diagnostic {
    /// Returns an error, which rejects the input.
    pub fn error(place: FileLocation, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            location: place,
            severity: Severity::Error,
            fact: what.into(),
            hint: hint.into(),
            about: None,
            field: "",
        }
    }

    /// Returns a warning, which accepts the input.
    pub fn warning(place: FileLocation, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, what, hint) }
    }

    /// Returns the diagnostic with the object it is about.
    pub fn about(self, subject: Subject) -> Self {
        Self { about: Some(subject), ..self }
    }

    /// Returns true if the input must be rejected.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_error() { "" } else { "warning: " };
        write!(f, "{}: {kind}{}", self.location, self.fact)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "; {}", self.hint) }
    }
}
