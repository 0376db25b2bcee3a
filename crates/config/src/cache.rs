//! Cache of zones between loads. Unchanged zones are not read again, so that a changed weight among a million records
//! is applied as fast as its file is read.

use std::path::PathBuf;

use fairway_model::{Diagnostic, Name, SharedMap, SharedSet, SteeredName};
use fairway_zonefile::Record;

use super::{maps::MapCache, watch::Fingerprint};

/// Zones of a load: their origins, the fingerprint of their files, and their warnings.
#[derive(Clone, Debug, Default)]
pub struct ZoneCache {
    pub(super) origins: Vec<Origin>,
    /// Steered names that were answered with a CNAME.
    pub(super) aliases: Vec<Name>,
    pub(super) files: Fingerprint,
    pub(super) warnings: Vec<Diagnostic>,
    /// True if all files were old enough, so that the next change is certain to show.
    pub(super) is_settled: bool,
}

/// Origin of a zone's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A zone file.
    File(Name, PathBuf),
    /// The configuration itself: records without their locations, which may move.
    Made(Vec<Record>),
}

/// Result of the previous load.
#[derive(Clone, Copy, Debug)]
pub struct PreviousLoad<'a> {
    /// Cache of its zones.
    pub zones: &'a ZoneCache,
    /// Steered names that were served: the checks of zones depend on them.
    pub names: &'a SharedMap<Name, SteeredName>,
    /// Those of them that files do not declare.
    pub not_in_files: &'a SharedSet<Name>,
    /// Cache of its maps and latency tables.
    pub maps: &'a MapCache,
}

impl PreviousLoad<'_> {
    /// True if zones of these origins, with these steered names, of which `aliases` are answered with a CNAME, are those of the previous
    /// load.
    ///
    /// Without one of the previous names, a record may refer to a name without addresses. Another name can only resolve
    /// such a warning, and conflicts with it are found by compilation.
    pub(super) fn has_same_zones(
        &self,
        origins: &[Origin],
        aliases: &[Name],
        names: &SharedMap<Name, SteeredName>,
    ) -> bool {
        let before =
            || self.names.keys().filter(|name| self.not_in_files.is_empty() || !self.not_in_files.contains_key(*name));
        let same = || before().eq(names.keys());
        let more = || self.zones.warnings.is_empty() && before().all(|name| names.contains_key(name));
        let zones = self.zones;
        let same_answers = zones.aliases == aliases;
        zones.is_settled && zones.origins == origins && same_answers && (same() || more()) && zones.files.is_current()
    }
}
