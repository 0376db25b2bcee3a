//! Client locations. All numbers are integers, so that every machine makes the same decision.

mod countries;
mod distance;

use serde::{Deserialize, Serialize};

use std::{fmt, str::FromStr, sync::Arc};

pub use self::distance::EarthPoint;

/// The location of a client, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientLocation {
    /// The region, a free name as in the locations of clusters.
    pub region: Option<Arc<str>>,
    /// The country.
    pub country: Option<Country>,
    /// The continent.
    pub continent: Option<Continent>,
    /// The first-level subdivision of the country: state, province.
    pub subdivision: Option<Subdivision>,
    /// The point on earth.
    pub coordinates: Option<Coordinates>,
    /// Number of the autonomous system of the address (RFC 6793).
    pub asn: Option<u32>,
}

impl fmt::Display for ClientLocation {
    /// Writes what is known, most specific first: `region dc1, country DE, continent EU`; `nowhere` if nothing is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = [
            self.region.as_ref().map(|region| format!("region {region}")),
            self.subdivision.map(|subdivision| format!("subdivision {subdivision}")),
            self.country.map(|country| format!("country {country}")),
            self.continent.map(|continent| format!("continent {continent}")),
            self.coordinates.map(|coordinates| coordinates.to_string()),
            self.asn.map(|asn| format!("AS {asn}")),
        ];
        let known: Vec<_> = known.into_iter().flatten().collect();
        f.write_str(if known.is_empty() { "nowhere" } else { "" })?;
        f.write_str(&known.join(", "))
    }
}

/// A country by its two-letter code (ISO 3166-1 alpha-2), in capitals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Country([u8; 2]);

impl Country {
    /// Returns the country with this code, in any case; `None` unless it is two letters.
    pub fn new(text: &str) -> Option<Self> {
        let letters: [u8; 2] = text.as_bytes().try_into().ok()?;
        letters.iter().all(u8::is_ascii_alphabetic).then_some(Self(letters.map(|letter| letter.to_ascii_uppercase())))
    }

    /// Returns the code.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Returns its continent; `None` if the code is not assigned.
    pub fn continent(self) -> Option<Continent> {
        countries::find(self.0).map(|(continent, ..)| continent)
    }

    /// Returns a point in its middle, for clients whose country only is known; `None` if the code is not assigned.
    pub fn middle(self) -> Option<Coordinates> {
        let (_, latitude, longitude) = countries::find(self.0)?;
        Coordinates::from_micro(i32::from(latitude) * 1_000_000, i32::from(longitude) * 1_000_000)
    }
}

impl fmt::Display for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Country {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        Self::new(text).ok_or_else(|| LocationError::Country(text.to_owned()))
    }
}

/// A continent, by the codes that GeoNames and MaxMind use.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::EnumString, Serialize, Deserialize,
)]
#[strum(ascii_case_insensitive, parse_err_ty = LocationError, parse_err_fn = LocationError::not_a_continent)]
pub enum Continent {
    /// `AF`
    #[strum(serialize = "AF")]
    Africa,
    /// `AN`
    #[strum(serialize = "AN")]
    Antarctica,
    /// `AS`
    #[strum(serialize = "AS")]
    Asia,
    /// `EU`
    #[strum(serialize = "EU")]
    Europe,
    /// `NA`, with Central America and the Caribbean.
    #[strum(serialize = "NA")]
    NorthAmerica,
    /// `OC`
    #[strum(serialize = "OC")]
    Oceania,
    /// `SA`
    #[strum(serialize = "SA")]
    SouthAmerica,
}

/// A subdivision of a country (ISO 3166-2): `US-CA`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subdivision {
    /// The country.
    pub country: Country,
    /// One to three letters and digits, in capitals; zeros after them.
    code: [u8; 3],
}

impl Subdivision {
    /// Returns the subdivision of a country with this code, without the country's letters and in any case.
    pub fn new(country: Country, code: &str) -> Option<Self> {
        let fits = (1..=3).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let mut letters = [0; 3];
        letters.iter_mut().zip(code.bytes()).for_each(|(to, from)| *to = from.to_ascii_uppercase());
        fits.then_some(Self { country, code: letters })
    }
}

impl fmt::Display for Subdivision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = str::from_utf8(&self.code).unwrap_or_default();
        write!(f, "{}-{}", self.country, code.trim_end_matches('\0'))
    }
}

impl fmt::Debug for Subdivision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Subdivision {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        let parsed = text.split_once('-').and_then(|(country, code)| Self::new(Country::new(country)?, code));
        parsed.ok_or_else(|| LocationError::Subdivision(text.to_owned()))
    }
}

