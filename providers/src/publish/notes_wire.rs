//! The file with a publisher's notes about the sets that it writes.

use std::{fs, io, path::PathBuf};

use fairway_files::Readers;
use fairway_model::{Name, RecordSetKey, Rtype};
use fairway_zonefile::{rdata_from_text, rdata_text};
use serde::{Deserialize, Serialize};

use super::registry::{Claim, Claims};

/// The file of the notes. Without a data folder they are in memory only.
#[derive(Clone, Debug, Default)]
pub struct Notes(Option<PathBuf>);

#[derive(Serialize, Deserialize)]
struct Note {
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    #[serde(default, rename = "setIdentifier", skip_serializing_if = "String::is_empty")]
    set_identifier: String,
    records: Vec<String>,
    #[serde(default, rename = "pending", skip_serializing_if = "std::ops::Not::not")]
    is_pending: bool,
}

impl Notes {
    /// Returns notes in this file.
    pub fn at(path: PathBuf) -> Self {
        Self(Some(path))
    }

    /// Reads the notes. An unreadable file is logged and counts as empty; then only registry records hold the owners.
    pub(super) fn read(&self) -> Claims {
        let Some(path) = &self.0 else { return Claims::new() };
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Claims::new(),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "publisher state not readable");
                return Claims::new();
            }
        };
        match serde_json::from_slice::<Vec<Note>>(&text) {
            Ok(notes) => notes.into_iter().filter_map(claim).collect(),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "publisher state malformed");
                Claims::new()
            }
        }
    }

    /// Replaces the notes durably.
    pub(super) fn write(&self, claims: &Claims) -> io::Result<()> {
        let Some(path) = &self.0 else { return Ok(()) };
        fs::create_dir_all(fairway_files::folder_of(path))?;
        let notes: Vec<_> = claims.iter().map(|(key, claim)| note(key, claim)).collect();
        fairway_files::replace(path, &serde_json::to_vec(&notes)?, Readers::Owner)
    }
}

fn note(key: &RecordSetKey, claim: &Claim) -> Note {
    Note {
        name: key.name.to_string(),
        rtype: key.rtype.to_string(),
        set_identifier: key.set_identifier.clone(),
        records: claim.records.iter().map(|rdata| rdata_text(key.rtype, rdata)).collect(),
        is_pending: claim.is_pending,
    }
}

fn claim(note: Note) -> Option<(RecordSetKey, Claim)> {
    let rtype: Rtype = note.rtype.parse().ok()?;
    let records = note
        .records
        .iter()
        .map(|text| rdata_from_text(rtype, text.as_bytes(), &Name::root()).ok())
        .collect::<Option<Vec<_>>>()?;
    let key = RecordSetKey { name: note.name.parse().ok()?, rtype, set_identifier: note.set_identifier };
    Some((key, Claim { records, is_pending: note.is_pending }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_back_and_malformed_ones_are_empty() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes::at(folder.path().join("publish/bind.json"));
        assert!(notes.read().is_empty());
        let key = RecordSetKey { name: "a.x.".parse().unwrap(), rtype: Rtype::A, set_identifier: "eu".to_owned() };
        for is_pending in [true, false] {
            let claim = Claim { records: vec![Box::from([192, 0, 2, 1])], is_pending };
            let claims = Claims::from([(key.clone(), claim)]);
            notes.write(&claims).unwrap();
            assert_eq!(notes.read(), claims);
        }
        fs::write(folder.path().join("publish/bind.json"), "{").unwrap();
        assert!(notes.read().is_empty());
    }
}
