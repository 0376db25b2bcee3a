//! What a reading leaves of its zones, so that the next one need not read those again that are as they were: a changed weight
//! beside a million records is then taken in as fast as it is read.

use std::path::{Path, PathBuf};

use fairway_model::{Diagnostic, Name, SharedMap, SharedSet, SteeredName};
use fairway_zonefile::{Record, ZoneData};

use super::{maps::KeptMaps, watch::Fingerprint};

/// The zones of a reading: where they came from, what their files looked like, and what was doubtful in them.
#[derive(Clone, Debug, Default)]
pub struct KeptZones {
    pub(super) origins: Vec<Origin>,
    pub(super) files: Fingerprint,
    pub(super) warnings: Vec<Diagnostic>,
    /// Whether every file had been left alone for so long that its next change is bound to show.
    pub(super) settled: bool,
}

/// Where a zone comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A zone file.
    File(Name, PathBuf),
    /// The configuration itself: its records, wherever they are declared.
    Made(Vec<Record>),
}

impl Origin {
    /// That of a zone made from the configuration.
    pub(super) fn made(zone: &ZoneData) -> Self {
        Self::Made(zone.records.iter().map(|record| Record { file: 0, line: 0, ..record.clone() }).collect())
    }

    /// That of a zone file.
    pub(super) fn file(name: &Name, path: &Path) -> Self {
        Self::File(name.clone(), path.to_owned())
    }
}

/// What the reading before kept, and the names that were steered.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    /// Its zones.
    pub zones: &'a KeptZones,
    /// Its steered names: what a zone may say depends on them.
    pub names: &'a SharedMap<Name, SteeredName>,
    /// Those of them that others than its files steer.
    pub beside: &'a SharedSet<Name>,
    /// Its maps and tables of latencies.
    pub maps: &'a KeptMaps,
}

impl Before<'_> {
    /// Whether zones from these origins, beside these steered names, are those of the reading before.
    ///
    /// A name less may leave a record without the addresses it speaks of; a name more can only mend such a fault, and what it
    /// breaks is found when it is compiled.
    pub(super) fn holds(&self, origins: &[Origin], names: &SharedMap<Name, SteeredName>) -> bool {
        let before = || self.names.keys().filter(|name| self.beside.is_empty() || !self.beside.contains_key(*name));
        let same = || before().eq(names.keys());
        let more = || self.zones.warnings.is_empty() && before().all(|name| names.contains_key(name));
        let zones = self.zones;
        zones.settled && zones.origins == origins && (same() || more()) && zones.files.is_current()
    }
}
