//! `fairway replay`: shows the effect of a changed configuration on recorded queries.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use super::{
    args::ReplayArgs,
    offline,
    output::{Cell, Out, Palette, Tone, table, thousands},
};
use fairway_config::Source;
use fairway_whatif::replay::{ClusterShare, Comparison, Line, LogLines, PoolReport, Report, Sides};

/// Number of invalid lines that are reported one by one. Further ones are counted.
const ERRORS_MAX: u64 = 5;

/// Replays the log and prints the result.
pub(super) fn replay(out: Out, args: &ReplayArgs) -> anyhow::Result<()> {
    let load = |files: &PathBuf| offline(&Source::Path(files.clone()), &args.down);
    let sides = Sides { before: args.from.as_ref().map(load).transpose()?, after: load(&args.against)? };
    let mut comparison = Comparison::new(&sides);
    let mut other = 0;
    let mut invalid = 0;
    let mut lines = LogLines::new(open(&args.log)?);
    let unreadable = || format!("cannot read {}", args.log.display());
    while let Some(line) = lines.read_next().with_context(unreadable)? {
        match line {
            Line::Query(query) => comparison.add(&query),
            Line::Other => other += 1,
            Line::Invalid(number, error) => {
                invalid += 1;
                if invalid <= ERRORS_MAX {
                    eprintln!("{}:{number}: {error}; line skipped", args.log.display());
                }
            }
        }
    }
    let report = Report { other_lines: other, invalid_lines: invalid, ..comparison.report(args.offered) };
    if report.queries == 0 {
        bail!("{}: the log has no queries; set `queryLog` in the configuration to record some", args.log.display());
    }
    out.show(args.json, &report, |palette| render(palette, &report))
}

fn open(path: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

fn render(palette: Palette, report: &Report) -> String {
    let steered = report.queries - report.unsteered;
    let mut text = format!(
        "{} queries, {} of them answered by pools\n",
        palette.paint(Tone::Strong, &thousands(report.queries)),
        thousands(steered)
    );
    if report.other_lines + report.invalid_lines > 0 {
        let (other, invalid) = (thousands(report.other_lines), thousands(report.invalid_lines));
        text += &format!("{other} lines are not queries, {invalid} are invalid\n");
    }
    for pool in &report.pools {
        text += &pool_text(palette, pool);
    }
    if report.pools.len() > 1 || report.clusters.iter().any(|share| share.load_after.is_some()) {
        text += &format!("\n{}\n", palette.paint(Tone::Strong, "all pools"));
        text += &shares(palette, &report.clusters);
    }
    text
}

fn pool_text(palette: Palette, pool: &PoolReport) -> String {
    let at_least = if pool.networks_complete { "" } else { "at least " };
    let mut text = format!(
        "\n{}  {} queries of {at_least}{} client networks\n",
        palette.paint(Tone::Strong, &format!("pool {}", pool.pool)),
        thousands(pool.queries),
        thousands(pool.networks)
    );
    if let (Some(moved), Some(networks)) = (pool.moved, pool.networks_moved) {
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let (queries, networks) = (percent(moved, pool.queries), percent(networks, pool.networks));
        text += &format!("  {queries:.1} % of the queries and {networks:.1} % of the networks move\n");
    }
    text + &shares(palette, &pool.clusters)
}

fn shares(palette: Palette, clusters: &[ClusterShare]) -> String {
    table(palette, 2, &[], clusters.iter().map(share_row))
}

fn share_row(share: &ClusterShare) -> Vec<Cell> {
    let mut row: Vec<Cell> = vec![share.cluster.as_str().into()];
    if let Some(before) = share.before {
        row.push(format!("{before:.1} %").into());
        row.push("->".into());
    }
    row.push(format!("{:.1} %", share.after).into());
    if let Some(load) = share.load_after {
        let tone = if load > 100.0 { Tone::Bad } else { Tone::Quiet };
        let before = share.load_before.map(|before| format!("{before:.0} % -> ")).unwrap_or_default();
        row.push(Cell::new(tone, format!("load {before}{load:.0} %")));
    }
    row
}
