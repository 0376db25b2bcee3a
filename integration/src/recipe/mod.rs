//! Recipes: tests of the server's answers, written as text that a DNS operator can read.
//!
//! [`Recipe::parse`] reads one; [`run()`] plays it on a [`Stage`], which is the code in this process or the real binary.
//! The format is described in `integration/recipes/README.md`.

mod binary;
mod expect;
mod in_process;
mod parse;
mod run;

use std::path::{Path, PathBuf};

use fairway_model::Name;

pub use binary::Binary;
pub use expect::{Expect, Expected, SizeLimit};
pub use in_process::InProcess;
pub use run::{Stage, run};

use crate::query::Query;

/// One recipe: the served data, and the queries.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    /// File of the recipe.
    pub path: PathBuf,
    /// Zones and their text.
    pub zones: Vec<(Name, String)>,
    /// Zones that are private.
    pub private: Vec<Name>,
    /// The steered part of the configuration, as YAML; empty for static zones only.
    pub config: String,
    /// Text of `version.bind`, and of NSID, `hostname.bind` and `id.server`.
    pub identity: (Option<String>, Option<String>),
    /// Steps, in order.
    pub steps: Vec<Step>,
}

/// One query and its expected answer.
#[derive(Clone, Debug)]
pub struct Step {
    /// Number: RFC and section, unique in the recipe.
    pub id: String,
    /// The rule, as a sentence.
    pub rule: String,
    /// First line.
    pub line: usize,
    /// True if a `query` or `raw` line was given.
    pub asked: bool,
    /// Health transitions before it: cluster and state.
    pub health: Vec<(String, State)>,
    /// Query to send.
    pub query: Query,
    /// Expected answer.
    pub expect: Expect,
}

/// State of a cluster's targets, as a recipe sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of decisions.md's states, and an operator's force")]
pub enum State {
    Up,
    Down,
    Pending,
    Unknown,
    ForcedUp,
    ForcedDown,
    Drained,
}

/// Returns the folder of the recipes.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes")
}

/// Returns the names of all recipe files, without `.recipe`, sorted.
pub fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("the folder of recipes is part of the crate");
    let paths = entries.map(|e| e.expect("a readable entry").path());
    let recipes = paths.filter(|p| p.extension().is_some_and(|e| e == "recipe"));
    let mut names: Vec<_> = recipes.filter_map(|p| Some(p.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

impl Recipe {
    /// Reads the recipe with this name.
    pub fn named(name: &str) -> Result<Self, String> {
        let path = folder().join(format!("{name}.recipe"));
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self { path, ..Self::parse(&text).map_err(|e| format!("{name}.recipe:{e}"))? })
    }

    /// Returns the clusters whose health the recipe sets: every `"{NAME}"` in its configuration, in order.
    pub fn probed_clusters(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let mut rest = &self.config[..];
        while let Some((_, after)) = rest.split_once("\"{") {
            let Some((name, tail)) = after.split_once("}\"") else { break };
            if !found.iter().any(|f| f == name) {
                found.push(name.to_owned());
            }
            rest = tail;
        }
        found
    }

    /// Returns the zone files: name and text.
    pub fn zone_files(&self) -> Vec<(String, String)> {
        (0..).zip(&self.zones).map(|(index, (_, text))| (format!("{index}.zone"), text.clone())).collect()
    }

    /// Returns the configuration without the lines that only the reading process knows (version, addresses): zones,
    /// identity, and the recipe's own part, with each `"{NAME}"` replaced by a probe address.
    pub fn config_with(&self, probe_of: impl Fn(&str) -> String) -> String {
        let mut text = String::from("zones:\n");
        for (index, (name, _)) in self.zones.iter().enumerate() {
            let private = if self.private.contains(name) { ", visibility: private" } else { "" };
            text += &format!("  - {{ name: \"{name}\", file: {index}.zone{private} }}\n");
        }
        let (version, id) = &self.identity;
        let identity = [("version", version), ("id", id)];
        let identity = identity.iter().filter_map(|(key, value)| Some(format!("  {key}: \"{}\"\n", value.as_ref()?)));
        let identity: String = identity.collect();
        if !identity.is_empty() {
            text += &format!("identity:\n{identity}");
        }
        text += &self.config;
        for cluster in self.probed_clusters() {
            text = text.replace(&format!("\"{{{cluster}}}\""), &format!("\"{}\"", probe_of(&cluster)));
        }
        text
    }
}
