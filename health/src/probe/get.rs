//! One GET to a gateway or a server, whose body is handed on as it arrives: the probes' way to a target, with a bound of
//! its own and without a judgement.

use std::{net::SocketAddr, sync::Arc};

use fairway_model::{HttpCheck, ProbeAddress, TlsCheck};
use http_body_util::BodyExt;
use hyper::{Response, body::Incoming, header::CONTENT_ENCODING};
use rustls::ClientConfig;
use tokio::sync::Semaphore;

use super::{MonitorError, Place, failure::Failure, http, prepare, resolve, stream, tls};

/// What stands between a request and its whole answer.
#[derive(Debug)]
pub(crate) enum GetError {
    /// Who asks is at fault.
    Asker(fairway_model::Cause),
    /// No connection, or no HTTP over it.
    Target(fairway_model::Cause),
    /// An encoding that was not asked for.
    Encoded,
    /// Another status than 200.
    Status(u16),
    /// Whoever takes the body has had enough.
    Enough,
}

impl From<Failure> for GetError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Observer(cause) => Self::Asker(cause),
            Failure::Target(cause) | Failure::Silent(cause) | Failure::Unreachable(cause) => Self::Target(cause),
        }
    }
}

/// TLS configurations by what they follow from, so that equal ones are made once.
pub(crate) type TlsConfigs = std::collections::HashMap<TlsCheck, Arc<ClientConfig>>;

/// Takes pieces of a body; false when it has had enough.
pub(crate) type Piece<'a> = dyn FnMut(&[u8]) -> bool + Send + 'a;

/// A request, ready to be sent.
#[derive(Debug)]
pub(crate) struct Get {
    plan: http::Plan,
    tls: Option<tls::Tls>,
    port: u16,
    read_max: usize,
    lookups: Arc<Semaphore>,
}

impl Get {
    /// Prepares the request of a check, of whose answer at most `read_max` bytes are read, TLS included.
    pub(crate) fn new(
        check: &HttpCheck,
        read_max: usize,
        lookups: &Arc<Semaphore>,
        configs: &mut TlsConfigs,
    ) -> Result<Self, MonitorError> {
        let mut configure = |tls: &TlsCheck, alpn: &[u8]| {
            let key = TlsCheck { server_name: None, ..tls.clone() };
            if let Some(config) = configs.get(&key) {
                return Ok(Arc::clone(config));
            }
            let config = Arc::new(tls::config(tls, alpn, &tls::system_roots)?);
            configs.insert(key, Arc::clone(&config));
            Ok(config)
        };
        let (plan, tls) = prepare::http_work(check, &mut configure)?;
        Ok(Self { plan, tls, port: check.port, read_max, lookups: Arc::clone(lookups) })
    }

    /// Sends it, and hands on the body of the answer.
    pub(crate) async fn send(&self, address: &ProbeAddress, piece: &mut Piece<'_>) -> Result<(), GetError> {
        match address {
            ProbeAddress::Address(ip) => self.send_to(&[SocketAddr::new(*ip, self.port)], None, piece).await,
            ProbeAddress::Socket(socket) => self.send_to(&[*socket], None, piece).await,
            ProbeAddress::Host(host, port) => {
                let found = resolve::addresses(&self.lookups, host, *port).await.map_err(GetError::Asker)?;
                self.send_to(&found, Some(host), piece).await
            }
        }
    }

    /// Asks the first address that takes a connection.
    async fn send_to(
        &self,
        addresses: &[SocketAddr],
        host: Option<&str>,
        piece: &mut Piece<'_>,
    ) -> Result<(), GetError> {
        let mut refused = None;
        for address in addresses {
            let stream = match stream::connect(*address, self.read_max).await {
                Ok(stream) => stream,
                Err(failure) => {
                    refused = Some(failure);
                    continue;
                }
            };
            let place = Place { address: *address, host };
            let answered = async |response| take(response, piece).await;
            return match &self.tls {
                None => self.plan.ask(stream, place, answered).await,
                Some(tls) => self.plan.ask(tls.connect(stream, place).await?, place, answered).await,
            };
        }
        Err(refused.map_or_else(|| GetError::Asker(fairway_model::Cause::new("no address")), GetError::from))
    }
}

async fn take(response: Response<Incoming>, piece: &mut Piece<'_>) -> Result<(), GetError> {
    let status = response.status().as_u16();
    if status != 200 {
        return Err(GetError::Status(status));
    }
    if response.headers().get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(GetError::Encoded);
    }
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::of(&error))?;
        if frame.data_ref().is_some_and(|data| !piece(data)) {
            return Err(GetError::Enough);
        }
    }
    Ok(())
}
