//! Faults while they are collected: bounded in number, placed at the end.

use std::borrow::Cow;

use fairway_model::{Diagnostic, FileLocation};

/// Something wrong at an offset of the text that is being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Offset in the text.
    pub at: usize,
    /// What is wrong, and why.
    pub what: Cow<'static, str>,
    /// What to do about it.
    pub hint: Cow<'static, str>,
}

impl Wrong {
    pub(super) fn new(at: usize, what: impl Into<Cow<'static, str>>, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { at, what: what.into(), hint: hint.into() }
    }
}

/// Most errors, and most warnings, that are told one by one.
pub(super) const SHOWN_MAX: usize = 100;

/// Faults in the order they were found.
#[derive(Debug, Default)]
pub(super) struct Faults {
    shown: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
}

impl Faults {
    /// Adds a fault, or only counts it when there are enough of its severity.
    pub(super) fn add(&mut self, fault: Diagnostic) {
        let count = if fault.is_error() { &mut self.errors } else { &mut self.warnings };
        *count += 1;
        if *count <= SHOWN_MAX {
            self.shown.push(fault);
        }
    }

    /// All of them; those that were only counted as one fault at `place`.
    pub(super) fn finish(mut self, place: FileLocation) -> Vec<Diagnostic> {
        let errors = self.errors.saturating_sub(SHOWN_MAX);
        let warnings = self.warnings.saturating_sub(SHOWN_MAX);
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

/// A word of the input as a message can show it: printable, and not long.
pub(super) fn show(text: &[u8]) -> String {
    const OCTETS_MAX: usize = 60;
    let cut = text.get(..OCTETS_MAX);
    let shown = String::from_utf8_lossy(cut.unwrap_or(text));
    format!("'{}'{}", shown.escape_debug(), if cut.is_some_and(|c| c.len() < text.len()) { "..." } else { "" })
}
