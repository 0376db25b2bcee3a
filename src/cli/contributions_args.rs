//! What `fairway contributions` takes, and what the manual says of it. Only definitions.

use clap::{Args, Subcommand};

use super::server_args::ServerArgs;

/// Show who brings what over the webhook of ExternalDNS, since when, and what of it is not heeded; or take it out.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway contributions
  fairway contributions --members
  fairway contributions evict west --reason 'the cluster is gone'")]
pub(super) struct ContributionsArgs {
    /// What to do instead of showing them.
    #[command(subcommand)]
    pub(super) command: Option<ContributionsCommand>,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,

    /// Show the members too that each brings, with their weights and where these come from; at most 100 each.
    #[arg(long)]
    pub(super) members: bool,

    /// Print as JSON, with when each fades and is gone.
    #[arg(long)]
    pub(super) json: bool,
}

/// What is done to contributions.
#[derive(Debug, Subcommand)]
pub(super) enum ContributionsCommand {
    /// Take out what an owner brought. A writer that still runs brings it again: end it first.
    Evict(EvictArgs),
}

/// What `contributions evict` takes.
#[derive(Debug, Args)]
pub(super) struct EvictArgs {
    /// The owner, as `contributions` shows it.
    pub(super) owner: String,

    /// Only what came by this base path: / or /owners/NAME.
    #[arg(long, value_name = "PATH")]
    pub(super) path: Option<String>,

    /// Only what has this set identifier.
    #[arg(long, value_name = "SET")]
    pub(super) set: Option<String>,

    /// Why, for the history; one line.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(super) reason: String,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}
