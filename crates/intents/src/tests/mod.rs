//! Tests of bodies and of the pools and names that intents become.

mod bodies;
mod exposure;
mod properties;
