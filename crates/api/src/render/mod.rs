//! Renders what the control task returns as bodies of the API.
//!
//! Nothing here decides or changes anything: each function takes values of `control` and returns a body of `api-types`.

mod contributions;
mod intents;
mod load;
mod objects;
mod overrides;
mod reload;
pub(crate) mod shares;
mod state;

use fairway_model::Eligibility;

pub use self::state::state;
pub(crate) use self::{
    contributions::contributions, intents::intent_statuses, load::load_state, objects::export,
    overrides::override_state, reload::reload_report,
};

/// Returns the word for an eligibility.
pub(crate) const fn eligibility_word(eligibility: Eligibility) -> &'static str {
    match eligibility {
        Eligibility::Up => "up",
        Eligibility::Unknown => "unknown",
        Eligibility::Pending => "pending",
        Eligibility::Down => "down",
        Eligibility::Out => "out",
    }
}

/// Returns a ratio as percent, rounded to one decimal.
pub(crate) fn percent(ratio: f64) -> f64 {
    (1000.0 * ratio).round() / 10.0
}
