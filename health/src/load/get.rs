//! One GET request whose body is passed on as it arrives, for the readers of load. It connects as a probe does, with a limit
//! of its own.

use std::{net::SocketAddr, sync::Arc};

use fairway_model::{Cause, HttpCheck, ProbeAddress};
use http_body_util::BodyExt;
use hyper::{Response, body::Incoming, header::CONTENT_ENCODING};
use tokio::sync::Semaphore;

use super::error::ReadError;
use crate::{
    fence::Fence,
    probe::{
        Failure, HttpProbe, MonitorError, ProbeEndpoint, Tls, TlsConfigs, connect, prepare_http, resolve::addresses,
    },
};

/// Receives pieces of a body; an error stops the request.
pub(super) type BodyReceiver<'a> = dyn FnMut(&[u8]) -> Result<(), ReadError> + Send + 'a;

/// A prepared request.
#[derive(Debug)]
pub(super) struct HttpGet {
    request: HttpProbe,
    tls: Option<Tls>,
    port: u16,
    read_max: usize,
    lookups: Arc<Semaphore>,
    fence: Arc<Fence>,
}

impl HttpGet {
    /// Prepares the request of a check. At most `read_max` bytes of the response are read, including TLS.
    pub(super) fn new(
        check: &HttpCheck,
        read_max: usize,
        (lookups, fence): (&Arc<Semaphore>, &Arc<Fence>),
        configs: &mut TlsConfigs,
    ) -> Result<Self, MonitorError> {
        let (request, tls) = prepare_http(check, configs)?;
        Ok(Self { request, tls, port: check.port, read_max, lookups: Arc::clone(lookups), fence: Arc::clone(fence) })
    }

    /// Sends the request and passes on the body of the response.
    pub(super) async fn send(&self, address: &ProbeAddress, receiver: &mut BodyReceiver<'_>) -> Result<(), ReadError> {
        match address {
            ProbeAddress::Address(ip) => self.send_to(&[SocketAddr::new(*ip, self.port)], None, receiver).await,
            ProbeAddress::OfHost(ip, host) => {
                self.send_to(&[SocketAddr::new(*ip, self.port)], Some(&host.to_plain()), receiver).await
            }
            ProbeAddress::Socket(socket) => self.send_to(&[*socket], None, receiver).await,
            ProbeAddress::Host(host, port) => {
                let found = addresses(&self.lookups, host, *port).await.map_err(ReadError::Observer)?;
                self.send_to(&found, Some(host), receiver).await
            }
        }
    }

    /// Sends the request to the first address that accepts a connection, if all of them are allowed.
    async fn send_to(
        &self,
        addresses: &[SocketAddr],
        host: Option<&str>,
        receiver: &mut BodyReceiver<'_>,
    ) -> Result<(), ReadError> {
        let denied = addresses.iter().find_map(|address| self.fence.check(*address, host, None).err());
        if let Some(denied) = denied {
            return Err(ReadError::NotAllowed(denied));
        }
        let mut last_failure = None;
        for address in addresses {
            let stream = match connect(*address, self.read_max).await {
                Ok(stream) => stream,
                Err(failure) => {
                    last_failure = Some(failure);
                    continue;
                }
            };
            let endpoint = ProbeEndpoint { address: *address, host };
            let handle = async |response| receive(response, receiver).await;
            return match &self.tls {
                None => self.request.send(stream, endpoint, handle).await,
                Some(tls) => self.request.send(tls.connect(stream, endpoint).await?, endpoint, handle).await,
            };
        }
        Err(last_failure.map_or_else(|| ReadError::Observer(Cause::new("no address")), ReadError::from))
    }
}

async fn receive(response: Response<Incoming>, receiver: &mut BodyReceiver<'_>) -> Result<(), ReadError> {
    let status = response.status().as_u16();
    if status != 200 {
        return Err(ReadError::Status(status));
    }
    if response.headers().get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(ReadError::Content("the response is compressed, but no encoding was accepted".to_owned()));
    }
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::of(&error))?;
        if let Some(data) = frame.data_ref() {
            receiver(data)?;
        }
    }
    Ok(())
}
