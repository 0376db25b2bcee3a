//! The command line, from one definition (`args`): help, manual, completion. One file a command.
//!
//! Here: which command runs, and how what it says or fails with becomes an exit status. Commands return errors as place,
//! fact and way out; they are printed here, once.

mod args;
mod ask;
mod check;
mod config;
mod contributions;
mod contributions_args;
mod explain;
mod impact;
mod load;
mod manual;
mod objects;
mod objects_args;
mod output;
mod overrides;
mod publish;
mod publish_flags;
mod replay;
mod serve;
mod server_args;
mod simulate;
mod status;
mod store;
mod token;
mod values;
mod version;

use std::{env, future::Future, process::ExitCode};

use anyhow::Context;
use clap::{CommandFactory, Parser};

use self::args::{Cli, Command};
pub(crate) use self::output::{Cell, Out, Palette, PrintError, Tone, table, thousands};
use crate::demo;
use fairway_transport::lower_priority;

/// The definition of the command line, for manual pages and completions.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program with the process' own arguments, to its exit status: 0 done, 1 failed, 2 wrong usage, 3 no worse than before, 4 it differs.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(help_or_fault) => {
            // Help and version go to standard output with status 0, faults to standard error with status 2.
            let _ = help_or_fault.print();
            return u8::try_from(help_or_fault.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    match run(cli) {
        Ok(code) => code,
        Err(fault) if matches!(fault.downcast_ref(), Some(PrintError::Closed)) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("fairway: {}", told(&fault));
            if fault.is::<UsageError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// A fault and what caused it, each said once: most faults name their cause in their own words.
fn told(fault: &anyhow::Error) -> String {
    let mut told = fault.to_string();
    for cause in fault.chain().skip(1).map(ToString::to_string) {
        if !told.contains(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    told
}

/// A command line that clap lets through and that means nothing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct UsageError(&'static str);

/// Refuses the command line, to exit status 2.
fn usage<T>(what: &'static str) -> anyhow::Result<T> {
    Err(UsageError(what).into())
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let out = Out::new(cli.color);
    match cli.command {
        Command::Serve(args) => serve::serve(args),
        Command::Check(args) => check::check(out, args),
        Command::Explain(args) => explain::explain(out, args),
        Command::Replay(args) => replay::replay(out, &args),
        Command::Status(args) => status::status(out, &args),
        Command::Override(args) => overrides::overrides(out, args),
        Command::Publish(command) => publish::publish(out, command),
        Command::Reload(args) => status::reload(out, &args),
        Command::Apply(args) => objects::apply(out, args),
        Command::Diff(args) => objects::diff(out, &args),
        Command::Get(args) => objects::get(out, &args),
        Command::Delete(args) => objects::delete(out, &args),
        Command::Contributions(args) => contributions::contributions(out, args),
        Command::Config(args) => config::config(out, &args),
        Command::Store(command) => store::store(out, command),
        Command::Token(command) => token::token(out, command),
        Command::Simulate(args) => simulate::simulate(out, &args),
        Command::Demo(args) => {
            wait(demo::run(demo::Wanted { envoy: args.envoy, once: args.once, port: args.port }, out))
        }
        Command::Version(args) => version::version(out, &args),
        Command::Completions(args) => manual::completions(out, args.shell),
        Command::Manual(args) => manual::manual(out, args.dir.as_deref()),
    }
}

/// Runs a task to its end on a runtime of its own, a thread a core. They stand back for those that the task starts itself to answer queries.
fn wait<T>(task: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().on_thread_start(lower_priority).build();
    runtime.context("no thread can be started; see the process limits (ulimit -u)")?.block_on(task)
}

/// A variable of the environment that is set, not empty, and text.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
