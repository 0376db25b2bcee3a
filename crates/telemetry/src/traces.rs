//! OpenTelemetry traces: from a request over its writes to the answers that follow.
//!
//! ```text
//! PUT /v1/pools/{name} ─┬─ try
//!                       └─ write ── compile ── in force        indented spans are children of the span before
//! ```
//! A reload applies a write on another task and later, often together with other writes. So a write leaves its span under its revision
//! (`carried`), and the reload that applies the revision adds its spans to the trace of each write.
//!
//! Without traces the cost is one comparison per request. Ended spans go into a bounded queue (`export`) and are dropped if it is full;
//! nothing waits. The answer path has no part of it.

mod carried;
mod collector;
mod context;
mod events;
mod export;
mod grpc;

use std::{
    collections::BTreeMap,
    fmt::Display,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use fairway_http::{Method, StatusCode, Tls, Url, header::HeaderMap};
use opentelemetry::{
    Context, InstrumentationScope, KeyValue, Value,
    context::FutureExt,
    trace::{SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt, Tracer, TracerProvider},
};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracer, SdkTracerProvider},
};

pub use self::{carried::Passage, export::Counts};
use self::{
    carried::{Carried, Writer},
    export::Sending,
};

/// Destination of traces, and which are recorded.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// URL of the collector; for gRPC its path is not used.
    pub endpoint: Url,
    /// Protocol of the collector.
    pub protocol: TraceProtocol,
    /// Headers of each request, or metadata of gRPC.
    pub headers: HeaderMap,
    /// TLS of an https URL.
    pub tls: Tls,
    /// Longest time of a request.
    pub timeout: Duration,
    /// Recorded share of the traces that begin here, in millionths.
    pub per_million: u32,
    /// Name of the service.
    pub service: String,
    /// Further attributes of this server.
    pub resource: BTreeMap<String, String>,
}

/// Protocol of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceProtocol {
    /// OTLP over HTTP in protobuf, usually on port 4318.
    HttpProtobuf,
    /// OTLP over gRPC, usually on port 4317.
    Grpc,
}

/// The exporter of traces cannot be set up.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot export traces: {0}")]
pub struct TraceError(String);

impl TraceError {
    fn new(why: impl Display) -> Self {
        Self(why.to_string())
    }
}

/// The source of spans; clones share it. Off by default; then all methods do nothing.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<Arc<Running>>);

#[derive(Debug)]
struct Running {
    tracer: SdkTracer,
    carried: Mutex<Carried>,
    counts: Arc<Counts>,
    sending: Sending,
}

impl Traces {
    /// Starts to export. Must be called within a tokio runtime.
    pub fn start(options: &TraceOptions) -> Result<Self, TraceError> {
        let counts = Arc::<Counts>::default();
        let resource = resource(options);
        let (queue, sending) = export::start(options, &resource, &counts)?;
        let provider = SdkTracerProvider::builder()
            .with_span_processor(queue)
            .with_resource(resource)
            // A trace that comes with a request is recorded if its origin records it; one that begins here, at random.
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(
                f64::from(options.per_million) / 1e6,
            ))))
            .build();
        let scope = InstrumentationScope::builder("fairway").with_version(env!("CARGO_PKG_VERSION")).build();
        let tracer = provider.tracer_with_scope(scope);
        Ok(Self(Some(Arc::new(Running { tracer, carried: Mutex::default(), counts, sending }))))
    }

    /// Begins the span of a received request of a caller that has authenticated, below the span that its headers name. Returns `None` if
    /// traces are off.
    ///
    /// With `only_known` no trace begins here: the request is recorded only if its origin records it.
    pub fn request(&self, headers: &HeaderMap, only_known: bool) -> Option<Work> {
        let running = self.0.as_deref()?;
        let parent = context::parent(headers);
        if only_known && !parent.as_ref().is_some_and(SpanContext::is_sampled) {
            return None;
        }
        let above = parent.map_or_else(Context::new, |parent| Context::new().with_remote_span_context(parent));
        Some(running.begin(SpanBuilder::from_name("HTTP").with_kind(SpanKind::Server), &above))
    }

    /// Begins a span below the request of this task. Returns `None` if the request is not recorded, or there is none.
    pub fn below(&self, name: &'static str) -> Option<Work> {
        let running = self.0.as_deref()?;
        let above = Context::current();
        above.span().is_recording().then(|| running.begin(SpanBuilder::from_name(name), &above))
    }

    /// Registers that `work`, which began at `since`, made a revision: the spans of the reload that applies it go below it.
    pub fn wrote(&self, revision: u64, since: SystemTime, work: &Work) {
        let Some(running) = self.0.as_deref() else { return };
        let writer = Writer { span: work.0.span().span_context().clone(), since };
        let passed = running.carried().wrote(revision, writer);
        passed.into_iter().for_each(|(writer, passage)| running.record(&writer, &passage));
    }

    /// Adds the spans of a reload to the traces of the writes that it applied.
    pub fn passed(&self, passage: impl FnOnce() -> Passage) {
        let Some(running) = self.0.as_deref() else { return };
        let passage = passage();
        let writers = running.carried().passed(&passage);
        writers.iter().for_each(|writer| running.record(writer, &passage));
    }

    /// Returns the counts of ended spans. Returns `None` if traces are off.
    pub fn counts(&self) -> Option<&Counts> {
        self.0.as_deref().map(|running| &*running.counts)
    }

    /// Sends the waiting spans, for a second at most. Spans that end later are dropped and counted.
    pub async fn stop(&self) {
        if let Some(running) = self.0.as_deref() {
            running.sending.stop().await;
        }
    }
}

