//! Record types by number and mnemonic (IANA "Resource Record (RR) TYPEs"; RFC 3597 for the unknown ones).

use serde::{Deserialize, Serialize};

use std::{fmt, str::FromStr};

/// A record type: any number, whether it has a mnemonic or not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rtype(pub u16);

macro_rules! rtypes {
    ($($name:ident = $number:literal),* $(,)?) => {
        #[allow(missing_docs, reason = "each constant is its IANA mnemonic")]
        impl Rtype {
            $(pub const $name: Self = Self($number);)*

            /// Returns the mnemonic, if the type has one.
            pub const fn mnemonic(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            fn from_mnemonic(text: &str) -> Option<Self> {
                $(if text.eq_ignore_ascii_case(stringify!($name)) {
                    return Some(Self($number));
                })*
                None
            }
        }
    };
}

rtypes! {
    A = 1, NS = 2, MD = 3, MF = 4, CNAME = 5, SOA = 6, MB = 7, MG = 8, MR = 9, NULL = 10, WKS = 11, PTR = 12, HINFO = 13,
    MINFO = 14, MX = 15, TXT = 16, RP = 17, AFSDB = 18, X25 = 19, ISDN = 20, RT = 21, NSAP = 22, SIG = 24, KEY = 25, PX = 26,
    GPOS = 27, AAAA = 28, LOC = 29, NXT = 30, EID = 31, NIMLOC = 32, SRV = 33, NAPTR = 35, KX = 36, CERT = 37, A6 = 38, DNAME = 39, OPT = 41, APL = 42,
    DS = 43, SSHFP = 44, IPSECKEY = 45, RRSIG = 46, NSEC = 47, DNSKEY = 48, DHCID = 49, NSEC3 = 50, NSEC3PARAM = 51, TLSA = 52,
    SMIMEA = 53, HIP = 55, NINFO = 56, RKEY = 57, TALINK = 58, CDS = 59, CDNSKEY = 60, OPENPGPKEY = 61, CSYNC = 62, ZONEMD = 63, SVCB = 64, HTTPS = 65, DSYNC = 66,
    HHIT = 67, BRID = 68,
    SPF = 99, NID = 104, L32 = 105, L64 = 106, LP = 107, EUI48 = 108, EUI64 = 109, TKEY = 249, TSIG = 250, IXFR = 251,
    AXFR = 252, MAILB = 253, MAILA = 254, ANY = 255, URI = 256, CAA = 257, AVC = 258, DOA = 259, AMTRELAY = 260, RESINFO = 261, WALLET = 262, CLA = 263, IPN = 264, TA = 32768,
    DLV = 32769,
}

impl Rtype {
    /// Returns true if the type is never data of a zone (RFC 6895 section 3.1): 0, OPT, and the meta types 128 to 255.
    pub const fn is_meta(self) -> bool {
        matches!(self.0, 0 | 41 | 128..=255)
    }

    /// Returns true if a record set of this type can be declared alone. False for meta types, SOA (which belongs to the zone)
    /// and the types that only a signer makes (RFC 4034, RFC 5155, RFC 8976).
    pub fn is_declarable(self) -> bool {
        !self.is_meta()
            && !matches!(self, Self::SOA | Self::RRSIG | Self::NSEC | Self::NSEC3 | Self::NSEC3PARAM | Self::ZONEMD)
    }
}

impl fmt::Display for Rtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mnemonic() {
            Some(mnemonic) => f.write_str(mnemonic),
            None => write!(f, "TYPE{}", self.0),
        }
    }
}

impl fmt::Debug for Rtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a record type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a record type; give a mnemonic like AAAA or the form TYPE65280 (RFC 3597 section 5)")]
pub struct RtypeError(String);

impl FromStr for Rtype {
    type Err = RtypeError;

    fn from_str(text: &str) -> Result<Self, RtypeError> {
        let generic =
            || text.get(..4).filter(|t| t.eq_ignore_ascii_case("TYPE")).and_then(|_| text[4..].parse().ok().map(Self));
        Self::from_mnemonic(text).or_else(generic).ok_or_else(|| RtypeError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_parses_from_mnemonic_and_number() {
        assert_eq!("https".parse(), Ok(Rtype::HTTPS));
        assert_eq!("TYPE65".parse(), Ok(Rtype::HTTPS));
        assert_eq!(Rtype(65280).to_string(), "TYPE65280");
        assert!("TYPE70000".parse::<Rtype>().is_err() && "WAT".parse::<Rtype>().is_err());
    }
}
