//! One JSON object per line: time, level, msg, target, the id of the operation and the OpenTelemetry span if there are any, then the
//! event's own fields, flat.

use std::{
    fmt::{self, Write},
    time::SystemTime,
};

use fairway_model::Timestamp;
use opentelemetry::{Context, trace::TraceContextExt};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

use super::trace;

/// Writes events as JSON lines. Of spans it writes only the id: their fields would repeat on every line.
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let now = Timestamp::from(SystemTime::now());
        write!(writer, "{{\"time\":\"{now:.9}\",\"level\":\"{}\",\"msg\":{}", metadata.level(), text(&fields.message))?;
        write!(writer, ",\"target\":{}", text(metadata.target()))?;
        // The innermost one if they nest.
        let spans = context.event_scope().into_iter().flatten();
        if let Some(trace) = spans.filter_map(|span| trace::id_of(&span)).next() {
            write!(writer, ",\"trace\":{}", text(&trace))?;
        }
        if let Some((trace, span)) = current_span() {
            // Hexadecimal digits need no escape.
            write!(writer, ",\"trace_id\":\"{trace}\",\"span_id\":\"{span}\"")?;
        }
        writeln!(writer, "{}}}", fields.rest)
    }
}

/// The fields of one event.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) message: String,
    /// `,"name":value` for each, in the order they were given.
    pub(super) rest: String,
}

impl Fields {
    fn add(&mut self, field: &Field, value: &dyn fmt::Display) {
        // A field must not repeat one of these: a JSON object has each name once.
        let name = match field.name() {
            name @ ("time" | "level" | "msg" | "target" | "trace" | "trace_id" | "span_id") => format!("field_{name}"),
            name => name.to_owned(),
        };
        // Writing into a string cannot fail.
        let _ = write!(self.rest, ",{}:{value}", text(&name));
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no NaN and no infinity.
        if value.is_finite() { self.add(field, &value) } else { self.add(field, &text(&value.to_string())) }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, &text(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}");
        if field.name() == "message" {
            self.message = value;
        } else {
            self.add(field, &text(&value));
        }
    }
}

/// Trace and span ids of OpenTelemetry that this thread works for: 32 and 16 hexadecimal digits.
fn current_span() -> Option<(String, String)> {
    Context::map_current(|context| {
        let span = context.span();
        let span = span.span_context();
        span.is_valid().then(|| (span.trace_id().to_string(), span.span_id().to_string()))
    })
}

/// A text as JSON: quoted, control characters and line ends escaped.
pub(super) fn text(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_event_is_one_json_object_on_one_line() {
        let sink = Sink::default();
        let lines = {
            let sink = sink.clone();
            tracing_subscriber::fmt::layer().event_format(JsonLines).with_writer(move || sink.clone())
        };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::info!(
                text = "two\nlines \u{1b}[31m \"quoted\"",
                count = 3,
                rate = f64::NAN,
                yes = true,
                "hello {}",
                1
            );
            tracing::warn!(time = "mine", cause = %"connection refused", "again");
        });
        let written = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<serde_json::Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [first, second] = &lines[..] else { panic!("two lines, not {}: {written}", lines.len()) };
        assert_eq!((&first["msg"], &first["level"]), (&"hello 1".into(), &"INFO".into()));
        assert_eq!((&first["count"], &first["rate"], &first["yes"]), (&3.into(), &"NaN".into(), &true.into()));
        assert_eq!(first["text"], "two\nlines \u{1b}[31m \"quoted\"");
        assert_eq!((&second["field_time"], &second["cause"]), (&"mine".into(), &"connection refused".into()));
        let time = first["time"].as_str().unwrap();
        assert!(time.parse::<Timestamp>().is_ok() && time.len() == "2026-01-31T23:59:59.000000000Z".len(), "{time}");
    }

    #[test]
    fn lines_of_one_operation_share_its_id_and_others_have_none() {
        use super::trace::{Trace, Traces};
        let sink = Sink::default();
        let lines = {
            let sink = sink.clone();
            tracing_subscriber::fmt::layer().event_format(JsonLines).with_writer(move || sink.clone())
        };
        let [one, another] = [Trace::new(), Trace::new()];
        assert_ne!(one, another);
        // A filter that lets only errors through leaves them their trace.
        let filter = tracing_subscriber::EnvFilter::new("error");
        let subscriber = tracing_subscriber::registry().with(filter).with(Traces).with(lines);
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!("of nothing");
            one.of(|| tracing::error!("begun"));
            another.of(|| tracing::error!(trace = "mine", "of another"));
            one.of(|| tracing::error_span!("inner").in_scope(|| tracing::error!("ended")));
            tracing::error_span!("another span", id = 7).in_scope(|| tracing::error!("of nothing again"));
        });
        let written = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<serde_json::Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let traces: Vec<_> = lines.iter().map(|line| line["trace"].as_str().map(str::to_owned)).collect();
        let [one, another] = [one, another].map(|trace| Some(trace.to_string()));
        assert_eq!(traces, [None, one.clone(), another, one, None]);
        assert!(traces.iter().flatten().all(|id| id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit())));
        assert_eq!(lines[2]["field_trace"], "mine");
    }

    /// For any text in an event, a reader of lines gets valid objects with the documented keys first.
    #[test]
    fn events_of_any_text_are_valid_json_lines() {
        const EVENTS: usize = 100_000;
        let sink = Sink::default();
        let lines = {
            let sink = sink.clone();
            tracing_subscriber::fmt::layer().event_format(JsonLines).with_writer(move || sink.clone())
        };
        let mut random = fairway_model::SplitMix::new(1);
        let mut any_text = || {
            let seed = random.bits();
            // Half of the characters are ASCII, of which a quarter is control characters, quotes and backslashes among them.
            let chars = (0..seed >> 60).map(|n| (seed >> n) as u32 & if n & 1 == 0 { 0x7f } else { 0x1_ffff });
            chars.filter_map(char::from_u32).collect::<String>()
        };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            for number in 0..EVENTS {
                let (text, other) = (any_text(), any_text());
                tracing::warn!(number, other, cause = %text, "{text}");
            }
        });
        let written = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert!(!written.contains(|c: char| c < ' ' && c != '\n'), "control characters");
        let mut count = 0;
        for (number, line) in written.lines().enumerate() {
            assert!(line.starts_with("{\"time\":\"2") && line.contains("\",\"level\":\"WARN\",\"msg\":\""), "{line}");
            let event: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert_eq!((&event["number"], &event["cause"]), (&number.into(), &event["msg"]), "{line}");
            assert_eq!(event.as_object().unwrap().len(), 7, "{line}");
            count += 1;
        }
        assert_eq!(count, EVENTS);
    }
}
