//! Reasons why a value or a file cannot be used.

use std::{fmt, path::Path};

use fairway_model::closest;

/// An error without its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    /// The fact. About a file it follows the path: `does not exist`.
    pub(super) what: String,
    /// The hint; may be empty.
    pub(super) hint: String,
}

impl Reason {
    /// Returns a reason with these texts.
    pub(super) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }

    /// Returns the reason with the path of the file in front.
    pub(super) fn about(self, path: &Path) -> Self {
        Self { what: format!("{} {}", path.display(), self.what), ..self }
    }

    /// Returns the reason with another hint if it has none.
    pub(super) fn or_hint(self, hint: &str) -> Self {
        if self.hint.is_empty() { Self::new(self.what, hint) } else { self }
    }
}

/// Splits a message at its hint.
impl From<String> for Reason {
    fn from(message: String) -> Self {
        let (what, hint) = message.split_once("; ").unwrap_or((&message, ""));
        Self::new(what, hint)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.hint.is_empty() { "" } else { "; " };
        write!(f, "{}{separator}{}", self.what, self.hint)
    }
}

/// Returns the hint for an unknown word: the known one that is similar, or else another hint.
pub(super) fn did_you_mean<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    closest(word, known).map_or_else(otherwise, |known| format!("did you mean {known}?"))
}
