//! Intents over HTTP: what is exposed, as ONAP's wiki (W) and EMCO (E) declare it.
//!
//! ```text
//! path ─► kind and names     body ─► Intent ─► ObjectStore          stored objects + clusters ─► what is steered
//!         (paths)                    (body)    (routes)                                          (wish)
//! ```
//!
//! Everything but `routes` is pure. What is stored is one form, whichever family it came by. What is steered because of it is
//! joined with the configuration by `control`.

mod answer;
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
mod paths;
mod probe;
mod relations;
mod routes;
mod shares;
#[cfg(test)]
mod tests;
mod values;
mod wish;

pub use body::shown;
pub(crate) use paths::project_of;
pub use paths::{Family, path_of};
pub use routes::router;
pub use wish::{Elements, StoredIntent, Unanswered, Wish, object_name, wishes};
