//! Tests of intents: bodies, their laws, what is steered because of them.

mod bodies;
mod laws;
mod wish;
