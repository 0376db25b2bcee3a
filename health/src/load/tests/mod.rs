//! Tests of the pure parts of load.

mod gateway;
mod services;
mod signals;
mod table;
