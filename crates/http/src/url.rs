//! The URL of an HTTP server or of a document on it.

use std::{fmt, net::IpAddr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// An `http` or `https` URL with a host, and without user, password and fragment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url(pub(crate) url::Url);

/// Reason why a text is not accepted as a URL. No message shows the text: it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// A fragment is never sent to a server.
    #[error("the URL has a fragment")]
    Fragment,
    /// Plain HTTP to another machine, where only TLS is allowed.
    #[error("plain http is allowed to this machine only")]
    InClear,
    /// The text does not parse (RFC 3986).
    #[error("not a URL: {0}")]
    Malformed(&'static str),
    /// A path, where only scheme, host and port are allowed.
    #[error("the URL has a path")]
    Path,
    /// A query, where only a path is allowed.
    #[error("the URL has a query")]
    Query,
    /// A scheme other than `http` and `https`.
    #[error("the scheme is neither http nor https")]
    Scheme,
    /// A user or a password before the host.
    #[error("the URL holds a user or a password")]
    UserInfo,
}

impl UrlError {
    /// The change that makes the text acceptable.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Fragment => "remove the # and the text after it",
            Self::InClear => "write https://",
            Self::Malformed(_) | Self::Scheme => "write http://HOST:PORT or https://HOST:PORT",
            Self::Path => "end it after the port",
            Self::Query => "remove the ? and the text after it",
            Self::UserInfo => "remove the text before the @",
        }
    }
}

