//! Probes against small servers that behave and misbehave, and monitors that cannot be run.

mod authority;
mod grpc;
mod hostile;
mod http;
mod monitors;
pub(crate) mod servers;
mod tcp;
mod tls;
