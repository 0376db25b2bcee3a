//! `fairway override add`, `list` and `remove`.

use std::{fmt::Write, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use fairway_model::Timestamp;

use super::{
    client::{ServerArgs, client},
    output::{Cell, Out, Palette, Tone, span, table},
    values,
};
use fairway_api_types::overrides_wire::{
    NewOverride, OverrideEffect, OverrideList, OverrideOverlap, OverrideParameters, OverrideState, PoolPin,
};

/// Override the health of clusters (up, down or drained), or turn load control off for pools.
///
/// An override takes precedence over probes and load reports until it expires. It survives restarts.
#[derive(Debug, Subcommand)]
pub(super) enum OverrideCommand {
    /// Create an override for every cluster, address or pool that a pattern matches.
    ///
    /// The pattern matches names of clusters, or single addresses as CLUSTER/ADDRESS; `*` stands for any characters, `?` for one.
    /// The command prints the addresses that match now. It fails if there are none, if names would be left without a healthy member
    /// (unless --yes is given), or if `overrideRules` of the configuration forbid it.
    ///
    /// With --pools and --load off, pools with the step `load` are answered by their declared weights. The command prints these pools.
    #[command(after_long_help = "\
Examples:
  fairway override add eu1 drain --reason 'kernel update' --for 2h
  fairway override add eu1 drain --reason 'kernel update' --for 2h --dry-run
  fairway override add 'eu*/203.0.113.10' down --reason 'wrong certificate' --for 30m
  fairway override add --pools 'shop*' --load off --reason 'load control is the suspect' --for 2h")]
    Add(OverrideAddArgs),
    /// List the overrides in force, with author, reason and expiry.
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
    #[arg(value_name = "PATTERN", required_unless_present = "pools", requires = "state")]
    scope: Option<String>,

    /// State that is used instead of the result of the probes.
    state: Option<OverrideActionArg>,

    /// Pattern of pools with the step `load`, like `shop` or `shop*`, instead of clusters.
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["scope", "state"], requires = "load")]
    pools: Option<String>,

    /// Load control in these pools.
    #[arg(long, requires = "pools")]
    load: Option<LoadArg>,

    /// Reason, for readers of `status` and of the log.
    #[arg(long, short, value_name = "TEXT")]
    reason: String,

    /// Lifetime, up to 30d: like 30m, 2h or 1d12h. It has no default, since an override without an end is forgotten.
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    lasts: Duration,

    /// Add the override even if it leaves names without a healthy member.
    #[arg(long)]
    yes: bool,

    /// Print the effect, and change nothing.
    #[arg(long)]
    dry_run: bool,

    /// Add it to this server alone, if several servers share a store.
    #[arg(long)]
    local: bool,

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

/// Load control, as an override sets it.
#[derive(Clone, Copy, Debug, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum LoadArg {
    /// The pools are answered by their declared weights.
    Off,
}

/// Runs one of the commands.
pub(super) async fn overrides(out: Out, command: OverrideCommand) -> anyhow::Result<()> {
    match command {
        OverrideCommand::Add(args) => add(out, args).await,
        OverrideCommand::List { server, json } => {
            let OverrideList { items, now } = client(&server)?.overrides().await?;
            let overlaps: String = items.iter().map(shadowed_text).collect();
            out.show(json, &items, |palette| {
                if items.is_empty() {
                    "no overrides\n".to_owned()
                } else {
                    list_text(palette, &items, &now) + &overlaps
                }
            })
        }
        OverrideCommand::Remove { id, server } => {
            let removed = client(&server)?.remove_override(&id).await?;
            Ok(out.line(&format!("removed override {id}: {} {}", removed.action_text(), removed.scope_text()))?)
        }
    }
}

async fn add(out: Out, args: OverrideAddArgs) -> anyhow::Result<()> {
    let OverrideAddArgs { scope, state, pools, load, reason, lasts, yes, dry_run, local, server } = args;
    let new = NewOverride {
        scope: scope.unwrap_or_default(),
        action: state.map_or("", Into::into).to_owned(),
        pools: pools.unwrap_or_default(),
        load: load.map_or("", Into::into).to_owned(),
        reason,
        for_secs: lasts.as_secs(),
    };
    let added = client(&server)?.add_override(&new, OverrideParameters { confirm: yes, dry_run, local }).await?;
    Ok(out.line(added_text(out.palette, &added).trim_end())?)
}