impl Running {
    fn begin(&self, builder: SpanBuilder, above: &Context) -> Work {
        Work(above.with_span(self.tracer.build_with_context(builder, above)))
    }

    fn carried(&self) -> std::sync::MutexGuard<'_, Carried> {
        self.carried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a passage to the trace of a write.
    fn record(&self, writer: &Writer, passage: &Passage) {
        use opentelemetry::trace::Span as _;
        let above = Context::new().with_remote_span_context(writer.span.clone());
        let compile = SpanBuilder::from_name("compile").with_start_time(passage.begun).with_attributes([
            KeyValue::new("fairway.compile.kind", if passage.is_incremental { "incremental" } else { "full" }),
            KeyValue::new("fairway.touched.pools", number(passage.touched[0])),
            KeyValue::new("fairway.touched.names", number(passage.touched[1])),
            KeyValue::new("fairway.touched.records", number(passage.touched[2])),
            KeyValue::new("fairway.log.trace", passage.log.clone()),
        ]);
        let mut compile = self.tracer.build_with_context(compile, &above);
        let below = Context::new().with_remote_span_context(compile.span_context().clone());
        compile.end_with_timestamp(passage.compiled);
        let in_force = SpanBuilder::from_name("in force").with_start_time(passage.compiled).with_attributes([
            KeyValue::new("fairway.snapshot", format!("{:016x}", passage.snapshot)),
            KeyValue::new("fairway.configuration", number(passage.configuration)),
            KeyValue::new("fairway.revision", number(passage.revisions.1)),
        ]);
        self.tracer.build_with_context(in_force, &below).end_with_timestamp(passage.in_force);
    }
}

/// A running span; it ends when this is dropped.
#[derive(Debug)]
pub struct Work(Context);

impl Work {
    /// Runs `work` within the span: spans that it begins go below, and its log lines have the ids.
    pub async fn around<T>(&self, work: impl Future<Output = T>) -> T {
        work.with_context(self.0.clone()).await
    }

    /// Sets an attribute.
    pub fn say(&self, key: &'static str, value: impl Into<Value>) {
        self.0.span().set_attribute(KeyValue::new(key, value));
    }

    /// Sets an attribute to a number, such as a count or a revision.
    pub fn number(&self, key: &'static str, value: impl TryInto<i64>) {
        self.say(key, number(value));
    }

    /// Marks the span as failed.
    pub fn fail(&self, why: String) {
        self.0.span().set_status(Status::error(why));
    }

    /// Sets name and attributes of an answered request. By OpenTelemetry's conventions a 4xx status is no error of a server span.
    pub fn answered(&self, method: &Method, route: Option<&str>, status: StatusCode) {
        let is_known = METHODS.contains(&method.as_str());
        let word = if is_known { method.as_str() } else { "HTTP" };
        self.0.span().update_name(route.map_or_else(|| word.to_owned(), |route| format!("{word} {route}")));
        self.say("http.request.method", if is_known { method.to_string() } else { "_OTHER".to_owned() });
        if let Some(route) = route {
            self.say("http.route", route.to_owned());
        }
        self.say("http.response.status_code", i64::from(status.as_u16()));
        if status.is_server_error() {
            self.say("error.type", status.as_str().to_owned());
            self.0.span().set_status(Status::error(""));
        }
    }
}

fn resource(options: &TraceOptions) -> Resource {
    let said = options.resource.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    Resource::builder_empty()
        .with_attribute(KeyValue::new("service.name", options.service.clone()))
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attributes(said)
        .build()
}

fn number(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

/// Methods that a span may be named after (RFC 9110 section 9, RFC 5789); a client may send any word.
const METHODS: [&str; 9] = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];
