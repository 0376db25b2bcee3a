//! The data of records: from presentation form to wire form and back, and the names inside.
//!
//! One table ([`table`]) says which fields each type has; no type has a function of its own.

mod codec;
mod gateway;
mod location;
mod prefixes;
mod read;
mod services;
mod source;
mod svcb;
mod table;
mod time;
mod wire;
mod write;

#[cfg(test)]
mod tests;

use std::ops::Range;

use fairway_model::{Name, Rtype};

pub(super) use read::{read, read_name, show_name_error};
pub(super) use time::read_ttl;
pub use write::rdata_text;

use super::lexer::Lexer;
use table::Field;

/// A domain name inside RDATA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameAt {
    /// Its octets in the RDATA, uncompressed.
    pub range: Range<usize>,
    /// Whether it may be compressed in a message: only in the types of RFC 1035 (RFC 3597 section 4).
    pub compressible: bool,
}

/// The names inside RDATA in wire form, in order. Empty for types without names or unknown, and for malformed data.
pub fn rdata_names(rtype: Rtype, rdata: &[u8]) -> Vec<NameAt> {
    let mut names = vec![];
    let walked = wire::walk(rtype, rdata, |field, at, value| match field {
        Field::CompressibleName | Field::Name => {
            names.push(NameAt { range: at..at + value.len(), compressible: field == Field::CompressibleName });
        }
        Field::Ipseckey | Field::Relay | Field::Hip => {
            let inside = gateway::names(field, value).into_iter();
            names.extend(inside.map(|r| NameAt { range: at + r.start..at + r.end, compressible: false }));
        }
        _ => {}
    });
    if walked.is_err() {
        names.clear();
    }
    names
}

/// Why a text is no RDATA of its type, or octets are none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rtype} data: {what}")]
pub struct RdataError {
    /// The type it was read as.
    pub rtype: Rtype,
    /// What is wrong, and why.
    pub what: String,
}

/// Reads the presentation form of RDATA, RFC 3597's included. Relative names are completed with `origin`.
pub fn rdata_from_text(rtype: Rtype, text: &[u8], origin: &Name) -> Result<Box<[u8]>, RdataError> {
    let mut rdata = vec![];
    let mut lexer = Lexer::new(text);
    let read = read(rtype, &mut lexer, origin, &mut rdata);
    match read {
        Ok(()) if lexer.at() < text.trim_ascii_end().len() => {
            Err(RdataError { rtype, what: "unexpected text after the first line".to_owned() })
        }
        Ok(()) => Ok(rdata.into()),
        Err(wrong) => Err(RdataError { rtype, what: wrong.what.into_owned() }),
    }
}

/// Checks RDATA in wire form: every field there, nothing after the last. Unknown types pass.
pub fn check_rdata(rtype: Rtype, rdata: &[u8]) -> Result<(), RdataError> {
    wire::check(rtype, rdata).map_err(|what| RdataError { rtype, what: what.to_owned() })
}
