//! Tests of the pure parts of load.

mod gateway;
mod signals;
mod table;
