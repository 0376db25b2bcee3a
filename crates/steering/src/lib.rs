//! Load control: which queries are evidence of demand ([`evidence`]), how demand is best divided among clusters ([`transport`]), and tables
//! of location classes ([`classes`]) that follow it ([`controller`]). [`balancer`] is what control and the simulator use.
//!
//! Pure: no I/O, clock, async or randomness. Time is an argument.
#![forbid(unsafe_code)]

pub mod balancer;
pub mod classes;
pub mod controller;
mod estimate;
pub mod evidence;
mod residence;
mod slot;
pub mod transport;
