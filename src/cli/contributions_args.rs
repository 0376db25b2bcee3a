//! Arguments of `fairway contributions`, with their help. Only definitions.

use clap::{Args, Subcommand};

use super::server_args::ServerArgs;

/// List webhook contributions of ExternalDNS and their status, or remove them.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway contributions
  fairway contributions --members
  fairway contributions evict west --reason 'the cluster is gone'")]
pub(super) struct ContributionsArgs {
    /// An action instead of the list.
    #[command(subcommand)]
    pub(super) command: Option<ContributionsCommand>,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,

    /// Also show the members of each contribution, with their weights and the source of each weight; at most 100 each.
    #[arg(long)]
    pub(super) members: bool,

    /// Print as JSON, with the times when each contribution loses weight and expires.
    #[arg(long)]
    pub(super) json: bool,
}

/// Actions on contributions.
#[derive(Debug, Subcommand)]
pub(super) enum ContributionsCommand {
    /// Remove what an owner contributed. A client that still runs contributes it again: stop it first.
    Evict(EvictArgs),
}

/// Arguments of `contributions evict`.
#[derive(Debug, Args)]
pub(super) struct EvictArgs {
    /// The owner, as `contributions` shows it.
    pub(super) owner: String,

    /// Only contributions over this base path: / or /owners/NAME.
    #[arg(long, value_name = "PATH")]
    pub(super) path: Option<String>,

    /// Only contributions with this set identifier.
    #[arg(long, value_name = "SET")]
    pub(super) set: Option<String>,

    /// Reason for the history; one line.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(super) reason: String,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}
