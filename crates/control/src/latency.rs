//! Pushed latency tables. A push replaces the whole table, or changes nothing.

use std::path::PathBuf;

use fairway_config::{check_latencies, pushed_file};
use fairway_model::{LatencyTable, LatencyTableName};
use fairway_store::{read_latency_table, replace_latency_table};

use super::{Control, ControlError};

/// A latency table that was pushed and is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushedTable {
    /// Its name.
    pub name: LatencyTableName,
    /// Number of its networks, one per line.
    pub networks: usize,
    /// Number of its clusters, one per column.
    pub clusters: usize,
    /// Number of the first configuration with this table.
    pub configuration: u64,
}

impl Control {
    /// Replaces a latency table by a text in the form of its file. Returns once it is on disk and in force.
    ///
    /// The text is written before the reload reads it, so that a restart has the same result. If the reload rejects it, the previous text
    /// is restored.
    pub async fn push_latency(&self, table: &str, text: Vec<u8>) -> Result<PushedTable, ControlError> {
        // One push at a time: a rejected push must restore the text that it replaced.
        let _guard = self.shared.declarations.pushing.lock().await;
        let (name, folder) = self.pushed_table(table)?;
        let file = pushed_file(&name);
        let (pushed, text) = on_thread(move || check(name, text)).await?.map_err(ControlError::TableFaulty)?;
        let (in_folder, to) = (folder.clone(), file.clone());
        let written = on_thread(move || {
            let before = read_latency_table(&in_folder, &to)?;
            replace_latency_table(&in_folder, &to, Some(&text)).map(|()| before)
        });
        let not_kept = |error: std::io::Error| ControlError::TableNotKept(error.to_string());
        let before = written.await?.map_err(not_kept)?;
        let outcome = self.reload().await?;
        if outcome.is_accepted() {
            let PushedTable { name, networks, clusters, .. } = &pushed;
            tracing::info!(event = "change", table = %name, networks, clusters, "latency table applied");
            return Ok(PushedTable { configuration: outcome.configuration, ..pushed });
        }
        on_thread(move || replace_latency_table(&folder, &file, before.as_deref())).await?.map_err(not_kept)?;
        self.reload().await?;
        Err(ControlError::TableRefused(outcome.errors))
    }

    /// Returns the text of a pushed latency table.
    pub async fn pushed_latency(&self, table: &str) -> Result<Vec<u8>, ControlError> {
        let (name, folder) = self.pushed_table(table)?;
        let read = on_thread(move || read_latency_table(&folder, &pushed_file(&name))).await?;
        let text = read.map_err(|error| ControlError::TableNotKept(error.to_string()))?;
        text.ok_or_else(|| ControlError::NoSuchTable(table.to_owned()))
    }

    /// Returns the name of a table that may be pushed, and the data folder.
    fn pushed_table(&self, table: &str) -> Result<(LatencyTableName, PathBuf), ControlError> {
        let configured = &self.shared.serving.published().configured;
        let name = LatencyTableName::new(table).ok();
        let known = name.and_then(|name| Some((configured.files.kept_maps.is_pushed(&name)?, name)));
        let (is_pushed, name) = known.ok_or_else(|| ControlError::NoSuchTable(table.to_owned()))?;
        if !is_pushed {
            return Err(ControlError::TableOfFile(table.to_owned()));
        }
        let folder = configured.settings.data_dir.clone();
        let no_folder = || ControlError::TableNotKept("there is no data folder; give dataDir".to_owned());
        Ok((name, folder.ok_or_else(no_folder)?))
    }
}

/// Checks the text of a table. Returns the table's size and the text, or all errors.
fn check(name: LatencyTableName, text: Vec<u8>) -> Result<(PushedTable, Vec<u8>), Vec<String>> {
    let Ok(valid) = std::str::from_utf8(&text) else {
        return Err(vec!["the body is not text; give CSV in UTF-8".to_owned()]);
    };
    let table: LatencyTable =
        check_latencies(&name, valid).map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let (clusters, networks) = (table.clusters().len(), table.rows());
    Ok((PushedTable { name, networks, clusters, configuration: 0 }, text))
}

/// Runs work that reads much or waits for the disk on a thread where it may block.
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ControlError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ControlError::Stopped)
}
