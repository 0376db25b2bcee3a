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

pub use self::state::state;
pub(crate) use self::{
    contributions::contributions, intents::intent_statuses, load::load_state, objects::export,
    overrides::override_state, reload::reload_report,
};
