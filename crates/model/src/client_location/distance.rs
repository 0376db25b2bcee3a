//! Great-circle distances in integers, so that all servers agree which member is nearer.
//!
//! A point is a vector to the surface of a sphere. The distance follows from the chord between two points, which stays
//! exact for near ones. CORDIC converts between angles and vectors with shifts, additions and a table.

use super::Coordinates;

/// A point on earth as a vector of length 2^30.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarthPoint([i64; 3]);

impl From<Coordinates> for EarthPoint {
    fn from(at: Coordinates) -> Self {
        let (sin_latitude, cos_latitude) = sin_cos(at.latitude());
        let (sin_longitude, cos_longitude) = sin_cos(at.longitude());
        let shortened = |part: i64| (cos_latitude * part) >> FRACTION;
        Self([shortened(cos_longitude), shortened(sin_longitude), sin_latitude])
    }
}

impl EarthPoint {
    /// Returns the great-circle distance in metres. The error is some centimetres nearby and some metres around the
    /// globe.
    pub fn metres_to(self, other: Self) -> u64 {
        let squares = self.0.iter().zip(other.0).map(|(a, b)| (a - b).unsigned_abs().pow(2));
        // Square of a diameter of 2^31. Rounding may exceed it a little for two opposite points.
        let chord_squared = squares.sum::<u64>().min(1 << 62);
        let (sin, cos) = (chord_squared.isqrt(), ((1 << 62) - chord_squared).isqrt());
        let half = angle(cos.cast_signed() << SPARE, sin.cast_signed() << SPARE);
        ((2 * half).unsigned_abs() * EARTH_RADIUS) >> 32
    }
}

/// Returns sine and cosine, times 2^30, of an angle in millionths of a degree from -180 to 180 degrees.
fn sin_cos(micro: i32) -> (i64, i64) {
    let mut rest = i64::from(micro) * PI / 180_000_000;
    // CORDIC turns by at most 99 degrees, so the back half is mirrored.
    let back = rest.abs() > PI / 2;
    if back {
        rest = rest.signum() * PI - rest;
    }
    let (mut x, mut y) = (LENGTH, 0);
    for (step, turn) in TURNS.iter().enumerate() {
        let (dx, dy) = (y >> step, x >> step);
        if rest >= 0 {
            (x, y, rest) = (x - dx, y + dy, rest - turn);
        } else {
            (x, y, rest) = (x + dx, y - dy, rest + turn);
        }
    }
    let rounded = |number: i64| (number + (1 << (FINE - FRACTION - 1))) >> (FINE - FRACTION);
    (rounded(y), if back { -rounded(x) } else { rounded(x) })
}

/// Returns the angle of a vector that points forward, in radians times 2^32.
fn angle(mut x: i64, mut y: i64) -> i64 {
    let mut angle = 0;
    for (step, turn) in TURNS.iter().enumerate() {
        let (dx, dy) = (y >> step, x >> step);
        if y > 0 {
            (x, y, angle) = (x + dx, y - dy, angle + turn);
        } else {
            (x, y, angle) = (x - dx, y + dy, angle - turn);
        }
    }
    angle
}

/// Mean radius of the earth in metres (IUGG: 6,371,008.8).
const EARTH_RADIUS: u64 = 6_371_009;
/// Fraction bits of a vector.
const FRACTION: u32 = 30;
/// Fraction bits of a vector while it is turned.
const FINE: u32 = 40;
/// Spare bits above a chord of 2^31, which grows by a factor of 1.65 while it is turned.
const SPARE: u32 = 30;
/// Half a circle in radians times 2^32.
const PI: i64 = 13_493_037_705;
/// Length before the turns that they stretch to 2^40, in the same scale: the product of cos(atan(2^-i)).
const LENGTH: i64 = 667_681_663_043;
/// atan(2^-i) in radians times 2^32.
const TURNS: [i64; 32] = {
    let large = [
        3_373_259_426,
        1_991_351_318,
        1_052_175_346,
        534_100_635,
        268_086_748,
        134_174_063,
        67_103_403,
        33_553_749,
        16_777_131,
        8_388_597,
        4_194_303,
    ];
    let mut turns = [0; 32];
    let mut step = 0;
    while step < turns.len() {
        // A small angle is equal to its tangent.
        turns[step] = if step < large.len() { large[step] } else { 1 << (32 - step) };
        step += 1;
    }
    turns
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn point(latitude: f64, longitude: f64) -> EarthPoint {
        Coordinates::from_degrees(latitude, longitude).unwrap().into()
    }

    /// The haversine formula.
    fn reference((a, b): (f64, f64), (c, d): (f64, f64)) -> f64 {
        let [a, b, c, d] = [a, b, c, d].map(f64::to_radians);
        let h = ((c - a) / 2.0).sin().powi(2) + a.cos() * c.cos() * ((d - b) / 2.0).sin().powi(2);
        2.0 * 6_371_009.0 * h.sqrt().min(1.0).asin()
    }

    #[test]
    fn known_distances_are_pinned() {
        let (dublin, frankfurt, sydney) = (point(53.35, -6.26), point(50.11, 8.68), point(-33.87, 151.21));
        assert_eq!(dublin.metres_to(frankfurt), 1_087_725);
        assert_eq!(frankfurt.metres_to(dublin), 1_087_725);
        assert_eq!(frankfurt.metres_to(sydney), 16_483_211);
        assert_eq!(dublin.metres_to(dublin), 0);
    }

    #[test]
    fn poles_and_date_line_are_continuous() {
        assert!(point(0.0, 179.999).metres_to(point(0.0, -179.999)) < 230);
        assert!(point(90.0, 0.0).metres_to(point(90.0, 120.0)) <= 1);
        let half_way_round = point(0.0, 0.0).metres_to(point(0.0, 180.0));
        assert!(half_way_round.abs_diff(20_015_114) <= 10, "{half_way_round}");
        assert!(point(90.0, 0.0).metres_to(point(-90.0, 0.0)).abs_diff(20_015_114) <= 10);
    }

    proptest! {
        #[test]
        fn distance_matches_haversine(
            a in -90.0f64..=90.0, b in -180.0f64..=180.0, near in any::<bool>(), c in -1.0f64..=1.0, d in -1.0f64..=1.0
        ) {
            let (c, d) = if near { ((a + c).clamp(-90.0, 90.0), (b + d).clamp(-180.0, 180.0)) } else { (c * 90.0, d * 180.0) };
            let (ours, theirs) = (point(a, b).metres_to(point(c, d)) as f64, reference((a, b), (c, d)));
            // Metres are truncated and degrees rounded to 11 cm each. Opposite points are the hardest case for both
            // methods.
            let tolerance = if theirs > 19_000_000.0 { 40.0 } else { 1.5 + theirs * 1e-6 };
            prop_assert!((ours - theirs).abs() <= tolerance, "{} {}", ours, theirs);
        }
    }
}
