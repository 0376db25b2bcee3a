//! The content of a state record: what differs from the state before it.
//!
//! The first byte is [`FORMAT`], the second says whether the rest is compressed. The rest is postcard's form of [`Change`].

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{Read, Write},
    sync::Arc,
};

use fairway_model::{
    AdaptiveTtl, Backend, Cluster, ClusterName, Health, Monitor, MonitorName, Name, Pool, PoolName, RecordSet, Rtype,
    Shares, SteeredName, Timestamp, ZoneSpec,
};
use fairway_zones::SavedRuntime;
use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use serde::{Deserialize, Serialize};

/// Version of the content. Raise it with every change of [`Change`] or of a type of the model in it: a test compares the form of a sample.
pub(crate) const FORMAT: u8 = 1;

/// Keys with their new values; `None` for a removed one.
pub(crate) type Items<'a, K, V> = Vec<(Cow<'a, K>, Option<Cow<'a, V>>)>;

/// The difference of two states.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Change<'a> {
    /// True if the state before it is empty.
    pub(crate) is_whole: bool,
    /// Number of states between the last record and this one that were left out.
    pub(crate) skipped: u32,
    pub(crate) ids: Ids,
    /// `None` if they are the same.
    pub(crate) zones: Option<Cow<'a, BTreeMap<Name, ZoneSpec>>>,
    pub(crate) clusters: Items<'a, ClusterName, Cluster>,
    pub(crate) monitors: Items<'a, MonitorName, Arc<Monitor>>,
    pub(crate) pools: Items<'a, PoolName, Pool>,
    pub(crate) names: Items<'a, Name, SteeredName>,
    pub(crate) records: Items<'a, (Name, Rtype), RecordSet>,
    /// Health by the hash of the target; `None` of one that is gone.
    pub(crate) health: Vec<(u64, Option<Health>)>,
    /// `None` if it is the same.
    pub(crate) runtime: Option<RuntimeRest>,
    /// `None` if they are the same.
    pub(crate) shares: Option<SharesChange>,
}

/// Ids of a state, to check it against when it is compiled again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ids {
    pub(crate) snapshot: u64,
    pub(crate) text: u64,
    pub(crate) runtime: u64,
}

/// [`SavedRuntime`] in serialized form.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RuntimeRest {
    evaluated_at: Option<Timestamp>,
    last_good: Vec<(u64, Vec<u64>)>,
    ttls: Vec<(u64, AdaptiveTtl)>,
}

impl From<SavedRuntime> for RuntimeRest {
    fn from(SavedRuntime { evaluated_at, last_good, ttls }: SavedRuntime) -> Self {
        Self { evaluated_at, last_good, ttls }
    }
}

impl From<RuntimeRest> for SavedRuntime {
    fn from(RuntimeRest { evaluated_at, last_good, ttls }: RuntimeRest) -> Self {
        Self { evaluated_at, last_good, ttls }
    }
}

/// New shares.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SharesChange {
    /// None any more, or others altogether.
    Whole(Option<Shares>),
    /// Slots of tables that go to another backend: number of the table, slot, index of the backend.
    Slots { epoch: u64, parts: BTreeMap<Backend, u16>, slots: Vec<(u32, u16, u16)> },
}

/// A content that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It was written by another version.
    Format,
    /// It is damaged.
    Damaged,
}

impl Change<'_> {
    pub(crate) fn encode(&self) -> std::io::Result<Vec<u8>> {
        let plain = postcard::to_extend(self, vec![FORMAT, PLAIN]).map_err(std::io::Error::other)?;
        if plain.len() < COMPRESSED_FROM {
            return Ok(plain);
        }
        let mut encoder = ZlibEncoder::new(vec![FORMAT, COMPRESSED], Compression::fast());
        encoder.write_all(&plain[2..])?;
        encoder.finish()
    }

    pub(crate) fn decode(content: &[u8]) -> Result<Change<'static>, Unreadable> {
        match content {
            [FORMAT, PLAIN, rest @ ..] => postcard::from_bytes(rest).map_err(|_| Unreadable::Damaged),
            [FORMAT, COMPRESSED, rest @ ..] => {
                let mut plain = Vec::new();
                ZlibDecoder::new(rest).read_to_end(&mut plain).map_err(|_| Unreadable::Damaged)?;
                postcard::from_bytes(&plain).map_err(|_| Unreadable::Damaged)
            }
            _ => Err(Unreadable::Format),
        }
    }
}

const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;
/// Bytes from which compression pays.
const COMPRESSED_FROM: usize = 1_024;
