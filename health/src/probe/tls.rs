//! TLS of a probe: rustls with the ring provider, which is not installed for the whole process.
//!
//! Sessions are not resumed, so that each probe verifies the certificate and its expiry again.

use std::{collections::HashMap, sync::Arc};

use fairway_http::tls::{self, NoSystemRoots, TlsError};
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
pub(crate) struct Tls {
    /// The configuration, shared by all monitors with equal TLS settings.
    pub(super) config: Arc<ClientConfig>,
    /// Name that is sent (SNI) and verified; default the probed host or address.
    pub(super) name: Option<ServerName<'static>>,
}

impl Tls {
    /// Performs the handshake over an open connection.
    pub(crate) async fn connect(
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
    let anchors = match &settings.ca {
        Some(ca) => {
            tls::trust_anchors(ca.expose()).map(Arc::new).map_err(|error| MonitorError::Ca(error.to_string()))?
        }
        None if settings.verify => system_roots()?,
        None => Arc::new(RootCertStore::empty()),
    };
    let mut config = tls::client_config(anchors, settings.client.as_ref()).map_err(|error| match error {
        TlsError::Certificate(error) => MonitorError::ClientCertificate(error.to_string()),
        TlsError::Key(error) => MonitorError::ClientKey(error.to_string()),
        TlsError::Pair(error) => MonitorError::ClientKey(error),
        error => MonitorError::Tls(error.to_string()),
    })?;
    if !settings.verify {
        let verifier = AcceptAnyCertificate(ring::default_provider());
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
    }
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(config)
}

/// Returns the system's trust anchors.
fn system_roots() -> Result<Arc<RootCertStore>, MonitorError> {
    tls::system_roots().map_err(|NoSystemRoots(why)| MonitorError::SystemRoots(why))
}

/// Accepts any certificate, for monitors with `verify: false`.
#[derive(Debug)]
struct AcceptAnyCertificate(CryptoProvider);

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
