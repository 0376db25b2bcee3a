//! Values in a file: text that is parsed, and settings with several forms.
//!
//! The `title` of each schema describes the expected value; errors quote it.

use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
};

use fairway_model::{DownAnswer, Name, Permille, StatusSet};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::{
    bounds_wire::{As, Float, Int, List, Text, Word},
    reason::Reason,
    values::{Sample, TextValue},
};

/// Address and port of an HTTP listener, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HttpAddress(pub(super) Option<SocketAddr>);

impl TextValue for HttpAddress {
    const FORMAT: &'static str = "ip-address-and-port-or-off";
    const EXPECTED: &'static str = "ADDRESS:PORT or off";
    const EXAMPLE: &'static str = "127.0.0.1:8053 or off";

    fn parse(text: &str) -> Result<Self, Reason> {
        match text {
            "off" => Ok(Self(None)),
            // An address without port has its own error.
            _ if text.parse::<IpAddr>().is_err() && text.parse::<SocketAddr>().is_err() => Err(Self::invalid(text)),
            _ => TextValue::parse(text).map(|address| Self(Some(address))),
        }
    }
}

/// Prefix length of a client network for IPv4, with its slash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PrefixLength(pub(super) u8);

impl TextValue for PrefixLength {
    const FORMAT: &'static str = "ipv4-prefix-length";
    const EXPECTED: &'static str = "a prefix length from /0 to /32";
    const EXAMPLE: &'static str = "/24, or { v4: 24, v6: 56 }";

    fn parse(text: &str) -> Result<Self, Reason> {
        let length = text.strip_prefix('/').and_then(|t| t.parse().ok()).filter(|length| *length <= 32);
        length.map(Self).ok_or_else(|| Self::invalid(text))
    }
}

/// A set of HTTP status codes as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatusText(pub(super) String);

impl TextValue for StatusText {
    const FORMAT: &'static str = "http-statuses";
    const EXPECTED: &'static str = "a set of HTTP statuses";
    const EXAMPLE: &'static str = "\"200-299,401\" or \"2xx\"";

    fn parse(text: &str) -> Result<Self, Reason> {
        let known = text.parse::<StatusSet>();
        known.map(|_| Self(text.to_owned())).map_err(|_| Self::invalid(text))
    }
}

/// A fraction from 0 to 1, as a number or as a percentage.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, title = "a fraction from 0 to 1 or a percentage, like 0.5 or 50%")]
pub(super) enum Fraction {
    /// From 0 to 1.
    Number(Float<0, 1>),
    /// From 0% to 100%.
    Percentage(As<Permille>),
}

impl Fraction {
    /// Returns it in thousandths, rounded.
    pub(super) fn permille(self) -> Permille {
        match self {
            // From 0 to 1, so the cast fits.
            Self::Number(As(number)) => Permille::new((number * 1000.0).round() as u16).unwrap_or_default(),
            Self::Percentage(As(permille)) => permille,
        }
    }

    /// Returns it in millionths, rounded.
    pub(super) fn per_million(self) -> u32 {
        match self {
            Self::Number(As(number)) => per_million(number),
            Self::Percentage(As(permille)) => u32::from(permille.thousandths()) * 1_000,
        }
    }
}

/// Converts a fraction to millionths.
pub(super) fn per_million(ratio: f64) -> u32 {
    // From 0 to 1, so the cast fits.
    (ratio * 1e6).round() as u32
}

/// Sampling rate: one query out of so many.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, title = "a sampling rate like 1/1000, or 1 for all")]
pub(super) enum SampleRate {
    /// All queries.
    All(Int<u32, 1, 1>),
    /// One of so many.
    OneIn(As<Sample>),
}

impl SampleRate {
    /// Returns the number of queries of which one is sampled.
    pub(super) fn one_in(self) -> NonZeroU32 {
        match self {
            Self::All(As(one)) => NonZeroU32::new(one).unwrap_or(NonZeroU32::MIN),
            Self::OneIn(As(sample)) => sample.0,
        }
    }
}

