//! Finds the known word that a misspelt one was meant to be, for the hint of a diagnostic.

use strsim::osa_distance;

/// Returns the known word nearest to `wanted` if at most a third of it differs; case does not count.
///
/// The distance counts characters to add, drop, replace or swap with their neighbour.
pub fn closest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The work grows with the product of both lengths, and a text that long is not a typing error.
    if wanted.len() > 256 {
        return None;
    }
    let lower = wanted.to_ascii_lowercase();
    known
        .into_iter()
        .map(|word| (osa_distance(&lower, &word.to_ascii_lowercase()), word))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= wanted.len().div_ceil(3))
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_word_is_found_and_far_word_is_not() {
        let known = ["weight", "tier", "monitor"];
        assert_eq!(closest("Wieght", known), Some("weight"));
        assert_eq!(closest("colour", known), None);
        assert_eq!(closest("x", []), None);
        assert_eq!(closest(&"w".repeat(300), known), None);
    }
}
