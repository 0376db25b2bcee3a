use opentelemetry_proto::tonic::{common::v1::any_value, trace::v1::Span as Sent};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::traces::{Traces, Work};
use fairway_config::web_url;

const PATIENCE: Duration = Duration::from_secs(30);

/// A request as it came: its head in lower case, and its body.
type Received = (String, ExportTraceServiceRequest);

/// A collector that answers with one status after the other, the last one for ever; and what it received.
async fn collector(statuses: &'static [u16]) -> (WebUrl, mpsc::UnboundedReceiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = web_url(&format!("http://{}/v1/traces", listener.local_addr().unwrap()));
    let (to, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut statuses = statuses.iter();
        let mut status = 200;
        while let Ok((stream, _)) = listener.accept().await {
            status = statuses.next().copied().unwrap_or(status);
            let _ = to.send(receive(stream, status).await);
        }
    });
    (url, received)
}

async fn receive(mut stream: TcpStream, status: u16) -> Received {
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
    let answer = format!("HTTP/1.1 {status} so\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.unwrap();
    (head, ExportTraceServiceRequest::decode(&*octets).unwrap())
}

fn spans((_, request): Received) -> Vec<Sent> {
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
async fn a_request_carries_spans_with_what_is_said_of_the_server_and_its_headers() {
    let (url, mut received) = collector(&[]).await;
    let mut settings = TraceSettings::to(url);
    settings.headers = vec![("x-token".parse().unwrap(), fairway_model::Secret::new("word\n".to_owned()))];
    settings.resource.insert("deployment.environment.name".to_owned(), "test".to_owned());
    let traces = Traces::start(Some(&settings));
    begin(&traces).answered(&hyper::Method::GET, Some("/v1/pools/{name}"), StatusCode::BAD_GATEWAY);
    let (head, request) = timeout(PATIENCE, received.recv()).await.unwrap().unwrap();
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
    let span = &spans((head, request))[0];
    assert_eq!((&*span.name, span.parent_span_id.len()), ("GET /v1/pools/{name}", 0));
    assert_eq!(span.status.as_ref().unwrap().code, 2, "what is our fault is an error");
    wait_for(&traces, |counts| counts.sent.load(Relaxed) == 1).await;
}

#[tokio::test]
async fn what_begins_here_is_recorded_by_chance_and_what_comes_is_recorded_where_it_is_elsewhere() {
    let (url, mut received) = collector(&[]).await;
    let traces = Traces::start(Some(&TraceSettings { per_million: 0, ..TraceSettings::to(url) }));
    drop(begin(&traces));
    drop(traces.request(&traceparent("00"), false));
    assert!(traces.request(&traceparent("00"), true).is_none() && traces.request(&HeaderMap::new(), true).is_none());
    drop(traces.request(&traceparent("01"), true));
    let known = traces.request(&traceparent("01"), false).unwrap();
    known.around(async { drop(traces.below("within").unwrap()) }).await;
    assert!(traces.below("without").is_none(), "there is no request");
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
async fn a_batch_is_tried_again_where_that_may_help_and_dropped_where_it_does_not() {
    let (url, mut received) = collector(&[503, 200, 400, 200]).await;
    let traces = Traces::start(Some(&TraceSettings::to(url)));
    let counts = traces.counts().unwrap();
    let seen = || [&counts.sent, &counts.dropped, &counts.failures].map(|counter| counter.load(Relaxed));
    drop(begin(&traces));
    wait_for(&traces, |counts| counts.sent.load(Relaxed) == 1).await;
    assert_eq!(seen(), [1, 0, 1]);
    let (first, second) = (received.recv().await.unwrap(), received.recv().await.unwrap());
    assert_eq!(spans(first), spans(second), "the same batch");
    drop(begin(&traces));
    wait_for(&traces, |counts| counts.dropped.load(Relaxed) == 1).await;
    drop(begin(&traces));
    wait_for(&traces, |counts| counts.sent.load(Relaxed) == 2).await;
    assert_eq!(seen(), [2, 1, 2]);
}

#[tokio::test]
async fn where_nobody_takes_spans_those_over_the_bound_are_dropped_and_nobody_waits() {
    // Connections wait in its queue for ever.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = web_url(&format!("http://{}", mute.local_addr().unwrap()));
    let traces = Traces::start(Some(&TraceSettings::to(url)));
    // Without a rest, so that the sender takes none of them.
    (0..QUEUE_MAX + 10).for_each(|_| drop(begin(&traces)));
    assert_eq!(traces.counts().unwrap().dropped.load(Relaxed), 10);
    // A second at most, though a try may take ten.
    timeout(PATIENCE, traces.stop()).await.unwrap();
    drop(begin(&traces));
    assert_eq!(traces.counts().unwrap().dropped.load(Relaxed), 11, "what ends later is lost, and counted");
}
