//! Traces by OpenTelemetry: from a request over what it writes to the answers that follow.
//!
//! ```text
//! PUT /v1/pools/{name} ─┬─ try
//!                       └─ write ── compile ── in force        what is indented is a child of what stands before it
//! ```
//! What a write makes of the answers happens on another task and after it, often together with other writes. So whoever writes leaves its
//! span under its revision ([`carried`]), and each write gets the reading that brought it into the answers into its own trace.
//!
//! Off, it costs a comparison a request. Spans that end go into a bounded queue ([`export`]) and are lost where it is full; nobody waits.
//! Nothing of it is on the way of an answer.

mod carried;
mod collector;
mod context;
mod events;
mod export;

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use fairway_http::{Method, StatusCode, Url, header::HeaderMap};
use fairway_model::Secret;
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
    /// Trusted certificates in PEM; default the system's.
    pub ca: Option<Secret>,
    /// Our own certificate and key in PEM.
    pub identity: Option<(Secret, Secret)>,
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

/// Where spans come from; clones are the same. By default it is off, and everything here does nothing.
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
            // A trace that comes with a request is recorded where it is elsewhere, and one that begins here by chance.
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(
                f64::from(options.per_million) / 1e6,
            ))))
            .build();
        let scope = InstrumentationScope::builder("fairway").with_version(env!("CARGO_PKG_VERSION")).build();
        let tracer = provider.tracer_with_scope(scope);
        Ok(Self(Some(Arc::new(Running { tracer, carried: Mutex::default(), counts, sending }))))
    }

    /// The span of a request that was received, below the one that its headers name; none where traces are off.
    ///
    /// With `only_known` none begins here: it is recorded only if it is elsewhere.
    pub fn request(&self, headers: &HeaderMap, only_known: bool) -> Option<Work> {
        let running = self.0.as_deref()?;
        let parent = context::parent(headers);
        if only_known && !parent.as_ref().is_some_and(SpanContext::is_sampled) {
            return None;
        }
        let above = parent.map_or_else(Context::new, |parent| Context::new().with_remote_span_context(parent));
        Some(running.begin(SpanBuilder::from_name("HTTP").with_kind(SpanKind::Server), &above))
    }

    /// A span of what is done now for the request of this task; none where that is not recorded, or there is no request.
    pub fn below(&self, name: &'static str) -> Option<Work> {
        let running = self.0.as_deref()?;
        let above = Context::current();
        above.span().is_recording().then(|| running.begin(SpanBuilder::from_name(name), &above))
    }

    /// A revision was made by `work`, which began at `since`: what brings it into the answers will stand below it.
    pub fn wrote(&self, revision: u64, since: SystemTime, work: &Work) {
        let Some(running) = self.0.as_deref() else { return };
        let writer = Writer { span: work.0.span().span_context().clone(), since };
        let passed = running.carried().wrote(revision, writer);
        passed.into_iter().for_each(|(writer, passage)| running.record(&writer, &passage));
    }

    /// Revisions came into the answers.
    pub fn passed(&self, passage: impl FnOnce() -> Passage) {
        let Some(running) = self.0.as_deref() else { return };
        let passage = passage();
        let writers = running.carried().passed(&passage);
        writers.iter().for_each(|writer| running.record(writer, &passage));
    }

    /// What became of spans; none where traces are off.
    pub fn counts(&self) -> Option<&Counts> {
        self.0.as_deref().map(|running| &*running.counts)
    }

    /// Sends what waits, a second at most. What ends later is lost.
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

    /// Puts a passage into the trace of a write, now that it is known.
    fn record(&self, writer: &Writer, passage: &Passage) {
        use opentelemetry::trace::Span as _;
        let above = Context::new().with_remote_span_context(writer.span.clone());
        let compile = SpanBuilder::from_name("compile").with_start_time(passage.begun).with_attributes([
            KeyValue::new("fairway.compile.kind", if passage.is_incremental { "incremental" } else { "full" }),
            KeyValue::new("fairway.touched.pools", count(passage.touched[0])),
            KeyValue::new("fairway.touched.names", count(passage.touched[1])),
            KeyValue::new("fairway.touched.records", count(passage.touched[2])),
            KeyValue::new("fairway.log.trace", passage.log.clone()),
        ]);
        let mut compile = self.tracer.build_with_context(compile, &above);
        let below = Context::new().with_remote_span_context(compile.span_context().clone());
        compile.end_with_timestamp(passage.compiled);
        let in_force = SpanBuilder::from_name("in force").with_start_time(passage.compiled).with_attributes([
            KeyValue::new("fairway.snapshot", format!("{:016x}", passage.snapshot)),
            KeyValue::new("fairway.generation", number(passage.generation)),
            KeyValue::new("fairway.revision", number(passage.revisions.1)),
        ]);
        self.tracer.build_with_context(in_force, &below).end_with_timestamp(passage.in_force);
    }
}

/// A span under way; it ends when the last of this is dropped.
#[derive(Debug)]
pub struct Work(Context);

impl Work {
    /// Does `work` within the span: what it begins is below it, and its log lines name it.
    pub async fn around<T>(&self, work: impl Future<Output = T>) -> T {
        work.with_context(self.0.clone()).await
    }

    /// Says something of what is done.
    pub fn say(&self, key: &'static str, value: impl Into<Value>) {
        self.0.span().set_attribute(KeyValue::new(key, value));
    }

    /// A number of things.
    pub fn count(&self, key: &'static str, value: usize) {
        self.say(key, count(value));
    }

    /// A revision, or the like.
    pub fn number(&self, key: &'static str, value: u64) {
        self.say(key, number(value));
    }

    /// It failed, and why.
    pub fn fail(&self, why: String) {
        self.0.span().set_status(Status::error(why));
    }

    /// A request was answered; by OpenTelemetry's conventions a fault of the client is no error of the server.
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

fn count(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Methods that a span may be named after (RFC 9110 section 9, RFC 5789); a client may send any word.
const METHODS: [&str; 9] = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];
