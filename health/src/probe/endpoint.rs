//! The endpoint of a probe and the phases of a probe.

use std::net::SocketAddr;

/// Largest number of bytes read from one target in one probe, including TLS: 16 KiB of header, 64 KiB of body, a
/// certificate chain of at most 64 KiB, and the rest for framing.
pub(super) const READ_MAX: usize = 256 * 1024;

/// The address that a probe connects to, with the host name that was resolved to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeEndpoint<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) host: Option<&'a str>,
}

impl ProbeEndpoint<'_> {
    /// Returns host and port for a request, without the port if it is the default of the scheme (RFC 9110 section 4.2.3).
    pub(super) fn authority(&self, default_port: u16) -> String {
        let port = self.address.port();
        match (self.host, port == default_port) {
            (Some(host), true) => host.to_owned(),
            (Some(host), false) => format!("{host}:{port}"),
            (None, true) if self.address.is_ipv6() => format!("[{}]", self.address.ip()),
            (None, true) => self.address.ip().to_string(),
            (None, false) => self.address.to_string(),
        }
    }
}

/// The current phase of a probe, named in the cause of a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, strum::Display)]
pub(super) enum Phase {
    /// The TCP handshake.
    #[strum(to_string = "connecting")]
    Connect,
    /// The TLS handshake.
    #[strum(to_string = "in TLS handshake")]
    Tls,
    /// Sending the request and waiting for the response.
    #[strum(to_string = "waiting for the response")]
    Response,
    /// Reading the body after a header that passed.
    #[strum(to_string = "reading the body")]
    Body,
}
