//! One GET of a small document, over TLS or on this machine. Redirects are not followed: the address that was configured is the one
//! that is trusted.

use std::{io, sync::Arc, time::Duration};

use http_body_util::{BodyExt, Empty, Limited};
use hyper::{
    Request, StatusCode,
    body::Bytes,
    client::conn::http1,
    header::{ACCEPT, CONNECTION, HOST, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::ClientConfig;

use super::issuer::IssuerUrl;
use fairway_http::https;

/// Why a document is not there.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// No connection, or no TLS over it.
    #[error("no connection: {0}")]
    Connect(#[from] io::Error),
    /// What came back is no HTTP.
    #[error("no HTTP answer: {0}")]
    Http(#[from] hyper::Error),
    /// The body is too long, or broke off.
    #[error("no whole answer of at most {BODY_MAX} octets: {0}")]
    Body(String),
    /// Nothing came back.
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Late,
    /// A request that cannot be written: the URL was read, so there is none.
    #[error("no request: {0}")]
    Request(#[from] hyper::http::Error),
    /// It is not there.
    #[error("the answer is {0}")]
    Status(StatusCode),
}

/// The document at a URL.
pub(super) async fn get(url: &IssuerUrl, tls: &Arc<ClientConfig>) -> Result<Bytes, FetchError> {
    let asking = async {
        let stream = https::connect(url.host(), url.port()).await?;
        if url.is_https() {
            exchange(https::over_tls(Arc::clone(tls), url.host(), stream).await?, url).await
        } else {
            exchange(stream, url).await
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.map_err(|_| FetchError::Late)?
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    url: &IssuerUrl,
) -> Result<Bytes, FetchError> {
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(HEADER_MAX).handshake(TokioIo::new(stream)).await?;
    let request = Request::builder()
        .uri(url.path())
        .header(HOST, url.authority())
        .header(USER_AGENT, concat!("fairway/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT, "application/json")
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())?;
    let answer = async {
        let response = sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(FetchError::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), BODY_MAX).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|error| FetchError::Body(error.to_string()))
    };
    let (mut answer, mut connection) = (std::pin::pin!(answer), std::pin::pin!(connection));
    // One task for both, so that nothing is left where the time is up.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    }
}

/// Longest time for the whole of it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest header of an answer.
const HEADER_MAX: usize = 16 << 10;
/// Most octets of a document: a hundred keys with their certificates.
const BODY_MAX: usize = 1 << 20;
