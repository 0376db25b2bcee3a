//! The table of record types: the fields of the RDATA of each type, in order.
//!
//! Reading and writing of presentation form, the check of wire form and the search for names all use this table. `read`, `write` and `wire`
//! handle each kind of field; of a list, each item. Types that are not listed have only the form of RFC 3597.

use fairway_model::Rtype;

/// Kind of a field of RDATA. A field "to the end" takes all remaining octets and is the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// An uncompressed domain name.
    Name,
    /// Domain names to the end; may be empty.
    Names,
    /// A number of 1 octet.
    U8,
    /// A number of 2 octets.
    U16,
    /// A number of 4 octets.
    U32,
    /// A number of 8 octets.
    U64,
    /// A number of 4 octets that counts seconds; text may use units, as in `1h30m`.
    Seconds,
    /// A point in time, 4 octets: `YYYYMMDDHHmmSS` or seconds since 1970 (RFC 4034 section 3.2).
    Time,
    /// A number of 1 octet with mnemonics.
    Code8(Mnemonics),
    /// A number of 2 octets with mnemonics.
    Code16(Mnemonics),
    /// A record type, 2 octets.
    Type,
    /// A set of record types to the end (RFC 4034 section 4.1.2).
    TypeBitmap,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A character-string: a length octet, then up to 255 octets.
    String,
    /// An optional character-string to the end (the subaddress of ISDN).
    OptionalString,
    /// One or more character-strings to the end.
    Strings,
    /// Octets to the end, written as one string (the value of CAA, the target of URI).
    Text,
    /// Letters and digits after a length octet (the tag of CAA, RFC 8659 section 4.1).
    Tag,
    /// Octets to the end in hexadecimal, at least one; the text may contain blanks.
    Hex,
    /// Octets to the end in Base64, at least one; the text may contain blanks.
    Base64,
    /// Octets to the end in Base64; may be empty, and is then written `-` or not at all.
    OptionalBase64,
    /// Octets after a length octet in hexadecimal; `-` if empty (the salt of NSEC3).
    Salt,
    /// Octets after a length octet in Base32 with the extended hex alphabet (the hash of NSEC3).
    Hash,
    /// A 48-bit address: six pairs of hexadecimal digits between hyphens (RFC 7043).
    Eui48,
    /// A 64-bit address: eight pairs.
    Eui64,
    /// 64 bits as four groups of hexadecimal digits between colons (RFC 6742).
    Locator64,
    /// An NSAP address to the end: `0x`, then hexadecimal digits with dots anywhere (RFC 1706).
    Nsap,
    /// A position on the earth, all of LOC (RFC 1876).
    Location,
    /// Address prefixes to the end; may be empty (RFC 3123).
    Prefixes,
    /// Ports of WKS to the end (RFC 1035 section 3.4.2).
    Ports,
    /// Discovery bit and relay type of AMTRELAY, 1 octet (RFC 8777 section 4.2).
    RelayType,
    /// A gateway whose type is the second octet of the data, without the bits outside this mask (RFC 4025 section 2.3, RFC 8777 section 4.2.3).
    Gateway(u8),
    /// The absent gateway, written as a dot.
    NoGateway,
    /// Algorithm, tag and key of HIP, with their lengths (RFC 8005).
    HostIdentity,
    /// Parameters of SVCB and HTTPS to the end (RFC 9460).
    Parameters,
}

/// Mnemonics of a number.
pub(super) type Mnemonics = &'static [(&'static str, u16)];

/// DNSSEC algorithms (IANA "DNS Security Algorithm Numbers").
const ALGORITHM: Field = Field::Code8(&[
    ("RSAMD5", 1),
    ("DH", 2),
    ("DSA", 3),
    ("RSASHA1", 5),
    ("DSA-NSEC3-SHA1", 6),
    ("NSEC3DSA", 6),
    ("RSASHA1-NSEC3-SHA1", 7),
    ("NSEC3RSASHA1", 7),
    ("RSASHA256", 8),
    ("RSASHA512", 10),
    ("ECC-GOST", 12),
    ("ECCGOST", 12),
    ("ECDSAP256SHA256", 13),
    ("ECDSAP384SHA384", 14),
    ("ED25519", 15),
    ("ED448", 16),
    ("SM2SM3", 17),
    ("ECC-GOST12", 23),
    ("INDIRECT", 252),
    ("PRIVATEDNS", 253),
    ("PRIVATEOID", 254),
]);
/// Digest types of DS (IANA "DS RR Type Digest Algorithms").
const DIGEST: Field = Field::Code8(&[
    ("SHA-1", 1),
    ("SHA1", 1),
    ("SHA-256", 2),
    ("SHA256", 2),
    ("GOST", 3),
    ("SHA-384", 4),
    ("SHA384", 4),
]);
/// Certificate types (RFC 4398 section 2.1).
const CERTIFICATE: Field = Field::Code16(&[
    ("PKIX", 1),
    ("SPKI", 2),
    ("PGP", 3),
    ("IPKIX", 4),
    ("ISPKI", 5),
    ("IPGP", 6),
    ("ACPKIX", 7),
    ("IACPKIX", 8),
    ("URI", 253),
    ("OID", 254),
]);
/// Protocols of KEY (RFC 2535 section 3.1.3).
const KEY_PROTOCOL: Field =
    Field::Code8(&[("NONE", 0), ("TLS", 1), ("EMAIL", 2), ("DNSSEC", 3), ("IPSEC", 4), ("ALL", 255)]);
