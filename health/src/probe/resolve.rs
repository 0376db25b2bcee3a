//! Resolves the host name of a probe with the system's resolver.
//!
//! The resolver blocks a thread for each look-up and continues after the probe has timed out. The limit keeps a failed
//! resolver from using all threads of the process.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
};

use fairway_model::Cause;
use tokio::sync::Semaphore;

use super::failure::shortened;

/// Largest number of concurrent look-ups: an eighth of the 512 threads that tokio has for blocking calls.
pub(super) const LOOKUPS_MAX: usize = 64;
/// Largest number of addresses that are tried in one probe: the largest number that a cluster has per family.
const ADDRESSES_MAX: usize = 8;

/// Returns the first addresses of `host`, in the order of the resolver.
pub(crate) async fn addresses(lookups: &Arc<Semaphore>, host: &str, port: u16) -> Result<Vec<SocketAddr>, Cause> {
    let failed = |error: &dyn std::fmt::Display| Cause(shortened(&format!("cannot resolve {host}: {error}")));
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
