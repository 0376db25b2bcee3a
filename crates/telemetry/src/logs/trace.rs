//! The id that lines of one operation share: a span holds it, and the JSON writer puts it on each line inside the span.
//!
//! Spans are entered around code that logs, never around an await of the control task: it applies health transitions meanwhile, which
//! belong to no operation.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use fairway_model::SplitMix;
use tracing::{
    Span, Subscriber,
    field::Field,
    span::{Attributes, Id},
};
use tracing_subscriber::{
    Layer,
    layer::Context,
    registry::{LookupSpan, SpanRef},
};

/// The id of one operation: a reload, a command, a handover. Displays as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trace(u64);

impl Default for Trace {
    /// Returns a new id.
    fn default() -> Self {
        Self::new()
    }
}

impl Trace {
    /// Returns an id that no other operation of this process has, and most likely none of another process.
    pub fn new() -> Self {
        static FIRST: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // SplitMix permutes the 64-bit numbers, so different counts give different ids, which look unlike each other.
        Self(SplitMix::new(FIRST.wrapping_add(COUNT.fetch_add(1, Relaxed))).bits())
    }

    /// Returns the span of the operation. It has the highest level, so that a filter that passes a line keeps its id.
    pub fn span(self) -> Span {
        tracing::error_span!(target: TARGET, "trace", id = %self)
    }

    /// Runs `work` inside the span.
    pub fn of<T>(self, work: impl FnOnce() -> T) -> T {
        self.span().in_scope(work)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Target of the spans, for the filter.
const TARGET: &str = "fairway_control";

/// Stores the id of each span for the JSON writer.
pub(super) struct Traces;

/// The id, as text.
struct Kept(String);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Traces {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        if (metadata.target(), metadata.name()) != (TARGET, "trace") {
            return;
        }
        let mut text = String::new();
        attributes.record(&mut |_: &Field, value: &dyn fmt::Debug| text = format!("{value:?}"));
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Kept(text));
        }
    }
}

/// Returns the id of the operation if the span is one.
pub(super) fn id_of<S: for<'a> LookupSpan<'a>>(span: &SpanRef<'_, S>) -> Option<String> {
    span.extensions().get::<Kept>().map(|kept| kept.0.clone())
}
