//! TLS of a probe: rustls with the ring provider, nothing installed for the whole process.
//!
//! Sessions are not resumed: each probe sees the certificate anew, and so its end of life.

use std::{error::Error, sync::Arc};

use fairway_http::tls::{self, NoSystemRoots};
use fairway_model::{Cause, TlsCheck};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, UnixTime},
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
    wanted: &TlsCheck,
    alpn: &[u8],
    roots: &dyn Fn() -> Result<Arc<RootCertStore>, MonitorError>,
) -> Result<ClientConfig, MonitorError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| MonitorError::Tls(error.to_string()))?;
    let builder = if wanted.verify {
        let anchors = wanted.ca.as_ref().map_or_else(roots, |ca| authority(ca.expose()).map(Arc::new))?;
        builder.with_root_certificates(anchors)
    } else {
        if let Some(ca) = &wanted.ca {
            authority(ca.expose())?;
        }
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider)))
    };
    let mut config = match &wanted.client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let of_key = |error: &dyn Error| MonitorError::ClientKey(error.to_string());
            let key = tls::private_key(key.expose()).map_err(|error| of_key(&error))?;
            let chain = tls::certificates(chain.expose())
                .map_err(|error| MonitorError::ClientCertificate(error.to_string()))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| of_key(&error))?
        }
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(config)
}

/// Returns the system's trust anchors.
pub(super) fn system_roots() -> Result<Arc<RootCertStore>, MonitorError> {
    tls::system_roots().map_err(|NoSystemRoots(why)| MonitorError::SystemRoots(why))
}

/// Returns the trust anchors of a PEM text.
fn authority(pem: &str) -> Result<RootCertStore, MonitorError> {
    tls::trust_anchors(pem).map_err(|error| MonitorError::Ca(error.to_string()))
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
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
