//! Records in and out: what ExternalDNS instances contribute comes in, and what is to be published goes out to other DNS servers.
//!
//! It knows `model` alone. Where it needs what the daemon has (the store, what is steered), it defines a trait, and the daemon
//! implements it.
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
pub mod webhook;
pub mod webhook_server;

pub use endpoint_wire::{Changes, DomainFilter, Endpoint, Json, MEDIA_TYPE, Property, RowKey, plain_name};
pub use powerdns_wire::PowerDns;
