//! `fairway replay`: recorded queries against a changed configuration, before it is applied.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, anyhow, bail};
use fairway_model::{ClusterName, Diagnostic, HealthStatus};

use super::{
    args::ReplayArgs,
    output::{Cell, Out, Palette, Tone, table, thousands},
    variable,
};
use fairway_config::Environment;
use fairway_config::Source;
use fairway_control::Offline;
use fairway_whatif::replay::{ClusterShare, Comparison, Line, LogLines, PoolReport, Report, Sides};

/// Plays the log and prints what it comes to.
pub(super) fn replay(out: Out, args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let before = args.from.as_deref().map(|files| side(files, &args.down)).transpose()?;
    let sides = Sides { before, after: side(&args.against, &args.down)? };
    let mut comparison = Comparison::new(&sides);
    let (mut other, mut faulty) = (0, 0);
    let mut lines = LogLines::new(open(&args.log)?);
    let unreadable = || format!("cannot read {}", args.log.display());
    while let Some(line) = lines.read_next().with_context(unreadable)? {
        match line {
            Line::Query(query) => comparison.play(&query),
            Line::Other => other += 1,
            Line::Faulty(number, why) => {
                faulty += 1;
                if faulty <= FAULTS_SHOWN {
                    eprintln!("{}:{number}: {why}; the line is passed over", args.log.display());
                }
            }
        }
    }
    let report = Report { other_lines: other, faulty_lines: faulty, ..comparison.report(args.offered) };
    if report.played == 0 {
        bail!("{}: no query in it; `queryLog` of the configuration writes such a log", args.log.display());
    }
    if args.json {
        out.line(&serde_json::to_string_pretty(&report).context("the report has no JSON form")?)?;
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

/// One configuration with every target up, but those of clusters that are played down.
fn side(files: &Path, down: &[ClusterName]) -> anyhow::Result<Offline> {
    let environment: Environment = Arc::new(variable);
    let verdict = |cluster: &ClusterName| if down.contains(cluster) { HealthStatus::Down } else { HealthStatus::Up };
    let faulty = |faults: Vec<Diagnostic>| {
        let faults: Vec<String> = faults.iter().map(|fault| format!("\n  {fault}")).collect();
        anyhow!("{} is faulty:{}", files.display(), faults.concat())
    };
    fairway_control::of_files(&Source::Path(files.to_owned()), &environment, verdict).map_err(faulty)
}

fn render(palette: Palette, report: &Report) -> String {
    let steered = report.played - report.unsteered;
    let mut text = format!(
        "{} queries played; pools answered {}\n",
        palette.paint(Tone::Strong, &thousands(report.played)),
        thousands(steered)
    );
    if report.other_lines + report.faulty_lines > 0 {
        let (other, faulty) = (thousands(report.other_lines), thousands(report.faulty_lines));
        text += &format!("{other} lines are no queries, {faulty} could not be read\n");
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
        text += &format!("  moves {queries:.1} % of the queries, {networks:.1} % of the networks\n");
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

/// Faulty lines that are told one by one; the rest is counted.
const FAULTS_SHOWN: u64 = 5;
