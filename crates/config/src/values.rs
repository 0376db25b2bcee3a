//! Text values: durations, TTLs, times, shares, addresses.

use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    time::Duration,
};

use fairway_access::{Algorithm, Subject, Tenant};
use fairway_http::{Url, UrlError};
use fairway_model::{
    ClusterName, Continent, LatencyTableName, LoadSourceName, LoadUrl, MapName, MonitorName, Name, Network,
    NetworkError, OverrideScope, Permille, PoolName, PoolPattern, ProbeAddress, Rtype, Subdivision, Timestamp, Ttl,
};

use super::{reason::Reason, tree::quoted};

/// A value that is written as text. Schema, validation and parser are derived from it.
pub(super) trait TextValue: Sized {
    /// `format` in the schema.
    const FORMAT: &'static str;
    /// Description of valid values, to follow "expected": `a duration with its unit`.
    const EXPECTED: &'static str;
    /// Example of a valid value.
    const EXAMPLE: &'static str;

    /// Parses a text.
    fn parse(text: &str) -> Result<Self, Reason>;

    /// Returns the error for a text that is not a value of this kind.
    fn invalid(text: &str) -> Reason {
        Reason::new(format!("{} is not {}", quoted(text), Self::EXPECTED), format!("write it like {}", Self::EXAMPLE))
    }
}

impl TextValue for Duration {
    const FORMAT: &'static str = "duration-with-unit";
    const EXPECTED: &'static str = "a duration with its unit";
    const EXAMPLE: &'static str = "30s, 200ms or 1h30m";

    fn parse(text: &str) -> Result<Self, Reason> {
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Reason::new(
                format!("{} has no unit", quoted(text)),
                format!("write {text}s, {text}ms or {text}m"),
            ));
        }
        let parts = units(text).ok_or_else(|| Self::invalid(text))?;
        let total = parts.into_iter().try_fold(0u64, |sum, (number, unit)| sum.checked_add(number.checked_mul(unit)?));
        let total = total.map(Self::from_millis).filter(|total| *total <= LONGEST);
        total.ok_or_else(|| Reason::new(format!("{} is over 100 years", quoted(text)), "write a shorter one"))
    }
}

/// A hundred years: more than the limit of any setting.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Units in milliseconds, largest first: the order in which they must be written.
const UNITS: &[(&str, u64)] =
    &[("w", 7 * 86_400_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Splits `1h30m` into numbers and units in milliseconds. Returns `None` if it is not a duration.
fn units(text: &str) -> Option<Vec<(u64, u64)>> {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_lowercase()).len();
        let (unit, tail) = tail.split_at(letters);
        let unit = UNITS.iter().find(|(name, _)| *name == unit)?.1;
        if parts.last().is_some_and(|(_, before)| *before <= unit) {
            return None;
        }
        // A number of digits fails to parse only if it is too large, and so over every limit.
        let number = if number.is_empty() { None } else { Some(number.parse().unwrap_or(u64::MAX)) };
        parts.push((number?, unit));
        rest = tail;
    }
    (!parts.is_empty()).then_some(parts)
}

