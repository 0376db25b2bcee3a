//! Decodes a response for people. Bounded, and safe for any input, though the input is our own.

use domain::{
    base::{
        Message, ParsedName, ParsedRecord, RecordSection, Rtype as WireType, ToName,
        rdata::{ComposeRecordData, UnknownRecordData},
        wire::ParseError,
    },
    rdata::ZoneRecordData,
};
use fairway_model::{Name, Rtype, Ttl};
use fairway_zonefile::rdata_text;

/// A record in presentation form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedRecord {
    /// Owner name.
    pub owner: Name,
    /// Type.
    pub rtype: Rtype,
    /// Time to live.
    pub ttl: Ttl,
    /// RDATA in presentation form.
    pub rdata: String,
}

/// A response in presentation form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Mnemonic of the response code.
    pub rcode: &'static str,
    /// AA flag.
    pub authoritative: bool,
    /// TC flag.
    pub truncated: bool,
    /// Answer section.
    pub answer: Vec<ExplainedRecord>,
    /// Authority section.
    pub authority: Vec<ExplainedRecord>,
    /// Additional section without OPT.
    pub additional: Vec<ExplainedRecord>,
    /// Scope of the client subnet option.
    pub scope: Option<u8>,
}

/// Decodes a response. Returns `None` if it is malformed.
pub fn decode(message: &[u8]) -> Option<Decoded> {
    let message = Message::from_slice(message).ok()?;
    let header = message.header();
    Some(Decoded {
        rcode: header.rcode().to_mnemonic_str().unwrap_or("RESERVED"),
        authoritative: header.aa(),
        truncated: header.tc(),
        answer: records(message.answer())?,
        authority: records(message.authority())?,
        additional: records(message.additional())?,
        scope: message.opt().and_then(|options| options.opt().client_subnet()).map(|subnet| subnet.scope_prefix_len()),
    })
}

/// Returns the records of a section, without OPT.
fn records(section: Result<RecordSection<'_, [u8]>, ParseError>) -> Option<Vec<ExplainedRecord>> {
    let records = section.ok()?.collect::<Result<Vec<_>, _>>().ok()?;
    records.iter().filter(|record| record.rtype() != WireType::OPT).map(record).collect()
}

fn record(parsed: &ParsedRecord<'_, [u8]>) -> Option<ExplainedRecord> {
    let mut rdata = Vec::new();
    let Ok(()) = match parsed.to_record::<ZoneRecordData<_, ParsedName<_>>>() {
        Ok(Some(record)) => record.data().compose_rdata(&mut rdata),
        // What is not valid is shown as it is.
        _ => parsed.to_record::<UnknownRecordData<_>>().ok()??.data().compose_rdata(&mut rdata),
    };
    let rtype = Rtype(parsed.rtype().to_int());
    Some(ExplainedRecord {
        owner: Name::from_wire(parsed.owner().to_vec().as_slice()).ok()?,
        rtype,
        ttl: Ttl::from_secs(parsed.ttl().as_secs()).ok()?,
        rdata: rdata_text(rtype, &rdata),
    })
}
