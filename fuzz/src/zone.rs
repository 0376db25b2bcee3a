//! Zone text: any bytes are read or rejected with errors that name locations; records that were read can be written and read again.

use std::fmt::Write as _;

use fairway_integration::present::generic;
use fairway_model::{DesiredState, Diagnostic, Name, ZoneSpec};
use fairway_zonefile::{ZoneData, check_zone, read_zone};
use fairway_zones::{ServerOptions, compile};

use crate::{Target, mutate, rng::Rng};

/// The reader under test: the real one, or one with a planted bug.
pub type Read = fn(&Name, &[u8]) -> (ZoneData, Vec<Diagnostic>);

/// The zone text target.
pub struct ZoneText {
    origin: Name,
    read: Read,
}

impl Default for ZoneText {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads with the real reader. Every inclusion is of the text itself, so that cycles are tested, too.
pub fn read(origin: &Name, text: &[u8]) -> (ZoneData, Vec<Diagnostic>) {
    let mut itself =
        |path: &str| if path.contains("none") { Err("no such file".to_owned()) } else { Ok(text.to_vec()) };
    read_zone(origin, "fuzz.zone", text, &mut itself)
}

impl ZoneText {
    /// Returns the target with the real reader.
    pub fn new() -> Self {
        Self::with(read)
    }

    /// Returns the target with another reader.
    pub fn with(read: Read) -> Self {
        Self { origin: "example.test.".parse().expect("a valid literal"), read }
    }
}

/// Words of zone text.
const WORDS: &[&str] = &[
    "$ORIGIN",
    "$TTL",
    "$INCLUDE",
    "$GENERATE",
    "1-3",
    "0-10/2",
    "$",
    "${0,3,d}",
    "@",
    ".",
    "(",
    ")",
    "\"",
    "\\",
    "\\000",
    "\\# 4 0a000001",
    "\\#",
    "IN",
    "CH",
    "CLASS1",
    "A",
    "AAAA",
    "NS",
    "SOA",
    "CNAME",
    "DNAME",
    "MX",
    "TXT",
    "SRV",
    "CAA",
    "TLSA",
    "SSHFP",
    "NAPTR",
    "DS",
    "DNSKEY",
    "RRSIG",
    "NSEC",
    "NSEC3",
    "HTTPS",
    "SVCB",
    "LOC",
    "TYPE65280",
    "TYPE1",
    "ZONEMD",
    "APL",
    "alpn=h2",
    "mandatory=alpn",
    "ipv4hint=192.0.2.1",
    "key65535",
    "192.0.2.1",
    "2001:db8::1",
    "0",
    "1",
    "65535",
    "65536",
    "4294967295",
    "2147483648",
    "1h30m",
    "-1",
    ";",
    "ns1",
    "www.example.test.",
    "*.w",
    "a\\.b",
    "ns1 admin 1 2 3 4 5",
];

impl Target for ZoneText {
    fn run(&mut self, input: &[u8]) -> Result<Vec<u64>, String> {
        let (mut data, mut faults) = (self.read)(&self.origin, input);
        check_faults(&faults)?;
        let mut shown = shown(&data, &faults);
        if faults.iter().any(Diagnostic::is_error) {
            return Ok(shown);
        }
        self.check_again(&data)?;
        faults = check_zone(&mut data, &|_| None);
        check_faults(&faults)?;
        shown.extend(faults.iter().map(|f| crate::kind(&f.fact)));
        if !faults.iter().any(Diagnostic::is_error) {
            self.check_compiles(&data)?;
        }
        Ok(shown)
    }

    fn mutate(&self, rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
        let mut out = mutate::text(rng, input, other, WORDS);
        // Without its last line break a text is refused, and little is tried of what comes after.
        if !out.ends_with(b"\n") && !rng.one_in(16) {
            out.push(b'\n');
        }
        out
    }
}

impl ZoneText {
    /// Checks that records written in the generic form (RFC 3597 section 5) are read as the same records.
    fn check_again(&self, data: &ZoneData) -> Result<(), String> {
        let mut text = String::new();
        for record in &data.records {
            let (owner, ttl, rtype, rdata) = (&record.owner, record.ttl.secs(), record.rtype.0, generic(&record.rdata));
            writeln!(text, "{owner} {ttl} IN TYPE{rtype} {rdata}").expect("a String takes everything");
        }
        let (again, faults) = read(&self.origin, text.as_bytes());
        if let Some(fault) = faults.iter().find(|f| f.is_error()) {
            return Err(format!("what was read is refused when written again: {fault}"));
        }
        let plain = |data: &ZoneData| -> Vec<_> {
            let parts = data.records.iter().map(|r| (r.owner.as_wire().to_vec(), r.rtype, r.ttl, r.rdata.clone()));
            parts.collect()
        };
        let (first, second) = (plain(data), plain(&again));
        match first.iter().zip(&second).find(|(a, b)| a != b) {
            Some((a, b)) => Err(format!("{a:02x?} is {b:02x?} when written and read again")),
            None if first.len() != second.len() => Err(format!("{} records are {} again", first.len(), second.len())),
            None => Ok(()),
        }
    }

    fn check_compiles(&self, data: &ZoneData) -> Result<(), String> {
        let mut desired = DesiredState::default();
        desired.zones.insert(self.origin.clone(), ZoneSpec::new(self.origin.clone()));
        match compile(&desired, std::slice::from_ref(data), &ServerOptions::default(), None) {
            Ok(_) => Ok(()),
            Err(faults) => Err(format!("a zone that its own check passes does not compile: {faults:?}")),
        }
    }
}

/// Checks that every error has a line and a text, and that their number is bounded.
fn check_faults(faults: &[Diagnostic]) -> Result<(), String> {
    if let Some(fault) = faults.iter().find(|f| f.fact.is_empty()) {
        return Err(format!("a fault says nothing: {fault:?}"));
    }
    if faults.len() > 250 {
        return Err(format!("{} faults are more than anyone reads", faults.len()));
    }
    Ok(())
}

/// Returns the types of the records, and the kinds of the errors.
fn shown(data: &ZoneData, faults: &[Diagnostic]) -> Vec<u64> {
    let types = data.records.iter().map(|r| u64::from(r.rtype.0));
    types.chain(faults.iter().map(|f| crate::kind(&f.fact))).collect()
}
