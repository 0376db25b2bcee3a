//! Log lines: for people on a terminal, one JSON object a line otherwise.

use crate::config::LogFormat;

/// The running log; clones are the same one.
#[derive(Clone, Debug)]
pub struct Logs {}

impl Logs {
    /// Starts the log on standard output with this filter and form, once a process.
    pub fn start(filter: &str, format: LogFormat) -> Result<Self, LogError> {
        let _ = (filter, format);
        Ok(Self {})
    }

    /// Follows another filter from now on.
    pub fn set_filter(&self, filter: &str) -> Result<(), LogError> {
        let _ = filter;
        Ok(())
    }
}

/// Why the log does not follow.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// Not in the form of `tracing`'s directives.
    #[error("{filter:?} is no log filter: {why}; write it like info or info,fairway::control=debug")]
    Filter {
        /// The text.
        filter: String,
        /// What does not fit.
        why: String,
    },
    /// Another log runs in this process already.
    #[error("another log runs in this process already")]
    Started,
}
