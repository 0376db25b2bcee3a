//! Files about client locations: databases of maps, latency tables. Files that did not change are not read again.

mod csv;
mod mmdb_wire;

#[cfg(test)]
#[allow(dead_code, unreachable_pub, reason = "tests of other crates use the rest")]
#[path = "../../../integration/src/mmdb.rs"]
pub mod mmdb_writer;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, sync::Arc, time::SystemTime};

use fairway_model::{
    ClientLocation, ClientMap, Diagnostic, LatencyTable, LatencyTableName, MapLayer, MapName, Network,
};

use super::{
    files::{Files, LATENCIES_MAX, MMDB_MAX},
    reason::Reason,
    watch::Fingerprint,
};

/// Maps and tables of the last load, which the next load uses again if their files did not change.
#[derive(Clone, Debug, Default)]
pub struct MapCache {
    maps: Vec<Arc<Cached<DeclaredMap, ClientMap>>>,
    latencies: Vec<Arc<Cached<DeclaredTable, LatencyTable>>>,
}

/// A declared map with absolute paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeclaredMap {
    /// Name of the map.
    pub(super) name: MapName,
    /// Networks declared in it.
    pub(super) networks: Vec<(Network, ClientLocation)>,
    /// Its databases, in order of precedence.
    pub(super) databases: Vec<PathBuf>,
}

/// A declared latency table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeclaredTable {
    /// Name of the table.
    pub(super) name: LatencyTableName,
    /// Its file.
    pub(super) file: PathBuf,
    /// True if the file keeps a table pushed over the API: then it may be missing.
    pub(super) pushed: bool,
}

/// An error of a file.
#[derive(Debug)]
pub(super) enum FileError {
    /// The file as a whole: its index among the files of the map, and the reason.
    Whole(usize, Reason),
    /// A line of the file.
    Line(Diagnostic),
}

impl MapCache {
    /// Returns whether a table is pushed over the API; `None` if there is no such table.
    pub fn is_pushed(&self, name: &LatencyTableName) -> Option<bool> {
        let mut declared = self.latencies.iter().map(|cached| &cached.declared);
        declared.find(|declared| declared.name == *name).map(|declared| declared.pushed)
    }

    /// Marks all files as unchanged for long enough.
    #[cfg(test)]
    pub(super) fn settle(&mut self) {
        let own = "the load is over, and nothing else has it";
        self.maps.iter_mut().for_each(|cached| Arc::get_mut(cached).expect(own).is_settled = true);
        self.latencies.iter_mut().for_each(|cached| Arc::get_mut(cached).expect(own).is_settled = true);
    }

    /// Returns the declared map, which is read only if it may have changed. Returns the errors of all its databases.
    pub(super) fn map(
        &mut self,
        declared: DeclaredMap,
        previous: Option<&Self>,
        files: &mut Files,
    ) -> Result<Arc<ClientMap>, Vec<FileError>> {
        let previous = previous.map_or(&[][..], |previous| &previous.maps);
        reuse_or_read(&mut self.maps, declared, previous, files, read_map)
    }

    /// Returns the declared table, which is read only if it may have changed.
    pub(super) fn latencies(
        &mut self,
        declared: DeclaredTable,
        previous: Option<&Self>,
        files: &mut Files,
    ) -> Result<Arc<LatencyTable>, Vec<FileError>> {
        let previous = previous.map_or(&[][..], |previous| &previous.latencies);
        reuse_or_read(&mut self.latencies, declared, previous, files, read_table)
    }
}

/// A map or table with the declaration and the files that it was built from.
#[derive(Debug)]
struct Cached<S, T> {
    declared: S,
    files: Fingerprint,
    /// True if all files were old enough, so that the next change is certain to show.
    is_settled: bool,
    value: Arc<T>,
}

/// Returns the previous result if declaration and files are the same; otherwise reads the files. The result is added to
/// the cache.
fn reuse_or_read<S: PartialEq, T>(
    cache: &mut Vec<Arc<Cached<S, T>>>,
    declared: S,
    previous: &[Arc<Cached<S, T>>],
    files: &mut Files,
    read: impl FnOnce(&S, &mut Files) -> Result<T, Vec<FileError>>,
) -> Result<Arc<T>, Vec<FileError>> {
    let mut known = previous.iter().filter(|cached| cached.is_settled && cached.declared == declared);
    let cached = match known.find(|cached| cached.files.is_current()) {
        Some(known) => {
            files.fingerprint.join(&known.files);
            Arc::clone(known)
        }
        None => {
            let mut own = Files::default();
            let value = read(&declared, &mut own);
            files.fingerprint.join(&own.fingerprint);
            let is_settled = own.fingerprint.is_settled(SystemTime::now());
            Arc::new(Cached { declared, is_settled, files: own.fingerprint, value: Arc::new(value?) })
        }
    };
    let value = Arc::clone(&cached.value);
    cache.push(cached);
    Ok(value)
}

fn read_map(declared: &DeclaredMap, files: &mut Files) -> Result<ClientMap, Vec<FileError>> {
    let mut layers: Vec<MapLayer> = MapLayer::of_networks(&declared.networks).into();
    let mut diagnostics = Vec::new();
    for (number, path) in declared.databases.iter().enumerate() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let read = files.read(path, MMDB_MAX).and_then(|bytes| {
            let layer = mmdb_wire::read(&bytes, &name, ClientMap::RECORDS_MAX);
            layer.map_err(|mmdb_wire::Unusable(what)| Reason::new(what, MMDB_HINT))
        });
        match read {
            Ok(layer) => layers.push(layer),
            Err(why) => diagnostics.push(FileError::Whole(number, why)),
        }
    }
    if diagnostics.is_empty() { Ok(ClientMap::new(declared.name.clone(), layers)) } else { Err(diagnostics) }
}

fn read_table(declared: &DeclaredTable, files: &mut Files) -> Result<LatencyTable, Vec<FileError>> {
    let whole = |why| vec![FileError::Whole(0, why)];
    let bytes = match files.read(&declared.file, LATENCIES_MAX) {
        // Nothing was pushed yet, or this is a check by another user, who cannot read the folder.
        Err(_) if declared.pushed && !matches!(declared.file.try_exists(), Ok(true)) => {
            return Ok(LatencyTable::new(declared.name.clone(), Vec::new(), Vec::new()));
        }
        read => read.map_err(whole)?,
    };
    let not_text = |_| whole(Reason::new("is not text", "save it as UTF-8"));
    let text = String::from_utf8(bytes).map_err(not_text)?;
    let read = csv::read(&declared.name, &declared.file.to_string_lossy(), &text);
    read.map_err(|diagnostics| diagnostics.into_iter().map(FileError::Line).collect())
}

/// Returns the name of the file in the data folder that keeps the pushed table of this name.
pub fn pushed_file(name: &LatencyTableName) -> String {
    format!("latency-{name}.csv")
}

/// Parses a latency table, or returns all its errors with their lines.
pub fn check_latencies(name: &LatencyTableName, text: &str) -> Result<LatencyTable, Vec<Diagnostic>> {
    csv::read(name, "table", text)
}

/// Hint for a database that cannot be used.
const MMDB_HINT: &str =
    "replace it with a complete City, Country or ASN database: write it under another name, then rename it";
