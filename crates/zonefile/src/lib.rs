//! Zone files (RFC 1035 master files): text in, records and errors with their locations out.
//!
//! [`read_zone`] reads the text and included files. [`check_zone`] then checks the records against each other, as `named-checkzone` does,
//! and takes steered names into account. Neither opens files. RDATA has its own functions: [`rdata_from_text`], [`rdata_text`].
#![forbid(unsafe_code)]

mod check;
mod diagnostics;
mod generate;
mod lexer;
mod rdata;
mod reader;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use fairway_model::{Diagnostic, FileLocation, Name, Rtype, SmallBytes, Ttl};

pub use check::check_zone;
pub use rdata::{RdataError, rdata_from_text, rdata_text};

/// One resource record, with its data in uncompressed wire form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Owner; keeps the case of the text.
    pub owner: Name,
    /// Type.
    pub rtype: Rtype,
    /// Time to live.
    pub ttl: Ttl,
    /// RDATA in wire form; names inside uncompressed.
    pub rdata: SmallBytes<22>,
    /// Index into [`ZoneData::files`].
    pub file: u16,
    /// Line where the record begins, from 1.
    pub line: u32,
}

/// The records of one zone file.
#[derive(Clone, Debug)]
pub struct ZoneData {
    /// Apex of the zone.
    pub origin: Name,
    /// Records in the order of the text.
    pub records: Vec<Record>,
    /// Paths of the zone file and then of the included files.
    pub files: Vec<Arc<str>>,
}

impl ZoneData {
    /// Returns the location of a record.
    pub fn place(&self, record: &Record) -> FileLocation {
        FileLocation { file: Arc::clone(&self.files[usize::from(record.file)]), line: record.line, column: 1 }
    }
}

/// Returns the content of an included file, or the reason why it cannot be read. The argument is the path as written after $INCLUDE; the
/// caller resolves relative paths.
pub type Include<'a> = &'a mut dyn FnMut(&str) -> Result<Vec<u8>, String>;

/// Reads a zone file. Call [`check_zone`] next. The data is usable only if neither returns an error; it contains every record that could be
/// read, without those outside the zone.
///
/// `path` is the name of the file in diagnostics. At most 100 errors and 100 warnings are listed; further ones are counted.
pub fn read_zone(origin: &Name, path: &str, text: &[u8], include: Include<'_>) -> (ZoneData, Vec<Diagnostic>) {
    reader::Reader::new(origin, path, include).read(text)
}
