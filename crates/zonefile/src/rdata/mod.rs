//! RDATA: from presentation form to wire form and back, and the names in it.
//!
//! One table ([`table`]) has the fields of each type; no type has its own function.

mod codec;
mod host_identity;
mod location;
mod name;
mod ports;
mod prefix;
mod read;
mod svcb;
mod table;
mod time;
mod wire;
mod words;
mod write;

#[cfg(test)]
mod tests;

use std::ops::Range;

use fairway_model::{Name, Rtype};

pub(super) use name::{name_error, read_name};
pub(super) use read::read;
pub(super) use time::{read_number, read_ttl};
#[cfg(test)]
pub(super) use wire::check;
pub use write::rdata_text;

use super::lexer::Lexer;
use table::Field;

/// Returns the positions of the names in RDATA, in order. Empty for unknown types, types without names, and malformed data.
pub(super) fn rdata_names(rtype: Rtype, rdata: &[u8]) -> Vec<Range<usize>> {
    let mut names = vec![];
    let walked = wire::walk(rtype, rdata, |field, at, value| {
        if matches!(field, Field::Name | Field::Names) {
            names.push(at..at + value.len());
        }
    });
    if walked.is_err() {
        names.clear();
    }
    names
}

/// Reason why text or octets are no valid RDATA of a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rtype} data: {fact}")]
pub struct RdataError {
    /// Record type.
    pub rtype: Rtype,
    /// Error message.
    pub fact: String,
}

/// Reads the presentation form of RDATA, also in the form of RFC 3597. Relative names are completed with `origin`.
pub fn rdata_from_text(rtype: Rtype, text: &[u8], origin: &Name) -> Result<Box<[u8]>, RdataError> {
    let mut rdata = vec![];
    let mut lexer = Lexer::new(text);
    let read = read(rtype, &mut lexer, origin, &mut rdata);
    match read {
        Ok(()) if lexer.at() < text.trim_ascii_end().len() => {
            Err(RdataError { rtype, fact: "unexpected text after the first line".to_owned() })
        }
        Ok(()) => Ok(rdata.into()),
        Err(error) => Err(RdataError { rtype, fact: error.fact.into_owned() }),
    }
}
