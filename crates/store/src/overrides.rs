//! Overrides of operators, to and from `overrides.json`.

use std::fmt;

use fairway_model::{Override, OverrideKind, OverrideOrigin, Timestamp};

use super::state_wire::{self, FileError, LoadOffLine, OverrideFacts, OverrideLine, OverridesFile, VERSION};

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
    let health = file.overrides.into_iter().map(|OverrideLine { scope, action, facts }| {
        let malformed = |e: &dyn fmt::Display| malformed(&facts, e);
        let scope = scope.parse().map_err(|e| malformed(&e))?;
        let action = action.parse().map_err(|e| malformed(&e))?;
        saved(OverrideKind::Health { scope, action }, facts)
    });
    let load_off = file.load_off.into_iter().map(|LoadOffLine { pools, facts }| {
        let pools = pools.parse().map_err(|e| malformed(&facts, &e))?;
        saved(OverrideKind::LoadOff { pools }, facts)
    });
    health.chain(load_off).collect()
}

fn malformed(facts: &OverrideFacts, error: &dyn fmt::Display) -> FileError {
    FileError::Malformed(format!("override {}: {error}", facts.id))
}

fn saved(kind: OverrideKind, facts: OverrideFacts) -> Result<SavedOverride, FileError> {
    let malformed = |e: &dyn fmt::Display| malformed(&facts, e);
    let value = Override {
        kind,
        expires: facts.expires.parse().map_err(|e| malformed(&e))?,
        origin: OverrideOrigin {
            by: facts.by.clone(),
            at: facts.at.as_deref().map(str::parse).transpose().map_err(|e| malformed(&e))?,
            from: facts.from.clone(),
        },
        reason: facts.reason.clone(),
    };
    Ok(SavedOverride { id: facts.id, value })
}

/// Returns the text of `overrides.json`.
pub(super) fn encode(saved: &[SavedOverride], now: Timestamp) -> Vec<u8> {
    let facts = |SavedOverride { id, value }: &SavedOverride| OverrideFacts {
        id: id.clone(),
        reason: value.reason.clone(),
        expires: format!("{:.3}", value.expires),
        by: value.origin.by.clone(),
        at: value.origin.at.map(|at| format!("{at:.3}")),
        from: value.origin.from.clone(),
    };
    let (mut overrides, mut load_off) = (vec![], vec![]);
    for one in saved {
        match &one.value.kind {
            OverrideKind::Health { scope, action } => {
                let (scope, action) = (scope.to_string(), action.to_string());
                overrides.push(OverrideLine { scope, action, facts: facts(one) });
            }
            OverrideKind::LoadOff { pools } => {
                load_off.push(LoadOffLine { pools: pools.to_string(), facts: facts(one) });
            }
        }
    }
    state_wire::encode(&OverridesFile { version: VERSION, written: format!("{now:.3}"), overrides, load_off })
}

#[cfg(test)]
mod tests {
    use fairway_model::OverrideAction;

    use super::*;

    fn three() -> Vec<SavedOverride> {
        let value = |kind| Override {
            kind,
            reason: "planned \"work\" – ticket 7".to_owned(),
            expires: Timestamp::from_secs(5_000),
            origin: OverrideOrigin {
                by: Some("token ann".to_owned()),
                at: Some(Timestamp::from_secs(4_000)),
                from: "192.0.2.1".to_owned(),
            },
        };
        let health = |scope: &str, action| value(OverrideKind::Health { scope: scope.parse().unwrap(), action });
        let load_off = value(OverrideKind::LoadOff { pools: "shop*".parse().unwrap() });
        vec![
            SavedOverride { id: "a1".to_owned(), value: health("eu*", OverrideAction::Drain) },
            SavedOverride { id: "a2".to_owned(), value: health("us1/2001:db8::1", OverrideAction::Up) },
            SavedOverride { id: "a3".to_owned(), value: load_off },
        ]
    }

    #[test]
    fn encoded_overrides_are_decoded_unchanged() {
        assert_eq!(decode(&encode(&three(), Timestamp::from_secs(9))).unwrap(), three());
    }

    #[test]
    fn file_of_an_earlier_version_has_no_author() {
        let mut file: serde_json::Value = serde_json::from_slice(&encode(&three(), Timestamp::from_secs(9))).unwrap();
        file.as_object_mut().unwrap().remove("loadOff");
        for line in file["overrides"].as_array_mut().unwrap() {
            line.as_object_mut().unwrap().retain(|key, _| !["by", "at", "from"].contains(&key.as_str()));
        }
        let read = decode(file.to_string().as_bytes()).unwrap();
        assert_eq!(read.iter().map(|saved| &saved.value.origin).collect::<Vec<_>>(), [&OverrideOrigin::default(); 2]);
    }

    #[test]
    fn truncated_file_is_rejected() {
        let text = encode(&three(), Timestamp::from_secs(9));
        assert!((0..text.len()).all(|end| decode(&text[..end]).is_err()));
    }

    #[test]
    fn one_malformed_override_makes_the_file_unreadable() {
        let text = String::from_utf8(encode(&three(), Timestamp::from_secs(9))).unwrap();
        let error = decode(text.replace("drain", "dance").as_bytes()).unwrap_err().to_string();
        assert!(error.contains("override a1"), "{error}");
        let error = decode(text.replace("shop*", "sh op").as_bytes()).unwrap_err().to_string();
        assert!(error.contains("override a3"), "{error}");
    }
}
