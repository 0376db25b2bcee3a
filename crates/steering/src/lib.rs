//! Load control. So far: which queries are evidence of demand ([`evidence`]). `fairway_health::balance` turns demand and
//! load reports into shares.
//!
//! Pure: no I/O, clock, async or randomness. Time is an argument.
#![forbid(unsafe_code)]

pub mod evidence;
pub mod transport;