/// Answer if no member can be answered.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, title = "all, empty, refuse, last-good, or { fallback: ... }")]
pub(super) enum Down {
    /// A policy by its name.
    Word(Word<DownAnswer>),
    /// Replacement addresses or a CNAME.
    Fallback(Fallback),
}

/// A down answer with addresses or a CNAME.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(super) struct Fallback {
    /// Addresses, or one domain name for a CNAME.
    pub(super) fallback: FallbackTo,
}

/// Content of a fallback answer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, title = "a list of addresses, or one domain name")]
pub(super) enum FallbackTo {
    /// 1 to 16 addresses.
    Addresses(List<As<IpAddr>, 1, 16>),
    /// One domain name, or one address.
    Text(#[schemars(title = "a list of addresses, or one domain name")] String),
}

/// Prefix length of a client network.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, title = "a prefix length like /24, or { v4: 24, v6: 56 }")]
pub(super) enum Prefix {
    /// For IPv4 only.
    V4(As<PrefixLength>),
    /// For each family.
    Both(PrefixBoth),
}

/// Prefix length for each family.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(super) struct PrefixBoth {
    /// Leading bits of an IPv4 address.
    #[serde(default, deserialize_with = "given")]
    pub(super) v4: Option<Int<u8, 0, 32>>,
    /// Leading bits of an IPv6 address.
    #[serde(default, deserialize_with = "given")]
    pub(super) v6: Option<Int<u8, 0, 128>>,
}

/// Deserializes a value that may be absent but not null. Needed in forms of untagged enums only: see `tree_wire`.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// HTTP status codes that pass.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, title = "a status like 200, a set like \"200-299,401\" or \"2xx\", or a list of these")]
pub(super) enum Statuses {
    /// One code or one set.
    One(Status),
    /// Several of them.
    Many(List<Status, 1, 64>),
}

/// One status code or a set.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, title = "a status like 200, or a set like \"200-299,401\" or \"2xx\"")]
pub(super) enum Status {
    /// One status.
    Number(Int<u16, 100, 599>),
    /// A set.
    Set(As<StatusText>),
}

impl Statuses {
    /// Returns all as one set.
    pub(super) fn set(self) -> StatusSet {
        let text = |status| match status {
            Status::Number(As(number)) => number.to_string(),
            Status::Set(As(StatusText(text))) => text,
        };
        let texts: Vec<_> = match self {
            Self::One(status) => vec![text(status)],
            Self::Many(As(many)) => many.into_iter().map(text).collect(),
        };
        texts.join(",").parse().expect("a list of valid sets is one")
    }
}

/// A name server of a zone without file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, title = "a domain name, or { name: ..., addresses: [...] }")]
pub(super) enum NameServer {
    /// Name only.
    Name(As<Name>),
    /// Name with addresses, inside the zone.
    WithAddresses(NameServerAddresses),
}

/// A name server with its addresses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(super) struct NameServerAddresses {
    /// Its name, inside the zone.
    pub(super) name: As<Name>,
    /// Its addresses.
    pub(super) addresses: List<As<IpAddr>, 1, 16>,
}

/// A reference to a secret: a file or an environment variable. A configuration never contains the secret itself.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "ReferenceKeys")]
pub(super) enum Reference {
    /// Name of an environment variable.
    Env(String),
    /// Path of a file. Relative paths start at the folder of the configuration file.
    File(String),
}

/// A reference to a secret: a file or an environment variable. A configuration never contains the secret itself.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "{ file: PATH } or { env: NAME }", extend("minProperties" = 1, "maxProperties" = 1))]
struct ReferenceKeys {
    /// Name of an environment variable.
    env: Option<Text<1>>,
    /// Path of a file. Relative paths start at the folder of this file.
    file: Option<Text<1>>,
}

impl TryFrom<ReferenceKeys> for Reference {
    type Error = &'static str;

    fn try_from(keys: ReferenceKeys) -> Result<Self, Self::Error> {
        match (keys.env, keys.file) {
            (Some(As(name)), None) => Ok(Self::Env(name)),
            (None, Some(As(path))) => Ok(Self::File(path)),
            _ => Err("not exactly one key"),
        }
    }
}
