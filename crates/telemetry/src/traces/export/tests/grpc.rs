//! A collector over gRPC.

use std::{io::Write, vec};

use flate2::{Compression, write::GzEncoder};
use opentelemetry_proto::tonic::{
    collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer},
    trace::v1::ScopeSpans,
};
use tonic::{Code, Status, codec::CompressionEncoding, transport::server::TcpIncoming};
use tonic_types::{ErrorDetails, StatusExt};

use super::*;
use crate::traces::grpc::GrpcClient;

type Answer = Result<ExportTraceServiceResponse, Status>;

/// A request as it came.
struct Received {
    token: Option<String>,
    encoding: Option<String>,
    spans: usize,
    at: Instant,
}

/// A collector that gives these answers, and then accepts everything.
#[derive(Debug)]
struct GrpcCollector(mpsc::UnboundedSender<Received>, Mutex<vec::IntoIter<Answer>>);

#[tonic::async_trait]
impl TraceService for GrpcCollector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, Status> {
        let text = |name| request.metadata().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (token, encoding) = (text("x-token"), text("grpc-encoding"));
        let spans = request.into_inner().resource_spans.into_iter().flat_map(|of| of.scope_spans);
        let spans = spans.map(|of| of.spans.len()).sum();
        let _ = self.0.send(Received { token, encoding, spans, at: Instant::now() });
        self.1.lock().unwrap().next().unwrap_or_else(|| Ok(Default::default())).map(tonic::Response::new)
    }
}

/// Starts a collector. Returns the options of an exporter to it, and the requests that it received.
async fn collector(answers: Vec<Answer>) -> (TraceOptions, mpsc::UnboundedReceiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/v1/traces", listener.local_addr().unwrap())).unwrap();
    let (to, received) = mpsc::unbounded_channel();
    let service = TraceServiceServer::new(GrpcCollector(to, Mutex::new(answers.into_iter())));
    let service = service.accept_compressed(CompressionEncoding::Gzip);
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    (TraceOptions { protocol: TraceProtocol::Grpc, ..options(url) }, received)
}

fn exhausted(details: ErrorDetails) -> Answer {
    Err(Status::with_error_details(Code::ResourceExhausted, "too many spans", details))
}

#[tokio::test]
async fn collector_gets_headers_and_spans_and_is_asked_again_when_unavailable() {
    let (mut options, mut received) =
        collector(vec![Ok(partial_success(2)), Err(Status::unavailable("restarting"))]).await;
    options.headers.insert("x-token", HeaderValue::from_static("word"));
    let traces = start(&options);
    (0..3).for_each(|_| drop(begin(&traces)));
    wait_for(&traces, |counts| counts.rejected.load(Relaxed) == 2).await;
    let first = received.recv().await.unwrap();
    assert_eq!((first.token.as_deref(), first.encoding, first.spans), (Some("word"), None, 3));
    drop(begin(&traces));
    wait_for(&traces, |counts| counts.sent.load(Relaxed) == 2).await;
    assert_eq!(seen(&traces), [2, 2, 0, 1]);
}

#[tokio::test]
async fn no_request_is_sent_before_the_delay_of_retry_info() {
    let delay = Duration::from_secs(3);
    let (options, mut received) = collector(vec![exhausted(ErrorDetails::with_retry_info(Some(delay)))]).await;
    let traces = start(&options);
    drop(begin(&traces));
    let first = timeout(PATIENCE, received.recv()).await.unwrap().unwrap().at;
    // A span that ends meanwhile has to wait too.
    drop(begin(&traces));
    let second = timeout(PATIENCE, received.recv()).await.unwrap().unwrap().at;
    assert!(second - first >= delay, "next request after {:?}", second - first);
    wait_for(&traces, |counts| counts.sent.load(Relaxed) == 2).await;
    assert_eq!(seen(&traces), [2, 0, 0, 1]);
}

#[tokio::test]
async fn long_delay_of_retry_info_is_not_cut() {
    // Longer than the 30 s of the library.
    let delay = Some(Duration::from_secs(120));
    let (options, _received) = collector(vec![exhausted(ErrorDetails::with_retry_info(delay))]).await;
    let answer = GrpcClient::new(&options).unwrap().send(&opentelemetry_http::Request::default()).await;
    assert_eq!((answer.status, answer.pause), (StatusCode::SERVICE_UNAVAILABLE, delay));
}

#[tokio::test]
async fn retry_info_holds_for_the_next_batch_of_a_refused_one() {
    let details = ErrorDetails::with_retry_info(Some(Duration::from_secs(2)));
    let refused = Status::with_error_details(Code::InvalidArgument, "no such tenant", details);
    let (options, mut received) = collector(vec![Err(refused)]).await;
    let traces = start(&options);
    drop(begin(&traces));
    wait_for(&traces, |counts| counts.dropped.load(Relaxed) == 1).await;
    drop(begin(&traces));
    wait_for(&traces, |counts| counts.sent.load(Relaxed) == 1).await;
    let (first, second) = (received.recv().await.unwrap().at, received.recv().await.unwrap().at);
    assert!(second - first >= Duration::from_secs(2), "next request after {:?}", second - first);
}

#[tokio::test]
async fn batch_is_dropped_after_resource_exhausted_without_retry_info() {
    let (options, mut received) = collector(vec![exhausted(ErrorDetails::new())]).await;
    let traces = start(&options);
    drop(begin(&traces));
    wait_for(&traces, |counts| counts.dropped.load(Relaxed) == 1).await;
    drop(begin(&traces));
    wait_for(&traces, |counts| counts.sent.load(Relaxed) == 1).await;
    assert_eq!(seen(&traces), [1, 0, 1, 1]);
    assert!(received.recv().await.is_some() && received.recv().await.is_some() && received.try_recv().is_err());
}

#[tokio::test]
async fn compressed_request_of_the_library_is_compressed_for_grpc() {
    let (options, mut received) = collector(vec![]).await;
    let scope_spans = vec![ScopeSpans { spans: vec![Sent::default(); 7], ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&ExportTraceServiceRequest { resource_spans }.encode_to_vec()).unwrap();
    let request = opentelemetry_http::Request::builder().header("content-encoding", "gzip");
    let request = request.body(gzip.finish().unwrap().into()).unwrap();
    let answer = GrpcClient::new(&options).unwrap().send(&request).await;
    assert_eq!((answer.status, answer.error), (StatusCode::OK, None));
    let received = received.recv().await.unwrap();
    assert_eq!((received.encoding.as_deref(), received.spans), (Some("gzip"), 7));
}

#[tokio::test]
async fn black_holed_ipv6_address_of_the_collector_costs_less_than_a_second() {
    let (options, mut received) = collector(vec![]).await;
    let port = options.endpoint.port();
    let hole = BlackHole::new(port).await;
    let endpoint = Url::parse(&format!("http://localhost:{port}")).unwrap();
    let sent = hole.costs_less_than_a_second(send(&TraceOptions { endpoint, ..options })).await;
    assert_eq!(sent, (StatusCode::OK, None));
    assert!(received.recv().await.is_some());
}

#[tokio::test]
async fn failed_connection_is_an_error_with_its_cause() {
    // Bound without a listener, so that no parallel test gets the port.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = socket.local_addr().unwrap();
    let options =
        TraceOptions { protocol: TraceProtocol::Grpc, ..options(Url::parse(&format!("http://{closed}")).unwrap()) };
    let (status, error) = send(&options).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let error = error.unwrap();
    assert!(error.starts_with("gRPC Unavailable: ") && error.contains("Connection refused"), "{error}");
}
