//! Sections about the change log of the data folder and its events, and their settings.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, Plain},
    limits_wire::MemorySize,
};

/// Change log in the data folder, from which `fairway events` and `fairway explain --at` answer. A change requires a restart.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct History {
    /// Size on disk; the oldest part is deleted beyond it.
    #[schemars(extend("default" = "256MiB"))]
    pub(super) bytes: Option<As<MemorySize>>,
}

/// Events of the change log.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Events {
    /// False leaves addresses of clients out of events. Otherwise they are shown to callers with the verb `observe`, cut to
    /// networks of 24 bits (IPv4) or 56 bits (IPv6).
    #[schemars(extend("default" = true))]
    pub(super) clients: Option<bool>,
}

/// Settings of the change log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySettings {
    /// Bytes on disk. Default: 256 MiB.
    pub bytes: u64,
    /// True if events show networks of clients. Default: true.
    pub clients: bool,
}

impl Default for HistorySettings {
    fn default() -> Self {
        Self { bytes: 256 << 20, clients: true }
    }
}

impl From<(History, Events)> for HistorySettings {
    fn from((history, events): (History, Events)) -> Self {
        let default = Self::default();
        Self {
            bytes: history.bytes.plain().map_or(default.bytes, |size| size.0),
            clients: events.clients.unwrap_or(default.clients),
        }
    }
}
