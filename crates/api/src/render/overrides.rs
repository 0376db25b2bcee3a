//! Renders overrides.

use fairway_api_types::state_wire::OverrideState;
use fairway_control::overrides::ActiveOverride;

/// Renders an override.
pub(crate) fn override_state(active: &ActiveOverride) -> OverrideState {
    let ActiveOverride { id, spec, addresses } = active;
    OverrideState {
        id: id.clone(),
        source: if id.is_some() { "command" } else { "config" }.to_owned(),
        scope: spec.scope.to_string(),
        action: spec.action.to_string(),
        reason: spec.reason.clone(),
        expires: spec.expires.to_string(),
        addresses: addresses.clone(),
    }
}
