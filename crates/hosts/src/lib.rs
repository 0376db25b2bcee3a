//! Addresses of host names that stand for clusters, as load balancers of clouds have them. They are looked up in the background, again
//! whenever their TTL ends, and never for a query.
//!
//! ```text
//! names in use ──► table: due ──► resolver ──► table: addresses, age, failure ──► control, if addresses changed
//! ```
//! While look-ups fail, the last good addresses stay in use. `table.rs` decides what is due and what a result means; it is pure.
#![forbid(unsafe_code)]

mod resolver;
mod table;
mod task;

pub use self::{
    resolver::ResolverSettings,
    table::{Host, SavedHost},
    task::Hosts,
};
