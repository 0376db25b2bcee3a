//! Which server a command speaks to and what it shows, and what `fairway token` takes. Only definitions.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueHint};
use fairway_model::ClusterName;

use super::values;

/// Which running server is meant, and what is shown to it.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ServerArgs {
    /// Data folder of the server, over its socket `control.sock`; default as for `serve`. Environment: FAIRWAY_DATA_DIR.
    ///
    /// Only root and the server's own user may.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "server")]
    pub(super) data_dir: Option<PathBuf>,

    /// Ask over HTTP instead, like https://dns1.example:8053, or http://127.0.0.1:8053 on this machine. Environment:
    /// FAIRWAY_URL.
    #[arg(long, alias = "url", value_name = "URL", value_hint = ValueHint::Url)]
    pub(super) server: Option<String>,

    /// File with the token to show. Environment: FAIRWAY_TOKEN, the token itself.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) token_file: Option<PathBuf>,

    /// Who vouches for the server's certificate (PEM); default the system's trust anchors.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) cacert: Option<PathBuf>,

    /// Certificate to show (PEM), together with --key.
    #[arg(long, value_name = "FILE", requires = "key", value_hint = ValueHint::FilePath)]
    pub(super) cert: Option<PathBuf>,

    /// Key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "cert", value_hint = ValueHint::FilePath)]
    pub(super) key: Option<PathBuf>,
}

/// Make tokens that show who somebody is.
#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Make a token, and what the configuration takes of it.
    ///
    /// The token has 256 random bits. It is shown once, here; the configuration holds its SHA-256 and nothing to guess it from.
    /// No server is asked: what is printed goes into `access.tokens`, and a grant says what its holder may do.
    #[command(after_long_help = "\
Examples:
  fairway token create ci
  fairway token create ci --out ci.token --for 90d")]
    Create(TokenCreateArgs),
}

/// What `token create` takes.
#[derive(Debug, Args)]
pub(super) struct TokenCreateArgs {
    /// What its holder is called, in grants, logs and histories.
    #[arg(value_name = "NAME", value_parser = values::cluster)]
    pub(super) name: ClusterName,

    /// Write the token into this new file, with mode 0600, instead of showing it.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) out: Option<PathBuf>,

    /// For how long it counts, like 90d. Default: until it is taken out of the configuration.
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(super) lasts: Option<Duration>,
}
