//! Collects diagnostics, with a limit on their number.

use std::borrow::Cow;

use fairway_model::{Diagnostic, FileLocation};

/// Error at an offset of the text that is being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextError {
    /// Offset in the text.
    pub at: usize,
    /// Error message.
    pub fact: Cow<'static, str>,
    /// Hint.
    pub hint: Cow<'static, str>,
}

impl TextError {
    pub(super) fn new(at: usize, fact: impl Into<Cow<'static, str>>, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { at, fact: fact.into(), hint: hint.into() }
    }
}

/// Maximum number of listed errors, and of listed warnings.
pub(super) const LISTED_MAX: usize = 100;

/// Diagnostics in the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct Diagnostics {
    shown: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
}

impl Diagnostics {
    /// Adds a diagnostic; only counts it once the limit of its severity is reached.
    pub(super) fn add(&mut self, diagnostic: Diagnostic) {
        let count = if diagnostic.is_error() { &mut self.errors } else { &mut self.warnings };
        *count += 1;
        if *count <= LISTED_MAX {
            self.shown.push(diagnostic);
        }
    }

    /// Returns all diagnostics; those that were only counted become one at `place`.
    pub(super) fn finish(mut self, place: FileLocation) -> Vec<Diagnostic> {
        let errors = self.errors.saturating_sub(LISTED_MAX);
        let warnings = self.warnings.saturating_sub(LISTED_MAX);
        if warnings > 0 {
            self.shown.push(Diagnostic::warning(place.clone(), format!("and {warnings} more warnings"), ""));
        }
        if errors > 0 {
            self.shown.push(Diagnostic::error(
                place,
                format!("and {errors} more errors"),
                "fix the errors above first",
            ));
        }
        self.shown
    }
}

/// Returns a word of the input for a message: quoted, printable, at most 60 octets.
pub(super) fn show(text: &[u8]) -> String {
    const OCTETS_MAX: usize = 60;
    let cut = text.get(..OCTETS_MAX);
    let shown = String::from_utf8_lossy(cut.unwrap_or(text));
    format!("'{}'{}", shown.escape_debug(), if cut.is_some_and(|c| c.len() < text.len()) { "..." } else { "" })
}
