//! The HTTP/1.1 request of a probe, and the check of its response.
//!
//! Redirects are not followed. The body is read only if the check requires a text in it.

use std::pin::pin;

use fairway_model::{Cause, StatusSet};
use http_body_util::{BodyExt, Empty};
use hyper::{
    HeaderMap, Method, Request, Response, Uri,
    body::{Bytes, Incoming},
    client::conn::http1,
    header::{HOST, HeaderName, HeaderValue},
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    endpoint::{Phase, ProbeEndpoint},
    failure::{Failure, shortened},
};

/// Largest response header that is read, in bytes: twice the 8 KiB that common servers send at most.
const HEADER_MAX: usize = 16 * 1024;
/// Largest part of a body that is searched, in bytes.
const BODY_MAX: usize = 64 * 1024;

/// The request of an HTTP check and the conditions on its response.
#[derive(Debug)]
pub(crate) struct HttpProbe {
    /// `GET` or `HEAD`.
    pub(super) method: Method,
    /// Request target in origin form.
    pub(super) target: Uri,
    /// Headers of the request, including Host if the check sets it.
    pub(super) headers: HeaderMap,
    /// Default port of the scheme, which Host omits.
    pub(super) default_port: u16,
    /// Statuses that pass.
    pub(super) status: StatusSet,
    /// Text that the body must contain.
    pub(super) body: Option<String>,
    /// Header that the response must have, and text that it must contain.
    pub(super) response_header: Option<(HeaderName, Option<String>)>,
}

impl HttpProbe {
    /// Sends the request over `stream` and checks the response.
    pub(super) async fn run<S>(&self, stream: S, endpoint: ProbeEndpoint<'_>, phase: &mut Phase) -> Result<(), Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        *phase = Phase::Response;
        let handle = async |response: Response<Incoming>| {
            self.check_header(&response)?;
            *phase = Phase::Body;
            self.check_body(response.into_body()).await
        };
        self.send(stream, endpoint, handle).await
    }

    /// Sends the request over `stream` and passes the response to `handle`.
    pub(crate) async fn send<S, E>(
        &self,
        stream: S,
        endpoint: ProbeEndpoint<'_>,
        handle: impl AsyncFnOnce(Response<Incoming>) -> Result<(), E>,
    ) -> Result<(), E>
    where
        S: AsyncRead + AsyncWrite + Unpin,
        E: From<Failure>,
    {
        let request = self.request(endpoint)?;
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(HEADER_MAX)
            .handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
            .await
            .map_err(|error| Failure::of(&error))?;
        let mut connection = pin!(connection);
        let mut exchange = pin!(async {
            let response = sender.send_request(request).await.map_err(|error| Failure::of(&error))?;
            handle(response).await
        });
        // Both run in one task: the connection transfers the bytes that the exchange waits for. It may end first, after it
        // has delivered its last bytes.
        let mut open = true;
        loop {
            tokio::select! {
                biased;
                result = &mut exchange => return result,
                _ = &mut connection, if open => open = false,
            }
        }
    }

    fn request(&self, endpoint: ProbeEndpoint<'_>) -> Result<Request<Empty<Bytes>>, Failure> {
        let mut request = Request::new(Empty::new());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = self.headers.clone();
        if !self.headers.contains_key(HOST) {
            let authority = endpoint.authority(self.default_port);
            let value = HeaderValue::try_from(authority)
                .map_err(|_| Failure::ProbeHost(Cause::new("the address cannot be sent as Host header")))?;
            request.headers_mut().insert(HOST, value);
        }
        Ok(request)
    }

    fn check_header(&self, response: &Response<Incoming>) -> Result<(), Failure> {
        let status = response.status().as_u16();
        if !self.status.contains(status) {
            return Err(Failure::target(format!("status {status}")));
        }
        let Some((name, text)) = &self.response_header else { return Ok(()) };
        let mut values = response.headers().get_all(name).iter().peekable();
        if values.peek().is_none() {
            return Err(Failure::target(format!("response lacks header {name}")));
        }
        match text {
            Some(text) if !values.any(|value| contains(value.as_bytes(), text.as_bytes())) => {
                Err(Failure::target(shortened(&format!("header {name} lacks {text:?}"))))
            }
            _ => Ok(()),
        }
    }

    async fn check_body(&self, mut body: Incoming) -> Result<(), Failure> {
        let Some(text) = self.body.as_deref() else { return Ok(()) };
        let mut seen = Vec::new();
        // Index from which the text may still begin, so that small pieces do not cause repeated searches.
        let mut begin = 0;
        while !contains(&seen[begin..], text.as_bytes()) {
            begin = seen.len().saturating_sub(text.len());
            if seen.len() >= BODY_MAX {
                return Err(Failure::target(shortened(&format!("first 64 KiB of the body lack {text:?}"))));
            }
            let Some(frame) = body.frame().await else {
                return Err(Failure::target(shortened(&format!("body lacks {text:?}"))));
            };
            let frame = frame.map_err(|error| Failure::of(&error))?;
            if let Some(data) = frame.data_ref() {
                seen.extend_from_slice(&data[..data.len().min(BODY_MAX - seen.len())]);
            }
        }
        Ok(())
    }
}

/// Returns true if `text` occurs in `bytes`.
fn contains(bytes: &[u8], text: &[u8]) -> bool {
    text.is_empty() || bytes.windows(text.len()).any(|window| window == text)
}
