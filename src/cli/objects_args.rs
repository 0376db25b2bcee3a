//! What `fairway apply`, `diff`, `get` and `delete` take, and what the manual says of it. Only definitions.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::server_args::ServerArgs;

/// Declare clusters, monitors, pools, names, records and intents to a running server; all of them, or none.
///
/// Files hold the sections clusters, monitors, pools, names and records, as in a configuration file, and intents, each with its key, in YAML or JSON. What is declared is
/// kept in the data folder and is in the answers when the command ends. Each object says all that it says from now on; where a
/// configuration file of the server says otherwise, that one holds.
///
/// What does not fit what is there is refused with its faults, and nothing is changed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway apply -f shop.yaml --reason 'the shop opens in ap1'
  fairway apply -f /etc/fairway/objects --prune --dry-run")]
pub(super) struct ApplyArgs {
    /// File, or a folder whose *.yaml files are read together; may be repeated.
    #[arg(long, short, value_name = "FILE|DIR", required = true, value_hint = ValueHint::AnyPath)]
    pub(super) file: Vec<PathBuf>,

    /// Take away everything that was declared over the API and is not in the files; of intents those that you have applied.
    #[arg(long)]
    pub(super) prune: bool,

    /// Only tell what would change.
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Why, for the history; one line.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(super) reason: String,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// Show what files would change in what was declared to a running server, field by field.
///
/// Exit status 4 where anything would. Nothing is changed. What does not fit is refused with its faults, as `fairway apply` does.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway diff -f shop.yaml
  fairway diff -f /etc/fairway/objects --prune")]
pub(super) struct DiffArgs {
    /// File, or a folder whose *.yaml files are read together; may be repeated.
    #[arg(long, short, value_name = "FILE|DIR", required = true, value_hint = ValueHint::AnyPath)]
    pub(super) file: Vec<PathBuf>,

    /// As if everything that was declared over the API and is not in the files were taken away; of intents those that you have applied.
    #[arg(long)]
    pub(super) prune: bool,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// Show what was declared to a running server.
///
/// Objects that configuration files declare are not among them: `fairway status` shows everything that is served.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway get pools
  fairway get intents
  fairway get pools shop --json")]
pub(super) struct GetArgs {
    /// What kind of objects.
    #[arg(value_name = "KIND", value_enum)]
    pub(super) kind: Section,

    /// One object by its name, an intent by its key, instead of all.
    #[arg(value_name = "NAME")]
    pub(super) name: Option<String>,

    /// Print as JSON, with all that each object says.
    #[arg(long)]
    pub(super) json: bool,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// Take away what was declared to a running server.
///
/// Refused where another object needs it. The history goes on telling what it said.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway delete names shop.gslb.example --reason 'the shop has closed'")]
pub(super) struct DeleteArgs {
    /// What kind of object.
    #[arg(value_name = "KIND", value_enum)]
    pub(super) kind: Section,

    /// Its name; of an intent its key.
    #[arg(value_name = "NAME")]
    pub(super) name: String,

    /// Why, for the history; one line.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(super) reason: String,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// A kind of objects, by its section in a configuration.
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
    /// Steered names.
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