/// Formats a duration as written in a configuration: `1h30m`.
pub fn show(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (name, unit) in UNITS.iter().filter(|(name, _)| *name != "w") {
        if rest >= *unit {
            text.push_str(&format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

impl TextValue for Url {
    const FORMAT: &'static str = "http-or-https-url";
    const EXPECTED: &'static str = "an http or https URL";
    const EXAMPLE: &'static str = "http://127.0.0.1:8080/ready";

    fn parse(text: &str) -> Result<Self, Reason> {
        Self::parse(text).map_err(|error| invalid_url(error, Self::invalid(text)))
    }
}

/// Returns an error that shows the text, unless it contains a secret.
fn invalid_url(error: UrlError, shown: Reason) -> Reason {
    match error {
        UrlError::UserInfo => {
            Reason::new(error.to_string(), "remove the text before the @; a configuration must not contain secrets")
        }
        _ => shown,
    }
}

impl TextValue for LoadUrl {
    const FORMAT: &'static str = "load-url";
    const EXPECTED: &'static str = "an http or https URL";
    const EXAMPLE: &'static str = "http://prometheus.example:9090";

    fn parse(text: &str) -> Result<Self, Reason> {
        let url = Url::parse(text).map_err(|error| invalid_url(error, Self::invalid(text)))?;
        let address = match url.host().parse::<IpAddr>() {
            Ok(address) => ProbeAddress::Socket(SocketAddr::new(address, url.port())),
            Err(_) => format!("{}:{}", url.host(), url.port()).parse().map_err(|_| Self::invalid(text))?,
        };
        // As written: `{cluster}` in it is a placeholder, and a URL would encode the braces.
        let after_scheme = text.split_once("://").map_or(text, |(_, rest)| rest);
        let path = after_scheme.find(['/', '?']).map_or("/", |at| &after_scheme[at..]);
        let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
        Ok(Self { https: url.is_https(), address, path })
    }
}

impl TextValue for Ttl {
    const FORMAT: &'static str = "ttl-with-unit";
    const EXPECTED: &'static str = "a TTL in whole seconds with its unit";
    const EXAMPLE: &'static str = "30s, 5m or 1h";

    fn parse(text: &str) -> Result<Self, Reason> {
        let duration = Duration::parse(text)?;
        if duration.subsec_millis() != 0 {
            let what = format!("{} is not a whole number of seconds", quoted(text));
            return Err(Reason::new(what, format!("write it like {}", Self::EXAMPLE)));
        }
        let secs = u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
        Self::from_secs(secs).map_err(|error| Reason::new(error.to_string(), "write a shorter one"))
    }
}

impl TextValue for Network {
    const FORMAT: &'static str = "network";
    const EXPECTED: &'static str = "a network";
    const EXAMPLE: &'static str = "10.0.0.0/8 or \"2001:db8::/32\"";

    fn parse(text: &str) -> Result<Self, Reason> {
        text.parse::<Self>().map_err(|error| match error {
            NetworkError::Form(_) => Self::invalid(text),
            NetworkError::StrayBits { block, .. } => {
                Reason::new(format!("{} has bits set past its length", quoted(text)), format!("write {block}"))
            }
        })
    }
}

impl TextValue for Permille {
    const FORMAT: &'static str = "percentage";
    const EXPECTED: &'static str = "a fraction from 0 to 1 or a percentage";
    const EXAMPLE: &'static str = "0.5 or 50%";

    fn parse(text: &str) -> Result<Self, Reason> {
        let tenths = text.strip_suffix('%').and_then(|number| fixed_point(number, 1));
        let thousandths = u16::try_from(tenths.ok_or_else(|| Self::invalid(text))?).unwrap_or(u16::MAX);
        Self::new(thousandths).map_err(|_| Reason::new(format!("{} is over 100%", quoted(text)), "give at most 100%"))
    }
}

/// Parses a number with some decimals at most, and returns it in units of the last one: `12.5` with three is 12,500.
pub(super) fn fixed_point(text: &str, decimals: usize) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_valid = is_number(whole) && is_number(fraction) && fraction.len() <= decimals;
    is_valid.then(|| format!("{whole}{fraction:0<decimals$}").parse().ok())?
}

/// A sampling rate: one query out of this number, `1/1000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample(pub(super) NonZeroU32);

impl Sample {
    /// One query out of a thousand.
    pub(super) const DEFAULT: Self = match NonZeroU32::new(1_000) {
        Some(number) => Self(number),
        None => Self(NonZeroU32::MIN),
    };
}

impl TextValue for Sample {
    const FORMAT: &'static str = "sample";
    const EXPECTED: &'static str = "a sampling rate";
    const EXAMPLE: &'static str = "1/1000, or 1 for all";

    fn parse(text: &str) -> Result<Self, Reason> {
        let of = text.strip_prefix("1/").and_then(|n| n.parse().ok());
        of.map(Self).ok_or_else(|| Self::invalid(text))
    }
}

impl TextValue for SocketAddr {
    const FORMAT: &'static str = "ip-address-and-port";
    const EXPECTED: &'static str = "ADDRESS:PORT";
    const EXAMPLE: &'static str = "\"0.0.0.0:53\" or \"[::]:53\"";

    fn parse(text: &str) -> Result<Self, Reason> {
        text.parse().map_err(|_| match text.parse::<IpAddr>() {
            Ok(IpAddr::V4(v4)) => Reason::new(format!("{} has no port", quoted(text)), format!("write {v4}:53")),
            Ok(IpAddr::V6(v6)) => Reason::new(format!("{} has no port", quoted(text)), format!("write \"[{v6}]:53\"")),
            Err(_) => Self::invalid(text),
        })
    }
}

impl TextValue for Rtype {
    const FORMAT: &'static str = "record-type";
    const EXPECTED: &'static str = "a record type";
    const EXAMPLE: &'static str = "TXT";

    fn parse(text: &str) -> Result<Self, Reason> {
        let hint = "write a mnemonic like AAAA, or the form TYPE65280 (RFC 3597 section 5)";
        text.parse().map_err(|_| Reason::new(format!("{} is not a record type", quoted(text)), hint))
    }
}

impl TextValue for Name {
    const FORMAT: &'static str = "domain-name";
    const EXPECTED: &'static str = "a domain name";
    const EXAMPLE: &'static str = "shop.gslb.example";

    fn parse(text: &str) -> Result<Self, Reason> {
        if !text.is_ascii() {
            let what = format!("{} has non-ASCII characters", quoted(text));
            return Err(Reason::new(what, "write its A-labels (xn--...), as in the DNS (RFC 5890)"));
        }
        Self::without_control(text).map_err(|error| {
            Reason::new(
                format!("{} is not a domain name: {error}", quoted(text)),
                format!("write it like {}", Self::EXAMPLE),
            )
        })
    }
}

/// An address, or a host name that stands for addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AddressOrHost {
    Address(IpAddr),
    Host(Name),
}

impl TextValue for AddressOrHost {
    const FORMAT: &'static str = "address-or-host";
    const EXPECTED: &'static str = "an IPv4 or IPv6 address, or a host name";
    const EXAMPLE: &'static str = "192.0.2.1, 2001:db8::1 or lb-1234.elb.example";

    fn parse(text: &str) -> Result<Self, Reason> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let name = Name::parse(text).ok().filter(Name::is_host);
        name.map(Self::Host).ok_or_else(|| Self::invalid(text))
    }
}

macro_rules! parsed_by_its_type {
    ($($type:ty => $format:literal, $expected:literal, $example:literal;)*) => {
        $(impl TextValue for $type {
            const FORMAT: &'static str = $format;
            const EXPECTED: &'static str = $expected;
            const EXAMPLE: &'static str = $example;

            fn parse(text: &str) -> Result<Self, Reason> {
                text.parse().map_err(|_| Self::invalid(text))
            }
        })*
    };
}

parsed_by_its_type! {
    Algorithm => "signature-algorithm", "a signature algorithm with a public key",
        "RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA";
    Continent => "continent", "a continent by its two letters",
        "AF, AN, AS, EU, NA, OC or SA";
    IpAddr => "ip-address", "an IPv4 or IPv6 address",
        "192.0.2.1 or 2001:db8::1";
    OverrideScope => "override-scope", "CLUSTER or CLUSTER/ADDRESS",
        "\"eu*\" or eu1/203.0.113.10";
    PoolPattern => "pool-pattern", "a pattern of pool names",
        "shop or \"*\"";
    ProbeAddress => "probe-address", "HOST:PORT",
        "gw.internal:15021 or \"[2001:db8::1]:15021\"";
    Subdivision => "subdivision", "a subdivision of a country (ISO 3166-2)",
        "US-CA";
    Subject => "subject", "an identity",
        "token:NAME, certificate:NAME, jwt:ISSUER:SUBJECT, group:ISSUER:GROUP, or anyone";
    Tenant => "tenant", "a tenant",
        "project:NAME, owner:NAME, owner:/, cluster:NAME or namespace:CLUSTER/NAMESPACE";
    Timestamp => "date-time", "a time as in RFC 3339",
        "2030-01-31T18:00:00Z";
}

macro_rules! object_name {
    ($($type:ty => $expected:literal, $example:literal;)*) => {
        $(impl TextValue for $type {
            const FORMAT: &'static str = "object-name";
            const EXPECTED: &'static str = $expected;
            const EXAMPLE: &'static str = $example;

            fn parse(text: &str) -> Result<Self, Reason> {
                Self::new(text).map_err(|error| Reason::from(error.to_string()).or_hint(concat!("write it like ", $example)))
            }
        })*
    };
}

object_name! {
    ClusterName => "the name of a cluster", "eu1";
    LoadSourceName => "the name of a load source", "gw";
    MapName => "the name of a map", "world";
    MonitorName => "the name of a monitor", "gateway";
    PoolName => "the name of a pool", "shop";
    LatencyTableName => "the name of a latency table", "rtt";
}

/// Returns the message and hint of a rejected text.
#[cfg(test)]
pub(super) fn rejection<T: TextValue + std::fmt::Debug>(text: &str) -> String {
    T::parse(text).unwrap_err().to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn duration_units_are_added() {
        let table = [
            ("30s", 30_000),
            ("200ms", 200),
            ("1h30m", 5_400_000),
            ("1w1d", 691_200_000),
            ("0s", 0),
            ("1m1ms", 60_001),
        ];
        for (text, millis) in table {
            assert_eq!(Duration::parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn invalid_duration_is_rejected_with_hint() {
        assert_eq!(rejection::<Duration>("30"), "\"30\" has no unit; write 30s, 30ms or 30m");
        for text in ["", "s", "-1s", "1.5s", "1s1h", "1s1s", "1 s", "30sec", "1S", "s1"] {
            let expected = format!("{text:?} is not a duration with its unit; write it like 30s, 200ms or 1h30m");
            assert_eq!(rejection::<Duration>(text), expected);
        }
        for text in ["99999999999999999999999s", "36601d", "18446744073709551615w"] {
            assert_eq!(rejection::<Duration>(text), format!("{text:?} is over 100 years; write a shorter one"));
        }
    }

    #[test]
    fn ttl_with_milliseconds_is_rejected() {
        assert_eq!(Ttl::parse("5m").map(Ttl::secs), Ok(300));
        assert!(rejection::<Ttl>("1500ms").contains("not a whole number of seconds"));
        assert!(rejection::<Ttl>("36000d").contains("2147483647"));
    }

    #[test]
    fn percentage_or_sample_out_of_range_is_rejected() {
        assert_eq!(Permille::parse("12.5%").map(Permille::thousandths), Ok(125));
        assert_eq!(Permille::parse("100%").map(Permille::thousandths), Ok(1000));
        assert_eq!(rejection::<Permille>("100.1%"), "\"100.1%\" is over 100%; give at most 100%");
        assert!(Permille::parse("50").is_err() && Permille::parse("-1%").is_err() && Permille::parse("1.23%").is_err());
        assert_eq!(Sample::parse("1/1000").map(|s| s.0.get()), Ok(1000));
        assert!(Sample::parse("1/0").is_err() && Sample::parse("2/3").is_err());
    }

    #[test]
    fn address_without_port_is_rejected_with_hint() {
        assert_eq!(rejection::<SocketAddr>("::1"), "\"::1\" has no port; write \"[::1]:53\"");
        assert_eq!(rejection::<SocketAddr>("10.0.0.1"), "\"10.0.0.1\" has no port; write 10.0.0.1:53");
    }

    #[test]
    fn non_ascii_name_is_rejected_with_hint() {
        assert!(rejection::<Name>("bücher.example").contains("xn--"));
        assert!(rejection::<Name>("a..b").starts_with("\"a..b\" is not a domain name: a label is empty"));
    }

    #[test]
    fn name_with_control_octet_is_rejected_with_hint() {
        let message = rejection::<Name>("a\\016b.example");
        assert!(message.contains("control octet \\016") && message.contains("use letters, digits"), "{message}");
    }

    proptest! {
        #[test]
        fn formatted_duration_parses_to_itself(millis in 0u64..3_000_000_000_000) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(Duration::parse(&show(duration)), Ok(duration));
        }

        #[test]
        fn parsers_do_not_panic(text in "\\PC{0,40}|[0-9:TZ+.-]{0,30}|[0-9a-z%/]{0,12}") {
            let _ = (Duration::parse(&text), Timestamp::parse(&text), Permille::parse(&text), Sample::parse(&text));
            let _ = (Ttl::parse(&text), SocketAddr::parse(&text), Name::parse(&text), ProbeAddress::parse(&text));
        }
    }
}
