//! What operators force by command, to and from `overrides.json`.

use std::fmt;

use fairway_model::{Override, Timestamp};

use super::state_wire::{self, FileError, OverrideLine, OverridesFile, VERSION};

/// One override that was given by command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptOverride {
    /// Names it for its removal.
    pub id: String,
    /// What it says.
    pub said: Override,
}

/// Reads `overrides.json`. Unlike history, an override that is not understood makes the file unreadable: to lose one
/// silently would send clients to a cluster that was taken out.
pub(super) fn decode(text: &[u8]) -> Result<Vec<KeptOverride>, FileError> {
    let file: OverridesFile = state_wire::decode(text)?;
    file.overrides.into_iter().map(kept).collect()
}

fn kept(line: OverrideLine) -> Result<KeptOverride, FileError> {
    let fault = |e: &dyn fmt::Display| FileError::Text(format!("override {}: {e}", line.id));
    let said = Override {
        scope: line.scope.parse().map_err(|e| fault(&e))?,
        action: line.force.parse().map_err(|e| fault(&e))?,
        expires: line.expires.parse().map_err(|e| fault(&e))?,
        reason: line.reason.clone(),
    };
    Ok(KeptOverride { id: line.id, said })
}

/// The text of `overrides.json`.
pub(super) fn encode(kept: &[KeptOverride], now: Timestamp) -> Vec<u8> {
    let line = |KeptOverride { id, said }: &KeptOverride| OverrideLine {
        id: id.clone(),
        scope: said.scope.to_string(),
        force: said.action.to_string(),
        reason: said.reason.clone(),
        expires: format!("{:.3}", said.expires),
    };
    let overrides = kept.iter().map(line).collect();
    state_wire::encode(&OverridesFile { version: VERSION, written: format!("{now:.3}"), overrides })
}

#[cfg(test)]
mod tests {
    use fairway_model::OverrideAction;

    use super::*;

    fn two() -> Vec<KeptOverride> {
        let said = |scope: &str, forced| Override {
            scope: scope.parse().unwrap(),
            action: forced,
            reason: "planned \"work\" – ticket 7".to_owned(),
            expires: Timestamp::from_secs(5_000),
        };
        vec![
            KeptOverride { id: "a1".to_owned(), said: said("eu*", OverrideAction::Drain) },
            KeptOverride { id: "a2".to_owned(), said: said("us1/2001:db8::1", OverrideAction::Up) },
        ]
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(decode(&encode(&two(), Timestamp::from_secs(9))).unwrap(), two());
    }

    #[test]
    fn a_file_cut_at_any_byte_is_refused_whole() {
        let text = encode(&two(), Timestamp::from_secs(9));
        assert!((0..text.len()).all(|end| decode(&text[..end]).is_err()));
    }

    #[test]
    fn one_bad_line_makes_the_whole_file_unreadable() {
        let text = String::from_utf8(encode(&two(), Timestamp::from_secs(9))).unwrap();
        let error = decode(text.replace("drain", "dance").as_bytes()).unwrap_err().to_string();
        assert!(error.contains("override a1"), "{error}");
    }
}
