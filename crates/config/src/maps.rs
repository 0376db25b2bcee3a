//! What is read from beside the configuration about places: databases of maps, tables of latencies. What is as it was is not
//! read again.

mod csv;
mod mmdb_wire;

#[cfg(test)]
#[allow(dead_code, unreachable_pub, reason = "what tests of other crates use")]
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

/// The maps and tables of a reading, so that the next one need not read those again that are as they were.
#[derive(Clone, Debug, Default)]
pub struct KeptMaps {
    maps: Vec<Kept<MapText, ClientMap>>,
    latencies: Vec<Kept<TableText, LatencyTable>>,
}

/// A map as declared, its paths complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MapText {
    /// Its name.
    pub(super) name: MapName,
    /// The networks declared in it.
    pub(super) networks: Vec<(Network, ClientLocation)>,
    /// Its databases, the first of which counts.
    pub(super) databases: Vec<PathBuf>,
}

/// A table of latencies as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableText {
    /// Its name.
    pub(super) name: LatencyTableName,
    /// Its file.
    pub(super) file: PathBuf,
    /// Whether that is what the API was given: then it may be missing.
    pub(super) pushed: bool,
}

/// What is wrong with a file.
#[derive(Debug)]
pub(super) enum FileFault {
    /// The file as a whole: its number among those that are named, and why it cannot be used.
    Whole(usize, Unreadable),
    /// A line in it.
    Line(Diagnostic),
}

impl KeptMaps {
    /// Whether a table is fed by the API; none where there is no such table.
    pub fn is_pushed(&self, name: &LatencyTableName) -> Option<bool> {
        self.latencies.iter().map(|kept| &kept.said).find(|said| said.name == *name).map(|said| said.pushed)
    }

    /// As if all files had been left alone for a while.
    #[cfg(test)]
    pub(super) fn settle(&mut self) {
        self.maps.iter_mut().for_each(|kept| kept.settled = true);
        self.latencies.iter_mut().for_each(|kept| kept.settled = true);
    }

    /// The map that is said, read only if it may be another one than before. Every database at fault is told.
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

    /// The table that is said, read only if it may be another one than before.
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

/// What was made of what was said and of files.
#[derive(Debug)]
struct Kept<S, T> {
    said: S,
    files: Fingerprint,
    /// Whether every file had been left alone for so long that its next change is bound to show.
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
    /// What was made before of the same, else what is made of it now.
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
        // Nothing was pushed yet; or this is another user's check, who may not look into the folder.
        Err(_) if said.pushed && !matches!(said.file.try_exists(), Ok(true)) => {
            return Ok(LatencyTable::new(said.name.clone(), Vec::new(), Vec::new()));
        }
        read => read.map_err(whole)?,
    };
    let not_text = |_| whole(Unreadable { what: "is not text".to_owned(), hint: "give it in UTF-8" });
    let text = String::from_utf8(octets).map_err(not_text)?;
    let read = csv::read(&said.name, &said.file.to_string_lossy(), &text);
    read.map_err(|faults| faults.into_iter().map(FileFault::Line).collect())
}

/// The name of the file in the data folder that keeps what the API was given for a table.
pub fn pushed_file(name: &LatencyTableName) -> String {
    format!("latency-{name}.csv")
}

/// The table that a text holds, or all its faults, each with its line.
pub fn check_latencies(name: &LatencyTableName, text: &str) -> Result<LatencyTable, Vec<Diagnostic>> {
    csv::read(name, "table", text)
}

/// What helps where a database cannot be used.
const MMDB_WAY_OUT: &str = "put a whole City, Country or ASN database there, by another name first and then renamed";