/// Mnemonics of TLSA (RFC 7218).
const USAGE: Field = Field::Code8(&[("PKIX-TA", 0), ("PKIX-EE", 1), ("DANE-TA", 2), ("DANE-EE", 3), ("PrivCert", 255)]);
/// Mnemonics of TLSA (RFC 7218).
const SELECTOR: Field = Field::Code8(&[("Cert", 0), ("SPKI", 1), ("PrivSel", 255)]);
/// Mnemonics of TLSA (RFC 7218).
const MATCHING: Field = Field::Code8(&[("Full", 0), ("SHA2-256", 1), ("SHA2-512", 2), ("PrivMatch", 255)]);
/// Protocols of WKS. Only common ones have a mnemonic, because the type is obsolete.
const PROTOCOL: Field = Field::Code8(&[("icmp", 1), ("tcp", 6), ("udp", 17)]);
/// Schemes of DSYNC (RFC 9859 section 6).
const SCHEME: Field = Field::Code8(&[("NOTIFY", 1)]);

impl Field {
    /// True for a list, which extends to the end.
    pub(super) const fn is_list(self) -> bool {
        matches!(self, Self::Names | Self::Strings | Self::Prefixes)
    }

    /// True if the field may be missing.
    pub(super) const fn is_optional(self) -> bool {
        matches!(self, Self::Names | Self::Prefixes | Self::OptionalString)
    }

    /// Returns the field that a gateway consists of, if its type is known; other fields stand for themselves. `before` is the data before it.
    pub(super) fn resolved(self, before: &[u8]) -> Self {
        let Self::Gateway(mask) = self else { return self };
        match before.get(1).map(|kind| kind & mask) {
            Some(0) => Self::NoGateway,
            Some(1) => Self::Ipv4,
            Some(2) => Self::Ipv6,
            Some(3) => Self::Name,
            _ => self,
        }
    }
}

/// Returns the fields of a type's RDATA, or `None` for a type that has only the form of RFC 3597.
pub(super) const fn fields(rtype: Rtype) -> Option<&'static [Field]> {
    use Field::*;
    Some(match rtype {
        Rtype::A => &[Ipv4],
        Rtype::AAAA => &[Ipv6],
        Rtype::NS | Rtype::MD | Rtype::MF | Rtype::CNAME | Rtype::MB | Rtype::MG | Rtype::MR | Rtype::PTR => &[Name],
        Rtype::DNAME => &[Name],
        Rtype::SOA => &[Name, Name, U32, Seconds, Seconds, Seconds, Seconds],
        Rtype::WKS => &[Ipv4, PROTOCOL, Ports],
        Rtype::HINFO => &[String, String],
        Rtype::TXT | Rtype::SPF | Rtype::AVC | Rtype::NINFO | Rtype::RESINFO | Rtype::WALLET | Rtype::CLA => &[Strings],
        Rtype::MINFO | Rtype::RP | Rtype::TALINK => &[Name, Name],
        Rtype::MX | Rtype::AFSDB | Rtype::RT | Rtype::KX | Rtype::LP => &[U16, Name],
        Rtype::PX => &[U16, Name, Name],
        Rtype::X25 => &[String],
        Rtype::ISDN => &[String, OptionalString],
        Rtype::NSAP => &[Nsap],
        Rtype::SIG | Rtype::RRSIG => &[Type, ALGORITHM, U8, Seconds, Time, Time, U16, Name, Base64],
        Rtype::KEY => &[U16, KEY_PROTOCOL, ALGORITHM, OptionalBase64],
        Rtype::DNSKEY | Rtype::CDNSKEY | Rtype::RKEY => &[U16, U8, ALGORITHM, Base64],
        Rtype::GPOS => &[String, String, String],
        Rtype::LOC => &[Location],
        Rtype::EID | Rtype::NIMLOC => &[Hex],
        Rtype::SRV => &[U16, U16, U16, Name],
        Rtype::NAPTR => &[U16, U16, String, String, String, Name],
        Rtype::CERT => &[CERTIFICATE, U16, ALGORITHM, Base64],
        Rtype::APL => &[Prefixes],
        Rtype::DS | Rtype::CDS | Rtype::DLV | Rtype::TA => &[U16, ALGORITHM, DIGEST, Hex],
        Rtype::SSHFP => &[U8, U8, Hex],
        Rtype::IPSECKEY => &[U8, U8, U8, Gateway(0xff), OptionalBase64],
        Rtype::NSEC => &[Name, TypeBitmap],
        Rtype::DHCID | Rtype::OPENPGPKEY | Rtype::HHIT | Rtype::BRID => &[Base64],
        Rtype::NSEC3 => &[U8, U8, U16, Salt, Hash, TypeBitmap],
        Rtype::NSEC3PARAM => &[U8, U8, U16, Salt],
        Rtype::TLSA | Rtype::SMIMEA => &[USAGE, SELECTOR, MATCHING, Hex],
        Rtype::HIP => &[HostIdentity, Names],
        Rtype::CSYNC => &[U32, U16, TypeBitmap],
        Rtype::ZONEMD => &[U32, U8, U8, Hex],
        Rtype::SVCB | Rtype::HTTPS => &[U16, Name, Parameters],
        Rtype::DSYNC => &[Type, SCHEME, U16, Name],
        Rtype::NID | Rtype::L64 => &[U16, Locator64],
        Rtype::L32 => &[U16, Ipv4],
        Rtype::EUI48 => &[Eui48],
        Rtype::EUI64 => &[Eui64],
        Rtype::URI => &[U16, U16, Text],
        Rtype::CAA => &[U8, Tag, Text],
        Rtype::DOA => &[U32, U32, U8, String, OptionalBase64],
        Rtype::AMTRELAY => &[U8, RelayType, Gateway(0x7f)],
        Rtype::IPN => &[U64],
        _ => return None,
    })
}
