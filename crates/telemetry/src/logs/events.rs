//! Events: log lines about what changes answers. They have a field `event` with their kind, and go to the change log, too, whatever
//! the filter of the log is.

use std::time::SystemTime;

use fairway_model::Timestamp;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::{Layer, filter, layer::Context, registry::LookupSpan};

use super::{
    json::{Fields, text},
    trace::id_of,
};

/// Passes each event to a receiver: its time, and a JSON object with `event`, `level`, `msg`, the id of the operation and its own fields.
struct Events<F>(F);

/// Returns the layer that passes events on.
pub(super) fn layer<S>(receive: impl Fn(Timestamp, String) + Send + Sync + 'static) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    // Spans have the id of the operation.
    let is_seen = |metadata: &Metadata<'_>| metadata.is_span() || metadata.fields().field(KIND).is_some();
    Events(receive).with_filter(filter::filter_fn(is_seen))
}

impl<S: Subscriber + for<'a> LookupSpan<'a>, F: Fn(Timestamp, String) + 'static> Layer<S> for Events<F> {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        let spans = context.event_scope(event).into_iter().flatten();
        let trace = spans.filter_map(|span| id_of(&span)).next();
        let trace = trace.map(|trace| format!(",\"trace\":{}", text(&trace))).unwrap_or_default();
        let object = format!("{{\"level\":{},\"msg\":{}{trace}{}}}", text(&level), text(&fields.message), fields.rest);
        (self.0)(SystemTime::now().into(), object);
    }
}

/// The field with the kind.
const KIND: &str = "event";

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::logs::Trace;

    #[test]
    fn lines_with_a_kind_are_events_with_the_id_of_their_operation() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let receive = {
            let seen = Arc::clone(&seen);
            move |_, object: String| seen.lock().unwrap().push(object)
        };
        let subscriber = tracing_subscriber::registry().with(super::super::trace::Traces).with(layer(receive));
        let trace = Trace::new();
        tracing::subscriber::with_default(subscriber, || {
            trace.of(|| tracing::debug!(event = "health", address = "192.0.2.1", to = "down", "health changed"));
            tracing::error!("a line without a kind");
        });
        let expected = format!(
            r#"{{"level":"debug","msg":"health changed","trace":"{trace}","event":"health","address":"192.0.2.1","to":"down"}}"#
        );
        assert_eq!(*seen.lock().unwrap(), [expected]);
    }
}
