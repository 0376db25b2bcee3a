//! Trust anchors, certificates and keys in PEM, and the TLS configuration of a client.

use std::sync::{Arc, OnceLock};

use fairway_model::Secret;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};

/// The reason why a PEM text is invalid. It does not show the text, which may be a private key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PemError(String);

/// The part of the TLS settings that is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The CA.
    #[error("CA: {0}")]
    Ca(#[source] PemError),
    /// Our own certificate.
    #[error("client certificate: {0}")]
    Certificate(#[source] PemError),
    /// Our own key.
    #[error("client key: {0}")]
    Key(#[source] PemError),
    /// Our own certificate and key do not belong together, or the key's algorithm is not supported.
    #[error("client certificate and key: {0}")]
    Pair(String),
    /// This machine has no trust anchors.
    #[error(transparent)]
    NoSystemRoots(#[from] NoSystemRoots),
    /// The TLS library rejected its default protocol versions.
    #[error("cannot set up TLS: {0}")]
    Library(String),
}

/// TLS of outbound calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Trust anchors in PEM; default: those of the system.
    pub ca: Option<Secret>,
    /// Our own certificate chain and its key, in PEM.
    pub identity: Option<(Secret, Secret)>,
}

impl Tls {
    /// Builds the configuration. Reads the system's trust anchors if `ca` is `None`.
    pub fn config(&self) -> Result<ClientConfig, TlsError> {
        client_config(roots(self.ca.as_ref().map(Secret::expose))?, self.identity.as_ref())
    }
}

/// This machine has no trust anchors; holds the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no trust anchors on this machine ({0}); install its package of CA certificates, or configure a CA")]
pub struct NoSystemRoots(pub String);

/// Builds the TLS configuration of a client that verifies servers with `roots`; `identity` is our own certificate and key in PEM.
pub fn client_config(roots: Arc<RootCertStore>, identity: Option<&(Secret, Secret)>) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Library(error.to_string()))?
        .with_root_certificates(roots);
    let Some((certificate, key)) = identity else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(certificate.expose()).map_err(TlsError::Certificate)?;
    let key = private_key(key.expose()).map_err(TlsError::Key)?;
    builder.with_client_auth_cert(chain, key).map_err(|error| TlsError::Pair(error.to_string()))
}

/// Returns the trust anchors in PEM, or those of the system if `ca` is `None`.
pub fn roots(ca: Option<&str>) -> Result<Arc<RootCertStore>, TlsError> {
    match ca {
        Some(ca) => Ok(Arc::new(trust_anchors(ca).map_err(TlsError::Ca)?)),
        None => Ok(system_roots()?),
    }
}

/// Returns the system's trust anchors, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`. They are read once per process, so changes need a
/// restart.
pub fn system_roots() -> Result<Arc<RootCertStore>, NoSystemRoots> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(Arc::clone(roots));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(|| "none was found".to_owned(), ToString::to_string);
        return Err(NoSystemRoots(why));
    }
    Ok(Arc::clone(ROOTS.get_or_init(|| Arc::new(roots))))
}

/// Parses trust anchors, at least one.
pub fn trust_anchors(pem: &str) -> Result<RootCertStore, PemError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(|error| PemError(format!("certificate rejected as trust anchor: {error}")))?;
    }
    Ok(roots)
}

/// Parses certificates, at least one.
pub fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() { Err(PemError("no certificate in the text".to_owned())) } else { Ok(found) }
}

/// Parses a private key.
pub fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, PemError> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| match error {
        pem::Error::NoItemsFound => PemError("no private key in the text".to_owned()),
        error => error.into(),
    })
}

/// Texts of the library are not used, since they show the invalid line: the whole secret if its line breaks were lost.
impl From<pem::Error> for PemError {
    fn from(error: pem::Error) -> Self {
        Self(match error {
            pem::Error::IllegalSectionStart { .. } => "malformed BEGIN line".to_owned(),
            pem::Error::MissingSectionEnd { .. } => "no END line, or no line breaks".to_owned(),
            other => other.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_without_end_is_rejected_without_showing_it() {
        let lost_breaks = "-----BEGIN PRIVATE KEY-----c2VjcmV0-----END PRIVATE KEY-----";
        let error = private_key(lost_breaks).unwrap_err().to_string();
        assert!(!error.contains("c2VjcmV0"), "{error}");
        let error = |result: Result<_, PemError>| result.map(|_: PrivateKeyDer<'_>| ()).unwrap_err().to_string();
        assert_eq!(error(private_key("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n")), "no END line, or no line breaks");
        assert_eq!(error(private_key("")), "no private key in the text");
        assert_eq!(certificates("no PEM").unwrap_err().to_string(), "no certificate in the text");
    }

    #[test]
    fn client_config_names_the_rejected_part() {
        let (bad, ca) = (Secret::new("bad"), rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap());
        let (certificate, key) = (Secret::new(ca.cert.pem()), Secret::new(ca.signing_key.serialize_pem()));
        let config = |ca: &Secret, certificate: &Secret, key: &Secret| {
            Tls { ca: Some(ca.clone()), identity: Some((certificate.clone(), key.clone())) }.config()
        };
        let error = |ca, certificate, key| config(ca, certificate, key).unwrap_err().to_string();
        assert_eq!(error(&bad, &certificate, &key), "CA: no certificate in the text");
        assert_eq!(error(&certificate, &bad, &key), "client certificate: no certificate in the text");
        assert_eq!(error(&certificate, &certificate, &bad), "client key: no private key in the text");
        assert!(config(&certificate, &certificate, &key).is_ok());
    }
}
