//! Errors of a monitor that cannot be probed with.

use std::time::Duration;

/// The reason why no probe can run with a monitor: the field, what is wrong with it, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// Invalid trust anchors.
    #[error("ca: {0}; give at least one certificate in PEM")]
    Ca(String),
    /// An invalid client certificate.
    #[error("client certificate: {0}; give the certificate and its chain in PEM")]
    ClientCertificate(String),
    /// An invalid client key, or the key of another certificate.
    #[error("client key: {0}; give the private key of the client certificate in PEM")]
    ClientKey(String),
    /// A count of zero.
    #[error("{0} is 0; give the number of consecutive results, at least 1")]
    Count(&'static str),
    /// A request header that cannot be sent.
    #[error("header {0:?} cannot be sent; a name has letters, digits and hyphens, a value visible characters")]
    Header(String),
    /// A request header that the probe sets itself.
    #[error("header {0:?} is set by the probe, which sends no body; remove it")]
    Framing(String),
    /// A Host header that is not a host name.
    #[error("host {0:?} is not a host name; write it like shop.example or shop.example:8443")]
    Host(String),
    /// A required body in the response to HEAD.
    #[error("body: a response to HEAD has no body; write method GET, or remove body")]
    HeadBody,
    /// A method other than GET or HEAD.
    #[error("method {0:?} is not supported; write GET or HEAD")]
    Method(String),
    /// An invalid request target.
    #[error("path {0:?} is not a request target; write it like /healthz/ready")]
    Path(String),
    /// A period below the minimum.
    #[error("period {0:?} is too short; give at least 50ms")]
    Period(Duration),
    /// Port 0.
    #[error("port is 0; give 1 to 65535")]
    Port,
    /// A server name that no certificate can be valid for.
    #[error("server name {0:?} is not a DNS name or address; write it like gateway.example")]
    ServerName(String),
    /// No trust anchors on this machine.
    #[error("no trust anchors on this machine ({0}); install its CA certificates, or give the monitor a ca")]
    SystemRoots(String),
    /// A timeout of zero or longer than the period.
    #[error("timeout {timeout:?} is not between 0 and the period {period:?}; give a timeout of at most the period")]
    Timeout {
        /// The timeout.
        timeout: Duration,
        /// The period.
        period: Duration,
    },
    /// A TLS configuration that rustls rejects.
    #[error("tls: {0}")]
    Tls(String),
}
