//! RDATA as text (RFC 1035 section 5), for providers that speak text. The forms of all types are known to whoever reads zone text, and
//! are given by the daemon.

use fairway_model::Rtype;

/// How RDATA is written as text, and read again.
#[derive(Clone, Copy, Debug)]
pub struct RdataText {
    /// The presentation form; types without one as RFC 3597 has it.
    pub write: fn(Rtype, &[u8]) -> String,
    /// RDATA of a text, names with or without a dot at their end; none where it is malformed.
    pub read: fn(Rtype, &str) -> Option<Box<[u8]>>,
}

/// Numbers with dots, whatever the type: enough for tests in which nobody else reads the text.
#[cfg(test)]
pub(crate) const DOTTED: RdataText = RdataText {
    write: |_, rdata| rdata.iter().map(u8::to_string).collect::<Vec<_>>().join("."),
    read: |_, text| text.split('.').map(|octet| octet.parse().ok()).collect(),
};
