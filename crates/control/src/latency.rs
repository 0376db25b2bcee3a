//! Tables of latencies in the daemon: what is pushed takes the place of a table as a whole, or nothing changes.

use std::path::PathBuf;

use fairway_model::{LatencyTable, LatencyTableName};

use super::{Control, ControlError};
use fairway_api_types::latency_wire::LatencyState;
use fairway_config::{check_latencies, pushed_file};
use fairway_store::{read_latency_table, replace_latency_table};

impl Control {
    /// Takes the text of a table, as its file would have it; returns once it is on disk and in force.
    ///
    /// It is written before it is read with everything else: so a restart comes to the same. Where that reading refuses it,
    /// the text before takes its place again.
    pub async fn push_latency(&self, table: &str, text: Vec<u8>) -> Result<LatencyState, ControlError> {
        // One after the other: what a refusal puts back must be what it found.
        let _turn = self.shared.pushing.lock().await;
        let (name, folder) = self.fed_table(table)?;
        let (state, text) = on_thread(move || checked(&name, text)).await?.map_err(ControlError::TableFaulty)?;
        let file = pushed_file(&self.fed_table(table)?.0);
        let (place, to) = (folder.clone(), file.clone());
        let written = on_thread(move || {
            let before = read_latency_table(&place, &to)?;
            replace_latency_table(&place, &to, Some(&text)).map(|()| before)
        });
        let not_kept = |error: std::io::Error| ControlError::TableNotKept(error.to_string());
        let before = written.await?.map_err(not_kept)?;
        let report = self.reload().await?;
        if report.accepted {
            let LatencyState { table, networks, clusters, .. } = &state;
            tracing::info!(table, networks, clusters, "latency table applied");
            return Ok(LatencyState { generation: report.generation, ..state });
        }
        on_thread(move || replace_latency_table(&folder, &file, before.as_deref())).await?.map_err(not_kept)?;
        self.reload().await?;
        Err(ControlError::TableRefused(report.errors))
    }

    /// A table that is fed here, and the folder that keeps it.
    fn fed_table(&self, table: &str) -> Result<(LatencyTableName, PathBuf), ControlError> {
        let configured = &self.shared.serving.published().configured;
        let name = LatencyTableName::new(table).ok();
        let known = name.and_then(|name| Some((configured.files.kept_maps.is_pushed(&name)?, name)));
        let (pushed, name) = known.ok_or_else(|| ControlError::NoSuchTable(table.to_owned()))?;
        if !pushed {
            return Err(ControlError::TableOfFile(table.to_owned()));
        }
        let folder = configured.settings.data_dir.clone();
        let no_folder = || ControlError::TableNotKept("there is no data folder; give dataDir".to_owned());
        Ok((name, folder.ok_or_else(no_folder)?))
    }
}

/// What a text says, and the text; or its faults.
fn checked(name: &LatencyTableName, text: Vec<u8>) -> Result<(LatencyState, Vec<u8>), Vec<String>> {
    let Ok(sound) = std::str::from_utf8(&text) else {
        return Err(vec!["the body is no text; give CSV in UTF-8".to_owned()]);
    };
    let read = check_latencies(name, sound);
    let table: LatencyTable = read.map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let (clusters, networks) = (table.clusters().len(), table.rows());
    Ok((LatencyState { table: name.to_string(), networks, clusters, generation: 0 }, text))
}

/// Does work that reads much or waits for the disk where it holds nobody up.
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ControlError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ControlError::Stopped)
}
