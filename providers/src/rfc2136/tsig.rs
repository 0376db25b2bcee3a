//! Signatures of messages with a shared key (RFC 8945).

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use fairway_model::{Name, Rtype, Secret};
use ring::hmac;

use super::message::{ANY, Message, put, record};

/// A key that both sides have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TsigKey {
    /// As the other side calls it.
    pub name: Name,
    /// How it signs.
    pub algorithm: TsigAlgorithm,
    /// Base64, as in other servers' configurations.
    pub secret: Secret,
}

/// The algorithms that are still to be used (RFC 8945 section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TsigAlgorithm {
    /// `hmac-sha256`
    #[default]
    Sha256,
    /// `hmac-sha384`
    Sha384,
    /// `hmac-sha512`
    Sha512,
}

impl TsigAlgorithm {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Sha256 => b"\x0bhmac-sha256\0",
            Self::Sha384 => b"\x0bhmac-sha384\0",
            Self::Sha512 => b"\x0bhmac-sha512\0",
        }
    }

    fn of_ring(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha384 => hmac::HMAC_SHA384,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }
}

impl TsigKey {
    /// The octets of the secret; none where it is no base64, or of nothing.
    pub fn octets(&self) -> Option<Vec<u8>> {
        BASE64.decode(self.secret.expose().trim()).ok().filter(|octets| !octets.is_empty())
    }
}

/// A signed conversation: the request, and all messages of the answer.
pub(super) struct Session {
    key: hmac::Key,
    name: Name,
    algorithm: TsigAlgorithm,
    /// The signature before.
    mac: Vec<u8>,
    is_first: bool,
    /// Messages since the last signed one.
    unsigned: Vec<u8>,
    unsigned_count: usize,
}

impl Session {
    /// Signs a request at `now`, seconds since 1970.
    pub(super) fn sign(key: &TsigKey, octets: &[u8], request: &mut Vec<u8>, now: u64) -> Self {
        let hmac_key = hmac::Key::new(key.algorithm.of_ring(), octets);
        let mut signed = request.clone();
        signed.extend(variables(&key.name, key.algorithm, now, FUDGE, 0, &[]));
        let mac = hmac::sign(&hmac_key, &signed).as_ref().to_vec();
        let id = [request[0], request[1]];
        let rdata = rdata(key.algorithm, now, FUDGE, &mac, id);
        record(request, &key.name, Rtype::TSIG, ANY, 0, &rdata);
        put(request, 10, 1);
        let name = key.name.clone();
        Self {
            key: hmac_key,
            name,
            algorithm: key.algorithm,
            mac,
            is_first: true,
            unsigned: Vec::new(),
            unsigned_count: 0,
        }
    }

    /// Checks one message of the answer. Of a long one not each must be signed, the last one must (section 5.3.1).
    pub(super) fn check(
        &mut self,
        wire: &[u8],
        message: &Message,
        is_last: bool,
        now: u64,
    ) -> Result<(), &'static str> {
        let tsig = message.additional.last().filter(|record| record.rtype == Rtype::TSIG);
        let Some(tsig) = tsig else {
            self.unsigned.extend_from_slice(wire);
            self.unsigned_count += 1;
            let too_many = is_last || self.is_first || self.unsigned_count > UNSIGNED_MAX;
            return if too_many { Err("the answer is not signed") } else { Ok(()) };
        };
        if tsig.name != self.name {
            return Err("the answer is signed with another key");
        }
        let fields = Fields::read(&tsig.rdata).ok_or("the signature of the answer is malformed")?;
        if fields.error != 0 {
            return Err(tsig_error(fields.error));
        }
        let mut signed = (self.mac.len() as u16).to_be_bytes().to_vec();
        signed.extend_from_slice(&self.mac);
        signed.extend_from_slice(&self.unsigned);
        let place = signed.len();
        signed.extend_from_slice(&wire[..tsig.start]);
        let others = message.additional.len() as u16 - 1;
        put(&mut signed, place + 10, others);
        signed[place..place + 2].copy_from_slice(&fields.id);
        if self.is_first {
            signed.extend(variables(
                &self.name,
                self.algorithm,
                fields.time,
                fields.fudge,
                fields.error,
                &fields.other,
            ));
        } else {
            signed.extend(&fields.time.to_be_bytes()[2..]);
            signed.extend(fields.fudge.to_be_bytes());
        }
        if hmac::verify(&self.key, &signed, &fields.mac).is_err() {
            return Err("the signature of the answer is wrong");
        }
        if fields.time.abs_diff(now) > u64::from(fields.fudge) {
            return Err(
                "the answer's time of signing differs from our clock by more than its fudge allows; set the clocks",
            );
        }
        (self.mac, self.is_first, self.unsigned_count) = (fields.mac, false, 0);
        self.unsigned.clear();
        Ok(())
    }
}

fn tsig_error(code: u16) -> &'static str {
    match code {
        16 => "the server says that the signature is wrong (BADSIG); compare the secrets",
        17 => "the server does not know the key (BADKEY); compare its name and algorithm",
        18 => "the server says that the signature is too old (BADTIME); set the clocks",
        _ => "the server refuses the signature",
    }
}

