//! Tests of probes with servers on loopback, and of invalid monitors.

mod authority;
mod grpc;
mod hostile;
mod http;
mod monitors;
pub(crate) mod servers;
mod tcp;
mod tls;
