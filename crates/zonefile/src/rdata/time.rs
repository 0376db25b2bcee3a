//! Durations with units, and times.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use super::codec::Malformed;

/// Reads a number of seconds: plain, or with units as in `1w2d3h4m5s`, in upper or lower case.
pub(crate) fn read_ttl(text: &[u8]) -> Option<u32> {
    if let Some(plain) = read_number(text) {
        return u32::try_from(plain).ok();
    }
    if text.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.iter().take_while(|o| o.is_ascii_digit()).count();
        let (number, tail) = rest.split_at(digits);
        let (unit, tail) = tail.split_first()?;
        let seconds = match unit.to_ascii_lowercase() {
            b'w' => 7 * 86_400,
            b'd' => 86_400,
            b'h' => 3_600,
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        total = total.checked_add(read_number(number)?.checked_mul(seconds)?)?;
        rest = tail;
    }
    u32::try_from(total).ok()
}

/// Reads a decimal number of at least one digit.
pub(crate) fn read_number(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|o| o.is_ascii_digit()));
    digits?.parse().ok()
}

/// Reads `YYYYMMDDHHmmSS` in UTC (14 digits), or seconds since 1970 (RFC 4034 section 3.2).
pub(super) fn read_time(text: &[u8]) -> Result<u32, Malformed> {
    const BAD: Malformed = "a time is YYYYMMDDHHmmSS or seconds since 1970";
    let number = read_number(text).ok_or(BAD)?;
    if text.len() != 14 {
        return u32::try_from(number).map_err(|_| BAD);
    }
    let time = DateTime::strptime(FORMAT, text).and_then(|time| TimeZone::UTC.to_timestamp(time));
    let seconds = time.ok().and_then(|time| u32::try_from(time.as_second()).ok());
    seconds.ok_or("a part of the time is out of range, or the time is not between 1970 and 2106")
}

/// Writes `YYYYMMDDHHmmSS`.
pub(super) fn write_time(time: u32) -> String {
    let time = Timestamp::from_second(time.into()).expect("32 bits of seconds are in the range of a timestamp");
    time.strftime(FORMAT).to_string()
}

const FORMAT: &str = "%Y%m%d%H%M%S";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttl_accepts_units() {
        for (text, seconds) in [("0", 0), ("3600", 3600), ("1h30m", 5400), ("1W2d3H4m5s", 788_645), ("30s", 30)] {
            assert_eq!(read_ttl(text.as_bytes()), Some(seconds), "{text}");
        }
        for text in ["", "h", "1h30", "1x", "-1", "4294967296", "99999999999999999999w", "1h ", "9999999999w"] {
            assert_eq!(read_ttl(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn time_round_trips_through_text() {
        for (text, time) in [
            ("19700101000000", 0),
            ("20000229123456", 951_827_696),
            ("20240229000000", 1_709_164_800),
            ("20251231235959", 1_767_225_599),
            ("21060207062815", u32::MAX),
        ] {
            assert_eq!(read_time(text.as_bytes()), Ok(time), "{text}");
            assert_eq!(write_time(time), text);
        }
        assert_eq!(read_time(b"1767225599"), Ok(1_767_225_599));
        for text in ["20250229000000", "20251301000000", "20250101240000", "21060207062816", "99999999999", ""] {
            assert!(read_time(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn every_day_of_the_range_round_trips() {
        for day in (0..u32::MAX / 86_400).map(|d| d * 86_400) {
            assert_eq!(read_time(write_time(day).as_bytes()), Ok(day));
        }
    }
}
