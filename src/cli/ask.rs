//! Finds the running server that a command means, and what is shown to it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail};
use fairway_http::{Tls, Url};
use fairway_model::Secret;

use super::{server_args::ServerArgs, variable};
use fairway_api_types::client::{Client, Reach, Remote};

/// A client of the server that flags and environment mean. FAIRWAY_URL counts only where no flag is given.
pub(super) fn asked(args: &ServerArgs) -> anyhow::Result<Client> {
    let by_folder = args.data_dir.is_some();
    let url = args.server.clone().or_else(|| variable("FAIRWAY_URL").filter(|_| !by_folder));
    let reach = match url {
        Some(url) => Reach::Remote(Box::new(remote(&url, args)?)),
        None if args.token_file.is_some() || args.cacert.is_some() || args.cert.is_some() => {
            bail!("tokens and certificates are shown to a server that is reached by a URL; give --server")
        }
        None => Reach::of_data_dir(&data_dir(args.data_dir.clone())?),
    };
    Ok(Client::new(reach))
}

/// The data folder that is meant, by the rules of `serve`.
pub(super) fn data_dir(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    match given {
        Some(folder) => Ok(folder),
        None => fairway_config::data_dir(&variable)
            .context("no data folder is known; name it with --data-dir, or give --server"),
    }
}

/// The server of a URL, and the credentials that it gets.
fn remote(text: &str, args: &ServerArgs) -> anyhow::Result<Remote> {
    let url = server_url(text)?;
    let token = token(args.token_file.as_deref())?;
    if token.is_some() && !url.is_https() && !url.is_loopback() {
        bail!("{url}: a token is not sent in clear to another machine; write https://");
    }
    if !url.is_https() && (args.cacert.is_some() || args.cert.is_some()) {
        bail!("{url}: certificates are for TLS; write https://");
    }
    let tls = if url.is_https() { tls(args)? } else { Tls::default() };
    Ok(Remote { url, tls, token })
}

/// The URL of a server; without scheme it is plain HTTP.
fn server_url(text: &str) -> anyhow::Result<Url> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse_base(&whole).map_err(|error| anyhow!("server URL: {error}; {}", error.hint()))?;
    if url.path() != "/" {
        bail!("server URL: {url} has a path; write it like https://dns1.example:8053");
    }
    Ok(url)
}

/// The token of the file, else that of the environment.
fn token(file: Option<&Path>) -> anyhow::Result<Option<Secret>> {
    let text = match file {
        Some(path) => Some(text(path)?),
        None => variable("FAIRWAY_TOKEN"),
    };
    let Some(text) = text else { return Ok(None) };
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        let place = file.map_or_else(|| "FAIRWAY_TOKEN".to_owned(), |path| path.display().to_string());
        bail!("{place}: it is no token; give one line, as `fairway token create` makes it");
    }
    Ok(Some(Secret::new(token)))
}

fn tls(args: &ServerArgs) -> anyhow::Result<Tls> {
    let read = |path: &Option<PathBuf>| path.as_deref().map(|path| text(path).map(Secret::new)).transpose();
    let (ca, cert, key) = (read(&args.cacert)?, read(&args.cert)?, read(&args.key)?);
    let tls = Tls { ca, identity: cert.zip(key) };
    tls.config().context("cannot set up TLS; see --cacert, --cert and --key")?;
    Ok(tls)
}

fn text(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_url_without_path_is_accepted() {
        for (text, url) in [
            ("http://[::1]:8053/", "http://[::1]:8053/"),
            ("http://192.0.2.1", "http://192.0.2.1/"),
            ("127.0.0.1:8053", "http://127.0.0.1:8053/"),
            ("dns1.example", "http://dns1.example/"),
            ("https://dns1.example", "https://dns1.example/"),
            ("https://dns1.example:8053/", "https://dns1.example:8053/"),
        ] {
            assert_eq!(server_url(text).unwrap().to_string(), url, "{text}");
        }
        for text in ["http://a/b", "http://", "ftp://a", "https://a:b@c", "https://a:99999", "https://a?b"] {
            assert!(server_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_token_goes_over_tls_or_stays_on_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, "fairway_00\n").unwrap();
        let args = ServerArgs { token_file: Some(file.clone()), ..ServerArgs::default() };
        let shown = |url: &str| remote(url, &args).map(|to| to.token.unwrap().expose().to_owned());
        assert_eq!(shown("http://127.0.0.1:8053").unwrap(), "fairway_00");
        let fault = shown("http://192.0.2.1:8053").unwrap_err().to_string();
        assert!(fault.contains("in clear") && !fault.contains("fairway_00"), "{fault}");
        fs::write(&file, "two words").unwrap();
        let fault = shown("http://127.0.0.1:8053").unwrap_err().to_string();
        assert!(fault.contains("no token") && !fault.contains("two words"), "{fault}");
        let fault = asked(&args).unwrap_err().to_string();
        assert!(fault.contains("--server"), "{fault}");
    }
}
