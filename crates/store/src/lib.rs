//! The data folder: everything that survives a restart, used by one process at a time.
//!
//! ```text
//! data folder, 0700 ── lock            locked while the process lives; holds its process id
//!                   ├─ health.json     health status and history of targets: written after transitions, read at the start
//!                   ├─ overrides.json  overrides of operators: written before they are acknowledged
//!                   ├─ names.json      numbers of records of each zone: written after reloads of the files
//!                   ├─ hosts.json      addresses of host names of clusters: written after they changed
//!                   ├─ kubernetes.json what was found in Kubernetes clusters: written after it changed
//!                   ├─ latency-*.csv   pushed latency tables, in the format that `config` reads
//!                   ├─ objects.redb    objects that were declared over the API, with their history (`objects`)
//!                   ├─ balance.json    shares and demands: written every few reports and at the stop
//!                   └─ control.sock    local socket of the API
//! ```
//!
//! Except for `objects.redb`, which has transactions, a file is replaced atomically. A file that cannot be read is renamed, with an error
//! in the log; it does not keep a server from starting. Configuration and zones are files of their own, outside the folder.
#![forbid(unsafe_code)]

mod balance;
mod cookie_key;
mod election;
mod folder;
mod health;
mod hosts;
mod latency;
mod names;
pub mod objects;
mod overrides;
mod role;
mod state_wire;

pub use balance::{SavedBalance, encode_decision, encode_evidence};
pub use cookie_key::cookie_key;
pub use election::{Election, ElectionBackend, Leadership};
pub use folder::{DataFolder, FolderError, SavedState};
pub use health::SavedTarget;
pub use latency::{read_latency_table, replace_latency_table};
pub use names::ZoneSizes;
pub use overrides::SavedOverride;
pub use role::{LeaderStatus, Role};
