//! Format of the state files: JSON with a version number in each file.
//!
//! Some fields keep the names that they had before items were renamed, so that earlier versions can read the files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The version that is written, and the only one that is read.
pub(super) const VERSION: u32 = 1;

/// `health.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HealthFile {
    pub(super) version: u32,
    /// Time of writing.
    pub(super) written: String,
    pub(super) targets: Vec<TargetLine>,
}

/// Health of one target.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TargetLine {
    /// Probed address.
    pub(super) address: String,
    /// Name of the monitor.
    pub(super) monitor: String,
    /// Digest of the monitor, 16 hexadecimal digits.
    pub(super) digest: String,
    #[serde(rename = "verdict")]
    pub(super) status: String,
    pub(super) since: String,
    pub(super) history: Vec<HistoryLine>,
}

/// A health transition.
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
    /// Time of writing.
    pub(super) written: String,
    pub(super) overrides: Vec<OverrideLine>,
    /// Apart from the others, since earlier versions cannot read them, and would then read none.
    #[serde(default, rename = "loadOff", skip_serializing_if = "Vec::is_empty")]
    pub(super) load_off: Vec<LoadOffLine>,
}

/// An override of health.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OverrideLine {
    pub(super) scope: String,
    #[serde(rename = "force")]
    pub(super) action: String,
    #[serde(flatten)]
    pub(super) facts: OverrideFacts,
}

/// An override that pins pools.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LoadOffLine {
    pub(super) pools: String,
    #[serde(flatten)]
    pub(super) facts: OverrideFacts,
}

/// The common parts of overrides.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OverrideFacts {
    pub(super) id: String,
    pub(super) reason: String,
    pub(super) expires: String,
    /// Author; absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    #[serde(default)]
    pub(super) from: String,
}

/// `names.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NamesFile {
    pub(super) version: u32,
    /// Time of writing.
    pub(super) written: String,
    /// Number of records and names by zone.
    pub(super) zones: BTreeMap<String, usize>,
}

/// `hosts.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HostsFile {
    pub(super) version: u32,
    /// Time of writing.
    pub(super) written: String,
    pub(super) hosts: Vec<HostLine>,
}

/// One host name.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HostLine {
    pub(super) name: String,
    pub(super) addresses: Vec<String>,
    /// Time of the look-up.
    pub(super) resolved: String,
}

/// `balance.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BalanceFile {
    pub(super) version: u32,
    /// Time of writing.
    pub(super) written: String,
    pub(super) classes: Vec<ClassLine>,
}

/// A location class: its table, and what is known of its slots.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ClassLine {
    /// Clusters with their costs in thousandths of a rank, and their parts of the weights in thousandths: `eu1:0:250 us1:1000:750`.
    pub(super) clusters: String,
    /// Index of the cluster of each slot: `0 0 1`; `-` for none.
    pub(super) slots: String,
    /// Demand of each slot, in the unit of the capacities; absent in a decision.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) demands: String,
    /// Variance of each demand.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) variances: String,
    /// Evidence of each demand: the number of client networks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) weights: String,
}

/// Decision of the leader, for all servers that share a store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DecisionNote {
    pub(super) version: u32,
    /// Number of the decision.
    pub(super) epoch: u64,
    /// Risk level, which adaptive TTLs follow: `calm`, `ordinary`, `short`.
    pub(super) risk_level: String,
    pub(super) classes: Vec<ClassLine>,
    /// Part of the demand that each cluster gets, in 65535ths.
    pub(super) parts: BTreeMap<String, u16>,
}

/// Evidence of demand of a server, for the leader.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EvidenceNote {
    pub(super) version: u32,
    /// Number of client networks.
    pub(super) networks: usize,
    pub(super) classes: Vec<EvidenceLine>,
}

/// Evidence of a location class.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EvidenceLine {
    /// Clusters with their costs in thousandths of a rank, and their parts of the weights in thousandths: `eu1:0:250 us1:1000:750`.
    pub(super) clusters: String,
    /// Number of client networks of each slot, each as far as the weight of its source allows, in thousandths: `0 1000 4`.
    pub(super) weights: String,
}

/// Parses a state file of version `VERSION`.
pub(super) fn decode<T: DeserializeOwned>(text: &[u8]) -> Result<T, FileError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let head: Versioned = serde_json::from_slice(text).map_err(|e| FileError::Malformed(e.to_string()))?;
    if head.version != VERSION {
        return Err(FileError::Version(head.version));
    }
    serde_json::from_slice(text).map_err(|e| FileError::Malformed(e.to_string()))
}

/// Returns the text of a state file. It has one field per line, for people.
pub(super) fn encode<T: Serialize>(file: &T) -> Vec<u8> {
    serde_json::to_vec_pretty(file).expect("texts, numbers and lists have a JSON form")
}

/// Error of a state file.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// Another version of Fairway wrote it.
    #[error(
        "the file has version {0}, and this fairway reads version {VERSION}; run the fairway that wrote it to use the file"
    )]
    Version(u32),
    /// Truncated, or otherwise malformed.
    #[error("malformed: {0}")]
    Malformed(String),
}
