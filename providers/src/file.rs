//! A zone file. Published records are below a marker line; the text above it belongs to the operator and stays.
//!
//! The file is replaced atomically. A serial above the marker with the comment `; serial` is incremented with each change. The operator
//! makes the server read the file (`rndc reload`, or a server that watches it).

use std::{collections::BTreeMap, fs, io, path::PathBuf, time::Duration};

use async_trait::async_trait;
use fairway_files::Readers;
use fairway_model::{Changes, Name, ProviderRecordSet, RecordSet, RecordSetKey, Rtype, Ttl};
use fairway_zonefile::{rdata_from_text, rdata_text};

use crate::{
    publish::{Limits, Provider, ProviderError},
    sets::blocking,
};

/// A zone file that is published to.
#[derive(Clone, Debug)]
pub struct ZoneFile {
    /// Path of the file, which is created with its folder if it does not exist.
    pub path: PathBuf,
}

#[async_trait]
impl Provider for ZoneFile {
    fn limits(&self) -> Limits {
        Limits {
            batch_max: 100_000,
            is_conditional: false,
            types: None,
            weights: None,
            timeout: Duration::from_secs(10),
        }
    }

    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        let file = self.clone();
        blocking(move || Ok(sets(split(&file.content()?).1)?.into_values().collect())).await
    }

    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError> {
        let (file, changes) = (self.clone(), changes.clone());
        blocking(move || Ok(file.change(&changes)?)).await
    }
}

impl ZoneFile {
    fn content(&self) -> io::Result<String> {
        let content = fairway_files::read(&self.path, FILE_MAX)?.unwrap_or_default();
        String::from_utf8(content).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn change(&self, changes: &Changes) -> io::Result<()> {
        let text = self.content()?;
        let (above, below) = split(&text);
        let mut sets = sets(below)?;
        changes.apply_to(&mut sets);
        let mut next = with_next_serial(above);
        if !next.is_empty() && !next.ends_with('\n') {
            next.push('\n');
        }
        next.push_str(LINE);
        for set in sets.values() {
            for rdata in set.set.rdatas.iter() {
                let RecordSet { name, rtype, ttl, .. } = &set.set;
                let data = rdata_text(*rtype, rdata);
                next.push_str(&format!("{name}\t{}\tIN\t{rtype}\t{data}\n", ttl.secs()));
            }
        }
        fs::create_dir_all(fairway_files::folder_of(&self.path))?;
        fairway_files::replace(&self.path, next.as_bytes(), Readers::Everyone)
    }
}

/// Splits the text into the operator's part and the published part.
fn split(text: &str) -> (&str, &str) {
    text.split_once(LINE).unwrap_or((text, ""))
}

/// Parses the published part: one record per line, in the form in which it is written.
fn sets(text: &str) -> io::Result<BTreeMap<RecordSetKey, ProviderRecordSet>> {
    let mut records: BTreeMap<(Name, Rtype), Lines> = BTreeMap::new();
    for (place, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let read = || {
            let mut fields = line.splitn(5, '\t');
            let (name, ttl) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            let rtype = fields.nth(1)?.parse().ok()?;
            Some((
                name,
                Ttl::from_secs(ttl).ok()?,
                rtype,
                rdata_from_text(rtype, fields.next()?.as_bytes(), &Name::root()).ok()?,
            ))
        };
        let error = || {
            format!(
                "line {} below the marker line was not written by Fairway; remove it, or move it above the marker",
                place + 1
            )
        };
        let (name, ttl, rtype, rdata): (Name, Ttl, Rtype, _) = read().ok_or_else(|| io::Error::other(error()))?;
        records.entry((name, rtype)).or_insert((ttl, Vec::new())).1.push(rdata);
    }
    let set = |((name, rtype), (ttl, rdatas))| ProviderRecordSet::plain(RecordSet::new(name, rtype, ttl, rdatas));
    Ok(records.into_iter().map(set).map(|set: ProviderRecordSet| (set.key(), set)).collect())
}

/// Returns the operator's text with its marked serial incremented (RFC 1982).
fn with_next_serial(text: &str) -> String {
    let Some(mark) = text.find("; serial") else { return text.to_owned() };
    let before = text[..mark].trim_end();
    let start = before.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |place| place + 1);
    match before[start..].parse::<u32>() {
        Ok(serial) => format!("{}{}{}", &text[..start], serial.wrapping_add(1), &text[before.len()..]),
        Err(_) => text.to_owned(),
    }
}

/// TTL and RDATA of one set.
type Lines = (Ttl, Vec<Box<[u8]>>);

/// The marker line. Files of earlier versions have it, so it must not change.
const LINE: &str = "; ---- below this line Fairway writes; it keeps what stands above ----\n";
/// Maximum number of bytes of the file.
const FILE_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, last: u8) -> ProviderRecordSet {
        let rdata: Box<[u8]> = [192, 0, 2, last].into();
        ProviderRecordSet::plain(RecordSet::new(name.parse().unwrap(), Rtype::A, Ttl::STEERED, [rdata]))
    }

    #[tokio::test]
    async fn text_above_the_marker_changes_only_in_its_serial() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.zone");
        let above = "$ORIGIN x.\n@ 60 SOA ns h (\n  41 ; serial\n  1 1 1 1 )\n@ NS ns.y.\nwww A 192.0.2.9 ; by hand";
        fs::write(&path, above).unwrap();
        let file = ZoneFile { path: path.clone() };
        let changes = Changes { create: vec![set("a.x.", 1), set("b.x.", 2)], ..Changes::default() };
        file.apply(&changes).await.unwrap();
        assert_eq!(file.read().await.unwrap(), [set("a.x.", 1), set("b.x.", 2)]);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&above.replace("41", "42")), "{text}");
        file.apply(&Changes { delete: vec![set("a.x.", 1)], ..Changes::default() }).await.unwrap();
        assert_eq!(file.read().await.unwrap(), [set("b.x.", 2)]);
        assert!(fs::read_to_string(&path).unwrap().contains("43 ; serial"));
    }

    #[tokio::test]
    async fn foreign_line_below_the_marker_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.zone");
        fs::write(&path, format!("{LINE}www A 192.0.2.9\n")).unwrap();
        let file = ZoneFile { path };
        assert!(matches!(file.read().await, Err(ProviderError::Unavailable(why)) if why.contains("line 1")));
        assert!(ZoneFile { path: folder.path().to_owned() }.read().await.is_err());
    }

    #[test]
    fn serial_wraps_and_unmarked_number_stays() {
        assert_eq!(with_next_serial("4294967295 ; serial"), "0 ; serial");
        assert_eq!(with_next_serial("x ; serial"), "x ; serial");
        assert_eq!(with_next_serial("7"), "7");
    }
}
