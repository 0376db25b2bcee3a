//! Parsers for values on the command line. Errors quote the value and say how to write it.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use fairway_model::{ClusterName, Name, Network, Timestamp};

/// Parses an absolute domain name, with or without its final dot.
pub(super) fn name(text: &str) -> Result<Name, String> {
    Name::from_text(text.as_bytes(), Some(&Name::root()))
        .map_err(|error| format!("{error}; write it like shop.gslb.example"))
}

/// Parses `NAME=FILE`.
pub(super) fn zone_file(text: &str) -> Result<(Name, PathBuf), String> {
    let error = || format!("{text:?} is not NAME=FILE; write it like example.org=example.org.zone");
    let (zone, file) = text.split_once('=').ok_or_else(error)?;
    if file.is_empty() {
        return Err(error());
    }
    Ok((name(zone)?, PathBuf::from(file)))
}

/// Parses a client network. A single address is a network of one; bits beyond the prefix length are ignored.
pub(super) fn client_network(text: &str) -> Result<Network, String> {
    match text.parse() {
        Ok(network) => Ok(network),
        Err(fairway_model::NetworkError::StrayBits { block, .. }) => Ok(block),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses the name of a cluster.
pub(super) fn cluster(text: &str) -> Result<ClusterName, String> {
    ClusterName::new(text).map_err(|error| error.to_string())
}

/// Parses a percentage from 0.1 to 1000, with or without its sign.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let error = || format!("{text:?} is not a percentage from 0.1 to 1000; write it like 60 or 60%");
    let number: f64 = text.trim_end_matches('%').trim_end().parse().map_err(|_| error())?;
    if (0.1..=1000.0).contains(&number) { Ok(number) } else { Err(error()) }
}

/// Parses a duration of at least one second with units, like `90s`, `30m`, `1h30m` or `2d`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let error = || format!("{text:?} is not a duration; write it with units, like 30m, 2h or 1d12h");
    let mut rest = text;
    let mut secs: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let unit = tail.chars().next().ok_or_else(error)?;
        let scale = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return Err(error()),
        };
        let number: u64 = number.parse().map_err(|_| error())?;
        secs = number.checked_mul(scale).and_then(|s| secs.checked_add(s)).ok_or_else(error)?;
        rest = &tail[1..];
    }
    if secs == 0 { Err(error()) } else { Ok(Duration::from_secs(secs)) }
}

/// Parses a time of the past: RFC 3339, a time ago like `90m`, or a time of day in UTC like `03:12`, which is its last one.
pub(super) fn past(text: &str) -> Result<Timestamp, String> {
    past_at(text, SystemTime::now().into())
}

fn past_at(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    const DAY: u64 = 86_400;
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    if let Ok(ago) = duration(text) {
        return Ok(Timestamp::from_secs(now.secs().saturating_sub(ago.as_secs())));
    }
    let error = || format!("{text:?} is not a time; write it like 2026-11-30T03:12:00Z, 03:12 (UTC) or 90m (ago)");
    let midnight = now.secs() / DAY * DAY;
    let seconds = if text.matches(':').count() == 1 { ":00" } else { "" };
    let date = Timestamp::from_secs(midnight).to_string();
    let day = date.split('T').next().ok_or_else(error)?;
    let today: Timestamp = format!("{day}T{text}{seconds}Z").parse().map_err(|_| error())?;
    Ok(if today <= now { today } else { Timestamp::from_secs(today.secs().saturating_sub(DAY)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_the_past_is_a_moment_an_age_or_a_time_of_day() {
        let now: Timestamp = "2026-11-30T04:00:00Z".parse().unwrap();
        let past = |text: &str| past_at(text, now).map(|moment| moment.to_string());
        for (text, moment) in [
            ("2026-11-29T23:59:59Z", "2026-11-29T23:59:59Z"),
            ("90m", "2026-11-30T02:30:00Z"),
            ("03:12", "2026-11-30T03:12:00Z"),
            ("03:12:30", "2026-11-30T03:12:30Z"),
            ("04:01", "2026-11-29T04:01:00Z"),
        ] {
            assert_eq!(past(text).as_deref(), Ok(moment), "{text}");
        }
        for text in ["", "yesterday", "25:00", "3", "03:12:30:01"] {
            assert!(past(text).is_err(), "{text:?} must be rejected");
        }
    }

    #[test]
    fn duration_adds_its_units() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(duration("2d"), Ok(Duration::from_secs(172_800)));
    }

    #[test]
    fn duration_of_zero_without_unit_or_too_long_is_rejected() {
        for text in ["", "90", "h", "0s", "1w", "1h30", "99999999999999999999s", "9999999999999999d", "1é"] {
            assert!(duration(text).is_err(), "{text:?} must be rejected");
        }
    }

    #[test]
    fn zone_needs_a_name_and_a_file() {
        let (zone, file) = zone_file("example.org.=a=b.zone").unwrap();
        assert_eq!((zone.to_string().as_str(), file), ("example.org.", PathBuf::from("a=b.zone")));
        assert!(zone_file("example.org").is_err() && zone_file("example.org=").is_err() && zone_file("=x").is_err());
    }

    #[test]
    fn client_network_ignores_bits_beyond_its_prefix() {
        assert_eq!(client_network("203.0.113.77/24").unwrap().to_string(), "203.0.113.0/24");
        assert_eq!(client_network("2001:db8::1").unwrap().to_string(), "2001:db8::1/128");
        assert!(client_network("203.0.113.0/33").is_err());
    }
}
