//! Connections to servers elsewhere, for the few things that Fairway asks over HTTP: whom it trusts, and TLS to them.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
};

use fairway_model::Secret;
use tokio::{net::TcpStream, sync::oneshot};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{
            CertificateDer, PrivateKeyDer, ServerName,
            pem::{self, PemObject},
        },
    },
};

/// A TCP connection to the first address of a host that takes one. Whoever calls limits the time.
pub async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let host = host.to_owned();
    let addresses: Vec<SocketAddr> =
        beside(move || Ok((host.as_str(), port).to_socket_addrs()?.take(ADDRESSES_MAX).collect())).await?;
    TcpStream::connect(&addresses[..]).await
}

/// TLS over a connection, to a server of this name.
pub async fn over_tls(config: Arc<ClientConfig>, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(config).connect(name, stream).await
}

/// How TLS is spoken to a server: whom it must be vouched for by (the system's anchors, if nobody is named), and with which
/// certificate and key of our own.
pub fn client_config(ca: Option<&Secret>, own: Option<(&Secret, &Secret)>) -> io::Result<ClientConfig> {
    let roots = ca.map_or_else(system_roots, |ca| authority(ca.expose()).map_err(io::Error::other))?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots);
    let Some((certificate, key)) = own else { return Ok(config.with_no_client_auth()) };
    let chain = certificates(certificate.expose()).map_err(io::Error::other)?;
    let key = private_key(key.expose()).map_err(io::Error::other)?;
    config.with_client_auth_cert(chain, key).map_err(|error: rustls::Error| io::Error::other(error))
}

/// Does what blocks on a thread that nobody waits for: the runtime would wait at its end for what it runs itself, and a
/// resolver may take half a minute.
pub async fn beside<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let (done, outcome) = oneshot::channel();
    let thread = std::thread::Builder::new().name("beside".to_owned());
    // Whoever gave up on it needs no outcome.
    thread.spawn(move || drop(done.send(work())))?;
    outcome.await.unwrap_or_else(|_| Err(io::Error::other("the thread for it ended early")))
}

/// The system's trust anchors, also those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
fn system_roots() -> io::Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() { Err(io::Error::other("no trust anchors on this machine")) } else { Ok(roots) }
}

/// The trust anchors of a PEM text.
pub fn authority(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

/// The certificates of a PEM text, at least one.
pub fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| pem_fault(&error))?;
    if found.is_empty() { Err("there is no certificate in it".to_owned()) } else { Ok(found) }
}

/// The private key of a PEM text.
pub fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| match error {
        pem::Error::NoItemsFound => "there is no private key in it".to_owned(),
        error => pem_fault(&error),
    })
}

/// What is wrong with a PEM text. The library's own words show the line at fault, which is the whole secret where its line
/// breaks were lost.
fn pem_fault(error: &pem::Error) -> String {
    match error {
        pem::Error::IllegalSectionStart { .. } => "its BEGIN line is malformed".to_owned(),
        pem::Error::MissingSectionEnd { .. } => "its END line is missing, or its line breaks are lost".to_owned(),
        other => other.to_string(),
    }
}

/// Most addresses of a host that are tried.
const ADDRESSES_MAX: usize = 8;
