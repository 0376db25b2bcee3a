//! Continent and middle of each country in whole degrees, for clients of which only the country is known.
//!
//! The codes are those of ISO 3166-1, and `XK`, which databases use for Kosovo. The middle is roughly that of the
//! population; of a country with several parts, it is in the part with the most people.

use super::Continent::{self, Africa, Antarctica, Asia, Europe, NorthAmerica, Oceania, SouthAmerica};

/// Returns continent, degrees north and degrees east of a country; `None` if the code is not assigned.
pub(super) fn find(country: [u8; 2]) -> Option<(Continent, i8, i16)> {
    let at = COUNTRIES.binary_search_by_key(&country, |(letters, ..)| **letters).ok()?;
    let (_, continent, latitude, longitude) = COUNTRIES[at];
    Some((continent, latitude, longitude))
}

/// Sorted by letters.
#[rustfmt::skip]
static COUNTRIES: &[(&[u8; 2], Continent, i8, i16)] = &[
    (b"AD", Europe, 43, 2), (b"AE", Asia, 24, 54), (b"AF", Asia, 34, 66), (b"AG", NorthAmerica, 17, -62),
    (b"AI", NorthAmerica, 18, -63), (b"AL", Europe, 41, 20), (b"AM", Asia, 40, 45), (b"AO", Africa, -12, 18),
    (b"AQ", Antarctica, -80, 0), (b"AR", SouthAmerica, -35, -65), (b"AS", Oceania, -14, -170),
    (b"AT", Europe, 47, 14), (b"AU", Oceania, -27, 134), (b"AW", NorthAmerica, 13, -70), (b"AX", Europe, 60, 20),
    (b"AZ", Asia, 40, 48), (b"BA", Europe, 44, 18), (b"BB", NorthAmerica, 13, -60), (b"BD", Asia, 24, 90),
    (b"BE", Europe, 51, 5), (b"BF", Africa, 12, -2), (b"BG", Europe, 43, 25), (b"BH", Asia, 26, 51),
    (b"BI", Africa, -3, 30), (b"BJ", Africa, 9, 2), (b"BL", NorthAmerica, 18, -63), (b"BM", NorthAmerica, 32, -65),
    (b"BN", Asia, 4, 115), (b"BO", SouthAmerica, -17, -65), (b"BQ", NorthAmerica, 12, -68),
    (b"BR", SouthAmerica, -11, -53), (b"BS", NorthAmerica, 24, -76), (b"BT", Asia, 27, 90),
    (b"BV", Antarctica, -54, 3), (b"BW", Africa, -22, 24), (b"BY", Europe, 53, 28), (b"BZ", NorthAmerica, 17, -89),
    (b"CA", NorthAmerica, 52, -95), (b"CC", Asia, -12, 97), (b"CD", Africa, -3, 24), (b"CF", Africa, 7, 21),
    (b"CG", Africa, -1, 15), (b"CH", Europe, 47, 8), (b"CI", Africa, 8, -6), (b"CK", Oceania, -21, -160),
    (b"CL", SouthAmerica, -33, -71), (b"CM", Africa, 6, 12), (b"CN", Asia, 36, 104), (b"CO", SouthAmerica, 4, -73),
    (b"CR", NorthAmerica, 10, -84), (b"CU", NorthAmerica, 22, -79), (b"CV", Africa, 16, -24),
    (b"CW", NorthAmerica, 12, -69), (b"CX", Asia, -10, 106), (b"CY", Asia, 35, 33), (b"CZ", Europe, 50, 15),
    (b"DE", Europe, 51, 10), (b"DJ", Africa, 12, 43), (b"DK", Europe, 56, 10), (b"DM", NorthAmerica, 15, -61),
    (b"DO", NorthAmerica, 19, -70), (b"DZ", Africa, 28, 3), (b"EC", SouthAmerica, -1, -78), (b"EE", Europe, 59, 26),
    (b"EG", Africa, 27, 30), (b"EH", Africa, 25, -13), (b"ER", Africa, 15, 39), (b"ES", Europe, 40, -4),
    (b"ET", Africa, 9, 40), (b"FI", Europe, 64, 26), (b"FJ", Oceania, -18, 178), (b"FK", SouthAmerica, -52, -59),
    (b"FM", Oceania, 7, 158), (b"FO", Europe, 62, -7), (b"FR", Europe, 47, 2), (b"GA", Africa, -1, 12),
    (b"GB", Europe, 54, -2), (b"GD", NorthAmerica, 12, -62), (b"GE", Asia, 42, 44), (b"GF", SouthAmerica, 4, -53),
    (b"GG", Europe, 49, -3), (b"GH", Africa, 8, -1), (b"GI", Europe, 36, -5), (b"GL", NorthAmerica, 70, -42),
    (b"GM", Africa, 13, -15), (b"GN", Africa, 11, -11), (b"GP", NorthAmerica, 16, -62), (b"GQ", Africa, 2, 10),
    (b"GR", Europe, 39, 22), (b"GS", Antarctica, -54, -37), (b"GT", NorthAmerica, 15, -90), (b"GU", Oceania, 13, 145),
    (b"GW", Africa, 12, -15), (b"GY", SouthAmerica, 5, -59), (b"HK", Asia, 22, 114), (b"HM", Antarctica, -53, 73),
    (b"HN", NorthAmerica, 15, -87), (b"HR", Europe, 45, 16), (b"HT", NorthAmerica, 19, -72), (b"HU", Europe, 47, 19),
    (b"ID", Asia, -2, 118), (b"IE", Europe, 53, -8), (b"IL", Asia, 31, 35), (b"IM", Europe, 54, -5),
    (b"IN", Asia, 22, 79), (b"IO", Africa, -7, 72), (b"IQ", Asia, 33, 44), (b"IR", Asia, 32, 54),
    (b"IS", Europe, 65, -19), (b"IT", Europe, 43, 12), (b"JE", Europe, 49, -2), (b"JM", NorthAmerica, 18, -77),
    (b"JO", Asia, 31, 37), (b"JP", Asia, 36, 138), (b"KE", Africa, 0, 38), (b"KG", Asia, 41, 75),
    (b"KH", Asia, 13, 105), (b"KI", Oceania, 1, 173), (b"KM", Africa, -12, 43), (b"KN", NorthAmerica, 17, -63),
    (b"KP", Asia, 40, 127), (b"KR", Asia, 36, 128), (b"KW", Asia, 29, 48), (b"KY", NorthAmerica, 19, -81),
    (b"KZ", Asia, 48, 67), (b"LA", Asia, 18, 104), (b"LB", Asia, 34, 36), (b"LC", NorthAmerica, 14, -61),
    (b"LI", Europe, 47, 10), (b"LK", Asia, 7, 81), (b"LR", Africa, 6, -9), (b"LS", Africa, -30, 28),
    (b"LT", Europe, 55, 24), (b"LU", Europe, 50, 6), (b"LV", Europe, 57, 25), (b"LY", Africa, 27, 17),
    (b"MA", Africa, 32, -6), (b"MC", Europe, 44, 7), (b"MD", Europe, 47, 29), (b"ME", Europe, 43, 19),
    (b"MF", NorthAmerica, 18, -63), (b"MG", Africa, -19, 47), (b"MH", Oceania, 7, 171), (b"MK", Europe, 42, 22),
    (b"ML", Africa, 17, -4), (b"MM", Asia, 21, 96), (b"MN", Asia, 47, 104), (b"MO", Asia, 22, 114),
    (b"MP", Oceania, 15, 146), (b"MQ", NorthAmerica, 15, -61), (b"MR", Africa, 20, -11),
    (b"MS", NorthAmerica, 17, -62), (b"MT", Europe, 36, 14), (b"MU", Africa, -20, 57), (b"MV", Asia, 3, 73),
    (b"MW", Africa, -13, 34), (b"MX", NorthAmerica, 23, -102), (b"MY", Asia, 4, 110), (b"MZ", Africa, -18, 35),
    (b"NA", Africa, -22, 17), (b"NC", Oceania, -21, 165), (b"NE", Africa, 17, 8), (b"NF", Oceania, -29, 168),
    (b"NG", Africa, 9, 8), (b"NI", NorthAmerica, 13, -85), (b"NL", Europe, 52, 5), (b"NO", Europe, 62, 10),
    (b"NP", Asia, 28, 84), (b"NR", Oceania, -1, 167), (b"NU", Oceania, -19, -170), (b"NZ", Oceania, -42, 173),
    (b"OM", Asia, 21, 56), (b"PA", NorthAmerica, 8, -80), (b"PE", SouthAmerica, -10, -75),
    (b"PF", Oceania, -18, -149), (b"PG", Oceania, -6, 144), (b"PH", Asia, 13, 122), (b"PK", Asia, 30, 70),
    (b"PL", Europe, 52, 19), (b"PM", NorthAmerica, 47, -56), (b"PN", Oceania, -25, -130),
    (b"PR", NorthAmerica, 18, -66), (b"PS", Asia, 32, 35), (b"PT", Europe, 40, -8), (b"PW", Oceania, 7, 134),
    (b"PY", SouthAmerica, -23, -58), (b"QA", Asia, 25, 51), (b"RE", Africa, -21, 55), (b"RO", Europe, 46, 25),
    (b"RS", Europe, 44, 21), (b"RU", Europe, 58, 60), (b"RW", Africa, -2, 30), (b"SA", Asia, 24, 45),
    (b"SB", Oceania, -9, 160), (b"SC", Africa, -5, 55), (b"SD", Africa, 15, 30), (b"SE", Europe, 62, 15),
    (b"SG", Asia, 1, 104), (b"SH", Africa, -16, -6), (b"SI", Europe, 46, 15), (b"SJ", Europe, 78, 16),
    (b"SK", Europe, 49, 20), (b"SL", Africa, 8, -12), (b"SM", Europe, 44, 12), (b"SN", Africa, 14, -14),
    (b"SO", Africa, 6, 46), (b"SR", SouthAmerica, 4, -56), (b"SS", Africa, 7, 30), (b"ST", Africa, 0, 7),
    (b"SV", NorthAmerica, 14, -89), (b"SX", NorthAmerica, 18, -63), (b"SY", Asia, 35, 39), (b"SZ", Africa, -27, 31),
    (b"TC", NorthAmerica, 22, -72), (b"TD", Africa, 15, 19), (b"TF", Africa, -49, 69), (b"TG", Africa, 8, 1),
    (b"TH", Asia, 15, 101), (b"TJ", Asia, 39, 71), (b"TK", Oceania, -9, -172), (b"TL", Asia, -9, 126),
    (b"TM", Asia, 39, 60), (b"TN", Africa, 34, 9), (b"TO", Oceania, -21, -175), (b"TR", Asia, 39, 35),
    (b"TT", NorthAmerica, 10, -61), (b"TV", Oceania, -8, 179), (b"TW", Asia, 24, 121), (b"TZ", Africa, -6, 35),
    (b"UA", Europe, 49, 31), (b"UG", Africa, 1, 32), (b"UM", Oceania, 19, 167), (b"US", NorthAmerica, 39, -98),
    (b"UY", SouthAmerica, -33, -56), (b"UZ", Asia, 41, 64), (b"VA", Europe, 42, 12), (b"VC", NorthAmerica, 13, -61),
    (b"VE", SouthAmerica, 7, -66), (b"VG", NorthAmerica, 18, -65), (b"VI", NorthAmerica, 18, -65),
    (b"VN", Asia, 16, 107), (b"VU", Oceania, -16, 167), (b"WF", Oceania, -13, -176), (b"WS", Oceania, -14, -172),
    (b"XK", Europe, 43, 21), (b"YE", Asia, 16, 48), (b"YT", Africa, -13, 45), (b"ZA", Africa, -29, 25),
    (b"ZM", Africa, -13, 28), (b"ZW", Africa, -19, 30),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn countries_are_sorted_and_on_earth() {
        assert!(COUNTRIES.is_sorted_by(|(a, ..), (b, ..)| a < b));
        assert!(COUNTRIES.iter().all(|(_, _, latitude, longitude)| latitude.abs() <= 90 && longitude.abs() <= 180));
        assert_eq!(COUNTRIES.len(), 250);
    }

    #[test]
    fn middle_of_each_country_is_on_its_continent() {
        let extent = |continent: Continent| match continent {
            Africa => (-50..=38, -25..=73),
            Antarctica => (-90..=-53, -40..=74),
            Asia => (-12..=49, 26..=139),
            Europe => (35..=79, -20..=61),
            NorthAmerica => (7..=71, -103..=-41),
            Oceania => (-43..=20, -180..=180),
            SouthAmerica => (-53..=13, -79..=-52),
        };
        for (letters, continent, latitude, longitude) in COUNTRIES {
            let (north, east) = extent(*continent);
            let shown = String::from_utf8_lossy(&letters[..]);
            assert!(north.contains(latitude) && east.contains(longitude), "{shown}");
        }
    }
}
