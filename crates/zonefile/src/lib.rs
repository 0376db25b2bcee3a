//! Zone text: RFC 1035 master files in, records out, with every fault in its place.
//!
//! [`read_zone`] reads the text and its inclusions; [`check_zone`] then checks what the records say together, as
//! `named-checkzone` does, knowing which names are steered. Neither opens files, nor compiles for answering.
//! The data of records has its own functions: [`rdata_from_text`], [`rdata_text`], [`rdata_names`], [`check_rdata`].
#![forbid(unsafe_code)]

mod check;
mod faults;
mod generate;
mod lexer;
mod rdata;
mod reader;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use fairway_model::{Diagnostic, FileLocation, Name, Rtype, SmallBytes, Ttl};

pub use check::check_zone;
pub use rdata::{NameAt, RdataError, check_rdata, rdata_from_text, rdata_names, rdata_text};

/// One resource record, its data in uncompressed wire form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Owner, case as written.
    pub owner: Name,
    /// Type.
    pub rtype: Rtype,
    /// Time to live.
    pub ttl: Ttl,
    /// RDATA in wire form; names inside uncompressed.
    pub rdata: SmallBytes<22>,
    /// Index into [`ZoneData::files`].
    pub file: u16,
    /// Line the record begins at, from 1.
    pub line: u32,
}

/// The records of one zone, as read.
#[derive(Clone, Debug)]
pub struct ZoneData {
    /// The apex.
    pub origin: Name,
    /// The records in the order of the text.
    pub records: Vec<Record>,
    /// Paths of the texts: the zone file, then what it includes.
    pub files: Vec<Arc<str>>,
}

impl ZoneData {
    /// Where a record stands.
    pub fn place(&self, record: &Record) -> FileLocation {
        FileLocation { file: Arc::clone(&self.files[usize::from(record.file)]), line: record.line, column: 1 }
    }
}

/// Gives the octets of an included file, or why it cannot be read. The path comes as it is written after $INCLUDE:
/// what a relative one is relative to is for the giver to say.
pub type Include<'a> = &'a mut dyn FnMut(&str) -> Result<Vec<u8>, String>;

/// Reads zone text. What the records say together is for [`check_zone`]: call it next. The data is usable only if no
/// fault of either is an error; it holds every record that could be read, those outside the zone left out.
///
/// `path` names the text in faults. At most 100 errors and 100 warnings are told one by one.
pub fn read_zone(origin: &Name, path: &str, text: &[u8], include: Include<'_>) -> (ZoneData, Vec<Diagnostic>) {
    reader::Reader::new(origin, path, include).read(text)
}
