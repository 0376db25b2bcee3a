//! TLS of a listener: certificate and key from PEM, and trust anchors for client certificates.

use std::{fmt, sync::Arc};

use data_encoding::HEXLOWER;
use fairway_http::tls::{certificates, private_key, trust_anchors};
use fairway_model::Secret;
use ring::digest::{SHA256, digest};
use tokio_rustls::rustls::{
    ServerConfig,
    crypto::ring as provider,
    pki_types::CertificateDer,
    server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use webpki::EndEntityCert;
use x509_parser::parse_x509_certificate;

use super::{
    identity::{Subject, is_plain},
    token::TokenHash,
};

/// TLS of a listener. Two values are equal if they were made from the same PEM texts.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    asks_clients: bool,
    is_authority: bool,
    not_after: [Option<i64>; 2],
    /// Hash of all PEM texts.
    digest: TokenHash,
}

/// The part of the TLS settings that is invalid, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTlsError {
    /// The certificate chain, or the key does not belong to it.
    Certificate(String),
    /// The trust anchors for client certificates.
    ClientCa(String),
    /// The private key.
    Key(String),
}

impl ServerTls {
    /// Builds the settings from PEM texts: the certificate chain (the server's own first), its key, and the trust anchors for client
    /// certificates.
    pub fn new(certificate: &Secret, key: &Secret, client_ca: Option<&Secret>) -> Result<Self, ServerTlsError> {
        let chain =
            certificates(certificate.expose()).map_err(|error| ServerTlsError::Certificate(error.to_string()))?;
        let private = private_key(key.expose()).map_err(|error| ServerTlsError::Key(error.to_string()))?;
        let ring = Arc::new(provider::default_provider());
        let (is_authority, mut not_after) = (is_authority(&chain), [first_end(&chain), None]);
        let clients: Arc<dyn ClientCertVerifier> = match client_ca {
            None => Arc::new(NoClientAuth),
            Some(ca) => {
                let roots = trust_anchors(ca.expose()).map_err(|error| ServerTlsError::ClientCa(error.to_string()))?;
                not_after[1] = certificates(ca.expose()).ok().and_then(|authorities| first_end(&authorities));
                // A client without a certificate may authenticate with a token.
                let made = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&ring));
                made.allow_unauthenticated().build().map_err(|error| ServerTlsError::ClientCa(error.to_string()))?
            }
        };
        let mut config = ServerConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .map_err(|error| ServerTlsError::Certificate(error.to_string()))?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, private)
            .map_err(|error| ServerTlsError::Certificate(error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let ca = client_ca.map(Secret::expose).unwrap_or_default();
        let all = [certificate.expose(), key.expose(), ca].join("\0");
        let digest = TokenHash::of(&all);
        Ok(Self { config: Arc::new(config), asks_clients: client_ca.is_some(), is_authority, not_after, digest })
    }

    /// Returns true if clients may authenticate with a certificate.
    pub fn asks_clients(&self) -> bool {
        self.asks_clients
    }

    /// Returns true if the server's own certificate is that of an authority (`CA:TRUE`), which clients built on webpki refuse.
    pub fn is_authority(&self) -> bool {
        self.is_authority
    }

    /// Returns the time when the first certificate of the chain expires, and the first trust anchor for client certificates, in seconds
    /// since 1970. `None` without such a certificate, or if its form is unknown.
    pub fn not_after(&self) -> [Option<i64>; 2] {
        self.not_after
    }

    /// Returns the configuration for accepting connections.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for ServerTls {}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("asks_clients", &self.asks_clients).finish_non_exhaustive()
    }
}

