//! The connection to a collector, and the pauses it asks for.

use std::{
    collections::HashMap,
    fmt::Display,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use fairway_http::{Client, Options, Request, StatusCode, Url, header};
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig};
use tokio::time::{Instant, sleep_until};

use super::{TraceError, TraceOptions, TraceProtocol, grpc::GrpcClient};

/// Makes the exporter; connects to nothing yet. Causes of failed requests are left in `error`.
pub(super) fn exporter(options: &TraceOptions, error: &LastError) -> Result<SpanExporter, TraceError> {
    let retries = RetryPolicy::recommended()
        .with_max_retries(RETRIES)
        .with_initial_delay(Duration::from_secs(1))
        .with_max_delay(Duration::from_secs(8))
        .with_max_jitter(Duration::from_millis(250));
    let built = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(options.endpoint.to_string())
        .with_timeout(RETRY_WITHIN)
        .with_retry_policy(retries)
        .with_http_client(Collector::new(options, error.clone())?)
        .with_headers(headers(options))
        .build();
    built.map_err(TraceError::new)
}

/// The library takes text; each value was text when it was configured.
fn headers(options: &TraceOptions) -> HashMap<String, String> {
    let text = |value: &header::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    options.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

/// Cause of the last failed request, which the library reduces to "network error"; clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct LastError(Arc<Mutex<Option<String>>>);

impl LastError {
    pub(super) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, error: &dyn Display) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
    }
}

/// Sends requests, none of them before the end of the pause that the collector asked for.
///
/// The library would wait 30 s at most, and forget the pause with the batch.
#[derive(Debug)]
pub(super) struct Collector {
    client: AnyClient,
    paused_until: Mutex<Option<Instant>>,
    error: LastError,
}

#[derive(Debug)]
enum AnyClient {
    Grpc(Box<GrpcClient>),
    Http(Client),
}

/// An answer of a collector.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The status, by which the library decides whether to repeat the request.
    pub(super) status: StatusCode,
    /// The pause that it asks for.
    pub(super) pause: Option<Duration>,
    /// Cause of the failure.
    pub(super) error: Option<String>,
    pub(super) body: Bytes,
}

impl Collector {
    pub(super) fn new(options: &TraceOptions, error: LastError) -> Result<Self, TraceError> {
        let client = match options.protocol {
            TraceProtocol::Grpc => AnyClient::Grpc(Box::new(GrpcClient::new(options)?)),
            TraceProtocol::HttpProtobuf => {
                let http = Options { tls: options.tls.clone(), ..Options::new(options.timeout, ANSWER_MAX) };
                AnyClient::Http(Client::new(http))
            }
        };
        Ok(Self { client, paused_until: Mutex::default(), error })
    }

    fn paused_until(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.paused_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(
        &self,
        request: opentelemetry_http::Request<Bytes>,
    ) -> Result<opentelemetry_http::Response<Bytes>, HttpError> {
        let paused = *self.paused_until();
        if let Some(until) = paused {
            sleep_until(until).await;
        }
        let answer = match &self.client {
            AnyClient::Grpc(client) => client.send(&request).await,
            AnyClient::Http(client) => post(client, request).await.inspect_err(|error| self.error.set(error))?,
        };
        if let Some(error) = answer.error {
            self.error.set(&error);
            *self.paused_until() = answer.pause.map(|pause| Instant::now() + pause.min(PAUSE_MAX));
        }
        let mut response = opentelemetry_http::Response::new(answer.body);
        *response.status_mut() = answer.status;
        Ok(response)
    }
}

async fn post(client: &Client, request: opentelemetry_http::Request<Bytes>) -> Result<Answer, HttpError> {
    let (head, body) = request.into_parts();
    let url = Url::parse(&head.uri.to_string())?;
    let request = Request { method: head.method, url, headers: head.headers, body: body.into() };
    let answer = client.send(request).await?;
    let status = answer.status;
    let pause = answer.headers.get(header::RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?));
    let (body, error) = match answer.require_success() {
        Ok(answer) => (answer.body.into(), None),
        Err(error) => (Bytes::new(), Some(error.to_string())),
    };
    Ok(Answer { status, pause, error, body })
}

/// The pause that a `Retry-After` asks for: seconds, or a date (RFC 9110 section 10.2.3).
fn retry_after(value: &str) -> Option<Duration> {
    match value.trim().parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        // A date that has passed asks for no pause.
        Err(_) => Some(httpdate::parse_http_date(value).ok()?.duration_since(SystemTime::now()).unwrap_or_default()),
    }
}

/// Repetitions of a request that may succeed later: after 1, 2, 4 and 8 s, or what the collector asks for.
const RETRIES: usize = 4;
/// A failed request is not repeated later than this after the first: five requests of up to a minute each, and the pauses.
const RETRY_WITHIN: Duration = Duration::from_secs(6 * 60);
/// Longest pause that a collector can ask for: a mistaken date must not end traces until the next restart.
const PAUSE_MAX: Duration = Duration::from_secs(3_600);
/// Maximum number of bytes of an answer: a count and a message.
const ANSWER_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_or_date() {
        assert_eq!(retry_after(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO), "a date that has passed");
        let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        let pause = retry_after(&later).unwrap();
        assert!((98..=100).contains(&pause.as_secs()), "{pause:?}");
        assert_eq!(retry_after("soon"), None);
    }
}
