//! Errors of calls and of setting up a client.

use std::{error::Error, io, iter, time::Duration};

use crate::{StatusCode, tls::TlsError};

/// The error of a call: the attempt, the failure, and what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{attempt}: {failure}")]
pub struct HttpError {
    /// Method, scheme, host and port; the path if [`crate::Options::shows_path`]; the proxy or the socket that was used.
    pub attempt: String,
    /// The failure.
    pub failure: Failure,
}

/// The failure of a call.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The body of the response is over the limit.
    #[error("the body of the response is over {max} bytes")]
    BodyTooLarge {
        /// Maximum number of bytes allowed.
        max: usize,
    },
    /// The connection broke, or the server does not use HTTP.
    #[error("no complete HTTP answer: {0}; check that an HTTP server listens there")]
    Broken(String),
    /// No connection to the server, or to the proxy in front of it.
    #[error("cannot connect: {0}; check address and port, and that the server is running")]
    Connect(String),
    /// No connection within the time for connecting.
    #[error("no connection within {0:?}; check address, port and firewalls, or the proxy if one is used")]
    ConnectTimeout(Duration),
    /// The host's name has no address.
    #[error("cannot resolve the host name: {0}; check the name and the resolver of this machine")]
    Resolve(String),
    /// The client cannot be set up; nothing was sent.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The status is not 2xx.
    #[error("status {status}{}", after_colon(excerpt))]
    Status {
        /// The status.
        status: StatusCode,
        /// The beginning of the body.
        excerpt: String,
    },
    /// No complete response in time after connecting.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The server's certificate is for other names.
    #[error("TLS failed: {0}; use a name of the certificate in the URL")]
    CertificateName(String),
    /// The TLS handshake failed, usually because of an unknown CA.
    #[error("TLS failed: {0}; check the server's certificate and the configured CA")]
    Tls(String),
}

/// The error of setting up a client: TLS settings or a proxy that cannot be used. It shows no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SetupError(pub(crate) String);

impl From<TlsError> for SetupError {
    fn from(error: TlsError) -> Self {
        Self(error.to_string())
    }
}

impl Failure {
    /// Classifies an error of the library. `connect` and `total` are the time limits.
    pub(crate) fn of(error: &reqwest::Error, connect: Duration, total: Duration) -> Self {
        if let Some(tls) = causes(error).find_map(tls_error) {
            use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
            return match tls {
                rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
                    Self::CertificateName(tls.to_string())
                }
                _ => Self::Tls(tls.to_string()),
            };
        }
        if error.is_timeout() {
            return if error.is_connect() { Self::ConnectTimeout(connect) } else { Self::Timeout(total) };
        }
        // The innermost error has the cause; the outer ones only state that something failed.
        let why = causes(error).last().map_or_else(|| error.to_string(), ToString::to_string);
        if error.is_dns() {
            Self::Resolve(why)
        } else if error.is_connect() {
            Self::Connect(why)
        } else {
            Self::Broken(why)
        }
    }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(error.source(), |error: &&'a (dyn Error + 'static)| (*error).source())
}

/// Returns the error of rustls, if there is one. Errors of `io` may wrap it without returning it as their `source`.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    error.downcast_ref().or_else(|| tls_error(error.downcast_ref::<io::Error>()?.get_ref()?))
}

fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}
