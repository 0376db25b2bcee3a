//! A collector over gRPC, in the place of one over HTTP: requests of the library's HTTP exporter are passed on to it.
//!
//! The library's own gRPC exporter cuts the delay of a `RetryInfo` to 30 s, forgets it with the batch, and does not return the cause of a
//! failure.

use std::{error::Error, fmt::Display, io::Read, iter};

use fairway_http::{StatusCode, grpc_connector, header, tls};
use flate2::read::GzDecoder;
use opentelemetry_http::{Bytes, Request};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse, trace_service_client::TraceServiceClient,
};
use prost::Message;
use tonic::{
    Code, Extensions, Status,
    codec::CompressionEncoding,
    metadata::MetadataMap,
    transport::{Channel, ClientTlsConfig, Endpoint, Identity},
};
use tonic_types::StatusExt;

use super::{TraceError, TraceOptions, collector::Answer};

/// The client of a collector.
#[derive(Clone, Debug)]
pub(super) struct GrpcClient {
    client: TraceServiceClient<Channel>,
    metadata: MetadataMap,
}

impl GrpcClient {
    /// Creates a client; connects to nothing yet.
    pub(super) fn new(options: &TraceOptions) -> Result<Self, TraceError> {
        let metadata = MetadataMap::from_headers(options.headers.clone());
        Ok(Self { client: TraceServiceClient::new(channel(options)?), metadata })
    }

    /// Passes on a request. The answer has the HTTP status that the OTLP specification treats like the gRPC status.
    pub(super) async fn send(&self, request: &Request<Bytes>) -> Answer {
        match self.export(request).await {
            Ok(response) => Answer { body: response.encode_to_vec().into(), ..Answer::default() },
            Err(status) => failure(&status),
        }
    }

    async fn export(&self, request: &Request<Bytes>) -> Result<ExportTraceServiceResponse, Status> {
        let malformed = |error: &dyn Display| Status::internal(error.to_string());
        let mut client = self.client.clone();
        let message = if request.headers().contains_key(header::CONTENT_ENCODING) {
            client = client.send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip);
            // gRPC compresses each message by itself.
            let mut body = Vec::new();
            GzDecoder::new(&**request.body()).read_to_end(&mut body).map_err(|error| malformed(&error))?;
            ExportTraceServiceRequest::decode(&*body)
        } else {
            ExportTraceServiceRequest::decode(request.body().clone())
        };
        let message = message.map_err(|error| malformed(&error))?;
        let request = tonic::Request::from_parts(self.metadata.clone(), Extensions::new(), message);
        client.export(request).await.map(tonic::Response::into_inner)
    }
}

fn failure(status: &Status) -> Answer {
    let retry = status.get_details_retry_info();
    let may_succeed_later = match status.code() {
        Code::Aborted
        | Code::Cancelled
        | Code::DataLoss
        | Code::DeadlineExceeded
        | Code::OutOfRange
        | Code::Unavailable => true,
        Code::ResourceExhausted => retry.is_some(),
        _ => false,
    };
    let cause = iter::successors(status.source(), |error| (*error).source()).last();
    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    Answer {
        status: if may_succeed_later { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::BAD_REQUEST },
        pause: retry.and_then(|retry| retry.retry_delay),
        error: Some(format!("gRPC {:?}: {}{cause}", status.code(), status.message())),
        body: Bytes::new(),
    }
}

fn channel(options: &TraceOptions) -> Result<Channel, TraceError> {
    let url = &options.endpoint;
    let scheme = if url.is_https() { "https" } else { "http" };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{}", url.authority())).map_err(TraceError::new)?;
    let mut endpoint = endpoint.timeout(options.timeout).connect_timeout(options.timeout);
    if url.is_https() {
        let roots = tls::roots(options.tls.ca.as_ref().map(|ca| ca.expose())).map_err(TraceError::new)?;
        let mut tls = ClientTlsConfig::new().trust_anchors(roots.roots.clone());
        if let Some((certificate, key)) = &options.tls.identity {
            tls = tls.identity(Identity::from_pem(certificate.expose(), key.expose()));
        }
        endpoint = endpoint.tls_config(tls).map_err(TraceError::new)?;
    }
    Ok(endpoint.connect_with_connector_lazy(grpc_connector()))
}
