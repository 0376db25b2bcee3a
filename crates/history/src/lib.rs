//! The change log: what happened, and the states that queries were answered from.
//!
//! ```text
//! log lines of events ──┐                    ┌─► file 1 │ file 2 │ … │ newest file      the oldest is deleted over the limit of bytes
//!                       ├─ queue ─ thread ───┤
//! serving states ───────┘                    └── each begins with a whole state, changes follow
//! ```
//! A decision is a function of the serving state, the client and the question. So a state of the log, compiled again, answers what a
//! client would have got at that time. The ids of the log show whether the result is the state of then.
//!
//! Writing never delays what changes the answers: a thread of its own compares and writes. If it falls behind, it writes the newest
//! state and says how many it left out.
#![forbid(unsafe_code)]

mod files;
mod past;
mod record_wire;
mod recorder;
mod writer;

#[cfg(test)]
mod tests;

pub use self::{
    files::{EventRange, LogFile, events, files, micros},
    past::{Exactness, Past, PastError, PastStates, moment},
    writer::{History, LogWriter},
};
