//! Arguments of `fairway override`, with their help. Only definitions.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{server_args::ServerArgs, values};

/// Override the health of clusters for planned work: up, down or drained.
///
/// An override takes precedence over probes until it expires. It survives restarts.
#[derive(Debug, Subcommand)]
pub(super) enum OverrideCommand {
    /// Create an override for every cluster or address that a pattern matches.
    ///
    /// The pattern matches names of clusters, or single addresses as CLUSTER/ADDRESS; `*` stands for any characters, `?` for one.
    /// The command prints the addresses that match now.
    #[command(after_long_help = "\
Examples:
  fairway override add eu1 drain --reason 'kernel update' --for 2h
  fairway override add 'eu*/203.0.113.10' down --reason 'wrong certificate' --for 30m")]
    Add(OverrideAddArgs),
    /// List the overrides in force, with reason and expiry.
    List(OverrideListArgs),
    /// Delete an override before it expires.
    Remove(OverrideRemoveArgs),
}

/// Arguments of `override add`.
#[derive(Debug, Args)]
pub(super) struct OverrideAddArgs {
    /// Pattern of clusters or addresses, like `eu1`, `eu*` or `eu1/203.0.113.10`.
    #[arg(value_name = "PATTERN")]
    pub(super) scope: String,

    /// State that is used instead of the result of the probes.
    #[arg(value_enum)]
    pub(super) state: OverrideActionArg,

    /// Reason, for readers of `status` and of the log.
    #[arg(long, short, value_name = "TEXT")]
    pub(super) reason: String,

    /// Lifetime, up to 30d: like 30m, 2h or 1d12h. It has no default, since an override without an end is forgotten.
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(super) lasts: Duration,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// State that an override gives to its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OverrideActionArg {
    /// Answered, whatever the probes say.
    Up,
    /// Never answered, even if everything else is down.
    Down,
    /// Not answered, for planned work.
    Drain,
}

impl OverrideActionArg {
    /// Returns the state's word in the API.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Drain => "drain",
        }
    }
}

/// Arguments of `override list`.
#[derive(Debug, Args)]
pub(super) struct OverrideListArgs {
    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,

    /// Print the list as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// Arguments of `override remove`.
#[derive(Debug, Args)]
pub(super) struct OverrideRemoveArgs {
    /// Id of the override, as `override list` shows it.
    pub(super) id: String,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}