/// Formats an override that was added, or that a dry run would add, with its effect.
fn added_text(palette: Palette, added: &OverrideState) -> String {
    let OverrideState { id, source, expires, addresses, pinned, effect, .. } = added;
    let (scope, action) = (added.scope_text(), added.action_text());
    let mut text = match id {
        Some(id) if source == "store" => format!("override {id}: {action} {scope} until {expires}, on all servers\n"),
        Some(id) => format!("override {id}: {action} {scope} until {expires}\n"),
        None => format!("dry run: nothing was changed; {action} {scope} until {expires} would have this effect:\n"),
    };
    let mut warn = |line: &str| writeln!(text, "  {}", palette.paint(Tone::Warn, line)).expect("a string takes all");
    if addresses.is_empty() && added.pools.is_none() {
        warn("no name uses an address that matches");
    }
    if let Some(OverrideEffect { names_without_healthy_member: count @ 1.., first_names }) = effect {
        let more = if *count > first_names.len() { ", …" } else { "" };
        warn(&format!("names without a healthy member: {count} ({}{more})", first_names.join(", ")));
    }
    let pools = pinned.iter().map(|pool| format!("pool {pool}"));
    for line in addresses.iter().cloned().chain(pools) {
        writeln!(text, "  {line}").expect("a string takes all");
    }
    text + &overlaps_text(added)
}

/// Formats the first addresses at which another override has a different action.
fn overlaps_text(of: &OverrideState) -> String {
    let line = |overlap: &OverrideOverlap| {
        let OverrideOverlap { address, other, action, shadowed } = overlap;
        match shadowed {
            true => format!("  {address}: {action} of {other} takes precedence\n"),
            false => format!("  {address}: takes precedence over {action} of {other}\n"),
        }
    };
    of.overlaps.iter().take(OVERLAPS_MAX).map(line).collect()
}

/// Formats the first addresses of an override at which another one takes precedence.
fn shadowed_text(of: &OverrideState) -> String {
    let id = of.id.as_deref().unwrap_or(&of.created_from);
    let shadowed = of.overlaps.iter().filter(|overlap| overlap.shadowed).take(OVERLAPS_MAX);
    let line = |overlap: &OverrideOverlap| {
        let OverrideOverlap { address, other, action, .. } = overlap;
        format!("  {id} has no effect at {address}: {action} of {other} takes precedence\n")
    };
    shadowed.map(line).collect()
}

/// Formats overrides as a table. Returns an empty text if there is none.
pub(super) fn list_text(palette: Palette, overrides: &[OverrideState], now: &str) -> String {
    let row = |o: &OverrideState| {
        vec![
            Cell::from(o.id.as_deref().unwrap_or(o.source.as_str())),
            o.scope_text().into(),
            Cell::new(Tone::Warn, o.action_text()),
            time_left(&o.expires, now).into(),
            matches(o).into(),
            o.created_by.as_deref().unwrap_or("-").into(),
            o.created_at.as_deref().map_or_else(|| "-".to_owned(), |at| age(at, now)).into(),
            o.created_from.as_str().into(),
            o.reason.as_str().into(),
        ]
    };
    let head = ["id", "scope", "action", "ends", "matches", "by", "added", "from", "reason"];
    table(palette, 2, &head, overrides.iter().map(row))
}

/// Returns the parts of a line about the override that pins a pool.
pub(super) fn pin_parts(pin: &PoolPin) -> [String; 3] {
    let PoolPin { id, reason, expires, policy } = pin;
    [
        format!("pinned to its declared weights by override {id} until {expires}"),
        format!("reason: {reason}"),
        format!("its own policy: {policy}"),
    ]
}

/// Returns the number of addresses, and of those at which another override takes precedence; or the number of pools.
fn matches(of: &OverrideState) -> String {
    if of.pools.is_some() {
        return of.pinned.len().to_string();
    }
    match of.overlaps.iter().filter(|overlap| overlap.shadowed).count() {
        0 => of.addresses.len().to_string(),
        shadowed => format!("{}, {shadowed} shadowed", of.addresses.len()),
    }
}

