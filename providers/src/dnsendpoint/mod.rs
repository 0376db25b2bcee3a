//! Kubernetes objects (`externaldns.k8s.io/v1alpha1`, DNSEndpoint) that ExternalDNS reads with `--source=crd`.
//!
//! ```text
//! fairway-NAME-all              all names, while they fit into one object
//! fairway-NAME-0 … -f           then a sixteenth each, by the first digit of a hash of the name; and so on
//! ```
//! So a change of one name changes one object. Obsolete objects are removed last: a name may be in two objects for a moment, but never in
//! none. Objects without our labels are never changed. ExternalDNS keeps the registry of the provider behind it.
//!
//! The objects are files of a folder (`folder.rs`), or the crate sources writes them to a cluster.

mod folder;
mod object_wire;
mod objects;

pub use self::{folder::DnsEndpoints, object_wire::Object, objects::Objects};
