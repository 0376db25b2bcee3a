//! One POST of a small body, over HTTP/1.1 in clear or over TLS. Redirects are not followed; a body that comes back is not read.

use std::{io, sync::Arc, time::Duration};

use http_body_util::Full;
use hyper::{
    Method, Request, StatusCode,
    body::Bytes,
    client::conn::http1,
    header::{CONNECTION, HOST, HeaderMap, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::ClientConfig;

use fairway_config::WebUrl;
use fairway_http::https;

/// Why a message was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    /// No connection, or no TLS over it.
    #[error("no connection: {0}")]
    Connect(#[from] io::Error),
    /// What came back is no HTTP.
    #[error("no HTTP answer: {0}")]
    Http(#[from] hyper::Error),
    /// Nothing came back.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// A request that cannot be written: the URL was read, so there is none.
    #[error("no request: {0}")]
    Request(#[from] hyper::http::Error),
    /// The receiver does not want it.
    #[error("the answer is {0}; only a status 2xx says that it was taken")]
    Status(StatusCode),
}

/// Sends the body; any status of 2xx says that it was taken. Without `tls`, an https URL is spoken to by the system's trust anchors.
/// Whoever calls limits the time.
pub(crate) async fn post(
    url: &WebUrl,
    tls: Option<Arc<ClientConfig>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(), PostError> {
    let stream = https::connect(url.host(), url.port()).await?;
    if !url.is_https() {
        return exchange(stream, url, headers, body).await;
    }
    let tls = match tls {
        Some(tls) => tls,
        None => Arc::new(https::beside(|| https::client_config(None, None)).await?),
    };
    exchange(https::over_tls(tls, url.host(), stream).await?, url, headers, body).await
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    url: &WebUrl,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(), PostError> {
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(HEADER_MAX).handshake(TokioIo::new(stream)).await?;
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(url.path_and_query())
        .header(HOST, url.authority())
        .header(USER_AGENT, concat!("fairway/", env!("CARGO_PKG_VERSION")))
        .header(CONNECTION, "close")
        .body(Full::new(body))?;
    request.headers_mut().extend(headers);
    let status = {
        let mut answer = std::pin::pin!(sender.send_request(request));
        let mut connection = std::pin::pin!(connection);
        // One task for both, so that nothing is left where the time is up. The connection may end first, with the
        // answer handed over already.
        tokio::select! {
            biased;
            answer = &mut answer => answer?.status(),
            _ = &mut connection => answer.await?.status(),
        }
    };
    if status.is_success() { Ok(()) } else { Err(PostError::Status(status)) }
}

/// Longest header of an answer.
const HEADER_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests;
