//! Addresses of a probe's host name, by the system's resolver.
//!
//! The resolver blocks a thread for each lookup, and goes on after a probe has given up on it: a bound keeps a dead
//! resolver from filling the process with such threads.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
};

use fairway_model::Cause;
use tokio::sync::Semaphore;

use super::failure::in_short;

/// Most lookups at once.
pub(super) const LOOKUPS_MAX: usize = 64;
/// Most addresses tried in one probe.
const ADDRESSES_MAX: usize = 8;

/// Returns the first addresses of `host`, in the resolver's order.
pub(super) async fn addresses(lookups: &Arc<Semaphore>, host: &str, port: u16) -> Result<Vec<SocketAddr>, Cause> {
    let failed = |error: &dyn std::fmt::Display| Cause(in_short(&format!("cannot resolve {host}: {error}")));
    let permit = Arc::clone(lookups).acquire_owned().await.map_err(|error| failed(&error))?;
    let name = host.to_owned();
    let lookup = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        Ok::<Vec<SocketAddr>, io::Error>((name.as_str(), port).to_socket_addrs()?.take(ADDRESSES_MAX).collect())
    });
    match lookup.await {
        Ok(Ok(addresses)) if addresses.is_empty() => Err(failed(&"no address")),
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(failed(&error)),
        Err(error) => Err(failed(&error)),
    }
}
