//! `fairway check --impact`: what a configuration leaves when something fails, and what it changes.

use std::{process::ExitCode, sync::Arc};

use anyhow::{Context, anyhow};
use fairway_model::Diagnostic;

use super::{
    args::ImpactArgs,
    output::{Cell, Out, Palette, Tone, count, table},
    variable,
};
use fairway_config::Environment;
use fairway_config::Source;
use fairway_control::Offline;
use fairway_whatif::impact::{self, CapacityReport, Finding, NamesReport, PoolImpact, Report, Severity, Since, Terms};

/// Judges, prints, and tells by the exit status whether a rule is broken, and whether it was before.
pub(super) fn impact(out: Out, source: &Source, args: &ImpactArgs, strict: bool) -> anyhow::Result<ExitCode> {
    let after = side(source)?;
    let before = args.against.clone().map(|path| side(&Source::Path(path))).transpose()?;
    let seconds = |budget: std::time::Duration| u32::try_from(budget.as_secs()).unwrap_or(u32::MAX);
    let terms = Terms { offered: args.offered, drain_budget: args.drain_budget.map(seconds) };
    let report = impact::judge(before.as_ref(), &after, terms);
    if args.json {
        out.line(&serde_json::to_string_pretty(&report).context("the report has no JSON form")?)?;
    } else {
        out.print(&render(out.palette, &report, terms))?;
    }
    Ok(ExitCode::from(status(&report, strict)))
}

/// One configuration.
fn side(source: &Source) -> anyhow::Result<Offline> {
    let environment: Environment = Arc::new(variable);
    let faulty = |faults: Vec<Diagnostic>| {
        let faults: Vec<String> = faults.iter().map(|fault| format!("\n  {fault}")).collect();
        anyhow!("nothing is judged, since the configuration is faulty:{}", faults.concat())
    };
    impact::read(source, &environment).map_err(faulty)
}

/// 0 where all rules hold, 1 where one is broken by this configuration, 3 where those that are broken were so before.
fn status(report: &Report, strict: bool) -> u8 {
    let broken = |finding: &&Finding| strict || finding.severity == Severity::Error;
    let mut broken = report.findings.iter().filter(broken).map(|finding| finding.since);
    match broken.next() {
        None => 0,
        Some(Some(Since::Before)) if broken.all(|since| since == Some(Since::Before)) => AS_BEFORE,
        Some(_) => 1,
    }
}

fn render(palette: Palette, report: &Report, terms: Terms) -> String {
    let mut text: String = report.pools.iter().map(|pool| pool_text(palette, pool, report.compared)).collect();
    text += &capacity_text(palette, &report.capacity, terms);
    text += &names_text(palette, &report.names, &report.pools_removed);
    let findings = &report.findings;
    for (head, list) in [("rules that do not hold", findings), ("rules that hold again", &report.mended)] {
        if !list.is_empty() {
            let rows: Vec<_> = list.iter().map(finding_row).collect();
            text += &format!("\n{}\n{}", palette.paint(Tone::Strong, head), table(palette, 2, &[], &rows));
        }
    }
    text + &format!("\n{}\n", sum(palette, findings))
}

fn pool_text(palette: Palette, pool: &PoolImpact, compared: bool) -> String {
    let places = count(pool.places as u64, "place", "places");
    let names = count(pool.names, "name", "names");
    let head = palette.paint(Tone::Strong, &format!("pool {}", pool.pool));
    let clusters = count(pool.clusters_least as u64, "cluster", "clusters");
    let regions = match pool.regions_least {
        0 => String::new(),
        some => format!(" in {}", count(some as u64, "region", "regions")),
    };
    let mut text = format!(
        "{head}  {names}, TTL {} s, {places} of clients; each has at least {clusters}{regions}\n",
        pool.ttl_seconds
    );
    match (pool.moved_percent, pool.places_moved) {
        (Some(moved), Some(places)) if moved > 0.0 || places > 0 => {
            let places = count(places as u64, "place", "places");
            text += &format!("  other answers for {moved:.1} % of client networks, in {places}\n");
            let share = |share: &impact::Share| -> Vec<Cell> {
                let (before, after) = (format!("{:.1} %", share.before), format!("{:.1} %", share.after));
                vec![share.cluster.as_str().into(), before.into(), "->".into(), after.into()]
            };
            text += &table(palette, 4, &[], &pool.shares.iter().map(share).collect::<Vec<_>>());
        }
        (Some(_), _) => text += "  the same answers for every client network\n",
        _ if compared => text += "  new: nothing answered its names before\n",
        _ => {}
    }
    text
}