/// What is signed beside the message (section 4.3.3).
fn variables(name: &Name, algorithm: TsigAlgorithm, time: u64, fudge: u16, error: u16, other: &[u8]) -> Vec<u8> {
    let mut out = name.to_lowercase().as_wire().to_vec();
    out.extend(ANY.to_be_bytes());
    out.extend([0; 4]);
    out.extend_from_slice(algorithm.name());
    out.extend(&time.to_be_bytes()[2..]);
    out.extend(fudge.to_be_bytes());
    out.extend(error.to_be_bytes());
    out.extend((other.len() as u16).to_be_bytes());
    out.extend_from_slice(other);
    out
}

fn rdata(algorithm: TsigAlgorithm, time: u64, fudge: u16, mac: &[u8], id: [u8; 2]) -> Vec<u8> {
    let mut out = algorithm.name().to_vec();
    out.extend(&time.to_be_bytes()[2..]);
    out.extend(fudge.to_be_bytes());
    out.extend((mac.len() as u16).to_be_bytes());
    out.extend_from_slice(mac);
    out.extend(id);
    out.extend([0; 4]);
    out
}

struct Fields {
    time: u64,
    fudge: u16,
    mac: Vec<u8>,
    id: [u8; 2],
    error: u16,
    other: Vec<u8>,
}

impl Fields {
    fn read(rdata: &[u8]) -> Option<Self> {
        let algorithm = Name::from_wire(rdata).ok()?.as_wire().len();
        let rest = rdata.get(algorithm..)?;
        let (fixed, rest) = rest.split_at_checked(10)?;
        let time = fixed[..6].iter().fold(0, |time, octet| time << 8 | u64::from(*octet));
        let fudge = u16::from_be_bytes([fixed[6], fixed[7]]);
        let (mac, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([fixed[8], fixed[9]])))?;
        let (end, other) = rest.split_at_checked(6)?;
        let error = u16::from_be_bytes([end[2], end[3]]);
        Some(Self { time, fudge, mac: mac.to_vec(), id: [end[0], end[1]], error, other: other.to_vec() })
    }
}

/// Standard base64 with or without its padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// How far clocks may be apart for our requests, in seconds (section 10). A server chooses its own for its answers.
const FUDGE: u16 = 300;
/// Most messages between two that are signed (section 5.3.1).
const UNSIGNED_MAX: usize = 99;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_base64_with_its_padding_or_without() {
        let octets = |secret: &str| {
            let (name, algorithm) = ("k.".parse().unwrap(), TsigAlgorithm::Sha256);
            TsigKey { name, algorithm, secret: Secret::new(secret) }.octets()
        };
        assert_eq!(octets("Zm9vYmE=").unwrap(), b"fooba");
        assert_eq!(octets("Zm9vYmE").unwrap(), b"fooba");
        assert_eq!(octets(" Zm9vYmFy\n").unwrap(), b"foobar");
        assert!(octets("no base64!").is_none() && octets("").is_none());
    }

    /// A session, an answer to its request, and this answer signed at 1,000,010 with a fudge.
    fn signed_answer(fudge: u16) -> (Session, Vec<u8>, Vec<u8>) {
        let key = TsigKey {
            name: "k.".parse().unwrap(),
            algorithm: TsigAlgorithm::Sha256,
            secret: Secret::new("Zm9vYmFyZm9vYmFy"),
        };
        let octets = key.octets().unwrap();
        let mut request = super::super::message::transfer(9, &"x.".parse().unwrap());
        let session = Session::sign(&key, &octets, &mut request, 1_000_000);
        let mut answer = super::super::message::transfer(9, &"x.".parse().unwrap());
        answer[2] = 0x84;
        // Over the request's signature, then the answer itself (section 4.3).
        let mut digested = (session.mac.len() as u16).to_be_bytes().to_vec();
        digested.extend_from_slice(&session.mac);
        digested.extend_from_slice(&answer);
        digested.extend(variables(&key.name, key.algorithm, 1_000_010, fudge, 0, &[]));
        let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &octets), &digested);
        let mut signed = answer.clone();
        let rdata = rdata(key.algorithm, 1_000_010, fudge, mac.as_ref(), [0, 9]);
        record(&mut signed, &key.name, Rtype::TSIG, ANY, 0, &rdata);
        put(&mut signed, 10, 1);
        (session, answer, signed)
    }

    fn check(session: &mut Session, wire: &[u8], now: u64) -> Result<(), &'static str> {
        session.check(wire, &Message::read(wire).unwrap(), true, now)
    }

    #[test]
    fn answer_changed_or_unsigned_or_old_is_rejected() {
        let (mut session, answer, signed) = signed_answer(300);
        let mut changed = signed.clone();
        changed[13] ^= 1;
        assert!(check(&mut session, &answer, 1_000_010).is_err(), "unsigned");
        session.unsigned.clear();
        assert!(check(&mut session, &changed, 1_000_010).is_err(), "changed");
        assert!(check(&mut session, &signed, 1_000_400).is_err(), "390 s old");
        assert_eq!(check(&mut session, &signed, 1_000_010), Ok(()));
    }

    #[test]
    fn answer_with_another_fudge_is_accepted() {
        let (mut session, _, signed) = signed_answer(600);
        assert!(check(&mut session, &signed, 1_000_700).is_err(), "690 s old");
        assert_eq!(check(&mut session, &signed, 1_000_500), Ok(()));
    }
}
