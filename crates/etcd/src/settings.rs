//! Endpoints and credentials of an etcd.

use std::{fs, path::PathBuf, time::Duration};

use fairway_http::{Tls, Url};
use fairway_model::Secret;

/// The servers of one etcd and the credentials for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// At least one, each without a path. When one fails, the next one is asked.
    pub endpoints: Vec<Url>,
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

impl Settings {
    /// Returns settings that contain passwords and PEM texts instead of naming files. Each endpoint has an equal share of the time of a
    /// call.
    pub fn new(endpoints: Vec<Url>, tls: Tls, user: Option<(String, Secret)>, call_timeout: Duration) -> Self {
        let shares = u32::try_from(endpoints.len()).unwrap_or(u32::MAX).max(1);
        Self {
            endpoints,
            user: user.map(|(user, password)| (user, Source::Text(password))),
            ca: tls.ca.map(Source::Text),
            identity: tls.identity.map(|(certificate, key)| (Source::Text(certificate), Source::Text(key))),
            endpoint_timeout: call_timeout / shares,
            call_timeout,
        }
    }

    /// Returns the files that are read at every new connection.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let password = self.user.iter().map(|(_, password)| password);
        let identity = self.identity.iter().flat_map(|(certificate, key)| [certificate, key]);
        password.chain(&self.ca).chain(identity).filter_map(|source| match source {
            Source::File(path) => Some(path),
            Source::Text(_) => None,
        })
    }
}

/// Location of a password or a PEM text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a file, which is read at every new connection, so that a renewed one takes effect.
    File(PathBuf),
    /// In the settings themselves.
    Text(Secret),
}

impl Source {
    pub(crate) fn read(&self) -> Result<Secret, String> {
        match self {
            Self::File(path) => {
                fs::read_to_string(path).map(Secret::new).map_err(|error| format!("{}: {error}", path.display()))
            }
            Self::Text(text) => Ok(text.clone()),
        }
    }

    /// Reads a password. A line break at its end is not part of it: editors put one at the end of a file.
    pub(crate) fn read_line(&self) -> Result<String, String> {
        Ok(self.read()?.expose().trim_end_matches(['\r', '\n']).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
