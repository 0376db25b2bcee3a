//! Text values of locations: countries, continents, distances.

use fairway_model::Country;

use super::{reason::Reason, tree::quoted, values::TextValue};

impl TextValue for Country {
    const FORMAT: &'static str = "country";
    const EXPECTED: &'static str = "a country by its two letters (ISO 3166-1)";
    const EXAMPLE: &'static str = "DE";

    fn parse(text: &str) -> Result<Self, Reason> {
        let country = Self::new(text).ok_or_else(|| Self::invalid(text))?;
        // An unassigned code would never match a client, without any error.
        country.continent().map(|_| country).ok_or_else(|| {
            Reason::new(
                format!("{} is not the code of a country", quoted(text)),
                "give its two letters (ISO 3166-1), like DE",
            )
        })
    }
}

/// A distance in metres, at most half the circumference of the earth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Distance(pub(super) u32);

impl TextValue for Distance {
    const FORMAT: &'static str = "distance-with-unit";
    const EXPECTED: &'static str = "a distance with its unit, m or km";
    const EXAMPLE: &'static str = "100km or 500m";

    fn parse(text: &str) -> Result<Self, Reason> {
        let (number, unit) = match (text.strip_suffix("km"), text.strip_suffix('m')) {
            (Some(number), _) => (number.trim_end(), 1_000),
            (_, Some(number)) => (number.trim_end(), 1),
            (None, None) => return Err(Self::invalid(text)),
        };
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Self::invalid(text));
        }
        let metres = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
        let metres = metres.filter(|metres| *metres <= DISTANCE_MAX);
        metres.map(Self).ok_or_else(|| {
            Reason::new(
                format!("{} is more than half the circumference of the earth", quoted(text)),
                "give at most 20000km",
            )
        })
    }
}

/// 20,000 km, half the circumference of the earth, in metres.
const DISTANCE_MAX: u32 = 20_000_000;

#[cfg(test)]
mod tests {
    use fairway_model::{Continent, Subdivision};

    use super::*;
    use crate::values::rejection;

    #[test]
    fn distance_without_unit_or_over_limit_is_rejected() {
        let metres = |text: &str| Distance::parse(text).map(|Distance(metres)| metres).unwrap();
        assert_eq!(["0km", "100km", "500m", "20000km", "50 km"].map(metres), [0, 100_000, 500, 20_000_000, 50_000]);
        assert_eq!(
            rejection::<Distance>("20001km"),
            "\"20001km\" is more than half the circumference of the earth; give at most 20000km"
        );
        for wrong in ["100", "km", "-1km", "1.5km", "1mi"] {
            assert!(rejection::<Distance>(wrong).ends_with("write it like 100km or 500m"), "{wrong}");
        }
    }

    #[test]
    fn invalid_location_values_are_rejected_with_hint() {
        assert_eq!(
            rejection::<Country>("UK"),
            "\"UK\" is not the code of a country; give its two letters (ISO 3166-1), like DE"
        );
        assert_eq!(
            rejection::<fairway_model::Network>("10.1.0.0/8"),
            "\"10.1.0.0/8\" has bits set past its length; write 10.0.0.0/8"
        );
        assert_eq!(
            rejection::<Continent>("Europe"),
            "\"Europe\" is not a continent by its two letters; write it like AF, AN, AS, EU, NA, OC or SA"
        );
        assert!(rejection::<Subdivision>("CA").ends_with("write it like US-CA"));
    }
}
