//! The format of lines: chosen by settings and terminal, changed while the log runs.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::SystemTime,
};

use fairway_model::Timestamp;
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Full, Writer},
        time::FormatTime,
    },
    registry::LookupSpan,
};

use super::json::JsonLines;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Writes events in the current format; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Form {
    is_json: Arc<AtomicBool>,
    is_terminal: bool,
    text: Format<Full, Clock>,
}

impl Form {
    /// The format for the settings and the output.
    pub(super) fn new(wanted: LineFormat, is_terminal: bool) -> Self {
        let form = Self { is_json: Arc::default(), is_terminal, text: Format::default().with_timer(Clock) };
        form.set(wanted);
        form
    }

    /// Changes the format from the next line on.
    pub(super) fn set(&self, wanted: LineFormat) {
        let is_json = match wanted {
            LineFormat::Auto => !self.is_terminal,
            LineFormat::Json => true,
            LineFormat::Text => false,
        };
        self.is_json.store(is_json, Relaxed);
    }
}

impl<S, N> FormatEvent<S, N> for Form
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if self.is_json.load(Relaxed) {
            JsonLines.format_event(context, writer, event)
        } else {
            self.text.format_event(context, writer, event)
        }
    }
}

/// UTC to the millisecond: enough for people.
#[derive(Clone, Copy, Debug)]
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{:.3}", Timestamp::from(SystemTime::now()))
    }
}
