//! Logarithm of a hash in integers, which turns uniform hashes into shares by weight.

/// Fraction bits of a [`cost`].
pub const PLACES: u32 = 40;

/// Returns `-log2(u)` for the hash as a number `u` between 0 and 1, with [`PLACES`] fraction bits. At most 64 * 2^40.
///
/// For uniform hashes the results are exponentially distributed. So the smallest `cost / weight` selects each candidate
/// with exactly its share of the weight. The table is interpolated linearly and exact at `u = 1`. So the error is at
/// most 1/1000 of the cost, also for the smallest costs, which decide between very unequal weights.
#[inline]
pub const fn cost(hash: u64) -> u64 {
    // u = hash / 2^64 = 2^-(zeros + 1) * (1 + fraction); an all-zero hash counts as 1.
    let hash = hash | 1;
    let zeros = hash.leading_zeros();
    let fraction = hash << zeros << 1;
    let entry = (fraction >> 56) as usize;
    let (high, low) = (TABLE[entry], TABLE[entry + 1]);
    // A step is below 2^33 and the offset has 31 bits, so the product fits.
    let between = fraction >> 25 & 0x7fff_ffff;
    ((zeros as u64) << PLACES) + high - (((high - low) * between) >> 31)
}

/// `1 - log2(1 + i / 256)` with [`PLACES`] fraction bits.
static TABLE: [u64; 257] = table();

const fn table() -> [u64; 257] {
    let mut table = [0; 257];
    let mut i = 0;
    while i < 256 {
        table[i] = (1 << PLACES) - log2(256 + i as u64);
        i += 1;
    }
    table
}

/// Returns `log2(x / 256)` for 256 <= x < 512, rounded to [`PLACES`] fraction bits, one bit per squaring.
const fn log2(x: u64) -> u64 {
    let mut square = (x as u128) << 54; // 62 binary places, between 1 and 2
    let mut digits = 0;
    let mut place = 0;
    while place <= PLACES {
        square = (square * square) >> 62;
        digits <<= 1;
        if square >= 2 << 62 {
            square >>= 1;
            digits |= 1;
        }
        place += 1;
    }
    (digits + 1) >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: f64 = (1u64 << PLACES) as f64;

    #[test]
    fn table_matches_logarithm() {
        for (i, entry) in TABLE.iter().enumerate() {
            let exact = (1.0 - (1.0 + i as f64 / 256.0).log2()) * ONE;
            assert!((*entry as f64 - exact).abs() <= 1.0, "entry {i}: {entry}, exact {exact}");
        }
    }

    #[test]
    fn cost_is_within_a_thousandth_of_exact_value() {
        // From 2^-30 up. Below, the last bit of the cost is coarser than the tolerance.
        let near_one = (34..64).map(|bits| u64::MAX - (1 << bits));
        let spread = (0..200_000u64).map(crate::mix);
        for hash in near_one.chain(spread) {
            // Exact also for hashes close to 2^64.
            let exact = -(-((u64::MAX - hash) as f64) / 2f64.powi(64)).ln_1p() / 2f64.ln() * ONE;
            let error = (cost(hash) as f64 - exact).abs();
            assert!(error <= exact / 1000.0 + 4.0, "hash {hash:#x}: {} against {exact}", cost(hash));
        }
    }

    #[test]
    fn cost_is_finite_and_ordered_at_both_ends() {
        assert_eq!(cost(0), 64 << PLACES);
        assert_eq!(cost(1), 64 << PLACES);
        assert_eq!(cost(1 << 63), 1 << PLACES);
        assert!(cost(u64::MAX) < 4);
        let falling: Vec<_> = (0..64).map(|zeros| cost(u64::MAX >> zeros)).collect();
        assert!(falling.is_sorted());
    }
}
