//! `fairway status` and `fairway reload`: what a running server does, in tables.
//!
//! Rendering is a plain function of the state, so that it is tested without a server.

use std::{fmt::Write as _, process::ExitCode};

use anyhow::Context;
use fairway_model::Timestamp;

use super::{
    args::{ReloadArgs, StatusArgs},
    ask, load,
    output::{Cell, Out, Palette, Tone, count, span, table, thousands},
    overrides, wait,
};
use fairway_api_types::state_wire::{
    BalanceState, ConfigState, MemberState, PoolState, ReloadReport, ShareState, State, StoreState, TargetState,
};

/// Most targets that are up in the table: who has more looks for those that are not.
const UP_TARGETS_SHOWN: usize = 50;

/// Shows the state of a running server.
pub(super) fn status(out: Out, args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let client = ask::asked(&args.server)?;
    let state = wait(async { Ok(client.state().await?) })?;
    if args.json {
        out.line(&serde_json::to_string_pretty(&state).context("the state has no JSON form")?)?;
    } else {
        out.print(&render(out.palette, &state))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Has a running server read its configuration again, and tells what became of it.
pub(super) fn reload(out: Out, args: &ReloadArgs) -> anyhow::Result<ExitCode> {
    let client = ask::asked(&args.server)?;
    let report = wait(async { Ok(client.reload().await?) })?;
    out.print(&report_text(out.palette, &report))?;
    Ok(if report.accepted { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The whole state, part by part; a part that has nothing to say is left out.
fn render(palette: Palette, state: &State) -> String {
    let now = state.now.as_str();
    let mut text = head(palette, state);
    let mut part = |title: &str, body: String| {
        if !body.is_empty() {
            let _ = write!(text, "\n{}\n{body}", palette.paint(Tone::Strong, title));
        }
    };
    part("Listeners", listeners(palette, state));
    part("Zones", zones(palette, state));
    part("Pools", state.pools.iter().map(|pool| pool_text(palette, pool)).collect());
    part("Targets", targets(palette, &state.targets, now));
    part("Load", load::loads(palette, &state.clusters));
    part("Drains", load::drains(palette, &state.clusters, now));
    part("Overrides", overrides::list_text(palette, &state.overrides, now));
    part("Conflicts", state.conflicts.iter().map(|line| format!("  {line}\n")).collect());
    text
}

fn head(palette: Palette, state: &State) -> String {
    let ready = match state.ready {
        true => palette.paint(Tone::Good, "ready"),
        false => palette.paint(Tone::Bad, &format!("not ready: {}", state.not_ready)),
    };
    let up = span(state.uptime_secs);
    let mut text = format!("fairway {}, process {}, up {up}: {ready}\n", state.version, state.pid);
    let ConfigState { source, generation, loaded_at, snapshot, runtime_state, .. } = &state.config;
    let loaded = ago(loaded_at, &state.now);
    let _ = writeln!(text, "  config   {source}, generation {generation}, loaded {loaded}");
    let _ = writeln!(text, "  answers  snapshot {snapshot}, runtime state {runtime_state}");
    text.extend(state.store.as_ref().map(|store| store_text(palette, store, &state.now)));
    text.extend(state.balance.as_ref().and_then(balance_text));
    if let Some(report) = state.config.last_reload.as_ref().filter(|_| state.config.stale) {
        let when = ago(&report.at, &state.now);
        let stale = format!("a newer configuration was refused {when}; the old one serves on:");
        let _ = writeln!(text, "  {}", palette.paint(Tone::Bad, &stale));
        for fault in &report.errors {
            let _ = writeln!(text, "    {fault}");
        }
    }
    for warning in &state.config.warnings {
        let _ = writeln!(text, "  {} {warning}", palette.paint(Tone::Warn, "warning"));
    }
    text
}

fn store_text(palette: Palette, store: &StoreState, now: &str) -> String {
    let at = store.endpoint.as_ref().map(|endpoint| format!(" at {endpoint}")).unwrap_or_default();
    let behind = if store.behind > 0 { format!(", {} behind", store.behind) } else { String::new() };
    let mut text = format!("  store    {}{at}, revision {}{behind}\n", store.kind, store.revision);
    if let (Some(since), Some(why)) = (&store.unavailable_since, &store.error) {
        let away =
            format!("it is away ({}): nothing can be declared, and what is known is served on: {why}", ago(since, now));
        let _ = writeln!(text, "    {}", palette.paint(Tone::Bad, &away));
    }
    text
}

/// Whose decisions of balancing hold, where that is worth a word.
fn balance_text(balance: &BalanceState) -> Option<String> {
    match balance.role.as_str() {
        "leads" => Some("  balance  decided here, for all that share the store\n".to_owned()),
        "follows" => Some("  balance  decided by another server of the store\n".to_owned()),
        "local" => {
            let why = balance.reason.as_deref().unwrap_or("nobody leads, or the store is away");
            Some(format!("  balance  decided here, by this server alone: {why}\n"))
        }
        _ => None,
    }
}

fn listeners(palette: Palette, state: &State) -> String {
    let row =
        |l: &fairway_api_types::state_wire::ListenerState| vec![Cell::from(l.kind.as_str()), l.address.as_str().into()];
    table(palette, 2, &[], &state.listeners.iter().map(row).collect::<Vec<_>>())
}

fn zones(palette: Palette, state: &State) -> String {
    let rows: Vec<Vec<Cell>> = state
        .zones
        .iter()
        .map(|zone| {
            let serial = zone.serial.map_or_else(|| "-".to_owned(), |s| s.to_string());
            let records = thousands(u64::try_from(zone.records).unwrap_or(u64::MAX));
            vec![zone.name.as_str().into(), serial.into(), records.into(), some_of(&zone.names).into()]
        })
        .collect();
    titled(palette, &["zone", "serial", "records", "steered names"], &rows)
}

fn pool_text(palette: Palette, pool: &PoolState) -> String {
    let names = if pool.names.is_empty() { "no name".to_owned() } else { some_of(&pool.names) };
    let mut text = format!("  {}  {}, answers {names}\n", palette.paint(Tone::Strong, &pool.name), pool.policy);
    let row = |member: &MemberState| {
        let addresses: Vec<String> = member
            .addresses
            .iter()
            .map(|a| {
                if a.eligibility == member.eligibility {
                    a.address.clone()
                } else {
                    format!("{} {}", a.address, a.eligibility)
                }
            })
            .collect();
        vec![
            member.cluster.as_str().into(),
            weight(pool, member).into(),
            format!("tier {}", member.tier).into(),
            eligibility(&member.eligibility),
            Cell::new(Tone::Quiet, shares(&member.share)),
            addresses.join(", ").into(),
            Cell::new(Tone::Quiet, member.schedule.as_deref().unwrap_or_default()),
        ]
    };
    text += &table(palette, 4, &[], &pool.members.iter().map(row).collect::<Vec<_>>());
    text
}

/// What was answered and what arrived, where that is known.
fn shares(share: &ShareState) -> String {
    let told = [("answered", share.answered), ("arrived", share.arrived)];
    let told: Vec<String> = told.iter().filter_map(|(word, part)| Some(format!("{word} {:.0} %", (*part)?))).collect();
    told.join(", ")
}

/// A member's weight; nothing where it has no meaning, which is in failover unless it is 0: standby.
fn weight(pool: &PoolState, member: &MemberState) -> String {
    match (pool.policy.as_str(), member.weight) {
        (_, 0) => "standby".to_owned(),
        ("failover", _) => String::new(),
        (_, weight) => match &member.weight_from {
            Some(from) => format!("weight {weight}, of {}", from.owner),
            None => format!("weight {weight}"),
        },
    }
}

/// Targets that are not simply up come first, all of them; then those that are up, as many as are worth showing.
fn targets(palette: Palette, targets: &[TargetState], now: &str) -> String {
    let fine = |t: &&TargetState| t.status == "up" && t.override_action.is_none();
    let (up, other): (Vec<_>, Vec<_>) = targets.iter().partition(fine);
    let row = |t: &&TargetState| {
        let status = t
            .override_action
            .as_ref()
            .map_or_else(|| eligibility(&t.status), |f| Cell::new(Tone::Warn, format!("{} (override {f})", t.status)));
        let took = t.last_micros.map_or_else(|| "-".to_owned(), |micros| format!("{:.1} ms", micros as f64 / 1_000.0));
        vec![
            t.address.as_str().into(),
            t.monitor.as_str().into(),
            some_of(&t.clusters).into(),
            status,
            ago(&t.since, now).into(),
            took.into(),
            t.last_cause.clone().unwrap_or_default().into(),
        ]
    };
    let rows: Vec<Vec<Cell>> = other.iter().chain(up.iter().take(UP_TARGETS_SHOWN)).map(row).collect();
    let mut text = titled(palette, &["target", "monitor", "clusters", "status", "since", "last probe", "cause"], &rows);
    if let Some(hidden) = up.len().checked_sub(UP_TARGETS_SHOWN).filter(|hidden| *hidden > 0) {
        let hidden = count(u64::try_from(hidden).unwrap_or(u64::MAX), "more is", "more are");
        let _ = writeln!(text, "  {hidden} up; --json lists all");
    }
    text
}

/// What became of a reload, for people.
fn report_text(palette: Palette, report: &ReloadReport) -> String {
    let mut text = match report.accepted {
        true => format!(
            "{}: generation {} serves after {} ms\n",
            palette.paint(Tone::Good, "reloaded"),
            report.generation,
            thousands(report.duration_ms)
        ),
        false => format!("{}: generation {} serves on\n", palette.paint(Tone::Bad, "refused"), report.generation),
    };
    for line in report.changes.iter().chain(&report.errors).chain(&report.warnings) {
        let _ = writeln!(text, "  {line}");
    }
    if report.accepted && report.changes.is_empty() {
        text += "  nothing changed\n";
    }
    text
}

fn titled(palette: Palette, head: &[&str], rows: &[Vec<Cell>]) -> String {
    if rows.is_empty() { String::new() } else { table(palette, 2, head, rows) }
}

/// Returns the eligibility or the health status in its colour.
fn eligibility(word: &str) -> Cell {
    let tone = match word {
        "up" => Tone::Good,
        "down" | "out" => Tone::Bad,
        _ => Tone::Warn,
    };
    Cell::new(tone, word)
}

/// The first three of a list, and how many more there are.
fn some_of(list: &[String]) -> String {
    let shown = list[..list.len().min(3)].join(", ");
    match list.len().checked_sub(3) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

/// How long before `now` a moment was, both in RFC 3339; the moment itself where one cannot be read.
pub(super) fn ago(moment: &str, now: &str) -> String {
    match (moment.parse::<Timestamp>(), now.parse::<Timestamp>()) {
        (Ok(then), Ok(now)) => match now.since(then).as_secs() {
            0 => "just now".to_owned(),
            secs => format!("{} ago", span(secs)),
        },
        _ => moment.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairway_api_types::state_wire::{AddressState, ListenerState, OverrideState, ZoneState};

    fn target(address: &str, status: &str) -> TargetState {
        TargetState {
            address: address.into(),
            monitor: "gateway".into(),
            clusters: vec!["eu1".into()],
            status: status.into(),
            since: "2026-01-01T00:00:00Z".into(),
            last_micros: Some(1_250),
            last_cause: (status == "down").then(|| "status 503".into()),
            ..TargetState::default()
        }
    }

    fn state() -> State {
        let address = |address: &str, eligibility: &str| AddressState {
            address: address.into(),
            eligibility: eligibility.into(),
            ..AddressState::default()
        };
        State {
            version: "0.1.0".into(),
            pid: 7,
            now: "2026-01-01T00:02:05Z".into(),
            uptime_secs: 125,
            ready: true,
            config: ConfigState { source: "f.yaml".into(), generation: 1, ..ConfigState::default() },
            listeners: vec![ListenerState { kind: "dns".into(), address: "127.0.0.1:53".into() }],
            zones: vec![ZoneState { name: "gslb.example.".into(), serial: Some(9), records: 1_204, names: vec![] }],
            pools: vec![PoolState {
                name: "shop".into(),
                ttl: 30,
                ttl_reason: "as declared".to_owned(),
                policy: "weighted".into(),
                names: vec!["shop.gslb.example.".into()],
                members: vec![MemberState {
                    share: ShareState { answered: Some(58.2), arrived: Some(71.0), ..ShareState::default() },
                    cluster: "eu1".into(),
                    weight: 60,
                    weight_from: None,
                    tier: 1,
                    eligibility: "up".into(),
                    schedule: None,
                    addresses: vec![address("192.0.2.1", "up"), address("2001:db8::1", "down")],
                }],
            }],
            targets: vec![target("192.0.2.1", "up"), target("2001:db8::1", "down")],
            overrides: vec![OverrideState { id: Some("3".into()), scope: "eu*".into(), ..OverrideState::default() }],
            ..State::default()
        }
    }

    #[test]
    fn every_part_of_the_state_is_shown() {
        let text = render(Palette::PLAIN, &state());
        for line in [
            "fairway 0.1.0, process 7, up 2 min 5 s: ready\n",
            "  dns  127.0.0.1:53\n",
            "  gslb.example.  9       1,204\n",
            "  shop  weighted, answers shop.gslb.example.\n",
            "    eu1  weight 60  tier 1  up  answered 58 %, arrived 71 %  192.0.2.1, 2001:db8::1 down\n",
            "  2001:db8::1  gateway  eu1       down    2 min 5 s ago  1.2 ms      status 503\n",
            "\nOverrides\n",
        ] {
            assert!(text.contains(line), "{line:?} is missing in\n{text}");
        }
    }

    #[test]
    fn targets_that_are_down_come_before_those_that_are_up() {
        let text = render(Palette::PLAIN, &state());
        assert!(text.find("2001:db8::1  gateway") < text.find("192.0.2.1    gateway"), "{text}");
    }

    #[test]
    fn many_targets_that_are_up_are_counted_instead_of_listed() {
        let mut many = state();
        many.targets = (0..60).map(|i| target(&format!("192.0.2.{i}"), "up")).collect();
        many.targets.push(target("198.51.100.1", "down"));
        let text = render(Palette::PLAIN, &many);
        assert!(text.contains("198.51.100.1") && text.contains("  10 more are up; --json lists all\n"), "{text}");
    }

    #[test]
    fn a_refused_configuration_is_told_first_with_its_faults() {
        let mut stale = state();
        stale.config.stale = true;
        stale.config.last_reload = Some(ReloadReport {
            at: "2026-01-01T00:02:00Z".into(),
            errors: vec!["f.yaml:3:1: unknown key".into()],
            ..ReloadReport::default()
        });
        let text = render(Palette::PLAIN, &stale);
        assert!(text.contains("refused 5 s ago; the old one serves on:\n    f.yaml:3:1: unknown key\n"), "{text}");
    }

    #[test]
    fn a_reload_without_change_says_so() {
        let report = ReloadReport { accepted: true, generation: 4, duration_ms: 12, ..ReloadReport::default() };
        assert_eq!(
            report_text(Palette::PLAIN, &report),
            "reloaded: generation 4 serves after 12 ms\n  nothing changed\n"
        );
    }
}
