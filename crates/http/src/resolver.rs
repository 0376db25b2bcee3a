//! Host names to addresses, by the system's resolver except for `localhost`.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    pin::Pin,
    task::{Context, Poll},
    thread, vec,
};

use hyper_util::client::legacy::connect::{HttpConnector, dns};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::{Semaphore, oneshot};
use tower::{BoxError, Service};

/// Maximum number of concurrent look-ups in this process. A resolver that hangs holds a thread for up to half a minute each.
static LOOKUPS: Semaphore = Semaphore::const_new(16);

/// Resolves on threads of its own. The runtime's threads are unsuitable: when the runtime ends it waits for them, so a resolver that hangs
/// would keep the program from stopping.
#[derive(Clone, Debug)]
pub struct SystemResolver;

/// Returns a connector for gRPC: names by this resolver, and the other address family after 300 ms without a connection.
pub fn grpc_connector() -> HttpConnector<SystemResolver> {
    let mut connector = HttpConnector::new_with_resolver(SystemResolver);
    // `https` as well: the gRPC channel adds TLS.
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector
}

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move { Ok(Box::new(resolve(name.as_str().to_owned()).await?) as Addrs) })
    }
}

impl Service<dns::Name> for SystemResolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: dns::Name) -> Self::Future {
        Box::pin(resolve(name.as_str().to_owned()))
    }
}

async fn resolve(host: String) -> Result<vec::IntoIter<SocketAddr>, BoxError> {
    let place = LOOKUPS.acquire().await?;
    let (done, outcome) = oneshot::channel();
    let run = move || {
        let found = look_up(&host);
        drop(place);
        // A caller that gave up needs no outcome.
        drop(done.send(found));
    };
    thread::Builder::new().name("resolve".to_owned()).spawn(run)?;
    let found = outcome.await.unwrap_or_else(|_| Err(io::Error::other("the thread of the look-up ended early")));
    Ok(found?)
}

/// Resolves a host name. Port 0: the connector puts in the port of the URL.
fn look_up(host: &str) -> io::Result<vec::IntoIter<SocketAddr>> {
    // Without the system (RFC 6761 section 6.3): secrets may be sent to `localhost` without TLS, so it must be this machine.
    if host == "localhost" || host.ends_with(".localhost") {
        return Ok(vec![(Ipv6Addr::LOCALHOST, 0).into(), (Ipv4Addr::LOCALHOST, 0).into()].into_iter());
    }
    (host, 0).to_socket_addrs()
}
