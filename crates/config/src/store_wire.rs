//! How the store of declared objects appears in the file: a section of version 1 in a file of its own.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{List, Text},
    values_wire::As,
};

/// Where objects are kept that are declared over the API.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Store {
    /// On an etcd, which several servers share. Default: in the data folder, for this server alone.
    pub(super) etcd: Option<Etcd>,
}

/// An etcd, and how it is reached.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Etcd {
    /// URLs of its servers, `http://HOST:PORT` or `https://HOST:PORT`. Where one fails, the next is asked.
    pub(super) endpoints: List<Text<1, 512>, 1, 16>,
    /// What keys begin with: printable ASCII. Servers with another prefix share nothing.
    #[schemars(extend("default" = "/fairway/"))]
    pub(super) prefix: Option<Text<1, 200>>,
    /// User, where etcd wants one with a password.
    pub(super) user: Option<Text<1, 256>>,
    /// File of the password, read at each connection.
    pub(super) password_file: Option<Text<1>>,
    /// File of certificates that those of the servers must come from (PEM). Default: those of the system.
    pub(super) ca: Option<Text<1>>,
    /// File of the certificate that is shown to the servers (PEM), where they want one; read at each connection.
    pub(super) certificate: Option<Text<1>>,
    /// File of its key (PEM).
    pub(super) key: Option<Text<1>>,
    /// How long a server may take to answer, 100ms to 30s; a call takes at most twice as long.
    #[schemars(extend("default" = "2s"))]
    pub(super) timeout: Option<As<Duration>>,
}
