//! Names of clusters that no source declares, by what they consist of.

use std::net::IpAddr;

use ring::digest::{Context, SHA256};

use crate::{ClusterName, Name};

/// Returns the name of an undeclared cluster: its first address, the number of the others, and a hash of all.
pub(super) fn address_name(addresses: &[IpAddr]) -> ClusterName {
    let first = addresses.first().map_or_else(String::new, |address| match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => v6.segments().map(|segment| format!("{segment:x}")).join("-"),
    });
    let more = match addresses.len() {
        0 | 1 => String::new(),
        count => format!("+{}+{:016x}", count - 1, hash_of(addresses)),
    };
    ClusterName::new(&format!("at+{first}{more}")).expect("digits, dots, dashes and pluses")
}

/// Returns the name of an undeclared cluster with a host name. Names of clusters are shorter than those of hosts may be, so a long one is cut
/// and has a hash.
pub(super) fn host_name(host: &Name) -> ClusterName {
    let text = host.to_plain();
    let name = match text.get(..HOST_SHOWN_MAX) {
        Some(first) if text.len() > HOST_SHOWN_MAX => {
            format!("at+{first}+{:016x}", digest_of(|context| context.update(text.as_bytes())))
        }
        _ => format!("at+{text}"),
    };
    ClusterName::new(&name).expect("letters, digits, dots, dashes and pluses, at most 128")
}

/// Octets of a host name that the name of its cluster shows.
const HOST_SHOWN_MAX: usize = 100;

/// Returns a hash of the addresses, which is the same on every server: the first 64 bits of a cryptographic one. Of any other hash, a client
/// could compute addresses that have the name of somebody else's cluster, and so replace the addresses of that.
fn hash_of(addresses: &[IpAddr]) -> u64 {
    digest_of(|context| {
        for address in addresses {
            match address {
                IpAddr::V4(v4) => context.update(&v4.octets()),
                IpAddr::V6(v6) => context.update(&v6.octets()),
            }
        }
    })
}

fn digest_of(update: impl FnOnce(&mut Context)) -> u64 {
    let mut context = Context::new(&SHA256);
    update(&mut context);
    let digest = context.finish();
    u64::from_be_bytes(*digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes"))
}