/// Returns true if the first of some certificates is that of an authority (RFC 5280 section 4.2.1.9).
fn is_authority(chain: &[CertificateDer<'_>]) -> bool {
    chain.first().and_then(|own| parse_x509_certificate(own).ok()).is_some_and(|(_, own)| own.is_ca())
}

/// Returns the time when the first of some certificates expires.
fn first_end(certificates: &[CertificateDer<'_>]) -> Option<i64> {
    let parsed = certificates.iter().filter_map(|certificate| parse_x509_certificate(certificate).ok());
    parsed.map(|(_, certificate)| certificate.validity().not_after.timestamp()).min()
}

/// Returns the subjects of a certificate: its URIs (SPIFFE), its DNS names and its fingerprint. The common name is not used (RFC 9525
/// section 2).
pub fn subjects_of(certificate: &CertificateDer<'_>) -> Vec<Subject> {
    let print = format!("sha256:{}", HEXLOWER.encode(digest(&SHA256, certificate).as_ref()));
    let mut names = Vec::new();
    if let Ok(known) = EndEntityCert::try_from(certificate) {
        names.extend(known.valid_uri_names().chain(known.valid_dns_names()).map(str::to_owned).take(NAMES_MAX));
    }
    names.into_iter().filter(|name| is_plain(name)).chain([print]).map(Subject::Certificate).collect()
}

/// Maximum number of names of one certificate that are used.
const NAMES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn made(names: &[SanType]) -> (CertificateDer<'static>, Secret, Secret) {
        made_until(names, 2040)
    }

    fn made_until(names: &[SanType], year: i32) -> (CertificateDer<'static>, Secret, Secret) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.subject_alt_names = names.to_vec();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let made = params.self_signed(&key).unwrap();
        (made.der().clone(), Secret::new(made.pem()), Secret::new(key.serialize_pem()))
    }

    #[test]
    fn subjects_are_uri_then_dns_name_then_fingerprint() {
        let uri = SanType::URI("spiffe://corp/ci".try_into().unwrap());
        let dns = SanType::DnsName("ci.corp.example".try_into().unwrap());
        let names: Vec<_> = subjects_of(&made(&[dns, uri]).0).iter().map(ToString::to_string).collect();
        assert_eq!(names[..2], ["certificate:spiffe://corp/ci", "certificate:ci.corp.example"]);
        assert!(names[2].starts_with("certificate:sha256:") && names[2].len() == 19 + 64 && names.len() == 3);
        assert_eq!(subjects_of(&made(&[]).0).len(), 1);
    }

    #[test]
    fn certificate_of_an_authority_is_recognised_by_its_basic_constraints() {
        use rcgen::{BasicConstraints, IsCa};
        for (is_ca, expected) in
            [(IsCa::NoCa, false), (IsCa::ExplicitNoCa, false), (IsCa::Ca(BasicConstraints::Unconstrained), true)]
        {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![]).unwrap();
            params.is_ca = is_ca;
            let own = params.self_signed(&key).unwrap().pem();
            let (_, issuer, _) = made(&[]);
            let chain = Secret::new([own.as_str(), issuer.expose()].concat());
            let tls = ServerTls::new(&chain, &Secret::new(key.serialize_pem()), None).unwrap();
            assert_eq!(tls.is_authority(), expected, "{:?}", params.is_ca);
        }
    }

    #[test]
    fn end_is_that_of_the_certificate_that_expires_first() {
        let ((_, certificate, key), (_, sooner, _)) = (made_until(&[], 2040), made_until(&[], 2030));
        let both = Secret::new([certificate.expose(), sooner.expose()].concat());
        let ends = |certificate, ca| ServerTls::new(certificate, &key, ca).unwrap().not_after();
        let [in_2030, in_2040] = [1_893_456_000, 2_208_988_800].map(Some);
        assert_eq!(ends(&certificate, None), [in_2040, None]);
        assert_eq!(ends(&both, None)[0], in_2030);
        assert_eq!(ends(&certificate, Some(&both)), [in_2040, in_2030]);
    }

    #[test]
    fn invalid_pem_is_reported_with_its_part() {
        let ((_, certificate, key), (_, other, foreign)) = (made(&[]), made(&[]));
        let tls = ServerTls::new(&certificate, &key, None).unwrap();
        assert!(!tls.asks_clients() && tls == ServerTls::new(&certificate, &key, None).unwrap());
        let asking = ServerTls::new(&certificate, &key, Some(&other)).unwrap();
        assert!(asking.asks_clients() && asking != tls);
        let refused = |certificate: &Secret, key: &Secret, ca| ServerTls::new(certificate, key, ca).unwrap_err();
        assert!(matches!(refused(&certificate, &foreign, None), ServerTlsError::Certificate(_)));
        assert!(matches!(refused(&key, &key, None), ServerTlsError::Certificate(_)));
        assert!(matches!(refused(&certificate, &certificate, None), ServerTlsError::Key(_)));
        assert!(matches!(refused(&certificate, &key, Some(&key)), ServerTlsError::ClientCa(_)));
        let cut = Secret::new(&certificate.expose()[..200]);
        assert!(matches!(refused(&cut, &key, None), ServerTlsError::Certificate(_)));
        assert!(!format!("{tls:?} {:?}", refused(&cut, &key, None)).contains("BEGIN"), "no secret is shown");
    }
}
