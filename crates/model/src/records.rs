//! Record sets that are declared one at a time, outside zone files.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Name, Rtype, SharedMap, Ttl};

/// All records of one name and type (an RRset, RFC 9499 section 5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordSet {
    /// The owner.
    pub name: Name,
    /// The type; one that [can be declared](Rtype::is_declarable).
    pub rtype: Rtype,
    /// One TTL for all records (RFC 2181 section 5.2).
    pub ttl: Ttl,
    /// RDATA of each record in uncompressed wire form; sorted and without duplicates, so that equal sets compare equal.
    /// Copies of a set share it.
    pub rdatas: Arc<[Box<[u8]>]>,
}

impl RecordSet {
    /// The TTL of a set without one: 300 s, the usual default of DNS providers.
    pub const TTL_USUAL: Ttl = match Ttl::from_secs(300) {
        Ok(ttl) => ttl,
        Err(_) => unreachable!(),
    };

    /// Returns a set of these records; order and duplicates do not matter.
    pub fn new(name: Name, rtype: Rtype, ttl: Ttl, rdatas: impl IntoIterator<Item = Box<[u8]>>) -> Self {
        let mut rdatas: Vec<_> = rdatas.into_iter().collect();
        rdatas.sort();
        rdatas.dedup();
        Self { name, rtype, ttl, rdatas: rdatas.into() }
    }

    /// Returns the key, which is unique among record sets.
    pub fn key(&self) -> (Name, Rtype) {
        (self.name.clone(), self.rtype)
    }
}

/// Returns the record sets of a name, in the order of their types.
pub fn records_at<'a>(
    records: &'a SharedMap<(Name, Rtype), RecordSet>,
    name: &Name,
) -> impl Iterator<Item = &'a RecordSet> + Clone + use<'a> {
    let sets = records.starting_at(&|(owner, _)| owner < name).map(|(_, set)| set);
    let name = name.clone();
    sets.take_while(move |set| set.name == name)
}
