//! How an etcd is reached.

use std::{fmt, fs, path::PathBuf, str::FromStr, time::Duration};

use fairway_model::Secret;
use http::{Uri, uri::PathAndQuery};

/// The servers of one etcd and the credentials for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// At least one. When one fails, the next one is asked.
    pub endpoints: Vec<Endpoint>,
    /// User name and password. `None`: etcd asks for none, or takes the user from the client certificate.
    pub user: Option<(String, Source)>,
    /// Trust anchors for the servers' certificates (PEM). `None`: those of the system.
    pub ca: Option<Source>,
    /// Client certificate chain and its key (PEM). `None`: none is sent.
    pub identity: Option<(Source, Source)>,
    /// Maximum time that one endpoint has to answer.
    pub endpoint_timeout: Duration,
    /// Maximum time of a call, with attempts at other endpoints. At least `endpoint_timeout`.
    pub call_timeout: Duration,
}

/// Where a password or a PEM text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a file, which is read at every new connection, so that a renewed one takes effect.
    File(PathBuf),
    /// In the settings themselves.
    Text(Secret),
}

impl Source {
    pub(crate) fn read(&self) -> Result<String, String> {
        match self {
            Self::File(path) => fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display())),
            Self::Text(text) => Ok(text.expose().to_owned()),
        }
    }

    /// Reads a password. A line break at its end is not part of it: editors put one at the end of a file.
    pub(crate) fn read_line(&self) -> Result<String, String> {
        Ok(self.read()?.trim_end_matches(['\r', '\n']).to_owned())
    }
}

/// URL of one etcd server: `http://HOST:PORT` or `https://HOST:PORT`, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(String);

impl Endpoint {
    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.0.starts_with("https:")
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let uri: Uri = text.parse().map_err(|_| EndpointError::NotUrl)?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(EndpointError::NoScheme);
        };
        if authority.as_str().contains('@') {
            return Err(EndpointError::Credentials);
        }
        if !matches!(uri.path_and_query().map_or("/", PathAndQuery::as_str), "" | "/") {
            return Err(EndpointError::Path);
        }
        Ok(Self(format!("{scheme}://{authority}")))
    }
}

/// Why a text is no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It cannot be read as a URL.
    #[error("not a URL")]
    NotUrl,
    /// It has no scheme `http` or `https`, or no host.
    #[error("the URL has no scheme http or https, or no host")]
    NoScheme,
    /// It holds a user or a password.
    #[error("the URL holds a user or a password")]
    Credentials,
    /// It has a path or a query, which gRPC has no use for.
    #[error("the URL has a path or a query")]
    Path,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_url_is_parsed_or_rejected() {
        for (text, expected) in [
            ("http://[::1]:2379/", Ok("http://[::1]:2379")),
            ("https://etcd.example:2379", Ok("https://etcd.example:2379")),
            ("", Err(EndpointError::NotUrl)),
            ("etcd:2379", Err(EndpointError::NoScheme)),
            ("unix://etcd", Err(EndpointError::NoScheme)),
            ("http://ann:secret@etcd:2379", Err(EndpointError::Credentials)),
            ("http://etcd:2379/v3", Err(EndpointError::Path)),
            ("http://etcd:2379?a", Err(EndpointError::Path)),
        ] {
            let parsed = text.parse::<Endpoint>();
            assert_eq!(parsed.as_ref().map(Endpoint::as_str), expected.as_ref().copied(), "{text}");
        }
    }

    #[test]
    fn password_is_read_without_its_line_break() {
        let file = std::env::temp_dir().join(format!("fairway-etcd-password-{}", std::process::id()));
        fs::write(&file, "word \r\n").unwrap();
        assert_eq!(Source::File(file.clone()).read_line().as_deref(), Ok("word "));
        fs::remove_file(&file).unwrap();
        let missing = Source::File(file).read_line().unwrap_err();
        assert!(missing.contains("fairway-etcd-password"), "the error names the file: {missing}");
        assert_eq!(Source::Text(Secret::new("word\n")).read_line().as_deref(), Ok("word"));
    }
}
