//! Host names to addresses, by the system's resolver.

use std::{io, net::ToSocketAddrs, thread};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::{Semaphore, oneshot};

/// Look-ups that run at once in this process. A resolver that hangs holds a thread for up to half a minute each.
static LOOKUPS: Semaphore = Semaphore::const_new(16);

/// Resolves on threads of its own. The runtime's threads would not do: at its end it waits for what they run, so a resolver that
/// hangs would keep the program from stopping.
#[derive(Debug)]
pub(crate) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let place = LOOKUPS.acquire().await?;
            let (done, outcome) = oneshot::channel();
            let look_up = move || {
                // Port 0: the connector puts in the port of the URL.
                let found = (name.as_str(), 0).to_socket_addrs().map(|found| Box::new(found) as Addrs);
                drop(place);
                // A caller that gave up needs no outcome.
                drop(done.send(found));
            };
            thread::Builder::new().name("resolve".to_owned()).spawn(look_up)?;
            outcome
                .await
                .unwrap_or_else(|_| Err(io::Error::other("the thread of the look-up ended early")))
                .map_err(Into::into)
        })
    }
}
