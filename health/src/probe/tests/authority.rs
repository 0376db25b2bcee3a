//! Certificate authorities for tests.

use std::{net::SocketAddr, sync::Arc};

use fairway_model::Secret;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::servers::serve;

/// An authority that signs certificates.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new() -> Self {
        Self::named("own")
    }

    pub(super) fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Returns the certificate of the authority.
    pub(super) fn pem(&self) -> Secret {
        Secret::new(self.0.pem())
    }

    /// Returns certificate and key for a name or address.
    pub(super) fn certify(&self, name: &str) -> (Secret, Secret) {
        self.sign(CertificateParams::new(vec![name.to_owned()]).unwrap())
    }

    /// Returns an expired certificate with its key.
    pub(super) fn expired(&self, name: &str) -> (Secret, Secret) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 1);
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> (Secret, Secret) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (Secret::new(certificate.pem()), Secret::new(key.serialize_pem()))
    }

    /// Returns the TLS of a server with a certificate, which requires one of its clients if `requires_client`.
    pub(super) fn server(&self, own: &(Secret, Secret), requires_client: bool, alpn: &[u8]) -> TlsAcceptor {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
        let builder = if requires_client {
            let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
            builder.with_client_cert_verifier(clients)
        } else {
            builder.with_no_client_auth()
        };
        let chain = rustls::pki_types::CertificateDer::pem_slice_iter(own.0.expose().as_bytes());
        let key = PrivateKeyDer::from_pem_slice(own.1.expose().as_bytes()).unwrap();
        let mut config = builder.with_single_cert(chain.map(Result::unwrap).collect(), key).unwrap();
        config.alpn_protocols = vec![alpn.to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Starts a server that returns 200 over TLS.
pub(super) async fn https(acceptor: TlsAcceptor) -> SocketAddr {
    let answer = |mut stream: TlsStream<TcpStream>| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let _ = stream.read(&mut [0; 64]).await;
    };
    serve(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                answer(stream).await;
            }
        }
    })
    .await
    .0
}
