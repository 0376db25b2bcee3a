//! `fairway serve`: turns flags into the options of the daemon, and runs it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{args::ServeArgs, configured, variable, wait};
use crate::daemon::{Daemon, FirstLoad, Options, restrict_log_thread};
use fairway_config::{Environment, Source, environment::unknown_variables};
use fairway_history::History;
use fairway_telemetry::logs::{LineFormat, Logs};
use fairway_transport::{Sockets, give_up_new_privileges};

/// Runs the name server until it is stopped.
pub(super) fn serve(args: ServeArgs) -> anyhow::Result<()> {
    // Before any thread starts.
    fairway_zones::bound_free_memory();
    // Before any thread starts, since threads inherit it. A failure is reported with the other protections, once there is a log.
    let _ = give_up_new_privileges();
    // Before any thread starts, since it changes the environment.
    let inherited = Sockets::inherited()?;
    // Before anything that can fail, so that the log has the reason.
    let filter = args.log.clone().or_else(|| variable("FAIRWAY_LOG")).unwrap_or_else(|| "info".to_owned());
    let history = History::default();
    let events = history.clone();
    let on_event = move |at, event| events.add_event(at, event);
    let logs = Logs::start(&filter, LineFormat::Auto, restrict_log_thread, on_event)?;
    warn_of_misspelled_variables();
    let mut options = Options::new(source(&args)?);
    options.inherited = inherited;
    options.replace = args.replace;
    options.logs = Some(logs);
    options.history = history;
    options.environment = environment(&args);
    // Before any thread starts but that of the log, which restricts itself: threads inherit it.
    let mut first = FirstLoad::new(options)?;
    first.restrict_files();
    wait(async {
        let daemon = Daemon::start_loaded(first).await?;
        daemon.run_until_stopped().await;
        Ok(())
    })
}

/// Logs variables that look like a misspelled known one. Other unknown ones may be secrets that the configuration names, which is not
/// read yet; `fairway check` reports them.
fn warn_of_misspelled_variables() {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    for warning in unknown_variables(names, &BTreeSet::new()) {
        if warning.hint.starts_with("did you mean") {
            tracing::warn!("{}; {}", warning.fact, warning.hint);
        }
    }
}

fn source(args: &ServeArgs) -> anyhow::Result<Source> {
    if !args.listen.is_empty() {
        return Ok(Source::Flags { listen: args.listen.clone(), zones: args.zone.clone() });
    }
    configured(
        args.config.as_ref(),
        "nothing to serve: give --config FILE, or --listen ADDR:PORT and --zone NAME=FILE; `fairway config example` \
         prints a configuration to start from",
    )
}

/// Returns the environment of the process, in which flags replace the variables of the same meaning.
fn environment(args: &ServeArgs) -> Environment {
    let folder = args.data_dir.as_ref().map(|path| path.display().to_string());
    let flags = [("FAIRWAY_DATA_DIR", folder), ("FAIRWAY_LOG", args.log.clone())];
    let flags: BTreeMap<_, _> = flags.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    Arc::new(move |name| flags.get(name).cloned().or_else(|| variable(name)))
}
