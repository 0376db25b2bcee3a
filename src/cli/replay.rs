//! `fairway replay`: shows the effect of a changed configuration on recorded queries.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, bail};
use fairway_model::{ClusterName, HealthStatus};

use super::{
    args::ReplayArgs,
    invalid_configuration,
    output::{Cell, Out, Palette, Tone, table, thousands},
    variable,
};
use fairway_config::{Environment, Source};
use fairway_control::Offline;
use fairway_whatif::replay::{ClusterShare, Comparison, Line, LogLines, PoolReport, Report, Sides};

/// Number of invalid lines that are reported one by one. Further ones are counted.
const ERRORS_MAX: u64 = 5;

/// Replays the log and prints the result.
pub(super) fn replay(out: Out, args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let before = args.from.as_deref().map(|files| load(files, &args.down)).transpose()?;
    let sides = Sides { before, after: load(&args.against, &args.down)? };
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
        bail!("{}: no queries; a query log is written by `queryLog` of the configuration", args.log.display());
    }
    if args.json {
        out.json(serde_json::to_string_pretty(&report))?;
    } else {
        out.print(&render(out.palette, &report))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn open(path: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

/// Loads a configuration. Every target counts as up, except those of the clusters in `down`.
fn load(files: &Path, down: &[ClusterName]) -> anyhow::Result<Offline> {
    let environment: Environment = Arc::new(variable);
    let status = |cluster: &ClusterName| if down.contains(cluster) { HealthStatus::Down } else { HealthStatus::Up };
    fairway_control::of_files(&Source::Path(files.to_owned()), &environment, status)
        .map_err(|errors| invalid_configuration(&errors))
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
    let rows: Vec<Vec<Cell>> = clusters.iter().map(share_row).collect();
    table(palette, 2, &[], &rows)
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
