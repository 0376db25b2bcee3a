//! A moment in UTC and its text form (RFC 3339).

use std::{
    fmt,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A moment between 1970 and 9999 in UTC, to the nanosecond. Shown and read as RFC 3339.
///
/// Moments outside the range are cut to its ends: a clock that far off is wrong anyway, and a log line must not fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    secs: u64,
    nanos: u32,
}

impl Timestamp {
    /// The last second of 9999, the most that RFC 3339 can say.
    const LAST: u64 = 253_402_300_799;

    /// This many seconds since 1970.
    pub fn from_secs(secs: u64) -> Self {
        Self { secs: secs.min(Self::LAST), nanos: 0 }
    }

    /// Seconds since 1970, the fraction dropped.
    pub const fn secs(self) -> u64 {
        self.secs
    }

    /// This moment and `span` more.
    pub fn plus(self, span: Duration) -> Self {
        let nanos = self.nanos + span.subsec_nanos();
        let secs = self.secs.saturating_add(span.as_secs()).saturating_add(u64::from(nanos / NANOS));
        if secs > Self::LAST { Self { secs: Self::LAST, nanos: 0 } } else { Self { secs, nanos: nanos % NANOS } }
    }

    /// How long it is from `earlier` to this moment; nothing if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        SystemTime::from(self).duration_since(earlier.into()).unwrap_or_default()
    }
}

const NANOS: u32 = 1_000_000_000;

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        if since.as_secs() > Self::LAST {
            return Self::from_secs(Self::LAST);
        }
        Self { secs: since.as_secs(), nanos: since.subsec_nanos() }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(moment: Timestamp) -> Self {
        UNIX_EPOCH + Duration::new(moment.secs, moment.nanos)
    }
}

impl fmt::Display for Timestamp {
    /// `2026-01-31T23:59:58Z`; with `{:.9}` nine digits of fraction, and so on down to `{:.1}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.secs / 86_400);
        let second = self.secs % 86_400;
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match f.precision() {
            None | Some(0) => {}
            Some(digits) => {
                let digits = digits.min(9);
                write!(f, ".{:.digits$}", format_args!("{:09}", self.nanos).to_string())?;
            }
        }
        f.write_str("Z")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:.9}")
    }
}

/// A text that is no moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no time from 1970 on; write it like 2026-01-31T23:59:00Z or 2026-01-31T23:59:00+02:00 (RFC 3339)")]
pub struct TimestampError(String);

impl FromStr for Timestamp {
    type Err = TimestampError;

    /// Reads RFC 3339: date, `T` or a space, time, fraction or none, then `Z` or an offset.
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        parse(text).ok_or_else(|| TimestampError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let number = |from: usize, digits: usize| -> Option<u64> {
        let part = bytes.get(from..from + digits)?;
        part.iter().all(u8::is_ascii_digit).then(|| part.iter().fold(0, |n, d| n * 10 + u64::from(d - b'0')))
    };
    let at = |place: usize, allowed: &[u8]| bytes.get(place).is_some_and(|b| allowed.contains(b));
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    let framed = at(4, b"-") && at(7, b"-") && at(10, b"Tt ") && at(13, b":") && at(16, b":");
    // A leap second is taken as the second before it: no clock here can show it.
    let ranged = (1..=12).contains(&month) && hour < 24 && minute < 60 && second <= 60 && year >= 1970;
    if !framed || !ranged || !(1..=month_length(year, month)).contains(&day) {
        return None;
    }
    let mut place = 19;
    let mut nanos = 0;
    if at(place, b".") {
        let digits = bytes[place + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
        if !(1..=9).contains(&digits) {
            return None;
        }
        nanos = u32::try_from(number(place + 1, digits)?).ok()? * 10_u32.pow(9 - u32::try_from(digits).ok()?);
        place += 1 + digits;
    }
    let local = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second.min(59);
    let offset = match bytes.get(place)? {
        b'Z' | b'z' if bytes.len() == place + 1 => 0,
        b'+' | b'-' if bytes.len() == place + 6 && at(place + 3, b":") => {
            let (hours, minutes) = (number(place + 1, 2)?, number(place + 4, 2)?);
            (hours < 24 && minutes < 60).then_some(hours * 3_600 + minutes * 60)?
        }
        _ => return None,
    };
    // East of Greenwich the same moment has a later local time.
    let secs = if bytes[place] == b'+' { local.checked_sub(offset)? } else { local + offset };
    (secs <= Timestamp::LAST).then_some(Timestamp { secs, nanos })
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let before = year - 1;
    let leaps = before / 4 - before / 100 + before / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
    (year - 1970) * 365 + leaps + (1..month).map(|m| month_length(year, m)).sum::<u64>() + day - 1
}

/// Year, month and day of a day counted from 1970-01-01.
fn civil(day: u64) -> (u64, u64, u64) {
    // 146,097 days are 400 years exactly, so the guess is at most one year too high or low.
    let mut year = 1970 + day * 400 / 146_097;
    while days(year, 1, 1) > day {
        year -= 1;
    }
    while days(year + 1, 1, 1) <= day {
        year += 1;
    }
    let mut rest = day - days(year, 1, 1);
    let mut month = 1;
    while rest >= month_length(year, month) {
        rest -= month_length(year, month);
        month += 1;
    }
    (year, month, rest + 1)
}

fn month_length(year: u64, month: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_have_their_known_text() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Timestamp::from_secs(secs).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp::from_secs(secs)));
        }
    }

    #[test]
    fn every_day_until_2500_survives_its_text() {
        for day in 0..193_600 {
            let moment = Timestamp::from_secs(day * 86_400 + 86_399);
            assert_eq!(moment.to_string().parse(), Ok(moment));
        }
    }

    #[test]
    fn fractions_and_offsets_are_read() {
        let moment: Timestamp = "2026-01-31T23:59:00.25+02:00".parse().unwrap();
        assert_eq!(format!("{moment:.9}"), "2026-01-31T21:59:00.250000000Z");
        assert_eq!("2026-01-31T20:59:00.25-01:00".parse(), Ok(moment));
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "2026-01-31",
            "2026-02-30T00:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T00:00:00",
            "1969-12-31T23:59:59Z",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
        for cut in 0..20 {
            assert!("2026-01-31T23:59:00Z"[..cut].parse::<Timestamp>().is_err());
        }
    }
}
