//! Tests against the real binary and real parts: what they share.
//!
//! [`message`] decodes DNS messages strictly and on its own, so that no bug of the server is also a bug of its judge.
//! [`mmdb`] writes small databases of places. [`real`] starts programs, [`load`] asks them all the while. [`recipe`] reads and runs
//! tests written as text; `integration/recipes/README.md` shows the format. [`tree`] reads the source tree. Nothing here is part of
//! the server.
#![forbid(unsafe_code)]

pub mod gateway;
pub mod load;
pub mod message;
pub mod mmdb;
pub mod present;
pub mod query;
pub mod real;
pub mod recipe;
pub mod tree;
