//! One POST of a small JSON body, over HTTP/1.1 in clear or over TLS. Redirects are not followed; a body that comes back is
//! not read.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

use http_body_util::Full;
use hyper::{
    Method, Request, StatusCode,
    body::Bytes,
    client::conn::http1,
    header::{CONNECTION, CONTENT_TYPE, HOST, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::oneshot,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{self, ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};

use crate::config::CallbackUrl;

/// Why a message was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostError {
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
    /// TLS cannot be configured.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Sends the body; any status of 2xx says that it was taken. Whoever calls limits the time.
pub(super) async fn post(url: &CallbackUrl, body: String) -> Result<(), PostError> {
    let (host, port) = (url.host().to_owned(), url.port());
    let addresses: Vec<SocketAddr> =
        beside(move || Ok((host.as_str(), port).to_socket_addrs()?.take(ADDRESSES_MAX).collect())).await?;
    let stream = TcpStream::connect(&addresses[..]).await?;
    if url.is_https() {
        let roots = beside(system_roots).await?;
        exchange(over_tls(url, roots, stream).await?, url, body).await
    } else {
        exchange(stream, url, body).await
    }
}

/// Does what blocks on a thread that nobody waits for: the runtime would wait at its end for what it runs itself, and a
/// resolver may take half a minute.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let (done, outcome) = oneshot::channel();
    let thread = std::thread::Builder::new().name("ready-callback".to_owned());
    // Whoever gave up on it needs no outcome.
    thread.spawn(move || drop(done.send(work())))?;
    outcome.await.unwrap_or_else(|_| Err(io::Error::other("the thread for it ended early")))
}

/// The system's trust anchors, also those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
fn system_roots() -> io::Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() { Err(io::Error::other("no trust anchors on this machine")) } else { Ok(roots) }
}

async fn over_tls(
    url: &CallbackUrl,
    roots: RootCertStore,
    stream: TcpStream,
) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + 'static, PostError> {
    let name = ServerName::try_from(url.host().to_owned()).map_err(io::Error::other)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    url: &CallbackUrl,
    body: String,
) -> Result<(), PostError> {
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(HEADER_MAX).handshake(TokioIo::new(stream)).await?;
    let request = Request::builder()
        .method(Method::POST)
        .uri(url.path_and_query())
        .header(HOST, url.authority())
        .header(USER_AGENT, concat!("fairway/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json")
        .header(CONNECTION, "close")
        .body(Full::new(Bytes::from(body)))?;
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
/// Most addresses of the host that are tried.
const ADDRESSES_MAX: usize = 8;

#[cfg(test)]
mod tests;
