//! Log lines: for people on a terminal, one JSON object a line otherwise.
//!
//! Lines are written by a thread of their own. A reader of the log that stops reading must not stop the answers, so lines
//! that find the queue full are lost, and their number is told as soon as there is room.

mod form;
mod json;
mod trace;
mod writer;

use std::{io::IsTerminal, sync::Arc};

use tracing_subscriber::{EnvFilter, Registry, layer::SubscriberExt, reload, util::SubscriberInitExt};

pub use self::{form::LineFormat, trace::Trace};
use self::{trace::Traces, writer::LineWriter};

/// The running log; clones are the same one. Once the last is dropped, every line so far has been written.
#[derive(Clone, Debug)]
pub struct Logs {
    filter: reload::Handle<EnvFilter, Registry>,
    form: form::Form,
    _flush: Arc<FlushAtEnd>,
}

impl Logs {
    /// Starts the log on standard output with this filter and form, once a process.
    pub fn start(filter: &str, format: LineFormat) -> Result<Self, LogError> {
        let (filter, handle) = reload::Layer::new(parse(filter)?);
        let is_terminal = std::io::stdout().is_terminal();
        let writer = LineWriter::start(std::io::stdout()).map_err(|error| LogError::Thread(error.to_string()))?;
        let flush = Arc::new(FlushAtEnd(writer.clone()));
        let form = form::Form::new(format, is_terminal);
        let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(is_terminal);
        let subscriber =
            tracing_subscriber::registry().with(filter).with(Traces).with(lines.event_format(form.clone()));
        subscriber.try_init().map_err(|_| LogError::Started)?;
        Ok(Self { filter: handle, form, _flush: flush })
    }

    /// Writes lines in another form from now on.
    pub fn set_format(&self, format: LineFormat) {
        self.form.set(format);
    }

    /// Follows another filter from now on.
    pub fn set_filter(&self, filter: &str) -> Result<(), LogError> {
        let filter = parse(filter)?;
        // The log ends with the process, so the filter is still there.
        self.filter.reload(filter).map_err(|error| LogError::Thread(error.to_string()))
    }
}

#[derive(Debug)]
struct FlushAtEnd(LineWriter);

impl Drop for FlushAtEnd {
    fn drop(&mut self) {
        self.0.flush_queue();
    }
}

fn parse(filter: &str) -> Result<EnvFilter, LogError> {
    let fault = |why: String| LogError::Filter { filter: filter.to_owned(), why };
    EnvFilter::builder().parse(filter).map_err(|error| fault(error.to_string()))
}

/// Why the log does not follow.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// Not in the form of `tracing`'s directives.
    #[error("{filter:?} is no log filter: {why}; write it like info or info,fairway_control=debug")]
    Filter {
        /// The text.
        filter: String,
        /// What does not fit.
        why: String,
    },
    /// Another log runs in this process already.
    #[error("another log runs in this process already")]
    Started,
    /// The system says no.
    #[error("the log cannot be written: {0}")]
    Thread(String),
}
