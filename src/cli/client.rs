//! Finds the running server that a command calls, and the credentials for it.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueHint};
use fairway_http::{Tls, Url};
use fairway_model::Secret;

use super::variable;
use fairway_api_types::client::{CONTROL_SOCKET, Client, Reach, Remote};

/// The server to call, and the credentials for it.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ServerArgs {
    /// Data folder of the server, to call it over its socket `control.sock`. Environment: FAIRWAY_DATA_DIR.
    ///
    /// Only root and the user of the server can open the socket. Without folder and URL, the server is called whose socket accepts a
    /// connection: in the default data folder of `serve` for this user, or in /var/lib/fairway.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "server")]
    data_dir: Option<PathBuf>,

    /// Call the server over HTTP: https://dns1.example:8053, or http://127.0.0.1:8053 on this machine. Environment: FAIRWAY_URL.
    #[arg(long, alias = "url", value_name = "URL", value_hint = ValueHint::Url)]
    server: Option<String>,

    /// File with the API token. Environment: FAIRWAY_TOKEN, the token itself.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    token_file: Option<PathBuf>,

    /// Certificate authority of the server (PEM); default the system's trust anchors.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    cacert: Option<PathBuf>,

    /// Client certificate (PEM), together with --key.
    #[arg(long, value_name = "FILE", requires = "key", value_hint = ValueHint::FilePath)]
    cert: Option<PathBuf>,

    /// Key of the client certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "cert", value_hint = ValueHint::FilePath)]
    key: Option<PathBuf>,
}

/// Returns a client of the server that flags and environment name. FAIRWAY_URL counts only if no flag names a server.
pub(super) fn client(args: &ServerArgs) -> anyhow::Result<Client> {
    let has_folder = args.data_dir.is_some();
    let url = args.server.clone().or_else(|| variable("FAIRWAY_URL").filter(|_| !has_folder));
    let reach = match url {
        Some(url) => Reach::Remote(Box::new(remote(&url, args)?)),
        None if args.token_file.is_some() || args.cacert.is_some() || args.cert.is_some() => {
            bail!("tokens and certificates are sent only to a server that is called by its URL; add --server")
        }
        None if has_folder || variable("FAIRWAY_DATA_DIR").is_some() => {
            Reach::of_data_dir(&data_dir(args.data_dir.clone())?)
        }
        None => running()?,
    };
    Ok(Client::new(reach))
}

/// Returns the server on this machine whose socket accepts a connection: in the default data folder of this user, or in that of the service.
///
/// The default address for HTTP is only named in the error: any user of this machine may listen there, and objects may hold private keys.
fn running() -> anyhow::Result<Reach> {
    let service = PathBuf::from(SERVICE_DATA_DIR);
    let mut folders: Vec<PathBuf> = fairway_config::data_dir(&variable).into_iter().collect();
    folders.extend((!folders.contains(&service)).then_some(service));
    let mut tried = Vec::new();
    for socket in folders.iter().map(|folder| folder.join(CONTROL_SOCKET)) {
        match UnixStream::connect(&socket) {
            Ok(_) => return Ok(Reach::Socket(socket)),
            Err(error) => tried.push(format!("{}: {error}", socket.display())),
        }
    }
    let hint = match TcpStream::connect_timeout(&DEFAULT_HTTP, HTTP_PATIENCE) {
        Ok(_) => format!(
            "; a server accepts connections at {DEFAULT_HTTP}: if it is fairway, add --server http://{DEFAULT_HTTP}"
        ),
        Err(_) => String::new(),
    };
    bail!("no running server found; name it with --data-dir or --server; tried {}{hint}", tried.join(", "))
}

/// Data folder of a server that runs as root or as a service.
const SERVICE_DATA_DIR: &str = "/var/lib/fairway";
/// Address of the HTTP listener if none is configured.
const DEFAULT_HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8053);
/// Longest wait for a connection to it. A port of this machine accepts or refuses at once.
const HTTP_PATIENCE: Duration = Duration::from_secs(1);

/// Returns the data folder, found by the rules of `serve`.
pub(super) fn data_dir(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    match given {
        Some(folder) => Ok(folder),
        None => fairway_config::data_dir(&variable)
            .context("cannot find the data folder of the server; add --data-dir or --server"),
    }
}

/// Returns the server of a URL with its credentials.
fn remote(text: &str, args: &ServerArgs) -> anyhow::Result<Remote> {
    let url = server_url(text)?;
    let token = token(args.token_file.as_deref())?;
    if token.is_some() && !url.is_https() && !url.is_loopback() {
        bail!("{url}: a token is not sent to another machine without TLS; write https://");
    }
    if !url.is_https() && (args.cacert.is_some() || args.cert.is_some()) {
        bail!("{url}: certificates need TLS; write https://");
    }
    let tls = if url.is_https() { tls(args)? } else { Tls::default() };
    Ok(Remote { url, tls, token })
}

/// Parses the URL of a server. Without a scheme it is plain HTTP.
fn server_url(text: &str) -> anyhow::Result<Url> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse_base(&whole).map_err(|error| anyhow!("server URL: {error}; {}", error.hint()))?;
    if url.path() != "/" {
        bail!("server URL: {url} has a path; write it like https://dns1.example:8053");
    }
    Ok(url)
}

/// Returns the token of the file, else that of the environment.
fn token(file: Option<&Path>) -> anyhow::Result<Option<Secret>> {
    let text = match file {
        Some(path) => Some(read(path)?),
        None => variable("FAIRWAY_TOKEN").map(Secret::new),
    };
    let Some(text) = text else { return Ok(None) };
    let token = text.expose().trim();
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        // The text itself is not shown: it may be a secret.
        let source = file.map_or_else(|| "FAIRWAY_TOKEN".to_owned(), |path| path.display().to_string());
        bail!("{source}: not a token; give one line, as `fairway token create` prints it");
    }
    Ok(Some(Secret::new(token)))
}

fn tls(args: &ServerArgs) -> anyhow::Result<Tls> {
    let secret = |path: &Option<PathBuf>| path.as_deref().map(read).transpose();
    let ca = secret(&args.cacert)?;
    let identity = secret(&args.cert)?.zip(secret(&args.key)?);
    let tls = Tls { ca, identity };
    tls.config().context("cannot set up TLS; check --cacert, --cert and --key")?;
    Ok(tls)
}

fn read(path: &Path) -> anyhow::Result<Secret> {
    fs::read_to_string(path).map(Secret::new).with_context(|| format!("cannot read {}", path.display()))
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
            assert!(server_url(text).is_err(), "{text} must be rejected");
        }
    }

    #[test]
    fn token_is_sent_over_tls_or_loopback_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, "fairway_00\n").unwrap();
        let args = ServerArgs { token_file: Some(file.clone()), ..ServerArgs::default() };
        let sent = |url: &str| remote(url, &args).map(|remote| remote.token.unwrap().expose().to_owned());
        assert_eq!(sent("http://127.0.0.1:8053").unwrap(), "fairway_00");
        let error = sent("http://192.0.2.1:8053").unwrap_err().to_string();
        assert!(error.contains("without TLS") && !error.contains("fairway_00"), "{error}");
        fs::write(&file, "two words").unwrap();
        let error = sent("http://127.0.0.1:8053").unwrap_err().to_string();
        assert!(error.contains("not a token") && !error.contains("two words"), "{error}");
        let error = client(&args).err().unwrap().to_string();
        assert!(error.contains("--server"), "{error}");
    }
}
