//! The command line, defined once in `args`: parsing, help, manual pages and completions. Each command has a file.
//!
//! This file dispatches to the commands and turns their results into an exit status. Commands return errors as location, cause and
//! hint; they are printed here.

mod args;
mod check;
mod client;
mod config;
mod contributions;
mod events;
mod explain;
mod impact;
mod kubernetes;
mod load;
mod manual;
mod objects;
mod output;
mod overrides;
mod publish;
mod publish_flags;
mod rbac;
mod replay;
mod serve;
mod simulate;
mod status;
mod store;
mod token;
mod values;
mod version;

use std::{env, future::Future, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches};
use fairway_model::{ClusterName, HealthStatus};

pub(crate) use self::args::DemoArgs;
use self::args::{Cli, Command};
pub(crate) use self::output::{Cell, Out, Palette, PrintError, Tone, table, thousands};
use crate::{daemon::StartError, demo};
use fairway_config::{Environment, Source};
use fairway_transport::lower_priority;
use fairway_whatif::Offline;

/// Returns the definition of the command line, for parsing, manual pages and completions.
pub fn command() -> clap::Command {
    with_exit_status(Cli::command())
}

/// Adds the exit status to the long help of every command that does not list its own.
fn with_exit_status(command: clap::Command) -> clap::Command {
    let text = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let command = match text.contains("Exit status:") {
        true => command,
        false if text.is_empty() => command.after_long_help(EXIT_STATUS),
        false => command.after_long_help(format!("{text}\n\n{EXIT_STATUS}")),
    };
    command.mut_subcommands(with_exit_status)
}

/// Exit status of most commands.
const EXIT_STATUS: &str = "\
Exit status:
  0  success
  1  failure; the reason is on standard error
  2  the command line is invalid";

/// Parses the arguments of the process.
fn parse() -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Runs the program with the arguments of the process. Returns the exit status that the help lists.
pub fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(help_or_error) => {
            // Help and version go to standard output with status 0, errors to standard error with status 2.
            let _ = help_or_error.print();
            return u8::try_from(help_or_error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    match run(cli) {
        Ok(code) => code,
        Err(error) if matches!(error.downcast_ref(), Some(PrintError::Closed)) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fairway: {}", message(&error));
            if error.is::<UsageError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Joins an error and its causes. Leaves out a cause that the text has already: most errors include their cause.
fn message(error: &anyhow::Error) -> String {
    let mut message = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

/// A command line that clap accepts although it is incomplete. The exit status is 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct UsageError(&'static str);

/// Returns the configuration that the command line names, else that of FAIRWAY_CONFIG. Without both, rejects the command line.
fn configured(given: Option<&PathBuf>, missing: &'static str) -> anyhow::Result<Source> {
    match given.cloned().or_else(|| variable("FAIRWAY_CONFIG").map(PathBuf::from)) {
        Some(path) => Ok(Source::Path(path)),
        None => Err(UsageError(missing).into()),
    }
}

/// Loads a configuration as it would be served. Every target counts as up, except those of the clusters in `down`.
fn offline(source: &Source, down: &[ClusterName]) -> anyhow::Result<Offline> {
    let environment: Environment = Arc::new(variable);
    let status = |cluster: &ClusterName| if down.contains(cluster) { HealthStatus::Down } else { HealthStatus::Up };
    Ok(fairway_whatif::of_files(source, &environment, status).map_err(StartError::Config)?)
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let out = Out::new(cli.color);
    match cli.command {
        // These have an exit status of their own.
        Command::Check(args) => return check::check(out, args),
        Command::Publish(command) => return wait(publish::publish(out, command)),
        Command::Reload(args) => return wait(status::reload(out, args)),
        Command::Diff(args) => return wait(objects::diff(out, args)),
        Command::Simulate(args) => return simulate::simulate(out, &args),
        Command::Demo(args) => return wait(demo::run(args, out)),
        Command::Serve(args) => serve::serve(args)?,
        Command::Explain(args) => wait(explain::explain(out, args))?,
        Command::Events(args) => wait(events::events(out, args))?,
        Command::Replay(args) => replay::replay(out, &args)?,
        Command::Status(args) => wait(status::status(out, args))?,
        Command::Override(command) => wait(overrides::overrides(out, command))?,
        Command::Apply(args) => wait(objects::apply(out, args))?,
        Command::Get(args) => wait(objects::get(out, args))?,
        Command::Delete(args) => wait(objects::delete(out, args))?,
        Command::Contributions(args) => wait(contributions::contributions(out, args))?,
        Command::Config(command) => config::config(out, &command)?,
        Command::Rbac(args) => rbac::rbac(out, &args)?,
        Command::Store(command) => store::store(out, command)?,
        Command::Token(command) => token::token(out, command)?,
        Command::Version(args) => version::version(out, &args)?,
        Command::Completions(args) => manual::completions(out, args.shell)?,
        Command::Manual(args) => manual::manual(out, args.dir.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a task to its end on a runtime of its own, with one thread per core. These threads yield the processor to the threads that
/// answer queries, which the task starts itself.
fn wait<T>(task: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().on_thread_start(lower_priority).build();
    runtime.context("cannot start a thread; check the process limits (ulimit -u)")?.block_on(task)
}

/// Returns a variable of the environment if it is set, not empty, and valid UTF-8.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
