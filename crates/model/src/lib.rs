//! The nouns of Fairway: names, clusters, pools, monitors, health, and the desired state that sources contribute.
//!
//! Data and the rules that hold between them. No I/O, no clock, no async and no wire format: those are in the crates that
//! convert between these types and the outside world.
#![forbid(unsafe_code)]

mod adaptive_ttl;
mod changes;
pub mod chunks;
mod client_location;
mod cluster;
mod contributions;
mod desired;
mod diagnostic;
mod durations;
mod fnv;
mod health;
mod id;
pub mod intent;
mod latency;
mod load;
mod load_bounds;
mod load_source;
pub mod log2;
mod map;
mod merge;
mod monitor;
mod name;
mod override_kind;
mod overrides;
mod partition;
mod policy;
mod pool;
mod preference;
mod prefix;
mod random;
pub mod ranking;
mod records;
mod rtype;
mod saved_wire;
mod schedule;
mod shared_map;
mod shares;
mod small_bytes;
mod spelling;
mod stable_hash;
mod timestamp;
mod units;

pub use adaptive_ttl::{AdaptiveTtl, Risk, TtlBounds};
pub use changes::{Changes, ProviderRecordSet, RecordSetKey, Update};
pub use client_location::{ClientLocation, Continent, Coordinates, Country, EarthPoint, LocationError, Subdivision};
pub use cluster::{Cluster, ClusterHost, ClusterLocation, HostAddresses, KubernetesApi, SecretKey};
pub use contributions::{
    AnonymousCluster, ContributedName, ContributedSpec, ContributionProblem, DeclaredClusters, DeclaredObjects,
    MergedName, MergedNames, NameContribution, SharedNamePolicy, WeightOrigin, merge_name,
};
pub use desired::{
    DesiredState, SteeredName, Subject, Violation, Visibility, ZoneSpec, alias_loop, describe_alias_loop,
};
pub use diagnostic::{Diagnostic, FileLocation, Severity};
pub use durations::Durations;
pub use fnv::{fnv1a_32, fnv1a_64};
pub use health::{Cause, Eligibility, Health, HealthStatus, Observation, OverrideAction, OverrideActionError};
pub use id::{ClusterName, IdError, LatencyTableName, LoadSourceName, MapName, MonitorName, PoolName};
pub use latency::{Latency, LatencyRow, LatencyTable};
pub use load::{
    ExposedServices, Load, LoadReport, LoadSignal, RuleBackends, ServiceCounts, ServiceReport, ServiceReports,
};
pub use load_bounds::{LoadBounds, LoadBoundsError};
pub use load_source::{ClusterLoadSource, LoadEndpoint, LoadMetric, LoadQuery, LoadSource, LoadUnit, LoadUrl};
pub use map::{ClientMap, MapEntry, MapLayer, MapSource};
pub use monitor::{
    Check, GrpcCheck, HttpCheck, Monitor, MonitorSource, ProbeAddress, ProbeAddressError, Secret, StatusSet,
    StatusSetError, Target, TlsCheck,
};
pub use name::{Name, NameError};
pub use override_kind::{LISTED_MAX, OverrideKind, PinnedPool, PinnedPools, listed};
pub use overrides::{
    Override, OverrideError, OverrideOrigin, OverrideRule, OverrideScope, OverrideScopeError, PoolPattern,
    PoolPatternError,
};
pub use partition::{
    ClassLatencies, ClassRanks, ClientPartition, LocationRankings, Partition, PartitionBuilder, PartitionMatch,
};
pub use policy::{Policy, Rank, Selection};
pub use pool::{AnswerMode, Contributions, DownAnswer, Member, MemberService, Pool, Spread};
pub use preference::{Bias, Geo, LocationMatch, LocationRules, Preference};
pub use prefix::{ClientPrefix, Network, NetworkError};
pub use random::SplitMix;
pub use records::{RecordSet, records_at};
pub use rtype::{Rtype, RtypeError};
pub use schedule::{
    NamedTimeZone, Schedule, ScheduleState, ScheduleWindow, ScheduleWindowError, TimeOfDay, Weekdays, WeeklyHours,
};
pub use shared_map::{SharedMap, SharedMapIter, SharedSet};
pub use shares::{Backend, ClusterCost, Demand, Shares, SlotTable, SourceProof};
pub use small_bytes::SmallBytes;
pub use spelling::closest;
pub use stable_hash::{StableHasher, mix, stable_hash};
pub use timestamp::{Timestamp, TimestampError};
pub use units::{Permille, Tier, Ttl, UnitError, Weight};
