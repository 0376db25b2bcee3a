//! The webhook through which ExternalDNS contributes records, and the publishing of records to other DNS servers.
//!
//! Where it needs the store or the serving state, it defines a trait, and the crate control implements it.
#![forbid(unsafe_code)]

pub mod dnsendpoint;
mod endpoint;
mod endpoint_wire;
pub mod etcd;
pub mod file;
pub mod http;
mod powerdns_wire;
pub mod publish;
pub mod rfc2136;
mod sets;
pub mod webhook;
pub mod webhook_server;

pub use endpoint_wire::{Changes, DomainFilter, Endpoint, Json, Labels, MEDIA_TYPE, Property, RowKey, plain_name};
pub use powerdns_wire::PowerDns;
