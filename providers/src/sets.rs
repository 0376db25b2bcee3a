//! Functions on record sets that several providers use.

use fairway_model::{Changes, Name, ProviderRecordSet};

use crate::publish::ProviderError;

/// Runs work that blocks, such as reading files, on a thread for it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ProviderError> + Send + 'static,
) -> Result<T, ProviderError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(ProviderError::Unavailable(error.to_string())))
}

/// Returns the zone of a name, which belongs to the longest matching one.
pub(crate) fn zone_of<'z>(zones: &'z [Name], name: &Name) -> Option<&'z Name> {
    zones.iter().filter(|zone| name.is_within(zone)).max_by_key(|zone| zone.label_count())
}

/// Returns the changes that belong to one of the zones.
pub(crate) fn part(zones: &[Name], zone: &Name, changes: &Changes) -> Changes {
    let is_in_zone = |set: &&ProviderRecordSet| zone_of(zones, &set.set.name) == Some(zone);
    Changes {
        create: changes.create.iter().filter(is_in_zone).cloned().collect(),
        update: changes.update.iter().filter(|update| is_in_zone(&&update.to)).cloned().collect(),
        delete: changes.delete.iter().filter(is_in_zone).cloned().collect(),
    }
}

/// Returns the RDATA of a TXT record with this text, in strings of 255 bytes.
pub(crate) fn txt_of(text: &[u8]) -> Box<[u8]> {
    text.chunks(255).flat_map(|part| [&[part.len() as u8], part].concat()).collect()
}

/// Returns the strings of a TXT record, concatenated.
pub(crate) fn text_of(mut rdata: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while let Some((length, tail)) = rdata.split_first() {
        let (string, rest) = tail.split_at_checked(usize::from(*length))?;
        text.extend_from_slice(string);
        rdata = rest;
    }
    Some(text)
}
