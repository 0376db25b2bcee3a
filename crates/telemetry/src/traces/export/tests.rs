use std::time::Instant as Clock;

use fairway_http::{
    Method, StatusCode, Tls, Url,
    header::{HeaderMap, HeaderValue},
    test_util::BlackHole,
};
use opentelemetry_http::HttpClient;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse},
    common::v1::any_value,
    trace::v1::{ResourceSpans, Span as Sent},
};
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::traces::{TraceProtocol, Traces, Work, collector::Collector};

mod grpc;

const PATIENCE: Duration = Duration::from_secs(30);

/// A request as it came: its head in lower case, its body, and when.
type Received = (String, ExportTraceServiceRequest, Clock);

/// An answer of the collector: status, further header lines, body.
type Answer = (u16, &'static str, Vec<u8>);

fn status(status: u16) -> Answer {
    (status, "", Vec::new())
}

fn partial_success(rejected_spans: i64) -> ExportTraceServiceResponse {
    let error_message = "too many attributes".to_owned();
    ExportTraceServiceResponse { partial_success: Some(ExportTracePartialSuccess { rejected_spans, error_message }) }
}

/// A collector over HTTP that gives these answers, and then accepts everything; its URL, and the requests it received.
async fn collector(answers: Vec<Answer>) -> (Url, mpsc::UnboundedReceiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/v1/traces", listener.local_addr().unwrap())).unwrap();
    let (to, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut answers = answers.into_iter();
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answers.next().unwrap_or_else(|| status(200));
            let _ = to.send(receive(stream, answer).await);
        }
    });
    (url, received)
}

fn options(endpoint: Url) -> TraceOptions {
    TraceOptions {
        endpoint,
        protocol: TraceProtocol::HttpProtobuf,
        headers: HeaderMap::new(),
        tls: Tls::default(),
        timeout: Duration::from_secs(10),
        per_million: 1_000_000,
        service: "fairway".to_owned(),
        resource: std::collections::BTreeMap::new(),
    }
}

fn start(options: &TraceOptions) -> Traces {
    Traces::start(options).unwrap()
}

fn seen(traces: &Traces) -> [u64; 4] {
    let counts = traces.counts().unwrap();
    [&counts.sent, &counts.rejected, &counts.dropped, &counts.failures].map(|counter| counter.load(Relaxed))
}

