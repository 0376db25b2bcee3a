//! The store of declared objects in the file: a section of version 1.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, List, Text},
    values_wire::Reference,
};

/// Store of objects that are declared over the API.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Store {
    /// An etcd that several servers share. Default: a file in the data folder, for this server only.
    pub(super) etcd: Option<Etcd>,
    /// Keys that encrypt the stored objects: one per line, with 64 hexadecimal digits. The first key encrypts, and all decrypt. Default:
    /// objects are stored in the clear.
    pub(super) keys: Option<Reference>,
}

/// Connection settings of etcd.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Etcd {
    /// URLs of its servers, `http://HOST:PORT` or `https://HOST:PORT`. If one fails, the next one is used.
    pub(super) endpoints: List<Text<1, 512>, 1, 16>,
    /// Prefix of keys: printable ASCII. Servers with different prefixes share nothing.
    #[schemars(extend("default" = "/fairway/"))]
    pub(super) prefix: Option<Text<1, 200>>,
    /// User, if etcd requires a user with password.
    pub(super) user: Option<Text<1, 256>>,
    /// File with the password, read at each connection.
    pub(super) password_file: Option<Text<1>>,
    /// True if the password may be sent without encryption to a host that is not a loopback address.
    #[schemars(extend("default" = false))]
    pub(super) allow_plain_http: Option<bool>,
    /// File with trusted certificates (PEM). Default: those of the system.
    pub(super) ca: Option<Text<1>>,
    /// File with the client certificate (PEM), if etcd requires one; read at each connection.
    pub(super) certificate: Option<Text<1>>,
    /// File with the private key of the client certificate (PEM).
    pub(super) key: Option<Text<1>>,
    /// Time limit of one server, 100ms to 30s; that of a call is twice as long.
    #[schemars(extend("default" = "2s"))]
    pub(super) timeout: Option<As<Duration>>,
}
