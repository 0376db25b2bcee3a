//! What is wrong with a body: every fault with a JSON pointer (RFC 6901), the fact and the way out.

use std::fmt;

/// One fault of a body.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// JSON pointer to what is at fault; empty for the body as a whole.
    pub pointer: String,
    /// The fact and the way out.
    pub detail: String,
}

impl Fault {
    /// A fault at a place.
    pub fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), detail: detail.into() }
    }
}

/// Why a body was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Every fault, at most `FAULTS_MAX`, in the order of the body.
    pub faults: Vec<Fault>,
    /// Whether the name of the object is missing.
    pub nameless: bool,
}

impl Refused {
    /// The same of a body that is a part of another one, at this pointer.
    pub fn within(mut self, at: &str) -> Self {
        self.faults.iter_mut().for_each(|fault| fault.pointer.insert_str(0, at));
        self
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self { faults: vec![fault], nameless: false }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            let between = if at == 0 { "" } else { "; " };
            let colon = if fault.pointer.is_empty() { "" } else { ": " };
            write!(f, "{between}{}{colon}{}", fault.pointer, fault.detail)?;
        }
        Ok(())
    }
}

/// A step of a JSON pointer.
pub(crate) fn step(key: &str) -> String {
    let short: String = key.chars().take(128).collect();
    format!("/{}", short.replace('~', "~0").replace('/', "~1"))
}

/// Most faults that are told of one body.
pub(crate) const FAULTS_MAX: usize = 100;
