//! Errors of a body: each with a JSON pointer (RFC 6901), the fact and a hint.

use std::fmt;

/// One error of a body.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BodyError {
    /// JSON pointer to the value in error; empty for the body as a whole.
    pub pointer: String,
    /// Fact and hint.
    pub detail: String,
}

impl BodyError {
    /// Returns an error at a pointer.
    pub fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), detail: detail.into() }
    }
}

/// The errors of a rejected body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidBody {
    /// Errors in the order of the body, at most `ERRORS_MAX`.
    pub errors: Vec<BodyError>,
    /// True if the name of the object is missing.
    pub nameless: bool,
}

impl InvalidBody {
    /// Returns the errors of a body that is a part of another one, at this pointer.
    pub fn within(mut self, pointer: &str) -> Self {
        self.errors.iter_mut().for_each(|error| error.pointer.insert_str(0, pointer));
        self
    }
}

impl From<BodyError> for InvalidBody {
    fn from(error: BodyError) -> Self {
        Self { errors: vec![error], nameless: false }
    }
}

impl fmt::Display for InvalidBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.errors.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            let colon = if error.pointer.is_empty() { "" } else { ": " };
            write!(f, "{separator}{}{colon}{}", error.pointer, error.detail)?;
        }
        Ok(())
    }
}

/// Returns one step of a JSON pointer.
pub(crate) fn step(key: &str) -> String {
    let short: String = key.chars().take(128).collect();
    format!("/{}", short.replace('~', "~0").replace('/', "~1"))
}

/// Maximum number of errors that are reported of one body.
pub(crate) const ERRORS_MAX: usize = 100;
