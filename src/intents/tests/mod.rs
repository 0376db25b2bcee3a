//! Tests of intents: bodies, their laws, the HTTP routes, what is steered because of them.

mod bodies;
mod http;
mod laws;
mod memory;
mod wish;
