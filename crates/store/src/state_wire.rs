//! The text of the state files: JSON, one version number a file.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The one version written, and read.
pub(super) const VERSION: u32 = 1;

/// `health.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HealthFile {
    pub(super) version: u32,
    /// When it was written.
    pub(super) written: String,
    pub(super) targets: Vec<TargetLine>,
}

/// What is known of one target.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TargetLine {
    /// Where the probe goes.
    pub(super) address: String,
    /// One of the monitor's names.
    pub(super) monitor: String,
    /// What the monitor does, as a digest of 16 hexadecimal digits.
    pub(super) digest: String,
    pub(super) verdict: String,
    pub(super) since: String,
    pub(super) history: Vec<HistoryLine>,
}

/// One change of a verdict.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HistoryLine {
    pub(super) at: String,
    pub(super) to: String,
    pub(super) cause: String,
}

/// `overrides.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OverridesFile {
    pub(super) version: u32,
    /// When it was written.
    pub(super) written: String,
    pub(super) overrides: Vec<OverrideLine>,
}

/// One override.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OverrideLine {
    pub(super) id: String,
    pub(super) scope: String,
    pub(super) force: String,
    pub(super) reason: String,
    pub(super) expires: String,
}

/// `balance.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BalanceFile {
    pub(super) version: u32,
    /// When it was written.
    pub(super) written: String,
    pub(super) acceptance: Vec<AcceptanceLine>,
    pub(super) pins: Vec<PinLine>,
    pub(super) demands: Vec<DemandLine>,
}

/// How much one cluster takes, in 65535ths.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AcceptanceLine {
    pub(super) cluster: String,
    pub(super) near: u16,
    pub(super) spill: u16,
}

/// A demand that is held, in 16 hexadecimal digits.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PinLine {
    pub(super) demand: String,
    pub(super) cluster: String,
}

/// What one client network asks of a pool.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DemandLine {
    pub(super) demand: String,
    /// In the unit of the capacities, with the variance of that.
    pub(super) load: f64,
    pub(super) doubt: f64,
    /// Where it was sent.
    pub(super) cluster: String,
    /// The pool's key, in 16 hexadecimal digits.
    pub(super) pool: String,
    pub(super) client: String,
}

/// What one server decided for all that share a store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DecisionNote {
    pub(super) version: u32,
    /// Counts the decisions.
    pub(super) epoch: u64,
    /// How much TTLs should leave to the next minutes: `calm`, `ordinary`, `short`.
    pub(super) caution: String,
    pub(super) acceptance: Vec<AcceptanceLine>,
    pub(super) pins: Vec<PinLine>,
}

/// Reads a state file of the one version known.
pub(super) fn decode<T: DeserializeOwned>(text: &[u8]) -> Result<T, FileError> {
    #[derive(Deserialize)]
    struct Head {
        version: u32,
    }
    let head: Head = serde_json::from_slice(text).map_err(|e| FileError::Text(e.to_string()))?;
    if head.version != VERSION {
        return Err(FileError::Version(head.version));
    }
    serde_json::from_slice(text).map_err(|e| FileError::Text(e.to_string()))
}

/// The text of a state file, for people too: one field a line.
pub(super) fn encode<T: Serialize>(file: &T) -> Vec<u8> {
    serde_json::to_vec_pretty(file).expect("texts, numbers and lists have a JSON form")
}

/// Why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// Another program version wrote it.
    #[error("it has version {0}, and this program reads version 1 only; a newer fairway wrote it")]
    Version(u32),
    /// Cut off, or not what this program writes.
    #[error("it is damaged: {0}")]
    Text(String),
}
