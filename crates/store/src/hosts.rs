//! Addresses of host names of clusters, to and from `hosts.json`: so that a start while no resolver answers has the last good ones.

use fairway_hosts::SavedHost;
use fairway_model::Timestamp;

use super::state_wire::{self, FileError, HostLine, HostsFile, VERSION};

/// Parses `hosts.json`. Lines with an invalid name, address or time are left out.
pub(super) fn decode(text: &[u8]) -> Result<Vec<SavedHost>, FileError> {
    let file: HostsFile = state_wire::decode(text)?;
    let host = |HostLine { name, addresses, resolved }: HostLine| {
        let addresses = addresses.iter().filter_map(|address| address.parse().ok()).collect();
        Some(SavedHost { name: name.parse().ok()?, addresses, resolved_at: resolved.parse().ok()? })
    };
    Ok(file.hosts.into_iter().filter_map(host).collect())
}

/// Returns the text of `hosts.json`.
pub(super) fn encode(hosts: &[SavedHost], now: Timestamp) -> Vec<u8> {
    let line = |host: &SavedHost| HostLine {
        name: host.name.to_string(),
        addresses: host.addresses.iter().map(ToString::to_string).collect(),
        resolved: host.resolved_at.to_string(),
    };
    let (written, hosts) = (format!("{now:.3}"), hosts.iter().map(line).collect());
    state_wire::encode(&HostsFile { version: VERSION, written, hosts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_hosts_are_decoded_unchanged_and_a_truncated_file_is_rejected() {
        let host = SavedHost {
            name: "lb.elb.test".parse().unwrap(),
            addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
            resolved_at: Timestamp::from_secs(1_700_000_000),
        };
        let text = encode(std::slice::from_ref(&host), Timestamp::from_secs(1_700_000_009));
        assert_eq!(decode(&text).unwrap(), [host]);
        assert!((0..text.len()).all(|end| decode(&text[..end]).is_err()));
    }
}
