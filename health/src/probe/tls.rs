//! TLS of a probe: rustls with the ring provider, which is not installed for the whole process.
//!
//! Sessions are not resumed, so that each probe verifies the certificate and its expiry again.

use std::{collections::HashMap, error::Error, sync::Arc};

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

use super::{endpoint::ProbeEndpoint, failure::Failure, monitor_error::MonitorError, stream::LimitedStream};

/// TLS of one monitor.
#[derive(Debug)]
pub(super) struct Tls {
    /// The configuration, shared by all monitors with equal TLS settings.
    pub(super) config: Arc<ClientConfig>,
    /// Name that is sent (SNI) and verified; default the probed host or address.
    pub(super) name: Option<ServerName<'static>>,
}

impl Tls {
    /// Performs the handshake over an open connection.
    pub(super) async fn connect(
        &self,
        stream: LimitedStream,
        endpoint: ProbeEndpoint<'_>,
    ) -> Result<TlsStream<LimitedStream>, Failure> {
        let name = match (&self.name, endpoint.host) {
            (Some(name), _) => name.clone(),
            (None, None) => ServerName::IpAddress(endpoint.address.ip().into()),
            (None, Some(host)) => ServerName::try_from(host.to_owned()).map_err(|_| {
                Failure::ProbeHost(Cause(format!("{host} is not a valid TLS server name; set serverName")))
            })?,
        };
        let connector = TlsConnector::from(Arc::clone(&self.config));
        connector.connect(name, stream).await.map_err(|error| Failure::of(&error))
    }
}

/// TLS configurations by settings and protocol, so that equal ones are created once. The server name is not part of them.
#[derive(Debug)]
pub(crate) struct TlsConfigs {
    system_roots: fn() -> Result<Arc<RootCertStore>, MonitorError>,
    configs: HashMap<(TlsCheck, &'static [u8]), Arc<ClientConfig>>,
}

impl TlsConfigs {
    /// Returns an empty set that reads the system's trust anchors.
    pub(crate) fn new() -> Self {
        Self { system_roots, configs: HashMap::new() }
    }

    /// Returns an empty set without the system's trust anchors, for checks of a configuration.
    pub(super) fn without_system_roots() -> Self {
        Self { system_roots: || Ok(Arc::new(RootCertStore::empty())), configs: HashMap::new() }
    }

    /// Returns the configuration for TLS settings and a protocol of ALPN.
    pub(super) fn get(&mut self, tls: &TlsCheck, alpn: &'static [u8]) -> Result<Arc<ClientConfig>, MonitorError> {
        let key = (TlsCheck { server_name: None, ..tls.clone() }, alpn);
        if let Some(config) = self.configs.get(&key) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(config(tls, alpn, self.system_roots)?);
        self.configs.insert(key, Arc::clone(&config));
        Ok(config)
    }
}

/// Returns the client configuration for TLS settings.
fn config(
    settings: &TlsCheck,
    alpn: &[u8],
    system_roots: fn() -> Result<Arc<RootCertStore>, MonitorError>,
) -> Result<ClientConfig, MonitorError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| MonitorError::Tls(error.to_string()))?;
    let builder = if settings.verify {
        let anchors = settings.ca.as_ref().map_or_else(system_roots, |ca| authority(ca.expose()).map(Arc::new))?;
        builder.with_root_certificates(anchors)
    } else {
        if let Some(ca) = &settings.ca {
            authority(ca.expose())?;
        }
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
    };
    let mut config = match &settings.client {
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
fn system_roots() -> Result<Arc<RootCertStore>, MonitorError> {
    tls::system_roots().map_err(|NoSystemRoots(why)| MonitorError::SystemRoots(why))
}

/// Returns the trust anchors of a PEM text.
fn authority(pem: &str) -> Result<RootCertStore, MonitorError> {
    tls::trust_anchors(pem).map_err(|error| MonitorError::Ca(error.to_string()))
}

/// Accepts any certificate, for monitors with `verify: false`.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
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
