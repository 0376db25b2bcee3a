//! Classifies the errors of probes as failures of the target or of the probe host, with the cause in a few words.

use std::{error::Error, io};

use fairway_model::Cause;
use rustls::{AlertDescription, CertificateError, InvalidMessage};

/// The reason why a probe did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The probe host failed: no file descriptor, port, memory or permission.
    ProbeHost(Cause),
    /// The target answered, but the check failed.
    Target(Cause),
    /// No answer.
    Silent(Cause),
    /// No route to the network.
    Unreachable(Cause),
}

impl Failure {
    /// Returns a failure of the target.
    pub(super) fn target(cause: impl Into<String>) -> Self {
        Self::Target(Cause::new(cause))
    }

    /// Returns the failure behind an error of any layer: sockets, TLS, HTTP/1, HTTP/2 and gRPC wrap one another.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut outermost = None;
        let mut innermost = error;
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(tls) = error.downcast_ref::<rustls::Error>() {
                return Self::Target(of_tls(tls));
            }
            if let Some(io) = error.downcast_ref::<io::Error>()
                && let Some(failure) = of_io(io)
            {
                return failure;
            }
            if let Some(text) = error.downcast_ref::<h2::Error>().and_then(of_http2) {
                return Self::target(text);
            }
            if let Some(http) = error.downcast_ref::<hyper::Error>()
                && let Some(text) = of_http(http)
            {
                outermost.get_or_insert(text);
            }
            innermost = error;
            next = error.source().or_else(|| inner(error));
        }
        outermost.map_or_else(|| Self::Target(Cause(shortened(&innermost.to_string()))), Self::target)
    }
}

/// The target sent more than the limit, in bytes.
#[derive(Debug, thiserror::Error)]
#[error("response over {} KiB", .0 / 1024)]
pub(super) struct ReadLimitExceeded(pub(super) usize);

/// Returns the error inside an I/O error, which `source` skips.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let inner = error.downcast_ref::<io::Error>()?.get_ref()?;
    Some(inner)
}

/// Returns the failure of a socket error; `None` if it only wraps another error.
fn of_io(error: &io::Error) -> Option<Failure> {
    if let Some(carried) = error.get_ref() {
        // rustls and the limited stream report their errors inside an I/O error.
        return match carried.downcast_ref::<rustls::Error>() {
            Some(tls) => Some(Failure::Target(of_tls(tls))),
            None if carried.is::<ReadLimitExceeded>() => Some(Failure::target(carried.to_string())),
            None if error.kind() == io::ErrorKind::UnexpectedEof => Some(closed()),
            // rustls has no type for this error.
            None if carried.to_string() == "message buffer full" => {
                Some(Failure::target("TLS: too many handshake messages"))
            }
            None => None,
        };
    }
    let observer = |text: &str| Some(Failure::ProbeHost(Cause::new(text)));
    match error.raw_os_error() {
        Some(libc::EMFILE) => return observer("no file descriptor left in this process"),
        Some(libc::ENFILE) => return observer("no file descriptor left on this machine"),
        Some(libc::ENOBUFS) => return observer("no socket buffer left on this machine"),
        Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => {
            return observer("address family not supported on this machine");
        }
        _ => {}
    }
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::AddrInUse | Kind::AddrNotAvailable => observer("no local port or address left for the probe"),
        Kind::OutOfMemory => observer("no memory left for the probe"),
        Kind::PermissionDenied => observer("connecting is not permitted on this machine"),
        Kind::NetworkDown => observer("network of this machine is down"),
        Kind::NetworkUnreachable => Some(Failure::Unreachable(Cause::new("network unreachable"))),
        Kind::HostUnreachable => Some(Failure::Silent(Cause::new("no route to the host"))),
        Kind::TimedOut => Some(Failure::Silent(Cause::new("connection timed out"))),
        Kind::ConnectionRefused => Some(Failure::target("connection refused")),
        Kind::ConnectionReset | Kind::BrokenPipe | Kind::ConnectionAborted => Some(Failure::target("connection reset")),
        Kind::UnexpectedEof => Some(closed()),
        _ => Some(Failure::Target(Cause(shortened(&error.to_string())))),
    }
}

/// Returns the failure of a connection that the target closed too early.
fn closed() -> Failure {
    Failure::target("connection closed before the response")
}

/// Returns the cause of an HTTP error; `None` if the wrapped error is more specific.
fn of_http(error: &hyper::Error) -> Option<String> {
    // hyper's `is_parse_too_large` is for servers only.
    let text = if error.is_parse() && error.to_string().contains("too large") {
        "response header over 16 KiB or 100 lines"
    } else if error.is_parse() {
        "response is not HTTP"
    } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        "connection closed before the response"
    } else {
        return None;
    };
    Some(text.to_owned())
}

/// Returns the cause of an HTTP/2 error, with the reason named as in RFC 9113 section 7; `None` if it only wraps another error.
fn of_http2(error: &h2::Error) -> Option<String> {
    let reason = error.reason()?;
    let what = match (error.is_remote(), error.is_go_away()) {
        (true, true) => "target closed the HTTP/2 connection",
        (true, false) => "target reset the HTTP/2 stream",
        (false, _) => "response violates HTTP/2",
    };
    Some(format!("{what}: {reason:?}"))
}

/// Returns the cause of a TLS error.
fn of_tls(error: &rustls::Error) -> Cause {
    use rustls::Error as Tls;
    match error {
        Tls::InvalidCertificate(error) => of_certificate(error),
        Tls::AlertReceived(AlertDescription::CertificateRequired) => Cause::new("target requires a client certificate"),
        Tls::AlertReceived(alert) => Cause(format!("TLS alert from the target: {alert:?}")),
        Tls::InvalidMessage(InvalidMessage::CertificatePayloadTooLarge | InvalidMessage::HandshakePayloadTooLarge) => {
            Cause::new("TLS: handshake message over 64 KiB, for example a certificate chain")
        }
        Tls::InvalidMessage(_) => Cause::new("response is not TLS"),
        Tls::NoApplicationProtocol => Cause::new("target offers no HTTP/2 over TLS"),
        other => Cause(shortened(&format!("TLS: {other}"))),
    }
}

/// Returns the cause of a rejected certificate.
fn of_certificate(error: &CertificateError) -> Cause {
    match error {
        CertificateError::NotValidForNameContext { expected, .. } => {
            Cause(shortened(&format!("certificate not valid for name {}", expected.to_str())))
        }
        CertificateError::NotValidForName => Cause::new("certificate not valid for the name"),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Cause::new("certificate expired"),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Cause::new("certificate not valid yet")
        }
        CertificateError::UnknownIssuer => Cause::new("certificate from an unknown authority"),
        CertificateError::Revoked => Cause::new("certificate revoked"),
        other => Cause(shortened(&format!("certificate: {other}"))),
    }
}

/// Returns the text as one line of at most 120 characters, because part of it may come from the target.
pub(super) fn shortened(text: &str) -> String {
    const LENGTH_MAX: usize = 120;
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LENGTH_MAX).collect();
    if text.chars().nth(LENGTH_MAX).is_some() {
        line.push('…');
    }
    line
}
