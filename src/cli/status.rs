//! `fairway status` and `fairway reload`: the state of a running server, in tables.

use std::{fmt::Write as _, process::ExitCode};

use super::{
    args::{ReloadArgs, StatusArgs},
    client::client,
    kubernetes, load,
    output::{Cell, Out, Palette, Tone, ago, count, first, span, table, thousands},
    overrides::{self, pin_parts},
};
use fairway_api_types::state_wire::{
    AddressState, BalanceState, ClusterState, ConfigState, HostState, ListenerState, MemberState, PoolState,
    ReloadReport, ShareState, State, StoreState, TargetState, ZoneState,
};

/// Number of targets in the table that are up. Targets that are not up are all shown.
const UP_TARGETS_MAX: usize = 50;

/// Shows the state of a running server.
pub(super) async fn status(out: Out, args: StatusArgs) -> anyhow::Result<()> {
    let state = client(&args.server)?.state().await?;
    out.show(args.json, &state, |palette| render(palette, &state))
}

/// Reloads a running server and prints the result.
pub(super) async fn reload(out: Out, args: ReloadArgs) -> anyhow::Result<ExitCode> {
    let report = client(&args.server)?.reload(args.allow_removals).await?;
    out.print(&report_text(out.palette, &report))?;
    if report.removals_refused {
        let own: Vec<String> = std::env::args().collect();
        out.line(&format!("to remove these names: {} --allow-removals", own.join(" ")))?;
    }
    Ok(if report.accepted { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Formats the state in parts. Empty parts are omitted.
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
    part("Pools", state.pools.iter().map(|pool| pool_text(palette, pool, state)).collect());
    part("Host names", hosts(palette, state));
    part("Kubernetes", kubernetes::kubernetes_table(palette, state));
    part("Targets", targets(palette, &state.targets, now));
    part("Load", load::load_table(palette, &state.clusters));
    part("Drains", load::drain_table(palette, &state.clusters, now));
    part("Overrides", overrides::list_text(palette, &state.overrides, now));
    part("Conflicts", state.conflicts.iter().map(|line| format!("  {line}\n")).collect());
    text
}

fn head(palette: Palette, state: &State) -> String {
    let ready = if state.ready {
        palette.paint(Tone::Good, "ready")
    } else {
        palette.paint(Tone::Bad, &format!("not ready: {}", state.not_ready))
    };
    let up = span(state.uptime_secs);
    let mut text = format!("fairway {}, process {}, up {up}: {ready}\n", state.version, state.pid);
    let ConfigState { source, number, loaded_at, snapshot, runtime_state, .. } = &state.config;
    let loaded = ago(loaded_at, &state.now);
    let _ = writeln!(text, "  config   {source}, number {number}, loaded {loaded}");
    let _ = writeln!(text, "  answers  snapshot {snapshot}, runtime state {runtime_state}");
    text.extend(state.store.as_ref().map(|store| store_text(palette, store, &state.now)));
    text.extend(state.balance.as_ref().and_then(balance_text));
    if let Some(report) = state.config.last_reload.as_ref().filter(|_| state.config.stale) {
        let when = ago(&report.at, &state.now);
        let stale = format!("a newer configuration was rejected {when}; the previous one stays in use:");
        let _ = writeln!(text, "  {}", palette.paint(Tone::Bad, &stale));
        for error in &report.errors {
            let _ = writeln!(text, "    {error}");
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
    if let (Some(since), Some(cause)) = (&store.unavailable_since, &store.error) {
        let since = ago(since, now);
        let away = format!("not available since {since}: writes fail, answers continue from the local copy: {cause}");
        let _ = writeln!(text, "    {}", palette.paint(Tone::Bad, &away));
    }
    for of in store.limits.iter().filter(|of| of.used >= of.limit / 10 * 9) {
        let near = format!("limits.{}: {} of {} used", of.name, thousands(of.used), thousands(of.limit));
        let _ = writeln!(text, "    {}", palette.paint(Tone::Warn, &near));
    }
    text
}

/// Names the server that decides about balancing. Returns `None` if no other server shares the store.
fn balance_text(balance: &BalanceState) -> Option<String> {
    match balance.role.as_str() {
        "leads" => Some("  balance  leader: this server decides for all that share the store\n".to_owned()),
        "follows" => Some("  balance  follower: the leader of the shared store decides\n".to_owned()),
        "local" => {
            let reason = balance.reason.as_deref().unwrap_or("there is no leader, or the store is not available");
            Some(format!("  balance  this server decides for itself: {reason}\n"))
        }
        _ => None,
    }
}

fn listeners(palette: Palette, state: &State) -> String {
    let row = |l: &ListenerState| vec![l.kind.as_str().into(), l.address.as_str().into()];
    table(palette, 2, &[], state.listeners.iter().map(row))
}

fn zones(palette: Palette, state: &State) -> String {
    let row = |zone: &ZoneState| {
        let serial = zone.serial.map_or_else(|| "-".to_owned(), |s| s.to_string());
        let records = thousands(zone.records as u64);
        vec![zone.name.as_str().into(), serial.into(), records.into(), first(3, ", ", &zone.names).into()]
    };
    table(palette, 2, &["zone", "serial", "records", "steered names"], state.zones.iter().map(row))
}

fn hosts(palette: Palette, state: &State) -> String {
    let of_clusters = state.clusters.iter().flat_map(|cluster| cluster.hosts.iter().map(move |host| (cluster, host)));
    let row = |(cluster, host): (&ClusterState, &HostState)| {
        let looked_up = host.resolved_at.as_ref().map_or_else(|| "never".to_owned(), |at| ago(at, &state.now));
        let tone = if host.failure.is_some() { Tone::Warn } else { Tone::Plain };
        vec![
            host.name.as_str().into(),
            cluster.name.as_str().into(),
            host.addresses.join(", ").into(),
            looked_up.into(),
            Cell::new(tone, host.failure.as_deref().unwrap_or_default()),
        ]
    };
    table(palette, 2, &["host name", "cluster", "addresses", "resolved", "failure"], of_clusters.map(row))
}

fn pool_text(palette: Palette, pool: &PoolState, state: &State) -> String {
    let names = if pool.names.is_empty() { "no name".to_owned() } else { first(3, ", ", &pool.names) };
    let mut text = format!("  {}  {}, answers {names}\n", palette.paint(Tone::Strong, &pool.name), pool.policy);
    let row = |member: &MemberState| {
        let address = |a: &AddressState| {
            if a.eligibility == member.eligibility {
                a.address.clone()
            } else {
                format!("{} {}", a.address, a.eligibility)
            }
        };
        let addresses: Vec<String> = member.addresses.iter().map(address).collect();
        vec![
            member.cluster.as_str().into(),
            weight(pool, member).into(),
            format!("tier {}", member.tier).into(),
            status_cell(&member.eligibility),
            Cell::new(Tone::Quiet, shares(&member.share)),
            addresses.join(", ").into(),
            Cell::new(Tone::Quiet, member.schedule.as_deref().unwrap_or_default()),
            Cell::new(Tone::Bad, failure(member, state).unwrap_or_default()),
        ]
    };
    if let Some(pin) = &pool.pinned {
        let _ = writeln!(text, "    {}", palette.paint(Tone::Warn, &pin_parts(pin).join("; ")));
    }
    text + &table(palette, 4, &[], pool.members.iter().map(row))
}

/// Formats the failure of a member that is not up: `intent port 8443: connection refused, 3 s ago`.
fn failure(member: &MemberState, state: &State) -> Option<String> {
    let down = member.addresses.iter().filter(|address| address.eligibility == "down");
    let mut failures = down.filter_map(|address| {
        let probe = address.probe.as_ref()?;
        let target =
            address.targets.iter().find_map(|at| state.targets.get(*at).filter(|of| of.last_cause.is_some()))?;
        let age = target.last_probe.as_ref().map(|at| format!(", {}", ago(at, &state.now))).unwrap_or_default();
        Some(format!("{}{age}", probe.failure(target.last_cause.as_ref()?)))
    });
    failures.next()
}

/// Formats the known shares of a member.
fn shares(share: &ShareState) -> String {
    let known = [("answered", share.answered), ("observed", share.arrived)];
    let known: Vec<String> =
        known.iter().filter_map(|(word, part)| Some(format!("{word} {:.0} %", (*part)?))).collect();
    known.join(", ")
}

/// Formats the weight of a member. In failover only weight 0 (standby) has a meaning.
fn weight(pool: &PoolState, member: &MemberState) -> String {
    match (pool.policy.as_str(), member.weight) {
        (_, 0) => "standby".to_owned(),
        ("failover", _) => String::new(),
        (_, weight) => match (member.weight_factors.text(), &member.weight_from) {
            (Some(factors), _) => format!("weight {weight} ({factors})"),
            (None, Some(from)) => format!("weight {weight}, from {}", from.owner),
            (None, None) => format!("weight {weight}"),
        },
    }
}

/// Lists the targets that are not up or are overridden, then some of those that are up.
fn targets(palette: Palette, targets: &[TargetState], now: &str) -> String {
    let is_up = |t: &&TargetState| t.status == "up" && t.override_action.is_none();
    let (up, other): (Vec<_>, Vec<_>) = targets.iter().partition(is_up);
    let row = |t: &&TargetState| {
        let status = match &t.override_action {
            None if t.not_allowed.is_some() => Cell::new(Tone::Warn, "not allowed".to_owned()),
            None => status_cell(&t.status),
            Some(action) => Cell::new(Tone::Warn, format!("{} (override {action})", t.status)),
        };
        let took = t.last_micros.map_or_else(|| "-".to_owned(), |micros| format!("{:.1} ms", micros as f64 / 1_000.0));
        vec![
            t.address.as_str().into(),
            t.monitor.as_str().into(),
            first(3, ", ", &t.clusters).into(),
            status,
            ago(&t.since, now).into(),
            took.into(),
            t.last_cause.clone().unwrap_or_default().into(),
        ]
    };
    let head = ["target", "monitor", "clusters", "status", "since", "last probe", "cause"];
    let mut text = table(palette, 2, &head, other.iter().chain(up.iter().take(UP_TARGETS_MAX)).map(row));
    if let Some(hidden) = up.len().checked_sub(UP_TARGETS_MAX).filter(|hidden| *hidden > 0) {
        let hidden = count(hidden as u64, "more is", "more are");
        let _ = writeln!(text, "  {hidden} up; --json lists all");
    }
    text
}

/// Formats the result of a reload.
fn report_text(palette: Palette, report: &ReloadReport) -> String {
    let number = report.configuration;
    let mut text = if report.accepted {
        let took = thousands(report.duration_ms);
        format!("{}: configuration {number} in use after {took} ms\n", palette.paint(Tone::Good, "reloaded"))
    } else {
        format!("{}: configuration {number} stays in use\n", palette.paint(Tone::Bad, "rejected"))
    };
    for line in report.changes.iter().chain(&report.errors).chain(&report.warnings) {
        let _ = writeln!(text, "  {line}");
    }
    if report.accepted && report.changes.is_empty() {
        text += "  nothing changed\n";
    }
    text
}

/// Paints a health status or eligibility in its colour.
fn status_cell(word: &str) -> Cell {
    let tone = match word {
        "up" => Tone::Good,
        "down" | "out" => Tone::Bad,
        _ => Tone::Warn,
    };
    Cell::new(tone, word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairway_api_types::{
        overrides_wire::{OverrideState, PoolPin},
        state_wire::ProbeState,
    };

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
            config: ConfigState { source: "f.yaml".into(), number: 1, ..ConfigState::default() },
            listeners: vec![ListenerState { kind: "dns".into(), address: "127.0.0.1:53".into() }],
            zones: vec![ZoneState { name: "gslb.example.".into(), serial: Some(9), records: 1_204, names: vec![] }],
            pools: vec![PoolState {
                pinned: Some(PoolPin {
                    id: "3".into(),
                    reason: "load control is the suspect".into(),
                    expires: "2026-01-01T02:00:00Z".into(),
                    policy: "nearest, load, weighted".into(),
                }),
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
                    ..MemberState::default()
                }],
            }],
            targets: vec![target("192.0.2.1", "up"), target("2001:db8::1", "down")],
            overrides: vec![OverrideState { id: Some("3".into()), scope: "eu*".into(), ..OverrideState::default() }],
            ..State::default()
        }
    }

    #[test]
    fn member_that_is_down_shows_the_probe_and_its_failure_in_one_line() {
        let mut state = state();
        let probe = ProbeState {
            monitor: "p+a+v1+shop".into(),
            from: "intent port".into(),
            port: Some(8443),
            check: "tcp 192.0.2.1:8443".into(),
        };
        state.targets[0] = TargetState {
            last_cause: Some("connection refused".into()),
            last_probe: Some("2026-01-01T00:02:00Z".into()),
            ..target("192.0.2.1", "down")
        };
        let member = &mut state.pools[0].members[0];
        member.eligibility = "down".into();
        member.addresses = vec![AddressState {
            address: "192.0.2.1".into(),
            eligibility: "down".into(),
            targets: vec![0],
            probe: Some(probe.clone()),
            ..AddressState::default()
        }];
        let text = render(Palette::PLAIN, &state);
        let line = "  intent port 8443: connection refused, 5 s ago\n";
        assert!(text.contains(line), "{line:?} is missing in\n{text}");
        state.pools[0].members[0].addresses[0].probe =
            Some(ProbeState { from: "zone".into(), monitor: "ready".into(), ..probe });
        let text = render(Palette::PLAIN, &state);
        assert!(
            text.contains("monitor ready of the zone, tcp 192.0.2.1:8443: connection refused, 5 s ago\n"),
            "{text}"
        );
    }

    #[test]
    fn status_shows_every_part_of_the_state() {
        let text = render(Palette::PLAIN, &state());
        for line in [
            "fairway 0.1.0, process 7, up 2 min 5 s: ready\n",
            "  dns  127.0.0.1:53\n",
            "  gslb.example.  9       1,204\n",
            "  shop  weighted, answers shop.gslb.example.\n",
            "    pinned to its declared weights by override 3 until 2026-01-01T02:00:00Z; reason: load control is the suspect; \
             its own policy: nearest, load, weighted\n",
            "    eu1  weight 60  tier 1  up  answered 58 %, observed 71 %  192.0.2.1, 2001:db8::1 down\n",
            "  2001:db8::1  gateway  eu1       down    2 min 5 s ago  1.2 ms      status 503\n",
            "\nOverrides\n",
        ] {
            assert!(text.contains(line), "{line:?} is missing in\n{text}");
        }
    }

    #[test]
    fn down_targets_are_listed_before_up_targets() {
        let text = render(Palette::PLAIN, &state());
        assert!(text.find("2001:db8::1  gateway") < text.find("192.0.2.1    gateway"), "{text}");
    }

    #[test]
    fn up_targets_over_the_limit_are_counted() {
        let mut many = state();
        many.targets = (0..60).map(|i| target(&format!("192.0.2.{i}"), "up")).collect();
        many.targets.push(target("198.51.100.1", "down"));
        let text = render(Palette::PLAIN, &many);
        assert!(text.contains("198.51.100.1") && text.contains("  10 more are up; --json lists all\n"), "{text}");
    }

    #[test]
    fn rejected_configuration_is_shown_with_its_errors() {
        let mut stale = state();
        stale.config.stale = true;
        stale.config.last_reload = Some(ReloadReport {
            at: "2026-01-01T00:02:00Z".into(),
            errors: vec!["f.yaml:3:1: unknown key".into()],
            ..ReloadReport::default()
        });
        let text = render(Palette::PLAIN, &stale);
        assert!(
            text.contains("rejected 5 s ago; the previous one stays in use:\n    f.yaml:3:1: unknown key\n"),
            "{text}"
        );
    }

    #[test]
    fn reload_without_a_change_is_reported_as_such() {
        let report = ReloadReport { accepted: true, configuration: 4, duration_ms: 12, ..ReloadReport::default() };
        assert_eq!(
            report_text(Palette::PLAIN, &report),
            "reloaded: configuration 4 in use after 12 ms\n  nothing changed\n"
        );
    }
}
