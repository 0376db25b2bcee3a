//! The first configuration. It is loaded, and the process restricted to its files, before the process has any other thread: threads inherit
//! the restriction.

use std::{fs::DirBuilder, os::unix::fs::DirBuilderExt, path::PathBuf, sync::Arc};

use fairway_config::{Settings, watch::Fingerprint};
use fairway_control::{
    configured::{Compiled, Configured},
    lifecycle::system_clock,
    line_format,
    reader::{LowerPriority, Reader},
    reloads::ReloadScope,
};
use fairway_store::{DataFolder, FolderError};
use fairway_telemetry::logs::{Logs, Trace};
use fairway_transport::{FileAccess, lower_priority_of_computation, raise_open_files};
use fairway_zones::Snapshot;
use tracing::Span;

use crate::daemon::{Options, StartError, file_access};

/// The first configuration of a daemon.
pub struct FirstLoad {
    pub(super) options: Options,
    pub(super) reader: Reader,
    pub(super) configured: Configured,
    pub(super) snapshot: Snapshot,
    pub(super) fingerprint: Fingerprint,
    /// Reason why the process is not restricted to its files; `None` if it is.
    pub(super) landlock: Option<String>,
    /// Log lines of a replacement carry the trace of the hand-over.
    pub(super) span: Span,
}

impl FirstLoad {
    /// Loads the configuration on this thread, since there is nothing else to do yet, and since allocating on the main thread takes far
    /// fewer system calls.
    ///
    /// # Errors
    ///
    /// All errors of the configuration, or that of the data folder, which is created if it is missing.
    pub fn new(options: Options) -> Result<Self, StartError> {
        let span = if options.replace { Trace::new().span() } else { Span::none() };
        let entered = span.enter();
        if let Err(error) = raise_open_files() {
            tracing::warn!(%error, "open file limit not raised");
        }
        let lower_priority: LowerPriority = || Box::new(lower_priority_of_computation());
        let reader = Reader { lower_priority, ..Reader::new(options.source.clone(), Arc::clone(&options.environment)) };
        let reading = reader.read_here(ReloadScope::Files, None, system_clock()());
        let Compiled { configured, snapshot, .. } = reading.outcome.map_err(StartError::Config)?;
        follow_settings(options.logs.as_ref(), &configured.settings);
        for warning in &configured.warnings {
            tracing::warn!(%warning, "configuration warning");
        }
        create_data_folder(&configured.settings)?;
        drop(entered);
        let (fingerprint, landlock) = (reading.fingerprint.unwrap_or_default(), Some(IN_PROCESS.to_owned()));
        Ok(Self { options, reader, configured, snapshot, fingerprint, landlock, span })
    }

    /// Restricts this process, for good, to the files that the configuration needs, if the kernel can. Call it before any other thread
    /// starts.
    pub fn restrict_files(&mut self) {
        let _entered = self.span.enter();
        let settings = &self.configured.settings;
        if !settings.landlock.enabled {
            self.landlock = Some(OFF.to_owned());
            return;
        }
        let environment = &*self.options.environment;
        let kubernetes = file_access::kubernetes_files(self.configured.merged.declared.clusters.values(), environment);
        let files = self.fingerprint.files().chain(kubernetes.iter().map(PathBuf::as_path));
        let access = file_access::needed(settings, files, environment);
        match access.restrict_thread() {
            Ok(restriction) => {
                let shown = |paths: &std::collections::BTreeSet<PathBuf>| {
                    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
                };
                let (abi, complete) = (restriction.abi, restriction.is_complete);
                tracing::info!(
                    abi,
                    complete,
                    read = shown(&access.read),
                    execute = shown(&access.execute),
                    write = shown(&access.write),
                    "process restricted to its files"
                );
                self.landlock = None;
                self.reader.unwritable = Arc::new(move |settings| file_access::unwritable(settings, &access));
            }
            Err(reason) => self.landlock = Some(reason),
        }
    }
}

/// Creates the data folder, since a rule needs it: for the user that this process is about to switch to, or for its own. Errors of the
/// latter are reported when the folder is opened: a disk that cannot be written does not prevent a start.
fn create_data_folder(settings: &Settings) -> Result<(), FolderError> {
    let Some(folder) = &settings.data_dir else { return Ok(()) };
    match &settings.user {
        Some(user) => DataFolder::create_for(folder, user),
        None => {
            let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            Ok(())
        }
    }
}

/// Restricts the thread that writes the log to the descriptor that it has open. A failure is that of the whole process, which is reported.
pub(crate) fn restrict_log_thread() {
    let _ = FileAccess::default().restrict_thread();
}

fn follow_settings(logs: Option<&Logs>, settings: &Settings) {
    let Some(logs) = logs else { return };
    logs.set_format(line_format(settings.log.format));
    if let Err(error) = logs.set_filter(&settings.log.filter) {
        tracing::warn!(%error, "log filter rejected: the previous one stays in use");
    }
}

const IN_PROCESS: &str = "only the process of `fairway serve` restricts itself";
const OFF: &str = "landlock.enabled is false";
