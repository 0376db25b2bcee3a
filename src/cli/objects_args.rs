//! Arguments of `fairway apply`, `diff`, `get` and `delete`, with their help. Only definitions.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::server_args::ServerArgs;

/// Create or replace objects on a running server: all of them, or none.
///
/// Files hold the sections clusters, monitors, pools, names and records, as in a configuration file, and intents, each with its key, in
/// YAML or JSON. The server keeps the objects in its data folder, and its answers follow them when the command ends. Each object
/// replaces the one of its name. An object of a configuration file takes precedence.
///
/// If an object is invalid or does not fit the others, the command prints the errors and changes nothing.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway apply -f shop.yaml --reason 'the shop opens in ap1'
  fairway apply -f /etc/fairway/objects --prune --dry-run")]
pub(super) struct ApplyArgs {
    /// File, or a folder whose *.yaml files are read together; may be repeated.
    #[arg(long, short, value_name = "FILE|DIR", required = true, value_hint = ValueHint::AnyPath)]
    pub(super) file: Vec<PathBuf>,

    /// Delete every object that was created over the API and is not in the files; of intents those that you have applied.
    #[arg(long)]
    pub(super) prune: bool,

    /// Only show what would change.
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Reason for the history; one line.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(super) reason: String,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// Show what `fairway apply` would change, field by field. Changes nothing.
///
/// If an object is invalid or does not fit the others, the command prints the errors.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway diff -f shop.yaml
  fairway diff -f /etc/fairway/objects --prune

Exit status:
  0  nothing would change
  1  it failed: an object is invalid, or no server is running; the reason is on standard error
  2  the command line is invalid
  4  something would change")]
pub(super) struct DiffArgs {
    /// File, or a folder whose *.yaml files are read together; may be repeated.
    #[arg(long, short, value_name = "FILE|DIR", required = true, value_hint = ValueHint::AnyPath)]
    pub(super) file: Vec<PathBuf>,

    /// Also show what `fairway apply --prune` would delete.
    #[arg(long)]
    pub(super) prune: bool,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// Show objects that were created over the API.
///
/// Objects of configuration files are not shown: `fairway status` shows everything that is served.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway get pools
  fairway get intents
  fairway get pools shop --json")]
pub(super) struct GetArgs {
    /// Kind of the objects.
    #[arg(value_name = "KIND", value_enum)]
    pub(super) kind: Section,

    /// One object by its name, an intent by its key, instead of all.
    #[arg(value_name = "NAME")]
    pub(super) name: Option<String>,

    /// Print the whole objects as JSON.
    #[arg(long)]
    pub(super) json: bool,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// Delete an object that was created over the API.
///
/// Fails if another object refers to it. Its history remains.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway delete names shop.gslb.example --reason 'the shop has closed'")]
pub(super) struct DeleteArgs {
    /// Kind of the object.
    #[arg(value_name = "KIND", value_enum)]
    pub(super) kind: Section,

    /// Its name; of an intent its key.
    #[arg(value_name = "NAME")]
    pub(super) name: String,

    /// Reason for the history; one line.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(super) reason: String,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// A kind of object, by its section in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Section {
    /// Clusters.
    #[value(alias = "cluster")]
    Clusters,
    /// Intents.
    #[value(alias = "intent")]
    Intents,
    /// Monitors.
    #[value(alias = "monitor")]
    Monitors,
    /// Load-balanced names.
    #[value(alias = "name")]
    Names,
    /// Pools.
    #[value(alias = "pool")]
    Pools,
    /// Records that are served as they are.
    #[value(alias = "record")]
    Records,
}

impl Section {
    /// Its name in files and paths.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Clusters => "clusters",
            Self::Intents => "intents",
            Self::Monitors => "monitors",
            Self::Names => "names",
            Self::Pools => "pools",
            Self::Records => "records",
        }
    }
}
