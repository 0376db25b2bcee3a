//! The places that are published to: those of the configuration, and those that records of where to publish declare over the API.

use fairway_model::intent::DnsUpdateRecord;

use crate::configured::Configured;
use fairway_config::PublishTo;
use fairway_intents::{PublisherContext, Refused, publish_to};
use fairway_store::objects::Key;

/// All of them, in the order of the configuration and then of the records' keys, of these at most [`DECLARED_MAX`]. A record that cannot
/// be run has none, and says so itself; one that is left out with everything else that is declared has none either, so that what it
/// published stays.
pub(super) fn places(configured: &Configured) -> Vec<PublishTo> {
    let heeded = configured.objects.updates().filter(|(key, _)| !configured.left_out.contains_key(*key));
    let declared = heeded.filter_map(|(key, record)| asked(configured, key, record)?.ok());
    configured.settings.publish.iter().cloned().chain(declared.take(DECLARED_MAX)).collect()
}

/// The place that a record asks for, or why it has none; nothing where it is for external-dns.
pub fn asked(configured: &Configured, key: &Key, record: &DnsUpdateRecord) -> Option<Result<PublishTo, Refused>> {
    let settings = &configured.settings;
    let site = PublisherContext {
        project: key.names().next().unwrap_or_default(),
        owner: &settings.publish_owner,
        data_dir: settings.data_dir.as_deref(),
    };
    publish_to(record, &site)
}

/// Most records that are run.
pub const DECLARED_MAX: usize = 256;
