//! Finds the running server that a command means, and asks it.

use std::{net::ToSocketAddrs, path::PathBuf};

use anyhow::{Context, bail};

use super::{
    args::{FolderArgs, ServerArgs},
    variable,
};
use crate::api::client::{Client, Reach};

/// A client that commands the server on the data folder that flag and environment mean.
pub(super) fn commanded(args: &FolderArgs) -> anyhow::Result<Client> {
    Ok(Client::new(Reach::of_data_dir(&data_dir(args.data_dir.clone())?)))
}

/// A client that asks the server that flags and environment mean. FAIRWAY_URL counts only where no flag is given.
pub(super) fn asked(args: &ServerArgs) -> anyhow::Result<Client> {
    let by_folder = args.data_dir.is_some();
    let url = args.url.clone().or_else(|| variable("FAIRWAY_URL").filter(|_| !by_folder));
    let reach = match url {
        Some(url) => Reach::Http(address(&url)?),
        None => Reach::of_data_dir(&data_dir(args.data_dir.clone())?),
    };
    Ok(Client::new(reach))
}

/// The data folder that is meant, by the rules of `serve`.
pub(super) fn data_dir(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    match given {
        Some(folder) => Ok(folder),
        None => crate::config::data_dir(&variable)
            .context("no data folder is known; name it with --data-dir, or give --url"),
    }
}

/// The socket address of a URL.
fn address(url: &str) -> anyhow::Result<std::net::SocketAddr> {
    if url.starts_with("https://") {
        bail!("{url}: the HTTP listener speaks plain HTTP; write http://, or tunnel to it (ssh -L)");
    }
    let authority = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    if authority.is_empty() || authority.contains(['/', '?', '#', '@', ' ']) {
        bail!("{url:?} is not the address of a server; write it like http://127.0.0.1:8053");
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
    let found = authority.to_socket_addrs().with_context(|| format!("{url}: the name cannot be resolved"))?.next();
    found.with_context(|| format!("{url}: the name has no address; write the address itself"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_servers_get_port_80_unless_they_name_one() {
        assert_eq!(address("http://[::1]:8053/").unwrap(), "[::1]:8053".parse().unwrap());
        assert_eq!(address("http://192.0.2.1").unwrap(), "192.0.2.1:80".parse().unwrap());
        assert_eq!(address("127.0.0.1:8053").unwrap(), "127.0.0.1:8053".parse().unwrap());
    }

    #[test]
    fn addresses_that_cannot_work_are_refused_with_the_way_out() {
        let fault = address("https://192.0.2.1").unwrap_err().to_string();
        assert!(fault.contains("write http://"), "{fault}");
        assert!(address("http://a/b").is_err() && address("http://").is_err());
    }
}
