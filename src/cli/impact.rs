//! `fairway check --impact`: the effect of failures under a configuration, and what a changed configuration moves.

use std::process::ExitCode;

use super::{
    args::ImpactArgs,
    offline,
    output::{Cell, Out, Palette, Tone, count, first, table},
};
use fairway_config::Source;
use fairway_whatif::Offline;
use fairway_whatif::impact::{self, CapacityReport, Finding, NamesReport, PoolImpact, Report, Severity, Since, Terms};

/// Exit status if rules do not hold, and none of them is new or worse than before.
const NOTHING_WORSE: u8 = 3;
/// Number of names of one kind that are listed.
const NAMES_MAX: usize = 10;

/// Prints the impact report. The exit status distinguishes rules that do not hold now from those that did not hold before either.
pub(super) fn impact(out: Out, source: &Source, args: &ImpactArgs, strict: bool) -> anyhow::Result<ExitCode> {
    let load = |source: &Source| offline(source, &[]).map(Offline::at_any_time);
    let after = load(source)?;
    let before = args.against.clone().map(|path| load(&Source::Path(path))).transpose()?;
    let seconds = |budget: std::time::Duration| u32::try_from(budget.as_secs()).unwrap_or(u32::MAX);
    let terms = Terms { offered: args.offered, drain_budget: args.drain_budget.map(seconds) };
    let report = impact::assess(before.as_ref(), &after, terms);
    out.show(args.json, &report, |palette| render(palette, &report, terms))?;
    Ok(ExitCode::from(status(&report, strict)))
}

/// Returns the exit status: 0 if all rules hold, 3 if those that do not hold did not before either, else 1.
fn status(report: &Report, strict: bool) -> u8 {
    let mut broken = report.findings.iter().filter(|finding| strict || finding.severity == Severity::Error).peekable();
    if broken.peek().is_none() {
        return 0;
    }
    if broken.all(|finding| finding.since == Some(Since::Before)) { NOTHING_WORSE } else { 1 }
}

fn render(palette: Palette, report: &Report, terms: Terms) -> String {
    let mut text: String = report.pools.iter().map(|pool| pool_text(palette, pool, report.compared)).collect();
    text += &capacity_text(palette, &report.capacity, terms);
    text += &names_text(palette, &report.names, &report.pools_removed);
    let findings = &report.findings;
    for (head, list) in [("rules that do not hold", findings), ("rules that hold again", &report.fixed)] {
        if !list.is_empty() {
            let rows = table(palette, 2, &[], list.iter().map(finding_row));
            text += &format!("\n{}\n{rows}", palette.paint(Tone::Strong, head));
        }
    }
    text + &format!("\n{}\n", summary(palette, findings))
}

fn pool_text(palette: Palette, pool: &PoolImpact, compared: bool) -> String {
    let classes = |number: usize| count(number as u64, "location class", "location classes");
    let names = count(pool.names, "name", "names");
    let head = palette.paint(Tone::Strong, &format!("pool {}", pool.pool));
    let clusters = count(pool.clusters_least as u64, "cluster", "clusters");
    let regions = match pool.regions_least {
        0 => String::new(),
        some => format!(" in {}", count(some as u64, "region", "regions")),
    };
    let ttl = pool.ttl_seconds;
    let all = classes(pool.location_classes);
    let mut text = format!("{head}  {names}, TTL {ttl} s, {all} of clients; each has at least {clusters}{regions}\n");
    match (pool.moved_percent, pool.location_classes_moved) {
        (Some(moved), Some(number)) if moved > 0.0 || number > 0 => {
            text += &format!("  other answers for {moved:.1} % of client networks, in {}\n", classes(number));
            let share = |share: &impact::Share| -> Vec<Cell> {
                let (before, after) = (format!("{:.1} %", share.before), format!("{:.1} %", share.after));
                vec![share.cluster.as_str().into(), before.into(), "->".into(), after.into()]
            };
            text += &table(palette, 4, &[], pool.shares.iter().map(share));
        }
        (Some(_), _) => text += "  the same answers for every client network\n",
        _ if compared => text += "  new: its names were not answered before\n",
        _ => {}
    }
    text
}

fn capacity_text(palette: Palette, capacity: &CapacityReport, terms: Terms) -> String {
    let head = palette.paint(Tone::Strong, "capacity");
    let CapacityReport { holds_up_to: Some(most), worst_down: Some(down), worst_full: Some(full), .. } = capacity
    else {
        if capacity.undeclared.is_empty() {
            return String::new();
        }
        return format!("\n{head}  not declared for {}\n", capacity.undeclared.join(", "));
    };
    let before = capacity.holds_up_to_before.map(|before| format!(", before {before:.0} %")).unwrap_or_default();
    let offered = terms.offered.map(|offered| format!("; offered {offered:.0} %")).unwrap_or_default();
    format!(
        "\n{head}  no cluster is overloaded with any other down, up to a load of {most:.0} % each{before}{offered}\n  \
         worst case: {down} down, which fills {full}\n"
    )
}

fn names_text(palette: Palette, names: &NamesReport, pools_removed: &[String]) -> String {
    let moved: Vec<String> = names.moved.iter().map(|m| format!("{} ({} -> {})", m.name, m.from, m.to)).collect();
    let lists = [
        ("names no longer steered", &names.removed[..]),
        ("names moved to another pool", &moved),
        ("new names", &names.added),
        ("pools no longer in use", pools_removed),
    ];
    let mut text = String::new();
    for (head, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        text += &format!("{}  {}\n", palette.paint(Tone::Strong, head), first(NAMES_MAX, ", ", list));
    }
    if text.is_empty() { text } else { format!("\n{text}") }
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
    let pool = finding.pool.as_ref().map(|pool| format!("pool {pool}: ")).unwrap_or_default();
    let mut row = vec![severity, since.into(), format!("{pool}{}", finding.what).into()];
    row.retain(|cell| !cell.text.is_empty());
    row
}

fn summary(palette: Palette, findings: &[Finding]) -> String {
    let of = |severity: Severity| findings.iter().filter(move |finding| finding.severity == severity);
    let (errors, warnings) = (of(Severity::Error).count(), of(Severity::Warning).count());
    let warnings_text = match warnings {
        0 => String::new(),
        _ => format!(", {}", count(warnings as u64, "warning", "warnings")),
    };
    if errors == 0 {
        let tone = if warnings > 0 { Tone::Warn } else { Tone::Good };
        return palette.paint(tone, "all rules hold") + &warnings_text;
    }
    let before = of(Severity::Error).filter(|finding| finding.since == Some(Since::Before)).count();
    let broken = count(errors as u64, "rule does", "rules do");
    let before = if before > 0 { format!(", {before} of them as before") } else { String::new() };
    palette.paint(Tone::Bad, &format!("{broken} not hold{before}{warnings_text}"))
}
