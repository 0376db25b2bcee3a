//! The HTTP/1.1 request of a probe, and what its answer must show.
//!
//! Redirects are answers like others; nothing is followed. The body is read only where a text in it is wanted.

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
    Phase, Place,
    failure::{Failure, in_short},
};

/// Longest response header read.
const HEADER_MAX: usize = 16 * 1024;
/// Most of a body looked at.
const BODY_MAX: usize = 64 * 1024;

/// Everything of an HTTP check but its connection.
#[derive(Debug)]
pub(super) struct Plan {
    /// `GET` or `HEAD`.
    pub(super) method: Method,
    /// Request target in origin form.
    pub(super) target: Uri,
    /// Headers sent; with `host` if the check has one.
    pub(super) headers: HeaderMap,
    /// Port that an address in `host` leaves out.
    pub(super) default_port: u16,
    /// Statuses that pass.
    pub(super) status: StatusSet,
    /// Text the body must contain.
    pub(super) body: Option<String>,
    /// Header the answer must have, and text it must contain.
    pub(super) response_header: Option<(HeaderName, Option<String>)>,
}

impl Plan {
    /// Sends the request over `stream` and looks at the answer.
    pub(super) async fn run<S>(&self, stream: S, place: Place<'_>, phase: &mut Phase) -> Result<(), Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        *phase = Phase::Response;
        let answered = async |response: Response<Incoming>| {
            self.check_header(&response)?;
            *phase = Phase::Body;
            self.check_body(response.into_body()).await
        };
        self.ask(stream, place, answered).await
    }

    /// Sends the request over `stream`, and lets `answered` have the answer.
    pub(super) async fn ask<S, E>(
        &self,
        stream: S,
        place: Place<'_>,
        answered: impl AsyncFnOnce(Response<Incoming>) -> Result<(), E>,
    ) -> Result<(), E>
    where
        S: AsyncRead + AsyncWrite + Unpin,
        E: From<Failure>,
    {
        let request = self.request(place)?;
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(HEADER_MAX)
            .handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
            .await
            .map_err(|error| Failure::of(&error))?;
        let mut connection = pin!(connection);
        let mut exchange = pin!(async {
            let response = sender.send_request(request).await.map_err(|error| Failure::of(&error))?;
            answered(response).await
        });
        // Both in one task: the connection moves the bytes that the exchange waits for. It may end first, with its last
        // bytes already handed over.
        let mut open = true;
        loop {
            tokio::select! {
                biased;
                result = &mut exchange => return result,
                _ = &mut connection, if open => open = false,
            }
        }
    }

    fn request(&self, place: Place<'_>) -> Result<Request<Empty<Bytes>>, Failure> {
        let mut request = Request::new(Empty::new());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = self.headers.clone();
        if !self.headers.contains_key(HOST) {
            let authority = place.authority(self.default_port);
            let value = HeaderValue::try_from(authority)
                .map_err(|_| Failure::Observer(Cause::new("address cannot be sent as Host header")))?;
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
                Err(Failure::target(in_short(&format!("header {name} lacks {text:?}"))))
            }
            _ => Ok(()),
        }
    }

    async fn check_body(&self, mut body: Incoming) -> Result<(), Failure> {
        let Some(text) = self.body.as_deref() else { return Ok(()) };
        let mut seen = Vec::new();
        // Where the text may still begin: what was searched is not searched again, however small the pieces come.
        let mut begin = 0;
        while !contains(&seen[begin..], text.as_bytes()) {
            begin = seen.len().saturating_sub(text.len());
            if seen.len() >= BODY_MAX {
                return Err(Failure::target(in_short(&format!("first 64 KiB of the body lack {text:?}"))));
            }
            let Some(frame) = body.frame().await else {
                return Err(Failure::target(in_short(&format!("body lacks {text:?}"))));
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