/// Formats the time since a moment; both are in RFC 3339.
fn age(moment: &str, now: &str) -> String {
    match (moment.parse::<Timestamp>(), now.parse::<Timestamp>()) {
        (Ok(then), Ok(now)) => format!("{} ago", span(now.since(then).as_secs())),
        _ => moment.to_owned(),
    }
}

/// Formats the time until a moment; both are in RFC 3339.
fn time_left(moment: &str, now: &str) -> String {
    match (moment.parse::<Timestamp>(), now.parse::<Timestamp>()) {
        (Ok(then), Ok(now)) => format!("in {}", span(then.since(now).as_secs())),
        _ => moment.to_owned(),
    }
}

/// Maximum number of addresses of one override that are listed with the override that takes precedence.
const OVERLAPS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn override_of_pools_shows_the_pools_that_it_pins() {
        let load_off = OverrideState {
            scope: String::new(),
            action: String::new(),
            pools: Some("shop*".into()),
            load: Some("off".into()),
            pinned: vec!["shop-eu".into(), "shop-us".into()],
            addresses: vec![],
            reason: "load control is the suspect".into(),
            ..drain()
        };
        let text = list_text(Palette::PLAIN, std::slice::from_ref(&load_off), "2026-01-01T00:30:00Z");
        let line = "  7   pools shop*  load off  in 1 h 30 min  2        token ann";
        assert!(text.contains(line), "{text}");
        let added = added_text(Palette::PLAIN, &load_off);
        let expected = "override 7: load off pools shop* until 2026-01-01T02:00:00Z\n  pool shop-eu\n  pool shop-us\n";
        assert_eq!(added, expected);
    }

    fn drain() -> OverrideState {
        OverrideState {
            id: Some("7".into()),
            scope: "eu*".into(),
            action: "drain".into(),
            reason: "kernel update".into(),
            expires: "2026-01-01T02:00:00Z".into(),
            created_by: Some("token ann".into()),
            created_at: Some("2026-01-01T00:10:00Z".into()),
            created_from: "192.0.2.9".into(),
            addresses: vec!["eu1/192.0.2.1".into()],
            ..OverrideState::default()
        }
    }

    #[test]
    fn override_table_shows_end_author_and_number_of_addresses() {
        let text = list_text(Palette::PLAIN, &[drain()], "2026-01-01T00:30:00Z");
        let line = "  7   eu*    drain   in 1 h 30 min  1        token ann  20 min ago  192.0.2.9  kernel update\n";
        assert!(text.ends_with(line), "{text}");
        assert_eq!(list_text(Palette::PLAIN, &[], ""), "");
    }

    #[test]
    fn added_override_shows_its_effect_and_what_takes_precedence() {
        let overlap = |address: &str, shadowed| {
            let (address, other, action) = (address.to_owned(), "3fa91c".to_owned(), "down".to_owned());
            OverrideOverlap { address, other, action, shadowed }
        };
        let effect = OverrideEffect { names_without_healthy_member: 9, first_names: vec!["shop.example.".into()] };
        let overlaps = vec![overlap("eu1/192.0.2.1", true), overlap("eu1/192.0.2.2", false)];
        let added = OverrideState { effect: Some(effect), overlaps, ..drain() };
        let expected = "override 7: drain eu* until 2026-01-01T02:00:00Z\n  \
            names without a healthy member: 9 (shop.example., …)\n  eu1/192.0.2.1\n  \
            eu1/192.0.2.1: down of 3fa91c takes precedence\n  eu1/192.0.2.2: takes precedence over down of 3fa91c\n";
        assert_eq!(added_text(Palette::PLAIN, &added), expected);
        assert!(list_text(Palette::PLAIN, std::slice::from_ref(&added), "").contains("1, 1 shadowed"));
        assert_eq!(shadowed_text(&added), "  7 has no effect at eu1/192.0.2.1: down of 3fa91c takes precedence\n");
        let dry_run = added_text(Palette::PLAIN, &OverrideState { id: None, ..added });
        assert!(dry_run.starts_with("dry run: nothing was changed; drain eu* until"), "{dry_run}");
    }
}
