//! Text values of schedules: weekdays, times of day, time zones.

use fairway_model::{NamedTimeZone, TimeOfDay, Weekdays};
use jiff::tz;

use super::{
    reason::{Reason, did_you_mean},
    values::TextValue,
};

impl TextValue for Weekdays {
    const FORMAT: &'static str = "weekdays";
    const EXPECTED: &'static str = "days of the week";
    const EXAMPLE: &'static str = "mon-fri, or sat,sun";

    fn parse(text: &str) -> Result<Self, Reason> {
        let day = |name: &str| {
            let name = name.trim();
            (0u8..).zip(Self::NAMES).find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(day, _)| day)
        };
        let days = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            // A range may wrap around the end of the week.
            day(first).zip(day(last)).map(|(first, last)| first..=if last < first { last + 7 } else { last })
        };
        let parts: Option<Vec<_>> = text.split(',').map(days).collect();
        let parts = parts.ok_or_else(|| Self::invalid(text))?;
        Ok(parts.into_iter().flatten().fold(Self::default(), Self::with))
    }
}

impl TextValue for TimeOfDay {
    const FORMAT: &'static str = "time-of-day";
    const EXPECTED: &'static str = "a time of day from 00:00 to 24:00";
    const EXAMPLE: &'static str = "\"08:00\"";

    fn parse(text: &str) -> Result<Self, Reason> {
        let two_digits = |text: &str| {
            let are_two = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
            are_two.then(|| text.parse().ok()).flatten()
        };
        let time = text.split_once(':').and_then(|(hour, minute)| Self::new(two_digits(hour)?, two_digits(minute)?));
        time.ok_or_else(|| Self::invalid(text))
    }
}

impl TextValue for NamedTimeZone {
    const FORMAT: &'static str = "time-zone";
    const EXPECTED: &'static str = "a zone of the IANA database";
    const EXAMPLE: &'static str = "Europe/Berlin or UTC";

    fn parse(text: &str) -> Result<Self, Reason> {
        if let Some(zone) = tz::db().get(text).ok().and_then(Self::new) {
            return Ok(zone);
        }
        let known: Vec<String> = tz::db().available().map(|name| name.to_string()).collect();
        let Reason { what, hint } = Self::invalid(text);
        Err(Reason::new(what, did_you_mean(text, known.iter().map(String::as_str), || hint)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::values::rejection;

    #[test]
    fn weekdays_are_names_and_ranges_that_may_wrap() {
        let days = |numbers: &[u8]| numbers.iter().fold(Weekdays::default(), |days, day| days.with(*day));
        for (text, numbers) in [
            ("mon-fri", &[0, 1, 2, 3, 4][..]),
            ("sat,sun", &[5, 6]),
            ("Mon, wed-fri", &[0, 2, 3, 4]),
            ("fri-mon", &[4, 5, 6, 0]),
            ("tue-tue", &[1]),
            ("mon-sun", &[0, 1, 2, 3, 4, 5, 6]),
        ] {
            assert_eq!(Weekdays::parse(text), Ok(days(numbers)), "{text}");
        }
        for text in ["", "monday", "mon-", "-fri", "mon,", "mo", "mon-fri-sat"] {
            let expected = format!("{text:?} is not days of the week; write it like mon-fri, or sat,sun");
            assert_eq!(rejection::<Weekdays>(text), expected);
        }
    }

    #[test]
    fn time_of_day_has_two_digits_each_and_ends_at_24() {
        assert_eq!(TimeOfDay::parse("08:30"), Ok(TimeOfDay::new(8, 30).unwrap()));
        assert_eq!(TimeOfDay::parse("24:00"), Ok(TimeOfDay::END));
        for text in ["", "8:00", "08", "24:01", "12:60", "08:00:00", "+8:00", "08.00"] {
            assert!(rejection::<TimeOfDay>(text).contains("is not a time of day from 00:00 to 24:00"), "{text}");
        }
    }

    #[test]
    fn misspelt_time_zone_is_rejected_with_suggestion() {
        assert_eq!(NamedTimeZone::parse("Europe/Berlin").unwrap().name(), "Europe/Berlin");
        assert_eq!(
            rejection::<NamedTimeZone>("Europe/Berlim"),
            "\"Europe/Berlim\" is not a zone of the IANA database; did you mean Europe/Berlin?"
        );
        for text in ["", "../../etc/passwd", "/etc/localtime", "+02:00"] {
            assert!(rejection::<NamedTimeZone>(text).contains("is not a zone"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsers_do_not_panic(text in "\\PC{0,20}|[a-z,-]{0,20}|[0-9:]{0,8}|[A-Za-z/_+-]{0,20}") {
            let _ = (Weekdays::parse(&text), TimeOfDay::parse(&text), NamedTimeZone::parse(&text));
        }
    }
}
