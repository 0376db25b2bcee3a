//! The nouns of Fairway: names, clusters, pools, monitors, health, and what a source wishes for.
//!
//! Pure data and the rules that hold between the data. No I/O, no clock, no async, no wire format:
//! those live in the crates that turn the outside world into these types and back.
#![forbid(unsafe_code)]

mod cluster;
mod desired;
mod fault;
mod force;
mod health;
mod id;
mod load;
mod merge;
mod monitor;
mod name;
mod octets;
mod policy;
mod pool;
mod prefix;
mod rtype;
mod shares;
mod spelling;
mod timestamp;
mod units;

pub use cluster::{Cluster, Location};
pub use desired::{Desired, Problem, SteeredName, Subject, Visibility, ZoneSpec};
pub use fault::{Fault, Place, Severity};
pub use force::{Override, OverrideError, Scope, ScopeError};
pub use health::{Cause, Forced, ForcedError, Health, Outcome, Standing, Verdict};
pub use id::{ClusterName, IdError, MonitorName, PoolName};
pub use load::{Load, LoadReport, LoadSignal};
pub use merge::{Conflict, Contribution, Merged, SourceKind, merge};
pub use monitor::{Check, GrpcCheck, HttpCheck, Monitor, ProbeAddress, Secret, StatusSet, Target, TlsCheck};
pub use name::{Name, NameError};
pub use octets::Octets;
pub use policy::{Choose, Policy, Rank};
pub use pool::{DownAnswer, Member, Mode, Pool, Spread};
pub use prefix::{ClientPrefix, Network, NetworkError};
pub use rtype::{Rtype, RtypeError};
pub use shares::{Acceptance, Demand, Shares};
pub use spelling::closest;
pub use timestamp::{Timestamp, TimestampError};
pub use units::{Permille, Tier, Ttl, UnitError, Weight};
