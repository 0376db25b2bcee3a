//! Restriction of the process to its files: a section of version 1, and its settings.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::bounds_wire::{List, Text};

/// Restriction of the process to the files that the configuration needs, by Landlock. A change requires a restart.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Landlock {
    /// True to restrict the process, if the kernel can.
    #[schemars(extend("default" = true))]
    pub(super) enabled: Option<bool>,
    /// Further files and folders that may be read, such as the folder of a zone file that a later reload names.
    pub(super) read: Option<List<Text<1>, 1, 64>>,
    /// Folders whose programs may be executed, with those of the libraries that they need: for a kubeconfig with `exec`. Default: none.
    pub(super) execute: Option<List<Text<1>, 1, 64>>,
    /// Further folders that may be written, such as that of a later `queryLog.file`.
    pub(super) write: Option<List<Text<1>, 1, 64>>,
}

/// Restriction of the process to its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandlockSettings {
    /// True to restrict the process, if the kernel can. Default true.
    pub enabled: bool,
    /// Further files and folders that may be read. Default: none.
    pub read: Vec<PathBuf>,
    /// Folders whose programs may be executed. Default: none.
    pub execute: Vec<PathBuf>,
    /// Further folders that may be written. Default: none.
    pub write: Vec<PathBuf>,
}

impl Default for LandlockSettings {
    fn default() -> Self {
        Self { enabled: true, read: Vec::new(), execute: Vec::new(), write: Vec::new() }
    }
}
