//! TLS of the HTTP listener: certificate and key from PEM, and who vouches for clients that show a certificate.

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

use super::{
    identity::{Subject, is_plain},
    token::TokenHash,
};

/// How TLS is spoken on the HTTP listener.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    asks_clients: bool,
    /// Of all that it was made from: whether two are the same.
    digest: TokenHash,
}

/// What cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// The certificate, or that it and the key go together.
    Certificate(String),
    /// Who vouches for clients.
    ClientCa(String),
    /// The key.
    Key(String),
}

impl ServerTls {
    /// From the PEM of a chain of certificates (the server's own first), its key, and of those who vouch for clients.
    pub fn new(certificate: &Secret, key: &Secret, client_ca: Option<&Secret>) -> Result<Self, TlsFault> {
        let chain = certificates(certificate.expose()).map_err(|error| TlsFault::Certificate(error.to_string()))?;
        let private = private_key(key.expose()).map_err(|error| TlsFault::Key(error.to_string()))?;
        let ring = Arc::new(provider::default_provider());
        let clients: Arc<dyn ClientCertVerifier> = match client_ca {
            None => Arc::new(NoClientAuth),
            Some(ca) => {
                let roots = trust_anchors(ca.expose()).map_err(|error| TlsFault::ClientCa(error.to_string()))?;
                // Those who show none may still show a token.
                let made = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&ring));
                made.allow_unauthenticated().build().map_err(|error| TlsFault::ClientCa(error.to_string()))?
            }
        };
        let mut config = ServerConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsFault::Certificate(error.to_string()))?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, private)
            .map_err(|error| TlsFault::Certificate(error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let ca = client_ca.map(Secret::expose).unwrap_or_default();
        let all = [certificate.expose(), key.expose(), ca].join("\0");
        Ok(Self { config: Arc::new(config), asks_clients: client_ca.is_some(), digest: TokenHash::of(&all) })
    }

    /// Whether clients may show a certificate.
    pub fn asks_clients(&self) -> bool {
        self.asks_clients
    }

    /// What connections are accepted with.
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

/// What the holder of a certificate is called: by its URIs (SPIFFE), by its DNS names, and by its fingerprint. The common name of
/// its subject says nothing (RFC 9525 section 2).
pub fn names_of(certificate: &CertificateDer<'_>) -> Vec<Subject> {
    let print = format!("sha256:{}", HEXLOWER.encode(digest(&SHA256, certificate).as_ref()));
    let mut names = Vec::new();
    if let Ok(known) = EndEntityCert::try_from(certificate) {
        names.extend(known.valid_uri_names().chain(known.valid_dns_names()).map(str::to_owned).take(NAMES_MAX));
    }
    names.into_iter().filter(|name| is_plain(name)).chain([print]).map(Subject::Certificate).collect()
}

/// Most names of one certificate that are heeded.
const NAMES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn made(names: &[SanType]) -> (CertificateDer<'static>, Secret, Secret) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.subject_alt_names = names.to_vec();
        let made = params.self_signed(&key).unwrap();
        (made.der().clone(), Secret::new(made.pem()), Secret::new(key.serialize_pem()))
    }

    #[test]
    fn a_certificate_names_its_holder_by_uri_then_dns_then_fingerprint() {
        let uri = SanType::URI("spiffe://corp/ci".try_into().unwrap());
        let dns = SanType::DnsName("ci.corp.example".try_into().unwrap());
        let names: Vec<_> = names_of(&made(&[dns, uri]).0).iter().map(ToString::to_string).collect();
        assert_eq!(names[..2], ["certificate:spiffe://corp/ci", "certificate:ci.corp.example"]);
        assert!(names[2].starts_with("certificate:sha256:") && names[2].len() == 19 + 64 && names.len() == 3);
        assert_eq!(names_of(&made(&[]).0).len(), 1);
    }

    #[test]
    fn what_does_not_go_together_is_refused_and_names_its_file() {
        let ((_, certificate, key), (_, other, foreign)) = (made(&[]), made(&[]));
        let tls = ServerTls::new(&certificate, &key, None).unwrap();
        assert!(!tls.asks_clients() && tls == ServerTls::new(&certificate, &key, None).unwrap());
        let asking = ServerTls::new(&certificate, &key, Some(&other)).unwrap();
        assert!(asking.asks_clients() && asking != tls);
        let refused = |certificate: &Secret, key: &Secret, ca| ServerTls::new(certificate, key, ca).unwrap_err();
        assert!(matches!(refused(&certificate, &foreign, None), TlsFault::Certificate(_)));
        assert!(matches!(refused(&key, &key, None), TlsFault::Certificate(_)));
        assert!(matches!(refused(&certificate, &certificate, None), TlsFault::Key(_)));
        assert!(matches!(refused(&certificate, &key, Some(&key)), TlsFault::ClientCa(_)));
        let cut = Secret::new(&certificate.expose()[..200]);
        assert!(matches!(refused(&cut, &key, None), TlsFault::Certificate(_)));
        assert!(!format!("{tls:?} {:?}", refused(&cut, &key, None)).contains("BEGIN"), "no secret is shown");
    }
}
