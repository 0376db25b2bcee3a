//! Errors of commands.

use super::overrides::{BrokenRule, OverrideEffect};

/// The reason why a command was not executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The control task has ended.
    #[error("fairway is stopping; try again once it runs")]
    Stopped,
    /// A pushed load is out of order, or the cluster has no capacity.
    #[error("{0}")]
    LoadRefused(String),
    /// No cluster has this name.
    #[error("{0}")]
    NoSuchCluster(String),
    /// No latency table has this name.
    #[error("there is no latency table {0}; declare it in `latencies`, with a name and without a file")]
    NoSuchTable(String),
    /// The latency table is read from a file.
    #[error("table {0} is read from its file; remove `file` from the configuration to push the table")]
    TableOfFile(String),
    /// A pushed latency table has errors.
    #[error("latency table rejected, the previous one stays in use: {}", listed(.0))]
    TableFaulty(Vec<String>),
    /// The configuration with a pushed latency table was rejected.
    #[error("latency table rejected, the previous one stays in use; the configuration with it was rejected: {}", listed(.0))]
    TableRefused(Vec<String>),
    /// A pushed latency table could not be written to the disk, so it is not in force.
    #[error("the table could not be written to the data folder, so it is not in force: {0}")]
    TableNotKept(String),
    /// There is no store for objects.
    #[error("objects cannot be stored: {0}")]
    NoStore(String),
    /// An override of another request with the same key is in force.
    #[error("this Idempotency-Key was used with another request; give each request a key of its own")]
    KeyOfAnother,
    /// No override has this id.
    #[error("no override has the id {0}; `fairway status` lists them")]
    NoSuchOverride(String),
    /// An override matches no address of any cluster, or no pool with the step `load`.
    #[error("the override was not added: {fact}; {hint}")]
    NothingMatches {
        /// The pattern, and what it does not match.
        fact: String,
        /// Similar cluster or pool, or the declared ones.
        hint: String,
    },
    /// An override would leave names without a healthy member, and was not confirmed.
    #[error(
        "the override was not added: {} would be left without a healthy member: {}; confirm it with --yes, or confirm=true over the API",
        if .0.names == 1 { "1 name".to_owned() } else { format!("{} names", .0.names) },
        some_of(.0)
    )]
    NotConfirmed(OverrideEffect),
    /// An override would break a rule of the configuration.
    #[error(
        "the override was not added: it would leave pool {} with {} of {} clusters, and `overrideRules` of the configuration \
         require {}; remove another override first, or change the rule",
        .0.pool, .0.left, .0.clusters, .0.min_clusters
    )]
    RuleBroken(BrokenRule),
    /// The override table is full.
    #[error("the maximum of {} overrides is reached; remove one first", super::overrides::OVERRIDES_MAX)]
    TooManyOverrides,
    /// The override could not be written to the store of several servers, so it is not in force.
    #[error(
        "the override could not be written to the store, so it is not in force: {0}; --local (local=true over the API) adds one to \
         this server alone"
    )]
    NotShared(String),
    /// The override could not be written to the disk, so it is not in force.
    #[error("the override could not be written to the data folder, so it is not in force: {0}")]
    NotKept(String),
}

/// Returns the first names of an effect, and the number of the others.
fn some_of(effect: &OverrideEffect) -> String {
    let first = effect.first.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let more = effect.names - effect.first.len();
    if more > 0 { format!("{first} and {more} more") } else { first }
}

/// Returns the first errors, and the number of the others.
fn listed(errors: &[String]) -> String {
    let first = errors.iter().take(ERRORS_MAX).map(String::as_str).collect::<Vec<_>>().join("; ");
    let more = errors.len().saturating_sub(ERRORS_MAX);
    if more > 0 { format!("{first}; and {more} more") } else { first }
}

/// Maximum number of errors that one message lists.
const ERRORS_MAX: usize = 10;