impl Url {
    /// Parses a text. Stricter than browsers, which also accept `http:host`, spaces and backslashes.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = text.split_once("://").map_or((None, text), |(scheme, rest)| (Some(scheme), rest));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // First of all: a caller may show a text that has another error.
        if authority.contains('@') {
            return Err(UrlError::UserInfo);
        }
        let scheme = scheme.ok_or(UrlError::Malformed("no scheme"))?;
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Err(UrlError::Scheme);
        }
        if authority.is_empty() {
            return Err(UrlError::Malformed("no host"));
        }
        if authority.ends_with(':') {
            return Err(UrlError::Malformed("no port after the colon"));
        }
        if text.contains(|c: char| c == '\\' || c.is_whitespace() || c.is_control()) {
            return Err(UrlError::Malformed("a space, a control character or a backslash"));
        }
        let url = url::Url::parse(text).map_err(|error| UrlError::Malformed(reason(error)))?;
        if url.fragment().is_some() {
            return Err(UrlError::Fragment);
        }
        if url.port() == Some(0) {
            return Err(UrlError::Malformed("port 0"));
        }
        Ok(Self(url))
    }

    /// Parses a URL that has no query: one that paths are appended to.
    pub fn parse_base(text: &str) -> Result<Self, UrlError> {
        let url = Self::parse(text)?;
        if url.0.query().is_some() { Err(UrlError::Query) } else { Ok(url) }
    }

    /// Parses a URL of scheme, host and port only: one of a gRPC server.
    pub fn parse_origin(text: &str) -> Result<Self, UrlError> {
        let url = Self::parse_base(text)?;
        if url.path() == "/" { Ok(url) } else { Err(UrlError::Path) }
    }

    /// Parses a URL whose answer nobody on the network may change: `https`, or any scheme to this machine. It has no query.
    pub fn parse_secure(text: &str) -> Result<Self, UrlError> {
        let url = Self::parse_base(text)?;
        if url.is_https() || url.is_loopback() { Ok(url) } else { Err(UrlError::InClear) }
    }

    /// True if the scheme is `https`.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// True if the host is `localhost` or a loopback address.
    pub fn is_loopback(&self) -> bool {
        self.host() == "localhost" || self.host().parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Name or address, without brackets.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    /// Host, and the port where it is not the scheme's default, as a `Host` header has them.
    pub fn authority(&self) -> &str {
        self.0.authority()
    }

    /// The path, `/` at least.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Path and query, as a request line has them.
    pub fn path_and_query(&self) -> &str {
        &self.0[url::Position::BeforePath..]
    }

    /// This URL with a path, and perhaps a query, appended to its path. Segments must be percent-encoded: see [`encode`].
    #[must_use]
    pub fn join(&self, suffix: &str) -> Self {
        let mut joined = self.0.clone();
        let (path, query) = suffix.split_once('?').map_or((suffix, None), |(path, query)| (path, Some(query)));
        joined.set_path(&format!("{}{path}", self.0.path().trim_end_matches('/')));
        joined.set_query(query);
        Self(joined)
    }

    /// This URL, or this URL with `path` if it has neither path nor query.
    #[must_use]
    pub fn with_default_path(&self, path: &str) -> Self {
        if self.path_and_query() == "/" { self.join(path) } else { self.clone() }
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> &str {
        &self.0[..url::Position::BeforePath]
    }

    /// Scheme, host, port and path.
    pub fn without_query(&self) -> &str {
        &self.0[..url::Position::AfterPath]
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

/// Percent-encodes everything except the unreserved characters of RFC 3986 section 2.3, so that the text is one segment of a path
/// or one value of a query.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn reason(error: url::ParseError) -> &'static str {
    match error {
        url::ParseError::EmptyHost => "no host",
        url::ParseError::InvalidPort => "the port is not a number up to 65535",
        url::ParseError::InvalidIpv4Address => "invalid IPv4 address",
        url::ParseError::InvalidIpv6Address => "invalid IPv6 address",
        _ => "invalid host name",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_parts_are_those_of_the_text() {
        let url = Url::parse("http://[::1]:8081/base/?a=b").unwrap();
        assert_eq!((url.host(), url.port(), url.authority()), ("::1", 8081, "[::1]:8081"));
        assert_eq!((url.path(), url.path_and_query()), ("/base/", "/base/?a=b"));
        assert_eq!(url.without_query(), "http://[::1]:8081/base/");
        let url = Url::parse("https://dns.example").unwrap();
        assert_eq!((url.host(), url.port(), url.path_and_query()), ("dns.example", 443, "/"));
        assert!(url.is_https() && !url.is_loopback());
        assert_eq!(Url::parse("http://dns.example").unwrap().port(), 80);
    }

    #[test]
    fn url_malformed_is_rejected() {
        use UrlError::{Fragment, Malformed, Scheme, UserInfo};
        for (text, error) in [
            ("", Malformed("no scheme")),
            ("dns.example", Malformed("no scheme")),
            ("http:dns.example", Malformed("no scheme")),
            ("http:///path", Malformed("no host")),
            ("http://:80/", Malformed("no host")),
            ("http://a:99999/", Malformed("the port is not a number up to 65535")),
            ("http://a:0/", Malformed("port 0")),
            ("http://[::1/", Malformed("invalid IPv6 address")),
            ("http://a b/", Malformed("a space, a control character or a backslash")),
            ("ftp://dns.example", Scheme),
            ("http://a:/", Malformed("no port after the colon")),
            ("http://me@dns.example", UserInfo),
            ("ftp://secret@dns.example", UserInfo),
            ("me:secret@dns.example/", UserInfo),
            ("http://dns.example/#a", Fragment),
        ] {
            assert_eq!(Url::parse(text), Err(error), "{text}");
        }
        assert_eq!(Url::parse_base("http://dns.example/?a"), Err(UrlError::Query));
        assert_eq!(Url::parse_origin("http://dns.example/v3"), Err(UrlError::Path));
        assert_eq!(Url::parse_origin("http://[::1]:2379/").unwrap().origin(), "http://[::1]:2379");
    }

    #[test]
    fn url_secure_is_https_or_loopback() {
        for text in ["https://id.example/realm", "http://127.0.0.1:9/keys", "http://[::1]/", "http://localhost/"] {
            assert!(Url::parse_secure(text).is_ok(), "{text}");
        }
        assert_eq!(Url::parse_secure("http://id.example/"), Err(UrlError::InClear));
        assert_eq!(Url::parse_secure("http://localhost.example/"), Err(UrlError::InClear));
    }

    #[test]
    fn url_join_appends_path_and_query() {
        for (base, suffix, joined) in [
            ("https://id.example/realm/", "/.well-known/a", "https://id.example/realm/.well-known/a"),
            ("http://pdns:8081", "/api/v1?x=1&y=a%26b", "http://pdns:8081/api/v1?x=1&y=a%26b"),
            ("http://pdns:8081/", "", "http://pdns:8081/"),
            ("http://pdns:8081/base", "/zones/a%2Fb.", "http://pdns:8081/base/zones/a%2Fb."),
        ] {
            assert_eq!(Url::parse(base).unwrap().join(suffix).to_string(), joined, "{base} {suffix}");
        }
    }

    #[test]
    fn encode_keeps_unreserved_characters_only() {
        assert_eq!(encode("a-b._~/?&=é*"), "a-b._~%2F%3F%26%3D%C3%A9%2A");
    }
}
