//! The destinations of publishing: those of the configuration, and those of DNS update records that are declared over the API.

use fairway_config::PublishTo;
use fairway_intents::{InvalidBody, PublisherContext, publish_to};
use fairway_model::intent::DnsUpdateRecord;
use fairway_store::objects::Key;

use crate::configured::Configured;

/// The source that declares a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeclaredBy {
    /// The configuration.
    Config,
    /// A DNS update record. Its publisher is named `PROJECT/…`, after its key.
    Record,
}

/// Returns all destinations: those of the configuration, then those of records in the order of their keys, of these at most
/// [`DECLARED_MAX`]. A rejected record has none, so that what it published stays.
pub(super) fn destinations(configured: &Configured) -> Vec<(DeclaredBy, PublishTo)> {
    let records = configured.objects.updates().filter(|(key, _)| !configured.not_served.contains_key(*key));
    let declared = records.filter_map(|(key, record)| publisher_of(configured, key, record)?.ok()).take(DECLARED_MAX);
    let of_config = configured.settings.publish.iter().cloned().map(|to| (DeclaredBy::Config, to));
    of_config.chain(declared.map(|to| (DeclaredBy::Record, to))).collect()
}

/// Returns the destination of a record, or the reason why it has none. Returns `None` if the record is meant for external-dns.
pub fn publisher_of(
    configured: &Configured,
    key: &Key,
    record: &DnsUpdateRecord,
) -> Option<Result<PublishTo, InvalidBody>> {
    let (settings, zones) = (&configured.settings, configured.merged.desired.zones.keys().cloned().collect::<Vec<_>>());
    let site = PublisherContext {
        project: key.names().next().unwrap_or_default(),
        record: key.name(),
        owner: &settings.publish_owner,
        data_dir: settings.data_dir.as_deref(),
        zones: Some(&zones),
    };
    publish_to(record, &site)
}

/// Maximum number of records that are published: each is a task with its connections and its notes, some 100 KiB.
pub const DECLARED_MAX: usize = 256;
