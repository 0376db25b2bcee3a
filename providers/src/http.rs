//! Calls of a provider's HTTP API.

use std::time::Duration;

use fairway_http::{
    Client, Failure, Method, Options, Request, Response, Tls, Url,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use fairway_model::Secret;

use crate::publish::ProviderError;

/// An HTTP API: its base URL, the client that calls it, and the header with our secret.
#[derive(Clone, Debug)]
pub struct Api {
    url: Url,
    client: Client,
    /// Name and value of the header that authenticates us.
    pub secret: Option<(&'static str, Secret)>,
}

impl Api {
    /// Creates an API below `url`. Each call sends the header `secret` (name and value) and takes at most `timeout`.
    pub fn new(url: Url, tls: Tls, secret: Option<(&'static str, Secret)>, timeout: Duration) -> Self {
        let client = Client::new(Options { tls, shows_path: true, ..Options::new(timeout, BODY_MAX) });
        Self { url, client, secret }
    }

    /// Sends one request to a path below the API's URL.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Vec<u8>,
    ) -> Result<Answer, ProviderError> {
        let mut request = Request { body, ..Request::new(method, self.url.join(path)) };
        let secret = self.secret.iter().map(|(name, secret)| (*name, secret.expose()));
        for (name, value) in headers.iter().copied().chain(secret) {
            let mut value = HeaderValue::from_str(value).map_err(|_| {
                ProviderError::Unavailable(format!("header {name} cannot be sent: its value is not visible ASCII"))
            })?;
            value.set_sensitive(true);
            request.headers.insert(HeaderName::from_static(name), value);
        }
        let answer = self.client.send(request).await;
        answer.map(Answer).map_err(|error| match error.failure {
            Failure::Timeout(limit) => ProviderError::Late(limit),
            _ => ProviderError::Unavailable(error.to_string()),
        })
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer(Response);

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.0.status.as_u16()
    }

    pub(crate) fn content_type(&self) -> Option<&str> {
        self.0.headers.get(CONTENT_TYPE)?.to_str().ok()
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.0.body
    }

    /// Status and the beginning of the body, for an error.
    pub(crate) fn excerpt(&self) -> String {
        format!("status {}: {}", self.status(), self.0.excerpt())
    }

    /// The error of an unexpected status: 5xx and a few others may pass, the rest is about what was sent.
    pub(crate) fn failure(&self) -> ProviderError {
        match self.status() {
            401 | 403 | 404 | 408 | 429 | 500.. => ProviderError::Unavailable(self.excerpt()),
            _ => ProviderError::Refused(self.excerpt()),
        }
    }
}

/// Maximum number of bytes of an answer: as many as ExternalDNS takes.
const BODY_MAX: usize = 32 << 20;
