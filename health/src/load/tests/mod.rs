//! Unit tests of load signals.

mod board;
mod gateway;
mod ladder;