/// A point on earth, in millionths of a degree, which are at most 11 cm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Coordinates {
    latitude: i32,
    longitude: i32,
}

impl Coordinates {
    /// Returns the point at these millionths of a degree north and east; `None` past 90 and 180 degrees.
    pub fn from_micro(latitude: i32, longitude: i32) -> Option<Self> {
        let on_earth = latitude.unsigned_abs() <= 90_000_000 && longitude.unsigned_abs() <= 180_000_000;
        on_earth.then_some(Self { latitude, longitude })
    }

    /// Returns the point at these degrees north and east, rounded; `None` past 90 and 180 degrees.
    ///
    /// One multiplication and one rounding, both exact by IEEE 754: the same on every machine.
    pub fn from_degrees(latitude: f64, longitude: f64) -> Option<Self> {
        let micro = |degrees: f64| (degrees * 1e6).round() as i32;
        let numbers = latitude.is_finite() && longitude.is_finite();
        numbers.then(|| Self::from_micro(micro(latitude), micro(longitude)))?
    }

    /// Millionths of a degree north.
    pub fn latitude(self) -> i32 {
        self.latitude
    }

    /// Millionths of a degree east.
    pub fn longitude(self) -> i32 {
        self.longitude
    }
}

impl fmt::Display for Coordinates {
    /// Writes degrees with four digits, which are at most 11 m.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let degrees = |micro: i32, positive: char, negative: char| {
            let rounded = (micro.unsigned_abs() + 50) / 100;
            let side = if micro < 0 { negative } else { positive };
            format!("{}.{:04} {side}", rounded / 10_000, rounded % 10_000)
        };
        write!(f, "{} {}", degrees(self.latitude, 'N', 'S'), degrees(self.longitude, 'E', 'W'))
    }
}

/// Error of parsing a location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// A country that is not two letters.
    #[error("{0:?} is not a country; give its two letters (ISO 3166-1) like DE")]
    Country(String),
    /// None of the seven continents.
    #[error("{0:?} is not a continent; give AF, AN, AS, EU, NA, OC or SA")]
    Continent(String),
    /// A text that is not a country and a code.
    #[error("{0:?} is not a subdivision; write it like US-CA (ISO 3166-2)")]
    Subdivision(String),
}

impl LocationError {
    fn not_a_continent(text: &str) -> Self {
        Self::Continent(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_parse_in_any_case_and_display_in_capitals() {
        assert_eq!("de".parse::<Country>().unwrap().to_string(), "DE");
        assert_eq!("eu".parse::<Continent>().unwrap(), Continent::Europe);
        assert_eq!(Continent::NorthAmerica.to_string(), "NA");
        assert_eq!("us-ca".parse::<Subdivision>().unwrap().to_string(), "US-CA");
        assert_eq!("GB-E".parse::<Subdivision>().unwrap().to_string(), "GB-E");
        for wrong in ["USCA", "US-", "US-CALI", "U-CA", "US-C_"] {
            assert!(wrong.parse::<Subdivision>().is_err(), "{wrong}");
        }
        assert!("D3".parse::<Country>().is_err() && "XX".parse::<Continent>().is_err());
    }

    #[test]
    fn only_an_assigned_country_has_a_continent_and_a_middle() {
        let japan = Country::new("jp").unwrap();
        assert_eq!(
            (japan.continent(), japan.middle().map(|m| m.latitude())),
            (Some(Continent::Asia), Some(36_000_000))
        );
        assert_eq!((Country::new("ZZ").unwrap().continent(), Country::new("ZZ").unwrap().middle()), (None, None));
    }

    #[test]
    fn degrees_become_millionths_and_points_off_the_earth_are_rejected() {
        let point = Coordinates::from_degrees(-33.868_82, 151.209_29).unwrap();
        assert_eq!((point.latitude(), point.longitude()), (-33_868_820, 151_209_290));
        assert_eq!(point.to_string(), "33.8688 S 151.2093 E");
        for (latitude, longitude) in [(90.1, 0.0), (0.0, -180.1), (f64::NAN, 0.0), (0.0, f64::INFINITY)] {
            assert_eq!(Coordinates::from_degrees(latitude, longitude), None);
        }
    }

    #[test]
    fn location_displays_its_known_parts() {
        let location = ClientLocation { country: Country::new("DE"), asn: Some(64_496), ..ClientLocation::default() };
        assert_eq!(location.to_string(), "country DE, AS 64496");
        assert_eq!(ClientLocation::default().to_string(), "nowhere");
    }
}
