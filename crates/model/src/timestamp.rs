//! A moment in UTC and its text form (RFC 3339).

use std::{
    fmt,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A moment from 1970 to 9999 in UTC, to the nanosecond. Displayed and parsed as RFC 3339.
///
/// A moment outside the range becomes the nearest end of it: a clock that far off is wrong anyway, and a log line must
/// not fail. The calendar is jiff's; this type adds the range and operations that cannot fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// The last moment that has a date before the year 10000 in every time zone: 9999-12-30T22:00:00.999999999Z.
    pub const MAX: Self = Self(jiff::Timestamp::MAX);

    /// Returns the moment this many seconds after 1970-01-01T00:00:00Z, at most [`Timestamp::MAX`].
    pub fn from_secs(secs: u64) -> Self {
        i64::try_from(secs).ok().and_then(|secs| jiff::Timestamp::from_second(secs).ok()).map_or(Self::MAX, Self)
    }

    /// Returns the seconds since 1970-01-01T00:00:00Z, rounded down.
    pub fn secs(self) -> u64 {
        self.0.as_second().unsigned_abs()
    }

    /// Returns the moment `span` later, at most [`Timestamp::MAX`].
    pub fn plus(self, span: Duration) -> Self {
        // jiff reports an error for a span that is over the range of an i64; such a moment is past the end, too.
        self.0.saturating_add(span).map_or(Self::MAX, Self)
    }

    /// Returns the time from `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.duration_since(earlier.0).try_into().unwrap_or_default()
    }

    /// Returns the moment as jiff's type, for conversions to civil time.
    pub(crate) const fn to_jiff(self) -> jiff::Timestamp {
        self.0
    }
}

impl From<jiff::Timestamp> for Timestamp {
    /// Converts a moment; one before 1970 becomes the first moment of 1970.
    fn from(moment: jiff::Timestamp) -> Self {
        Self(moment.max(jiff::Timestamp::UNIX_EPOCH))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self::from_secs(0).plus(time.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl From<Timestamp> for SystemTime {
    fn from(moment: Timestamp) -> Self {
        UNIX_EPOCH + moment.since(Timestamp::from_secs(0))
    }
}

impl fmt::Display for Timestamp {
    /// Writes `2026-01-31T23:59:58Z`; with `{:.9}` nine digits of the fraction, and so on down to `{:.1}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without a precision jiff writes as many digits as the fraction needs; whole seconds are ours.
        write!(f, "{:.*}", f.precision().unwrap_or(0), self.0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:.9}")
    }
}

/// A text that is not a time, or is a time before 1970.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a time from 1970 on; write it like 2026-01-31T23:59:00Z or 2026-01-31T23:59:00+02:00 (RFC 3339)")]
pub struct TimestampError(String);

impl FromStr for Timestamp {
    type Err = TimestampError;

    /// Parses RFC 3339: date, `T` or a space, time, optional fraction, then `Z` or an offset. A leap second (`:60`) is
    /// read as the second before it, because no clock here can show it.
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let moment: Option<jiff::Timestamp> = text.parse().ok();
        moment
            .filter(|moment| *moment >= jiff::Timestamp::UNIX_EPOCH)
            .map(Self)
            .ok_or_else(|| TimestampError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_display_and_parse() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_207_200, "9999-12-30T22:00:00Z"),
        ] {
            assert_eq!(Timestamp::from_secs(secs).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp::from_secs(secs)));
        }
    }

    #[test]
    fn moment_past_the_range_becomes_its_end() {
        assert_eq!(Timestamp::from_secs(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_secs(0).plus(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_secs(1)), Timestamp::from_secs(0));
        assert_eq!(Timestamp::from_secs(1).since(Timestamp::from_secs(2)), Duration::ZERO);
    }

    #[test]
    fn fraction_and_offset_are_parsed() {
        let moment: Timestamp = "2026-01-31T23:59:00.25+02:00".parse().unwrap();
        assert_eq!(format!("{moment:.9}"), "2026-01-31T21:59:00.250000000Z");
        assert_eq!(moment.to_string(), "2026-01-31T21:59:00Z");
        assert_eq!("2026-01-31T20:59:00.25-01:00".parse(), Ok(moment));
        let nearly = Timestamp::from(UNIX_EPOCH + Duration::from_nanos(1_999_999_999));
        assert_eq!(format!("{nearly} {nearly:.3}"), "1970-01-01T00:00:01Z 1970-01-01T00:00:01.999Z");
    }

    #[test]
    fn text_that_is_not_a_time_is_rejected_with_a_hint() {
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
        assert_eq!(
            "soon".parse::<Timestamp>().unwrap_err().to_string(),
            "\"soon\" is not a time from 1970 on; write it like 2026-01-31T23:59:00Z or 2026-01-31T23:59:00+02:00 (RFC 3339)"
        );
    }
}
