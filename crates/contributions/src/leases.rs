//! Lease weights: the contributions of a client that no longer calls fade.
//!
//! ```text
//! weight  1 ────────────────┐
//!                            └──┐ a tenth at a time
//!         0                     └────────── 0
//!            last call        lease      2 × lease
//! ```

use std::collections::BTreeMap;

use fairway_model::Permille;
use fairway_providers::webhook_server::Scope;

/// Lease weights of clients. Clients that are absent have the whole weight.
pub type LeaseWeights = BTreeMap<Scope, Permille>;

/// Returns the weight after some seconds without a call.
pub fn lease_weight(silent: u64, lease: u64) -> Permille {
    let over = silent.saturating_sub(lease);
    // A tenth is lost at the end of each tenth of a lease. A lease of 0 s has expired.
    let tenths = (over * 10).checked_div(lease).unwrap_or(10).min(10);
    Permille::new(u16::try_from(1000 - tenths * 100).unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_falls_by_tenths_between_one_and_two_leases() {
        let weight = |silent| lease_weight(silent, 100).thousandths();
        assert_eq!([0, 100, 109, 110, 155, 199, 200, 10_000].map(weight), [1000, 1000, 1000, 900, 500, 100, 0, 0]);
    }
}
