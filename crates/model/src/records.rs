//! Records that are declared one set at a time, beside the text of zones.

use crate::{Name, Rtype, Ttl};

/// All records of one name and type (an RRset, RFC 9499 section 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSet {
    /// The owner.
    pub name: Name,
    /// The type; one that [can be declared](Rtype::is_declarable).
    pub rtype: Rtype,
    /// One TTL for all records (RFC 2181 section 5.2).
    pub ttl: Ttl,
    /// RDATA of each record in wire form, names in it whole. Sorted, without repeats: equal sets are equal values.
    pub rdatas: Vec<Box<[u8]>>,
}

impl RecordSet {
    /// The TTL of a set that says none: as long as ExternalDNS' users are used to.
    pub const TTL_USUAL: Ttl = match Ttl::from_secs(300) {
        Ok(ttl) => ttl,
        Err(_) => unreachable!(),
    };

    /// A set of these records, in any order, repeats dropped.
    pub fn new(name: Name, rtype: Rtype, ttl: Ttl, rdatas: impl IntoIterator<Item = Box<[u8]>>) -> Self {
        let mut rdatas: Vec<_> = rdatas.into_iter().collect();
        rdatas.sort();
        rdatas.dedup();
        Self { name, rtype, ttl, rdatas }
    }

    /// By what it is told from others.
    pub fn key(&self) -> (Name, Rtype) {
        (self.name.clone(), self.rtype)
    }
}
