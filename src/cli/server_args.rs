//! Arguments that select a server and its credentials, and those of `fairway token`. Only definitions.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueHint};
use fairway_model::ClusterName;

use super::values;

/// The server to call, and the credentials for it.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ServerArgs {
    /// Data folder of the server, to call it over its socket `control.sock`; default as for `serve`. Environment: FAIRWAY_DATA_DIR.
    ///
    /// Only root and the user of the server can open the socket.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "server")]
    pub(super) data_dir: Option<PathBuf>,

    /// Call the server over HTTP: https://dns1.example:8053, or http://127.0.0.1:8053 on this machine. Environment: FAIRWAY_URL.
    #[arg(long, alias = "url", value_name = "URL", value_hint = ValueHint::Url)]
    pub(super) server: Option<String>,

    /// File with the API token. Environment: FAIRWAY_TOKEN, the token itself.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) token_file: Option<PathBuf>,

    /// Certificate authority of the server (PEM); default the system's trust anchors.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) cacert: Option<PathBuf>,

    /// Client certificate (PEM), together with --key.
    #[arg(long, value_name = "FILE", requires = "key", value_hint = ValueHint::FilePath)]
    pub(super) cert: Option<PathBuf>,

    /// Key of the client certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "cert", value_hint = ValueHint::FilePath)]
    pub(super) key: Option<PathBuf>,
}

/// Create API tokens.
#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Create a token and its entry for the configuration.
    ///
    /// The token has 256 random bits. It is shown once; the configuration holds only its SHA-256. No server is called: put the printed
    /// entry into `access.tokens`, and give the token permissions with a grant.
    #[command(after_long_help = "\
Examples:
  fairway token create ci
  fairway token create ci --out ci.token --for 90d")]
    Create(TokenCreateArgs),
}

/// Arguments of `token create`.
#[derive(Debug, Args)]
pub(super) struct TokenCreateArgs {
    /// Name of the token in grants, logs and histories.
    #[arg(value_name = "NAME", value_parser = values::cluster)]
    pub(super) name: ClusterName,

    /// Write the token to this new file, with mode 0600, instead of showing it.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) out: Option<PathBuf>,

    /// Validity, like 90d. Default: until the entry is removed from the configuration.
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(super) lasts: Option<Duration>,
}
