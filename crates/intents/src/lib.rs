//! Intents: the services to expose, as ONAP's wiki (W) and EMCO (E) declare them, and by their keys below `/v1/intents`.
//!
//! ```text
//! path ─► kind and names     body ─► Intent          stored objects + clusters ─► what is steered
//!         (paths)                    (body)                                       (wish)
//! ```
//!
//! HTTP is the matter of `api`; here is no request and no response. `relations` alone reads the store. What is stored is one form, whichever family it came by. What is steered because of it is
//! joined with the configuration by `control`; so is what is published because of records of where to (`updates`).
#![forbid(unsafe_code)]

pub mod body;
mod certificates;
mod common;
mod fault;
mod fields;
mod groups;
mod gslb;
mod inbound;
mod json_wire;
pub mod lenient;
mod others;
mod paths;
mod probe;
pub mod relations;
mod schema;
mod shares;
mod status_wire;
#[cfg(test)]
mod tests;
mod updates;
mod values;
mod wish;

pub use body::shown;
pub use body::{sound, understood};
pub use fault::{Fault, Refused};
pub use json_wire::Json;
pub use paths::{Family, path_of};
pub use paths::{Form, INTENT_KINDS, KEY_FORM, PathError, Place, What, forms, history_of, project_of};
pub use relations::{lacks, needs};
pub use schema::{NAME, body_schemas, component};
pub use status_wire::{Answered, EffectiveWeight, IntentMember, IntentStatus};
pub use updates::{PublisherContext, instance, is_secret_name, publish_to};
pub use wish::{Clusters, Elements, StoredIntent, Unanswered, Wish, object_name, wishes};
pub use wish::{answered_name, is_of_intent, runs, weight_source};
