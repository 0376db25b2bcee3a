//! What ties the lines of one happening together: a span with an id, which the JSON writer puts on each line inside it.
//!
//! Spans are entered around what logs, never around a wait of the control task: flips are applied meanwhile, and belong to nothing.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use tracing::{
    Span, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{
    Layer,
    layer::Context,
    registry::{LookupSpan, SpanRef},
};

/// The id of one happening: a reload, a command, a hand-over. Shown as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trace(u64);

impl Default for Trace {
    /// A new one.
    fn default() -> Self {
        Self::new()
    }
}

impl Trace {
    /// One that no other happening of this process has, and hardly one of another process.
    pub fn new() -> Self {
        static FIRST: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // An odd factor takes different counts to different numbers (modulo 2^64), and looks unlike for neighbours.
        Self(FIRST.wrapping_add(COUNT.fetch_add(1, Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// The span of what happens. Of the highest level: a filter that lets a line through does not take its id away.
    pub fn span(self) -> Span {
        tracing::error_span!(target: TARGET, "trace", id = %self)
    }

    /// Does what logs inside the span.
    pub fn of<T>(self, work: impl FnOnce() -> T) -> T {
        self.span().in_scope(work)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Where the spans come from, for the filter.
const TARGET: &str = "fairway_control";

/// Keeps the id of each span where the JSON writer finds it.
pub(super) struct Traces;

/// The id, as text.
struct Kept(String);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Traces {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        if (metadata.target(), metadata.name()) != (TARGET, "trace") {
            return;
        }
        let mut kept = Kept(String::new());
        attributes.record(&mut kept);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(kept);
        }
    }
}

impl Visit for Kept {
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        self.0 = format!("{value:?}");
    }
}

/// The id of the happening that a span is, if it is one.
pub(super) fn id_of<S: for<'a> LookupSpan<'a>>(span: &SpanRef<'_, S>) -> Option<String> {
    span.extensions().get::<Kept>().map(|kept| kept.0.clone())
}
