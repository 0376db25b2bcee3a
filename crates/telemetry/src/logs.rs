//! Log lines: text on a terminal, one JSON object per line otherwise.
//!
//! A thread of its own writes the lines. A reader that stops reading must not stop the answers, so lines are lost while the queue is
//! full. Their number is logged as soon as the queue has space.

mod events;
mod form;
mod json;
mod trace;
mod writer;

use std::{io::IsTerminal, sync::Arc};

use fairway_model::Timestamp;
use tracing_subscriber::{EnvFilter, Layer, Registry, layer::SubscriberExt, reload, util::SubscriberInitExt};

pub use self::{form::LineFormat, trace::Trace};
use self::{trace::Traces, writer::LineWriter};

/// The running log; clones share it. Dropping the last one writes all lines so far.
#[derive(Clone, Debug)]
pub struct Logs {
    filter: reload::Handle<EnvFilter, Registry>,
    form: form::Form,
    _flush: Arc<FlushAtEnd>,
}

impl Logs {
    /// Starts the log on standard output with this filter and format; once per process. `on_thread` runs first on the thread that writes.
    /// `on_event` gets each event with its time, as a JSON object.
    pub fn start(
        filter: &str,
        format: LineFormat,
        on_thread: fn(),
        on_event: impl Fn(Timestamp, String) + Send + Sync + 'static,
    ) -> Result<Self, LogError> {
        let (filter, handle) = reload::Layer::new(parse(filter)?);
        let is_terminal = std::io::stdout().is_terminal();
        let writer = LineWriter::start(std::io::stdout(), on_thread);
        let writer = writer.map_err(|error| LogError::Thread(error.to_string()))?;
        let flush = Arc::new(FlushAtEnd(writer.clone()));
        let form = form::Form::new(format, is_terminal);
        let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(is_terminal);
        // The filter is that of the lines alone: events are kept whatever it is.
        let lines = Traces.and_then(lines.event_format(form.clone())).with_filter(filter);
        let subscriber = tracing_subscriber::registry().with(lines).with(events::layer(on_event));
        subscriber.try_init().map_err(|_| LogError::Started)?;
        Ok(Self { filter: handle, form, _flush: flush })
    }

    /// Changes the format of lines.
    pub fn set_format(&self, format: LineFormat) {
        self.form.set(format);
    }

    /// Changes the filter.
    pub fn set_filter(&self, filter: &str) -> Result<(), LogError> {
        let filter = parse(filter)?;
        // The log lives as long as the process, so the handle is valid.
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
    let quiet: String = QUIET.iter().filter(|(name, _)| !filter.contains(name)).map(|(_, quiet)| *quiet).collect();
    EnvFilter::builder().parse(format!("{quiet}{filter}")).map_err(|error| fault(error.to_string()))
}

/// Crates that read Kubernetes, with their part of the filter if it does not name them. They log each try of a watch that is denied and each
/// failed connection; our line says it once.
const QUIET: [(&str, &str); 2] = [("kube_runtime", "kube_runtime=error,"), ("kube_client", "kube_client=off,")];

/// An error of the log.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is not a list of `tracing` directives.
    #[error("log filter {filter:?} rejected: {why}; write it like info or info,fairway_health=debug")]
    Filter {
        /// The filter.
        filter: String,
        /// The reason.
        why: String,
    },
    /// The process has a log already.
    #[error("this process has a log already; start it once")]
    Started,
    /// The thread of the log cannot start, or the filter cannot change.
    #[error("cannot write the log: {0}")]
    Thread(String),
}
