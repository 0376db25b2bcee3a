//! How much is left of what a writer brought that is not heard of any more.
//!
//! ```text
//! weight  1 ────────────────┐
//!                            └──┐ a tenth at a time
//!         0                     └────────── gone
//!            last heard of    lease      2 × lease
//! ```

use std::collections::BTreeMap;

use fairway_model::Permille;
use fairway_providers::webhook_server::Scope;

/// What is left of each client's weights; those that are not here have all of them.
pub type Strengths = BTreeMap<Scope, Permille>;

/// What is left after so many seconds of silence.
pub(super) fn lease_weight(silent: u64, lease: u64) -> Permille {
    let over = silent.saturating_sub(lease);
    // At the end of each tenth of a lease a tenth goes.
    let tenths = (over * 10).checked_div(lease).unwrap_or(10).min(10);
    Permille::new(u16::try_from(1000 - tenths * 100).unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_go_by_tenths_from_one_lease_of_silence_to_two() {
        let left = |silent| lease_weight(silent, 100).thousandths();
        assert_eq!([0, 100, 109, 110, 155, 199, 200, 10_000].map(left), [1000, 1000, 1000, 900, 500, 100, 0, 0]);
    }
}
