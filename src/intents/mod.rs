//! Intents over HTTP: what is exposed, as ONAP's wiki (W) and EMCO (E) declare it, and by their keys below `/v1/intents`.
//!
//! ```text
//! path ─► kind and names     body ─► Intent ─► ObjectStore          stored objects + clusters ─► what is steered
//!         (paths)                    (body)    (routes)                                          (wish)
//! ```
//!
//! Everything but `routes` is pure. What is stored is one form, whichever family it came by. What is steered because of it is
//! joined with the configuration by `control`; so is what is published because of records of where to (`updates`).

mod answer;
mod behold;
mod body;
mod certificates;
mod common;
mod fault;
mod fields;
mod groups;
mod gslb;
mod inbound;
mod json_wire;
mod lenient;
mod others;
mod parameters_wire;
mod paths;
mod probe;
mod relations;
mod routes;
mod schema;
mod shares;
mod status_wire;
#[cfg(test)]
mod tests;
mod updates;
mod values;
mod wish;

pub(crate) use answer::shown_with;
pub use behold::Behold;
pub use body::shown;
pub(crate) use body::{sound, understood};
pub(crate) use fault::Refused;
pub(crate) use parameters_wire::IntentParameters;
pub use paths::{Family, path_of};
pub(crate) use paths::{INTENT_KINDS, What, declares_updates, forms, history_of, project_of};
pub(crate) use relations::{lacks, needs};
pub(crate) use routes::router;
pub(crate) use schema::{NAME, body_schemas, component};
pub use status_wire::{Answered, EffectiveWeight, IntentMember, IntentStatus};
pub(crate) use updates::{Site as UpdateSite, instance, publish_to};
pub use wish::{Clusters, Elements, StoredIntent, Unanswered, Wish, object_name, wishes};
pub(crate) use wish::{answered_name, is_of_intent, runs, weight_source};
