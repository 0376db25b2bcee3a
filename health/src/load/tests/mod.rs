//! Unit tests of load signals.

mod gateway;
mod ladder;