fn capacity_text(palette: Palette, capacity: &CapacityReport, terms: Terms) -> String {
    let head = palette.paint(Tone::Strong, "capacity");
    let CapacityReport { holds_up_to: Some(most), worst_down: Some(down), worst_full: Some(full), .. } = capacity
    else {
        let undeclared = capacity.undeclared.join(", ");
        return if undeclared.is_empty() {
            String::new()
        } else {
            format!("\n{head}  not declared for {undeclared}\n")
        };
    };
    let before = capacity.holds_up_to_before.map(|before| format!(", before {before:.0} %")).unwrap_or_default();
    let asked = terms.offered.map(|offered| format!("; asked for are {offered:.0} %")).unwrap_or_default();
    format!(
        "\n{head}  with any one cluster down nobody is over while each carries up to {most:.0} %{before}{asked}\n  \
         the worst: {down} down, then {full} is full\n"
    )
}

fn names_text(palette: Palette, names: &NamesReport, pools_removed: &[String]) -> String {
    let quoted = |head: &str, list: &[String]| -> Option<String> {
        let shown = list.iter().take(NAMES_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = list.len().saturating_sub(NAMES_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!list.is_empty()).then(|| format!("{}  {shown}{more}\n", palette.paint(Tone::Strong, head)))
    };
    let moved: Vec<String> = names.moved.iter().map(|m| format!("{} ({} -> {})", m.name, m.from, m.to)).collect();
    let lines = [
        quoted("names that are not steered any more", &names.removed),
        quoted("names of another pool", &moved),
        quoted("new names", &names.added),
        quoted("pools that answer nothing any more", pools_removed),
    ];
    let lines: String = lines.into_iter().flatten().collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

fn finding_row(finding: &Finding) -> Vec<Cell> {
    let severity = match finding.severity {
        Severity::Error => Cell::new(Tone::Bad, "error"),
        Severity::Warning => Cell::new(Tone::Warn, "warning"),
    };
    let since = match finding.since {
        Some(Since::New) => "new",
        Some(Since::Worse) => "worse",
        Some(Since::Before) => "as before",
        None => "",
    };
    let whom = finding.pool.as_ref().map(|pool| format!("pool {pool}: ")).unwrap_or_default();
    let mut row = vec![severity, since.into(), format!("{whom}{}", finding.what).into()];
    row.retain(|cell| !cell.text.is_empty());
    row
}

fn sum(palette: Palette, findings: &[Finding]) -> String {
    let of = |severity: Severity| findings.iter().filter(move |finding| finding.severity == severity);
    let (errors, warnings) = (of(Severity::Error).count(), of(Severity::Warning).count());
    let warned = (warnings > 0).then(|| count(warnings as u64, "warning", "warnings"));
    if errors == 0 {
        let ok = palette.paint(if warnings > 0 { Tone::Warn } else { Tone::Good }, "all rules hold");
        return warned.map_or_else(|| ok.clone(), |warned| format!("{ok}, {warned}"));
    }
    let before = of(Severity::Error).filter(|finding| finding.since == Some(Since::Before)).count();
    let broken = count(errors as u64, "rule does", "rules do");
    let before = if before > 0 { format!(", {before} of them as before") } else { String::new() };
    let warned = warned.map(|warned| format!(", {warned}")).unwrap_or_default();
    palette.paint(Tone::Bad, &format!("{broken} not hold{before}{warned}"))
}

/// Exit status where every broken rule was broken before.
const AS_BEFORE: u8 = 3;
/// Names of a kind that are told one by one.
const NAMES_SHOWN: usize = 10;
