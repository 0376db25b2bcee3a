//! The `fairway` program: the command line, and the start and the stop of the daemon.
//!
//! `cli` has the commands, `daemon` binds sockets and connects control, transport and the API, `demo` is the demonstration. Everything else
//! is in the crates that `ARCHITECTURE.md` lists.
#![forbid(unsafe_code)]

pub mod cli;
pub mod daemon;
pub mod demo;
