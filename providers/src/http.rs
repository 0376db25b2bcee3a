//! Calls of a provider's HTTP API: a connection each, over TLS or plain, bounded in size. Whoever calls bounds the time.

use std::{io, sync::Arc};

use fairway_model::Secret;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Uri,
    body::Bytes,
    client::conn::http1,
    header::{CONNECTION, CONTENT_TYPE, HOST, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, pki_types::ServerName},
};

use crate::publish::ProviderError;

/// Where an HTTP API is: `http://HOST:PORT/PATH` or `https://…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiUrl {
    host: String,
    port: u16,
    is_tls: bool,
    /// Before all paths; without a slash at its end.
    base: String,
}

impl ApiUrl {
    /// Reads a URL without user and query.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "it is no URL")?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("it has no scheme http or https"),
        };
        let authority = uri.authority().ok_or("it has no host")?;
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err("it has a user or a query");
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Self { host, port, is_tls, base: uri.path().trim_end_matches('/').to_owned() })
    }

    /// Whether it is spoken to over TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// An HTTP API and how it is spoken to.
#[derive(Clone, Debug)]
pub struct Api {
    /// Where it is.
    pub url: ApiUrl,
    /// How TLS is spoken; needed for an https URL.
    pub tls: Option<Arc<ClientConfig>>,
    /// A header that shows who we are.
    pub secret: Option<(&'static str, Secret)>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The beginning of its body, for an error.
    pub(crate) fn told(&self) -> String {
        let text = String::from_utf8_lossy(&self.body[..self.body.len().min(TOLD_MAX)]).into_owned();
        format!("status {}: {}", self.status, text.trim())
    }

    /// What a status that is not the expected one means: 5xx may pass, others are about what was sent.
    pub(crate) fn failure(&self) -> ProviderError {
        match self.status {
            401 | 403 | 404 | 408 | 429 | 500.. => ProviderError::Unavailable(self.told()),
            _ => ProviderError::Refused(self.told()),
        }
    }
}

impl Api {
    /// One request.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Vec<u8>,
    ) -> Result<Answer, ProviderError> {
        let request = self.request(method, path, headers, body);
        let request =
            request.map_err(|error| ProviderError::Unavailable(format!("no request can be written: {error}")))?;
        let broken = |error: io::Error| ProviderError::Unavailable(format!("{}: {error}", self.url.authority()));
        let stream = TcpStream::connect((self.url.host.as_str(), self.url.port)).await.map_err(broken)?;
        if !self.url.is_tls {
            return exchange(stream, request).await;
        }
        let tls =
            self.tls.clone().ok_or_else(|| broken(io::Error::other("there are no trust anchors to check TLS by")))?;
        let name = ServerName::try_from(self.url.host.clone()).map_err(|error| broken(io::Error::other(error)))?;
        exchange(TlsConnector::from(tls).connect(name, stream).await.map_err(broken)?, request).await
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url.base))
            .header(HOST, self.url.authority())
            .header(USER_AGENT, concat!("fairway/", env!("CARGO_PKG_VERSION")))
            .header(CONNECTION, "close");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some((name, secret)) = &self.secret {
            request = request.header(*name, secret.expose());
        }
        request.body(Full::new(body.into()))
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Answer, ProviderError> {
    let broken = |error: &dyn std::fmt::Display| ProviderError::Unavailable(format!("the answer broke off: {error}"));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    let asking = async {
        let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
        let status = response.status().as_u16();
        let content_type =
            response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = Limited::new(response.into_body(), BODY_MAX).collect().await.map_err(|error| broken(&error))?;
        Ok(Answer { status, content_type, body: body.to_bytes() })
    };
    let (mut asking, mut connection) = (std::pin::pin!(asking), std::pin::pin!(connection));
    // One task for both, so that nothing is left where the time is up.
    tokio::select! {
        biased;
        answer = &mut asking => answer,
        _ = &mut connection => asking.await,
    }
}

/// Most octets of an answer: as many as ExternalDNS takes.
const BODY_MAX: usize = 32 << 20;
/// Most octets of an answer that an error shows.
const TOLD_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_others_are_refused() {
        let url = ApiUrl::parse("http://[::1]:8081/base/").unwrap();
        assert_eq!((url.authority().as_str(), &*url.base, url.is_tls()), ("[::1]:8081", "/base", false));
        assert_eq!(ApiUrl::parse("https://dns.example").unwrap().port, 443);
        for text in ["", "dns.example", "ftp://dns.example", "http://me@dns.example", "http://dns.example/?a"] {
            assert!(ApiUrl::parse(text).is_err(), "{text}");
        }
    }
}
