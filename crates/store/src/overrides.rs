//! Overrides of operators, to and from `overrides.json`.

use std::fmt;

use fairway_model::{Override, OverrideOrigin, Timestamp};

use super::state_wire::{self, FileError, OverrideLine, OverridesFile, VERSION};

/// An override that was created over the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedOverride {
    /// Id, for its deletion.
    pub id: String,
    /// The override.
    pub value: Override,
}

impl SavedOverride {
    /// Parses the overrides of an object that several servers share.
    ///
    /// # Errors
    /// The object is malformed, or a newer version wrote it.
    pub fn decode(text: &[u8]) -> Result<Vec<Self>, String> {
        decode(text).map_err(|error| error.to_string())
    }

    /// Returns the text of an object that several servers share.
    pub fn encode(saved: &[Self], now: Timestamp) -> Vec<u8> {
        encode(saved, now)
    }
}

/// Parses `overrides.json`. One malformed override makes the file unreadable, unlike in `health.json`: without it clients would be sent to
/// a cluster that an operator drained.
pub(super) fn decode(text: &[u8]) -> Result<Vec<SavedOverride>, FileError> {
    let file: OverridesFile = state_wire::decode(text)?;
    file.overrides.into_iter().map(saved).collect()
}

fn saved(line: OverrideLine) -> Result<SavedOverride, FileError> {
    let malformed = |e: &dyn fmt::Display| FileError::Malformed(format!("override {}: {e}", line.id));
    let value = Override {
        scope: line.scope.parse().map_err(|e| malformed(&e))?,
        action: line.action.parse().map_err(|e| malformed(&e))?,
        expires: line.expires.parse().map_err(|e| malformed(&e))?,
        origin: OverrideOrigin {
            by: line.by.clone(),
            at: line.at.as_deref().map(str::parse).transpose().map_err(|e| malformed(&e))?,
            from: line.from.clone(),
        },
        reason: line.reason.clone(),
    };
    Ok(SavedOverride { id: line.id, value })
}

/// Returns the text of `overrides.json`.
pub(super) fn encode(saved: &[SavedOverride], now: Timestamp) -> Vec<u8> {
    let line = |SavedOverride { id, value }: &SavedOverride| OverrideLine {
        id: id.clone(),
        scope: value.scope.to_string(),
        action: value.action.to_string(),
        reason: value.reason.clone(),
        expires: format!("{:.3}", value.expires),
        by: value.origin.by.clone(),
        at: value.origin.at.map(|at| format!("{at:.3}")),
        from: value.origin.from.clone(),
    };
    let overrides = saved.iter().map(line).collect();
    state_wire::encode(&OverridesFile { version: VERSION, written: format!("{now:.3}"), overrides })
}

#[cfg(test)]
mod tests {
    use fairway_model::OverrideAction;

    use super::*;

    fn two() -> Vec<SavedOverride> {
        let value = |scope: &str, action| Override {
            scope: scope.parse().unwrap(),
            action,
            reason: "planned \"work\" – ticket 7".to_owned(),
            expires: Timestamp::from_secs(5_000),
            origin: OverrideOrigin {
                by: Some("token ann".to_owned()),
                at: Some(Timestamp::from_secs(4_000)),
                from: "192.0.2.1".to_owned(),
            },
        };
        vec![
            SavedOverride { id: "a1".to_owned(), value: value("eu*", OverrideAction::Drain) },
            SavedOverride { id: "a2".to_owned(), value: value("us1/2001:db8::1", OverrideAction::Up) },
        ]
    }

    #[test]
    fn encoded_overrides_are_decoded_unchanged() {
        assert_eq!(decode(&encode(&two(), Timestamp::from_secs(9))).unwrap(), two());
    }

    #[test]
    fn file_of_an_earlier_version_has_no_author() {
        let mut file: serde_json::Value = serde_json::from_slice(&encode(&two(), Timestamp::from_secs(9))).unwrap();
        for line in file["overrides"].as_array_mut().unwrap() {
            line.as_object_mut().unwrap().retain(|key, _| !["by", "at", "from"].contains(&key.as_str()));
        }
        let read = decode(file.to_string().as_bytes()).unwrap();
        assert_eq!(read.iter().map(|saved| &saved.value.origin).collect::<Vec<_>>(), [&OverrideOrigin::default(); 2]);
    }

    #[test]
    fn truncated_file_is_rejected() {
        let text = encode(&two(), Timestamp::from_secs(9));
        assert!((0..text.len()).all(|end| decode(&text[..end]).is_err()));
    }

    #[test]
    fn one_malformed_override_makes_the_file_unreadable() {
        let text = String::from_utf8(encode(&two(), Timestamp::from_secs(9))).unwrap();
        let error = decode(text.replace("drain", "dance").as_bytes()).unwrap_err().to_string();
        assert!(error.contains("override a1"), "{error}");
    }
}
