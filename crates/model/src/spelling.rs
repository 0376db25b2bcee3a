//! Finds what a misspelt word was meant to be, for the way out of a fault.

/// The known word nearest to `wanted`, if it is near enough to be what was meant: at most a third of it differs.
/// Case does not count.
pub fn closest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The work grows with the product of both lengths; nothing that long is a slip of the pen.
    if wanted.len() > 256 {
        return None;
    }
    let lower = wanted.to_ascii_lowercase();
    known
        .into_iter()
        .map(|word| (distance(&lower, &word.to_ascii_lowercase()), word))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= wanted.len().div_ceil(3))
        .map(|(_, word)| word)
}

/// Octets to add, drop, replace or swap with their neighbour to make one text of the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    // Row by row; a swap looks two rows back.
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_slips_of_the_pen() {
        for (a, b, expected) in [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("wieght", "weight", 1)] {
            assert_eq!((distance(a, b), distance(b, a)), (expected, expected), "{a} {b}");
        }
    }

    #[test]
    fn a_near_word_is_found_and_a_far_one_is_not() {
        let known = ["weight", "tier", "monitor"];
        assert_eq!(closest("Wieght", known), Some("weight"));
        assert_eq!(closest("colour", known), None);
        assert_eq!(closest("x", []), None);
        assert_eq!(closest(&"w".repeat(300), known), None);
    }
}
