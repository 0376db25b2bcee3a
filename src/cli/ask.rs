//! Finds the running server that a command means, and what is shown to it.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, bail};
use fairway_model::Secret;

use super::{server_args::ServerArgs, variable};
use fairway_api_types::client::{Client, Reach, Remote};
use fairway_http::https;

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

/// The server of a URL, and what is shown to it.
fn remote(url: &str, args: &ServerArgs) -> anyhow::Result<Remote> {
    let (host, port, is_tls) = parts(url)?;
    let token = token(args.token_file.as_deref())?;
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if token.is_some() && !is_tls && !is_here {
        bail!("{url}: a token is not sent in clear to another machine; write https://");
    }
    if !is_tls && (args.cacert.is_some() || args.cert.is_some()) {
        bail!("{url}: certificates are for TLS; write https://");
    }
    let authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let tls = is_tls.then(|| tls(args)).transpose()?;
    Ok(Remote { host, port, authority, tls, token })
}

/// Host, port and whether TLS is spoken.
fn parts(url: &str) -> anyhow::Result<(String, u16, bool)> {
    let (is_tls, rest) = match url.split_once("://") {
        Some(("https", rest)) => (true, rest),
        Some(("http", rest)) => (false, rest),
        Some(_) => bail!("{url:?} is not the address of a server; write it like https://dns1.example:8053"),
        None => (false, url),
    };
    let authority = rest.trim_end_matches('/');
    if authority.is_empty() || authority.contains(['/', '?', '#', '@', ' ']) {
        bail!("{url:?} is not the address of a server; write it like https://dns1.example:8053");
    }
    let usual = if is_tls { 443 } else { 80 };
    let (host, port) = match authority.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']')) {
        Some((host, port)) => (host, port.parse().with_context(|| format!("{url}: {port:?} is no port"))?),
        None => (authority, usual),
    };
    Ok((host.trim_matches(['[', ']']).to_owned(), port, is_tls))
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

fn tls(args: &ServerArgs) -> anyhow::Result<Arc<tokio_rustls::rustls::ClientConfig>> {
    let read = |path: &Option<PathBuf>| path.as_deref().map(|path| text(path).map(Secret::new)).transpose();
    let (ca, cert, key) = (read(&args.cacert)?, read(&args.cert)?, read(&args.key)?);
    let config = https::client_config(ca.as_ref(), cert.as_ref().zip(key.as_ref()));
    config.map(Arc::new).context("TLS cannot be spoken; see --cacert, --cert and --key")
}

fn text(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_host_port_and_whether_tls_is_spoken() {
        for (url, host, port, is_tls) in [
            ("http://[::1]:8053/", "::1", 8053, false),
            ("http://192.0.2.1", "192.0.2.1", 80, false),
            ("127.0.0.1:8053", "127.0.0.1", 8053, false),
            ("https://dns1.example", "dns1.example", 443, true),
            ("https://[2001:db8::1]", "2001:db8::1", 443, true),
            ("https://dns1.example:8053/", "dns1.example", 8053, true),
        ] {
            assert_eq!(parts(url).unwrap(), (host.to_owned(), port, is_tls), "{url}");
        }
        for url in ["http://a/b", "http://", "ftp://a", "https://a:b@c", "https://a:99999", "https://a?b"] {
            assert!(parts(url).is_err(), "{url}");
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
