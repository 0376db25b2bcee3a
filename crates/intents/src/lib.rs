//! Intents: exposed and used services, as bodies of ONAP's wiki (W) and EMCO (E), and by their keys below `/v1/intents`.
//!
//! ```text
//! path ─► kind and names     body ─► Intent        stored intents + clusters ─► pools, names, monitors
//!         (paths)                    (body)                                     (exposure)
//! ```
//!
//! HTTP is in `api`. The store has one canonical form of an intent, whichever family it came from. `relations` alone reads the store.
//! `control` merges the pools and names of intents with the configuration, and publishes records as DNS update records declare (`updates`).
#![forbid(unsafe_code)]

pub mod body;
mod certificates;
mod common;
mod error;
mod exposure;
mod fields;
mod groups;
mod gslb;
mod inbound;
mod json_wire;
pub mod lenient;
mod mesh;
mod others;
mod paths;
mod probe;
pub mod relations;
mod schema;
mod shares;
#[cfg(test)]
mod tests;
mod updates;
mod values;

pub use body::{parse_stored, public_value, validate, without_secrets};
pub use error::{BodyError, InvalidBody};
pub use exposure::{Clusters, Exposed, Exposure, NotServed, StoredIntent, expose, object_name};
pub use exposure::{OBJECT_NAME_MAX, answered_name, runs, weight_source};
pub use json_wire::Json;
pub use mesh::{not_rendered, unenforced_denial};
pub use paths::{Family, path_of};
pub use paths::{
    INTENT_KINDS, IntentPath, KEY_FORM, PathError, PathTarget, PathTemplate, history_of, project_of, templates,
};
pub use relations::{required_objects, required_parent};
pub use schema::{NAME, body_schemas, component};
pub use updates::{PublisherContext, instance, is_secret_name, publish_to};
