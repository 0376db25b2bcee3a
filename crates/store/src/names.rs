//! Numbers of records and names of each zone, to and from `names.json`: a start reports zones whose files have lost many.

use std::collections::BTreeMap;

use fairway_model::Timestamp;

use super::state_wire::{self, FileError, NamesFile, VERSION};

/// Number of records and names that the files declare, by the apex of the zone.
pub type ZoneSizes = BTreeMap<String, usize>;

/// Parses `names.json`.
pub(super) fn decode(text: &[u8]) -> Result<ZoneSizes, FileError> {
    state_wire::decode(text).map(|file: NamesFile| file.zones)
}

/// Returns the text of `names.json`.
pub(super) fn encode(zones: &ZoneSizes, now: Timestamp) -> Vec<u8> {
    state_wire::encode(&NamesFile { version: VERSION, written: format!("{now:.3}"), zones: zones.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_sizes_are_decoded_unchanged_and_a_truncated_file_is_rejected() {
        let sizes = ZoneSizes::from([("gslb.example.".to_owned(), 7), ("static.example.".to_owned(), 1_000_000)]);
        let text = encode(&sizes, Timestamp::from_secs(9));
        assert_eq!(decode(&text).unwrap(), sizes);
        assert!((0..text.len()).all(|end| decode(&text[..end]).is_err()));
    }
}
