//! TLS of a probe: rustls with the ring provider, nothing installed for the whole process.
//!
//! Sessions are not resumed: each probe sees the certificate anew, and so its end of life.

use std::sync::{Arc, OnceLock};

use fairway_model::{Cause, TlsCheck};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{self, PemObject},
    },
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{MonitorError, Place, failure::Failure, stream::Bounded};

/// TLS of one monitor.
#[derive(Debug)]
pub(super) struct Tls {
    /// Shared by all monitors of equal TLS.
    pub(super) config: Arc<ClientConfig>,
    /// Name sent and verified; default what is probed.
    pub(super) name: Option<ServerName<'static>>,
}

impl Tls {
    /// Returns the handshake over an open connection.
    pub(super) async fn connect(&self, stream: Bounded, place: Place<'_>) -> Result<TlsStream<Bounded>, Failure> {
        let name = match (&self.name, place.host) {
            (Some(name), _) => name.clone(),
            (None, None) => ServerName::IpAddress(place.address.ip().into()),
            (None, Some(host)) => ServerName::try_from(host.to_owned())
                .map_err(|_| Failure::Observer(Cause(format!("{host} is no name for TLS; give serverName"))))?,
        };
        let connector = TlsConnector::from(Arc::clone(&self.config));
        connector.connect(name, stream).await.map_err(|error| Failure::of(&error))
    }
}

/// Returns the configuration that `tls` asks for; `roots` gives the system's trust anchors, if they are wanted.
pub(super) fn config(
    tls: &TlsCheck,
    alpn: &[u8],
    roots: &dyn Fn() -> Result<Arc<RootCertStore>, MonitorError>,
) -> Result<ClientConfig, MonitorError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| MonitorError::Tls(error.to_string()))?;
    let builder = if tls.verify {
        let anchors = tls.ca.as_ref().map_or_else(roots, |ca| authority(ca.expose()).map(Arc::new))?;
        builder.with_root_certificates(anchors)
    } else {
        if let Some(ca) = &tls.ca {
            authority(ca.expose())?;
        }
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider)))
    };
    let mut config = match &tls.client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes())
                .map_err(|error| MonitorError::ClientKey(pem_fault(&error)))?;
            let chain = certificates(chain.expose()).map_err(MonitorError::ClientCertificate)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| MonitorError::ClientKey(error.to_string()))?
        }
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(config)
}

/// Returns the system's trust anchors, read once.
pub(super) fn system_roots() -> Result<Arc<RootCertStore>, MonitorError> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(Arc::clone(roots));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(|| "none was found".to_owned(), ToString::to_string);
        return Err(MonitorError::SystemRoots(why));
    }
    Ok(Arc::clone(ROOTS.get_or_init(|| Arc::new(roots))))
}

/// Returns the trust anchors of a PEM text.
fn authority(pem: &str) -> Result<RootCertStore, MonitorError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem).map_err(MonitorError::Ca)? {
        roots.add(certificate).map_err(|error| MonitorError::Ca(error.to_string()))?;
    }
    Ok(roots)
}

/// Returns the certificates of a PEM text, at least one.
fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| pem_fault(&error))?;
    if found.is_empty() { Err("there is no certificate in it".to_owned()) } else { Ok(found) }
}

/// What is wrong with a PEM text. The library's own words show the line at fault, which is the whole secret where its
/// line breaks were lost.
fn pem_fault(error: &pem::Error) -> String {
    match error {
        pem::Error::IllegalSectionStart { .. } => "its BEGIN line is malformed".to_owned(),
        pem::Error::MissingSectionEnd { .. } => "its END line is missing, or its line breaks are lost".to_owned(),
        other => other.to_string(),
    }
}

/// Takes any certificate: for monitors that say `verify: false`.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
