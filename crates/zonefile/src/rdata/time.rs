//! Seconds with units, and points in time.

use super::wire::Malformed;

/// A number of seconds: plain, or with units as in `1w2d3h4m5s`; upper or lower case, each unit once or more.
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

/// A decimal number of digits only, at least one.
pub(super) fn read_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |sum, digit| {
        let value = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(value)
    })
}

/// `YYYYMMDDHHmmSS` in UTC, or seconds since 1970 (RFC 4034 section 3.2): 14 digits tell the one from the other.
pub(super) fn read_time(text: &[u8]) -> Result<u32, Malformed> {
    const BAD: Malformed = "a time is YYYYMMDDHHmmSS or seconds since 1970";
    let number = read_number(text).ok_or(BAD)?;
    if text.len() != 14 {
        return u32::try_from(number).map_err(|_| BAD);
    }
    let [second, minute, hour, day, month] =
        [1u64, 100, 10_000, 1_000_000, 100_000_000].map(|place| number / place % 100);
    let year = number / 10_000_000_000;
    let exists = (1970..=2106).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_of_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !exists {
        return Err("a part of the time is out of range, or the time is not between 1970 and 2106");
    }
    let days = days_before_year(year) + (1..month).map(|m| days_of_month(year, m)).sum::<u64>() + day - 1;
    u32::try_from(days * 86_400 + hour * 3_600 + minute * 60 + second).map_err(|_| BAD)
}

/// Writes `YYYYMMDDHHmmSS`.
pub(super) fn write_time(time: u32) -> String {
    let (days, second) = (u64::from(time) / 86_400, u64::from(time) % 86_400);
    let mut year = 1970 + days / 366; // never too late, at most one year too early by 2106
    while days_before_year(year + 1) <= days {
        year += 1;
    }
    let mut day = days - days_before_year(year);
    let mut month = 1;
    while day >= days_of_month(year, month) {
        day -= days_of_month(year, month);
        month += 1;
    }
    format!("{year}{month:02}{:02}{:02}{:02}{:02}", day + 1, second / 3_600, second / 60 % 60, second % 60)
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970 to the start of `year`, which is 1970 or later.
const fn days_before_year(year: u64) -> u64 {
    let before = year - 1;
    // 477 leap days lie before 1970.
    (year - 1970) * 365 + before / 4 - before / 100 + before / 400 - 477
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_units() {
        for (text, seconds) in [("0", 0), ("3600", 3600), ("1h30m", 5400), ("1W2d3H4m5s", 788_645), ("30s", 30)] {
            assert_eq!(read_ttl(text.as_bytes()), Some(seconds), "{text}");
        }
        for text in ["", "h", "1h30", "1x", "-1", "4294967296", "99999999999999999999w", "1h ", "9999999999w"] {
            assert_eq!(read_ttl(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn times_come_back_as_they_were() {
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
    fn every_day_of_the_range_comes_back() {
        for day in (0..u32::MAX / 86_400).map(|d| d * 86_400) {
            assert_eq!(read_time(write_time(day).as_bytes()), Ok(day));
        }
    }
}
