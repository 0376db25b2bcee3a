use fairway_model::Secret;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer},
};

use super::*;
use fairway_config::web_url;

fn as_json() -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))])
}

/// Takes one connection, reads a request whose body ends with `}`, answers with these octets, and gives the request.
async fn receive(stream: impl AsyncRead + AsyncWrite, answer: &str) -> String {
    let mut stream = std::pin::pin!(stream);
    let mut request = String::new();
    while !request.ends_with('}') {
        let mut octets = [0; 1_024];
        let length = stream.read(&mut octets).await.unwrap();
        assert!(length > 0, "cut off: {request}");
        request.push_str(std::str::from_utf8(&octets[..length]).unwrap());
    }
    stream.write_all(answer.as_bytes()).await.unwrap();
    request
}

/// A receiver in clear, and the URL that leads to it.
async fn receiver(path: &str, answer: &'static str) -> (WebUrl, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = web_url(&format!("http://{}{path}", listener.local_addr().unwrap()));
    let receiving = tokio::spawn(async move { receive(listener.accept().await.unwrap().0, answer).await });
    (url, receiving)
}

#[tokio::test]
async fn the_message_is_the_body_of_a_post_to_the_path() {
    let (url, receiving) = receiver("/told?by=dns", "HTTP/1.1 204 No Content\r\n\r\n").await;
    post(&url, None, as_json(), "{\"ready\":true}".into()).await.unwrap();
    let request = receiving.await.unwrap();
    assert!(request.starts_with("POST /told?by=dns HTTP/1.1\r\n"), "{request}");
    for line in [&format!("host: {}\r\n", url.authority()), "content-type: application/json\r\n", "content-length: 14"]
    {
        assert!(request.contains(line), "{line} is not in {request}");
    }
    assert!(request.ends_with("\r\n\r\n{\"ready\":true}"), "{request}");
}

#[tokio::test]
async fn what_is_no_2xx_was_not_taken() {
    let (url, _receiving) = receiver("", "HTTP/1.1 307 Temporary Redirect\r\nlocation: /\r\n\r\n").await;
    let refused = post(&url, None, as_json(), "{}".into()).await;
    assert!(matches!(refused, Err(PostError::Status(StatusCode::TEMPORARY_REDIRECT))), "{refused:?}");
    let (url, _receiving) = receiver("", "220 mail.example\r\n").await;
    let refused = post(&url, None, as_json(), "{}".into()).await;
    assert!(matches!(refused, Err(PostError::Http(_))), "{refused:?}");
}

/// An authority, and a receiver over TLS whose certificate is of that authority and for `localhost`.
async fn receiver_over_tls() -> (Secret, WebUrl, JoinHandle<io::Result<String>>) {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let trusted = Secret::new(authority.pem());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = web_url(&format!("https://localhost:{}/told", listener.local_addr().unwrap().port()));
    let receiving = tokio::spawn(async move {
        let stream = TlsAcceptor::from(Arc::new(config)).accept(listener.accept().await?.0).await?;
        Ok(receive(stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await)
    });
    (trusted, url, receiving)
}

#[tokio::test]
async fn over_tls_the_certificate_must_be_of_a_trusted_authority() {
    let (trusted, url, receiving) = receiver_over_tls().await;
    let stream = TcpStream::connect(("127.0.0.1", url.port())).await.unwrap();
    let tls = Arc::new(https::client_config(Some(&trusted), None).unwrap());
    let stream = https::over_tls(tls, url.host(), stream).await.unwrap();
    exchange(stream, &url, as_json(), "{}".into()).await.unwrap();
    assert!(receiving.await.unwrap().unwrap().starts_with("POST /told HTTP/1.1\r\n"));

    let (_, url, receiving) = receiver_over_tls().await;
    let (another, ..) = receiver_over_tls().await;
    let stream = TcpStream::connect(("127.0.0.1", url.port())).await.unwrap();
    let tls = Arc::new(https::client_config(Some(&another), None).unwrap());
    let refused = https::over_tls(tls, url.host(), stream).await.map(|_| ());
    assert!(refused.is_err(), "{refused:?}");
    assert!(receiving.await.unwrap().is_err(), "nothing is sent to who cannot be trusted");
}