async fn receive(mut stream: TcpStream, (status, headers, body): Answer) -> Received {
    let mut octets = Vec::new();
    let head = loop {
        assert!(stream.read_buf(&mut octets).await.unwrap() > 0, "cut off");
        if let Some(end) = octets.windows(4).position(|four| four == b"\r\n\r\n") {
            let body = octets.split_off(end + 4);
            break String::from_utf8(std::mem::replace(&mut octets, body)).unwrap().to_lowercase();
        }
    };
    let length = head.split_once("content-length: ").unwrap().1.split_once("\r\n").unwrap().0.parse().unwrap();
    while octets.len() < length {
        assert!(stream.read_buf(&mut octets).await.unwrap() > 0, "cut off");
    }
    let received = Clock::now();
    let length = body.len();
    let answer = format!("HTTP/1.1 {status} so\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(&[answer.as_bytes(), &body].concat()).await.unwrap();
    (head, ExportTraceServiceRequest::decode(&*octets).unwrap(), received)
}

fn spans((_, request, _): Received) -> Vec<Sent> {
    request.resource_spans.into_iter().flat_map(|of| of.scope_spans).flat_map(|of| of.spans).collect()
}

fn traceparent(flags: &str) -> HeaderMap {
    let text = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
    let mut headers = HeaderMap::new();
    headers.insert("traceparent", HeaderValue::from_str(&text).unwrap());
    headers
}

fn begin(traces: &Traces) -> Work {
    traces.request(&HeaderMap::new(), false).unwrap()
}

async fn wait_for(traces: &Traces, what: impl Fn(&Counts) -> bool) {
    let looking = async {
        while !what(traces.counts().unwrap()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, looking).await.expect("it comes to that");
}

#[tokio::test]
async fn request_has_spans_resource_and_headers() {
    let (url, mut received) = collector(vec![]).await;
    let mut options = options(url);
    options.headers.insert("x-token", HeaderValue::from_static("word"));
    options.resource.insert("deployment.environment.name".to_owned(), "test".to_owned());
    let traces = start(&options);
    begin(&traces).answered(&Method::GET, Some("/v1/pools/{name}"), StatusCode::BAD_GATEWAY);
    let (head, request, at) = timeout(PATIENCE, received.recv()).await.unwrap().unwrap();
    for part in ["post /v1/traces http/1.1", "content-type: application/x-protobuf\r\n", "x-token: word\r\n"] {
        assert!(head.contains(part), "{part} in {head}");
    }
    let resource = request.resource_spans[0].resource.clone().unwrap();
    let said = |key: &str| {
        let found = resource.attributes.iter().find(|one| one.key == key)?;
        match found.value.clone()?.value? {
            any_value::Value::StringValue(text) => Some(text),
            _ => None,
        }
    };
    assert_eq!(said("service.name").as_deref(), Some("fairway"));
    assert_eq!(said("deployment.environment.name").as_deref(), Some("test"));
    let span = &spans((head, request, at))[0];
    assert_eq!((&*span.name, span.parent_span_id.len()), ("GET /v1/pools/{name}", 0));
    assert_eq!(span.status.as_ref().unwrap().code, 2, "a status 5xx is an error");
    wait_for(&traces, |counts| counts.sent.load(Relaxed) == 1).await;
}

#[tokio::test]
async fn incoming_trace_is_recorded_as_its_origin_decided_and_own_ones_by_ratio() {
    let (url, mut received) = collector(vec![]).await;
    let traces = start(&TraceOptions { per_million: 0, ..options(url) });
    drop(begin(&traces));
    drop(traces.request(&traceparent("00"), false));
    assert!(traces.request(&traceparent("00"), true).is_none() && traces.request(&HeaderMap::new(), true).is_none());
    drop(traces.request(&traceparent("01"), true));
    let known = traces.request(&traceparent("01"), false).unwrap();
    known.around(async { drop(traces.below("within").unwrap()) }).await;
    assert!(traces.below("without").is_none(), "a span needs a request");
    drop(known);
    // Also where the sender has them already, and waits for more.
    tokio::task::yield_now().await;
    traces.stop().await;
    let sent = spans(received.recv().await.unwrap());
    let names: Vec<_> = sent.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["HTTP", "within", "HTTP"]);
    assert!(sent.iter().all(|span| span.trace_id[..2] == [0x4b, 0xf9]), "{sent:?}");
    assert_eq!(sent[1].parent_span_id, sent[2].span_id);
    assert_eq!(sent[2].parent_span_id[..], [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
    assert!(received.try_recv().is_err(), "and nothing more");
}

#[tokio::test]
async fn failed_batch_is_repeated_after_503_and_dropped_after_400() {
    let (url, mut received) = collector([503, 200, 400, 200].map(status).into()).await;
    let traces = start(&options(url));
    drop(begin(&traces));
    wait_for(&traces, |counts| counts.sent.load(Relaxed) == 1).await;
    assert_eq!(seen(&traces), [1, 0, 0, 1]);
    let (first, second) = (received.recv().await.unwrap(), received.recv().await.unwrap());
    assert_eq!(spans(first), spans(second), "the same batch");
    drop(begin(&traces));
    wait_for(&traces, |counts| counts.dropped.load(Relaxed) == 1).await;
    drop(begin(&traces));
    wait_for(&traces, |counts| counts.sent.load(Relaxed) == 2).await;
    assert_eq!(seen(&traces), [2, 0, 1, 2]);
}

#[tokio::test]
async fn no_request_is_sent_before_retry_after() {
    for status in [429, 503] {
        let (url, mut received) = collector(vec![(status, "retry-after: 3\r\n", vec![])]).await;
        let traces = start(&options(url));
        drop(begin(&traces));
        let first = timeout(PATIENCE, received.recv()).await.unwrap().unwrap();
        // A span that ends meanwhile has to wait too.
        drop(begin(&traces));
        let second = timeout(PATIENCE, received.recv()).await.unwrap().unwrap();
        let pause = second.2 - first.2;
        assert!(pause >= Duration::from_secs(3), "{status}: next request after {pause:?}");
        wait_for(&traces, |counts| counts.sent.load(Relaxed) == 2).await;
        assert_eq!(seen(&traces), [2, 0, 0, 1]);
    }
}

#[tokio::test]
async fn retry_after_holds_for_the_next_batch_of_a_refused_one() {
    // 400 is not repeated, so the batch is dropped; the pause stays.
    let (url, mut received) = collector(vec![(400, "retry-after: 2\r\n", vec![])]).await;
    let traces = start(&options(url));
    drop(begin(&traces));
    wait_for(&traces, |counts| counts.dropped.load(Relaxed) == 1).await;
    drop(begin(&traces));
    wait_for(&traces, |counts| counts.sent.load(Relaxed) == 1).await;
    let (first, second) = (received.recv().await.unwrap(), received.recv().await.unwrap());
    assert!(second.2 - first.2 >= Duration::from_secs(2), "next request after {:?}", second.2 - first.2);
}

#[tokio::test]
async fn spans_of_partial_success_are_counted_as_rejected() {
    let (url, _received) = collector(vec![(200, "", partial_success(2).encode_to_vec())]).await;
    let traces = start(&options(url));
    (0..3).for_each(|_| drop(begin(&traces)));
    wait_for(&traces, |counts| counts.sent.load(Relaxed) == 1).await;
    assert_eq!(seen(&traces), [1, 2, 0, 0]);
}

#[tokio::test]
async fn spans_that_a_hanging_collector_does_not_take_are_dropped_and_counted() {
    // Connections wait in its queue for ever.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}", mute.local_addr().unwrap())).unwrap();
    let traces = start(&options(url));
    // Without an await, so that the sender takes none of them.
    (0..QUEUE_MAX + 10).for_each(|_| drop(begin(&traces)));
    assert_eq!(traces.counts().unwrap().dropped.load(Relaxed), 10);
    // A second at most, though a request may take ten.
    timeout(PATIENCE, traces.stop()).await.unwrap();
    drop(begin(&traces));
    assert_eq!(seen(&traces), [0, 0, QUEUE_MAX as u64 + 11, 0], "also what was queued, and what ended later");
}

#[tokio::test]
async fn pause_before_a_repetition_blocks_no_thread() {
    let (url, mut received) = collector(vec![status(503)]).await;
    let traces = start(&options(url));
    drop(begin(&traces));
    wait_for(&traces, |counts| counts.failures.load(Relaxed) == 1).await;
    let (_, _, at) = received.recv().await.unwrap();
    assert!(at.elapsed() < Duration::from_secs(1), "this test could not go on for {:?}", at.elapsed());
}

/// Sends a request without the library. Its log events would get lost in other tests that run at once, since the first
/// thread that comes by decides whether anybody listens.
async fn send(options: &TraceOptions) -> (StatusCode, Option<String>) {
    let error = LastError::default();
    let body = ExportTraceServiceRequest { resource_spans: vec![ResourceSpans::default()] }.encode_to_vec();
    let request = opentelemetry_http::Request::post(options.endpoint.to_string()).body(body.into()).unwrap();
    let answer = Collector::new(options, error.clone()).unwrap().send_bytes(request).await.unwrap();
    (answer.status(), error.take())
}

#[tokio::test]
async fn refused_request_is_an_error_with_the_body_of_the_response() {
    let (url, _received) = collector(vec![(400, "", b"no such tenant".to_vec())]).await;
    let error = send(&options(url)).await.1.unwrap();
    assert!(error.ends_with(": status 400 Bad Request: no such tenant"), "{error}");
}

#[tokio::test]
async fn black_holed_ipv6_address_of_the_collector_costs_less_than_a_second() {
    let (url, _received) = collector(vec![]).await;
    let hole = BlackHole::new(url.port()).await;
    let options = options(Url::parse(&format!("http://localhost:{}/v1/traces", url.port())).unwrap());
    let sent = hole.costs_less_than_a_second(send(&options)).await;
    assert_eq!(sent, (StatusCode::OK, None));
}
