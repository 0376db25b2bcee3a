//! Load control: which queries are evidence of demand ([`evidence`]), how demand is best divided among clusters ([`transport`]), and a table
//! of location classes ([`classes`]) that follows it ([`controller`]). The server does not use the controller yet: `fairway_health::balance` turns demand and load
//! reports into shares.
//!
//! Pure: no I/O, clock, async or randomness. Time is an argument.
#![forbid(unsafe_code)]

pub mod balancer;
pub mod classes;
pub mod controller;
mod estimate;
pub mod evidence;
mod residence;
pub mod transport;
