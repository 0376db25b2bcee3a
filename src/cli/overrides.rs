//! `fairway override add`, `list` and `remove`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use fairway_model::Timestamp;

use super::{
    client::{ServerArgs, client},
    output::{Cell, Out, Palette, Tone, span, table},
    values,
};
use fairway_api_types::state_wire::{NewOverride, OverrideState, State};

/// Override the health of clusters for planned work: up, down or drained.
///
/// An override takes precedence over probes until it expires. It survives restarts.
#[derive(Debug, Subcommand)]
pub(super) enum OverrideCommand {
    /// Create an override for every cluster or address that a pattern matches.
    ///
    /// The pattern matches names of clusters, or single addresses as CLUSTER/ADDRESS; `*` stands for any characters, `?` for one.
    /// The command prints the addresses that match now.
    #[command(after_long_help = "\
Examples:
  fairway override add eu1 drain --reason 'kernel update' --for 2h
  fairway override add 'eu*/203.0.113.10' down --reason 'wrong certificate' --for 30m")]
    Add(OverrideAddArgs),
    /// List the overrides in force, with reason and expiry.
    List {
        /// The server.
        #[command(flatten)]
        server: ServerArgs,

        /// Print the list as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Delete an override before it expires.
    Remove {
        /// Id of the override, as `override list` shows it.
        id: String,

        /// The server.
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Arguments of `override add`.
#[derive(Debug, Args)]
pub(super) struct OverrideAddArgs {
    /// Pattern of clusters or addresses, like `eu1`, `eu*` or `eu1/203.0.113.10`.
    #[arg(value_name = "PATTERN")]
    scope: String,

    /// State that is used instead of the result of the probes.
    state: OverrideActionArg,

    /// Reason, for readers of `status` and of the log.
    #[arg(long, short, value_name = "TEXT")]
    reason: String,

    /// Lifetime, up to 30d: like 30m, 2h or 1d12h. It has no default, since an override without an end is forgotten.
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    lasts: Duration,

    /// The server.
    #[command(flatten)]
    server: ServerArgs,
}

/// State that an override gives to its targets.
#[derive(Clone, Copy, Debug, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum OverrideActionArg {
    /// Answered, whatever the probes say.
    Up,
    /// Never answered, even if everything else is down.
    Down,
    /// Not answered, for planned work.
    Drain,
}

/// Runs one of the commands.
pub(super) async fn overrides(out: Out, command: OverrideCommand) -> anyhow::Result<()> {
    match command {
        OverrideCommand::Add(args) => add(out, args).await,
        OverrideCommand::List { server, json } => {
            let State { overrides, now, .. } = client(&server)?.state().await?;
            out.show(json, &overrides, |palette| {
                if overrides.is_empty() { "no overrides\n".to_owned() } else { list_text(palette, &overrides, &now) }
            })
        }
        OverrideCommand::Remove { id, server } => {
            let removed = client(&server)?.remove_override(&id).await?;
            Ok(out.line(&format!("removed override {id}: {} {}", removed.action, removed.scope))?)
        }
    }
}

async fn add(out: Out, args: OverrideAddArgs) -> anyhow::Result<()> {
    let OverrideAddArgs { scope, state, reason, lasts, server } = args;
    let action: &str = state.into();
    let new = NewOverride { scope, action: action.to_owned(), reason, for_secs: lasts.as_secs() };
    let added = client(&server)?.add_override(&new).await?;
    let id = added.id.as_deref().unwrap_or("-");
    let (scope, expires) = (&added.scope, &added.expires);
    out.line(&format!("override {id}: {action} {scope} until {expires}"))?;
    if added.addresses.is_empty() {
        let nothing = format!("no address matches now; `fairway override remove {id}` deletes it");
        out.line(&format!("  {}", out.palette.paint(Tone::Warn, &nothing)))?;
    }
    for address in &added.addresses {
        out.line(&format!("  {address}"))?;
    }
    Ok(())
}

/// Formats overrides as a table. Returns an empty text if there is none.
pub(super) fn list_text(palette: Palette, overrides: &[OverrideState], now: &str) -> String {
    let row = |o: &OverrideState| {
        vec![
            Cell::from(o.id.as_deref().unwrap_or(o.source.as_str())),
            o.scope.as_str().into(),
            Cell::new(Tone::Warn, o.action.as_str()),
            time_left(&o.expires, now).into(),
            o.addresses.len().to_string().into(),
            o.reason.as_str().into(),
        ]
    };
    let head = ["id", "scope", "action", "ends", "addresses", "reason"];
    table(palette, 2, &head, overrides.iter().map(row))
}

/// Formats the time until a moment; both are in RFC 3339.
fn time_left(moment: &str, now: &str) -> String {
    match (moment.parse::<Timestamp>(), now.parse::<Timestamp>()) {
        (Ok(then), Ok(now)) => format!("in {}", span(then.since(now).as_secs())),
        _ => moment.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn override_table_shows_end_and_number_of_addresses() {
        let one = OverrideState {
            id: Some("7".into()),
            scope: "eu*".into(),
            action: "drain".into(),
            reason: "kernel update".into(),
            expires: "2026-01-01T02:00:00Z".into(),
            addresses: vec!["eu1/192.0.2.1".into()],
            ..OverrideState::default()
        };
        let text = list_text(Palette::PLAIN, &[one], "2026-01-01T00:30:00Z");
        let line = "  7   eu*    drain   in 1 h 30 min  1          kernel update\n";
        assert!(text.ends_with(line), "{text}");
        assert_eq!(list_text(Palette::PLAIN, &[], ""), "");
    }
}
