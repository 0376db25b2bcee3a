//! Files about client locations: databases of maps, latency tables. Files that did not change are not read again.

mod csv;
mod mmdb_wire;

#[cfg(test)]
#[allow(dead_code, unreachable_pub, reason = "tests of other crates use the rest")]
#[path = "../../../integration/src/mmdb.rs"]
pub mod mmdb_writer;
#[cfg(test)]
mod tests;

use std::{mem, path::PathBuf, sync::Arc, time::SystemTime};

use fairway_model::{
    ClientLocation, ClientMap, Diagnostic, LatencyTable, LatencyTableName, MapLayer, MapName, Network,
};

use super::{
    files::{Files, LATENCIES_MAX, MMDB_MAX, Unreadable},
    watch::Fingerprint,
};

/// Maps and tables of the last load, which the next load uses again if their files did not change.
#[derive(Clone, Debug, Default)]
pub struct KeptMaps {
    maps: Vec<Kept<MapText, ClientMap>>,
    latencies: Vec<Kept<TableText, LatencyTable>>,
}

/// A declared map with absolute paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MapText {
    /// Name of the map.
    pub(super) name: MapName,
    /// Networks declared in it.
    pub(super) networks: Vec<(Network, ClientLocation)>,
    /// Its databases, in order of precedence.
    pub(super) databases: Vec<PathBuf>,
}

/// A declared latency table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableText {
    /// Name of the table.
    pub(super) name: LatencyTableName,
    /// Its file.
    pub(super) file: PathBuf,
    /// True if the file keeps a table pushed over the API: then it may be missing.
    pub(super) pushed: bool,
}

/// An error of a file.
#[derive(Debug)]
pub(super) enum FileFault {
    /// The file as a whole: its index among the files of the map, and the reason.
    Whole(usize, Unreadable),
    /// A line of the file.
    Line(Diagnostic),
}

impl KeptMaps {
    /// Returns whether a table is pushed over the API; `None` if there is no such table.
    pub fn is_pushed(&self, name: &LatencyTableName) -> Option<bool> {
        self.latencies.iter().map(|kept| &kept.said).find(|said| said.name == *name).map(|said| said.pushed)
    }

    /// Marks all files as unchanged for long enough.
    #[cfg(test)]
    pub(super) fn settle(&mut self) {
        self.maps.iter_mut().for_each(|kept| kept.settled = true);
        self.latencies.iter_mut().for_each(|kept| kept.settled = true);
    }

    /// Returns the declared map, which is read only if it may have changed. Returns the errors of all its databases.
    pub(super) fn map(
        &mut self,
        said: MapText,
        before: Option<&Self>,
        files: &mut Files,
    ) -> Result<Arc<ClientMap>, Vec<FileFault>> {
        let before = before.map_or(&[][..], |before| &before.maps);
        self.maps.push(Kept::take_or_read(said, before, files, read_map)?);
        Ok(self.maps.last().map(|kept| Arc::clone(&kept.made)).expect("one was pushed"))
    }

    /// Returns the declared table, which is read only if it may have changed.
    pub(super) fn latencies(
        &mut self,
        said: TableText,
        before: Option<&Self>,
        files: &mut Files,
    ) -> Result<Arc<LatencyTable>, Vec<FileFault>> {
        let before = before.map_or(&[][..], |before| &before.latencies);
        self.latencies.push(Kept::take_or_read(said, before, files, read_table)?);
        Ok(self.latencies.last().map(|kept| Arc::clone(&kept.made)).expect("one was pushed"))
    }
}

/// A map or table with the declaration and the files that it was built from.
#[derive(Debug)]
struct Kept<S, T> {
    said: S,
    files: Fingerprint,
    /// True if all files were old enough, so that the next change is certain to show.
    settled: bool,
    made: Arc<T>,
}

impl<S: Clone, T> Clone for Kept<S, T> {
    fn clone(&self) -> Self {
        let Self { said, files, settled, made } = self;
        Self { said: said.clone(), files: files.clone(), settled: *settled, made: Arc::clone(made) }
    }
}

impl<S: Clone + PartialEq, T> Kept<S, T> {
    /// Returns the previous result if declaration and files are the same; otherwise reads the files.
    fn take_or_read(
        said: S,
        before: &[Self],
        files: &mut Files,
        read: impl FnOnce(&S, &mut Files) -> Result<T, Vec<FileFault>>,
    ) -> Result<Self, Vec<FileFault>> {
        let known = before.iter().find(|kept| kept.settled && kept.said == said && kept.files.is_current());
        if let Some(known) = known {
            files.fingerprint.join(&known.files);
            return Ok(known.clone());
        }
        let others = mem::take(&mut files.fingerprint);
        let made = read(&said, files);
        let own = mem::replace(&mut files.fingerprint, others);
        files.fingerprint.join(&own);
        let settled = own.is_settled(SystemTime::now());
        Ok(Self { said, settled, files: own, made: Arc::new(made?) })
    }
}

fn read_map(said: &MapText, files: &mut Files) -> Result<ClientMap, Vec<FileFault>> {
    let mut layers: Vec<MapLayer> = MapLayer::of_networks(&said.networks).into();
    let mut faults = Vec::new();
    for (number, path) in said.databases.iter().enumerate() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let read = files.read(path, MMDB_MAX).and_then(|octets| {
            let layer = mmdb_wire::read(&octets, &name, ClientMap::RECORDS_MAX);
            layer.map_err(|mmdb_wire::Unusable(what)| Unreadable { what, hint: MMDB_WAY_OUT })
        });
        match read {
            Ok(layer) => layers.push(layer),
            Err(why) => faults.push(FileFault::Whole(number, why)),
        }
    }
    if faults.is_empty() { Ok(ClientMap::new(said.name.clone(), layers)) } else { Err(faults) }
}

fn read_table(said: &TableText, files: &mut Files) -> Result<LatencyTable, Vec<FileFault>> {
    let whole = |why| vec![FileFault::Whole(0, why)];
    let octets = match files.read(&said.file, LATENCIES_MAX) {
        // Nothing was pushed yet, or this is a check by another user, who cannot read the folder.
        Err(_) if said.pushed && !matches!(said.file.try_exists(), Ok(true)) => {
            return Ok(LatencyTable::new(said.name.clone(), Vec::new(), Vec::new()));
        }
        read => read.map_err(whole)?,
    };
    let not_text = |_| whole(Unreadable { what: "is not text".to_owned(), hint: "save it as UTF-8" });
    let text = String::from_utf8(octets).map_err(not_text)?;
    let read = csv::read(&said.name, &said.file.to_string_lossy(), &text);
    read.map_err(|faults| faults.into_iter().map(FileFault::Line).collect())
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
const MMDB_WAY_OUT: &str =
    "replace it with a complete City, Country or ASN database: write it under another name, then rename it";
