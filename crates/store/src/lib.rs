//! What must survive a restart: declared objects, health history, overrides and what balancing has learnt, in a data folder of one process at a time.
//!
//! ```text
//! data folder, 0700 ── lock            held while the process lives; holds its process id
//!                   ├─ health.json     verdicts and history: written after flips, read once at the start
//!                   ├─ overrides.json  what operators force: on disk before it is acknowledged
//!                   ├─ latency-*.csv   tables of latencies that were pushed: as `config` reads them
//!                   ├─ objects.redb    what was declared over the API, with its history (`objects`)
//!                   ├─ balance.json    shares and demands: written every few reports and at the end
//!                   └─ control.sock    the API's local socket
//! ```
//!
//! A file is replaced whole (`objects.redb` apart, which has transactions): written beside, flushed, renamed, the folder flushed. So a power cut leaves the old text or
//! the new one. A file that cannot be read is moved aside and said so in the log; it never keeps a server from starting.
//! Configuration and zones are not kept here: they are files of their own.
#![forbid(unsafe_code)]

mod balance;
mod board;
mod folder;
mod health;
pub mod objects;
mod overrides;
mod state_wire;
mod tables;

pub use balance::KeptBalance;
pub use balance::{decode_decision, encode_decision};
pub use board::{Board, Desk, Posted};
pub use folder::{DataFolder, FolderError};
pub use folder::{peek_balance, peek_health, peek_overrides};
pub use health::Remembered;
pub use overrides::KeptOverride;
pub use tables::{read_table, replace_table};
