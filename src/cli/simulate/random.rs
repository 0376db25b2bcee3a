//! `fairway simulate --random`: runs random scenarios and prints their figures next to what load control must reach.

use std::hash::{BuildHasher, RandomState};

use fairway_control::on_all_cores;
use fairway_whatif::simulate::{
    elsewhere,
    incidents::{Incident, Mark},
    random::{self, Figures},
    scenario::{Deployment, Scenario, Start},
};

use super::{RowGroup, SimulateArgs};
use crate::cli::output::{Cell, Out, Tone, table};

/// A row: a figure of each seed, and the largest values that reach the goal.
struct Row {
    name: &'static str,
    /// Value and seed. A seed for which the figure does not count has none.
    values: Vec<(f64, u64)>,
    is_low_bad: bool,
    goal: Goal,
}

/// Worst values that a row may have. A row without a goal is for information.
#[derive(Clone, Copy, Default)]
struct Goal {
    median: Option<f64>,
    worst: Option<f64>,
}

/// Two servers: parts of the client networks that query each.
const TWO_SERVERS: [f64; 2] = [0.7, 0.3];

/// Runs the groups of rows that were asked for, one after the other; the seeds of a group on all cores.
pub(super) fn simulate(out: Out, count: u64, args: &SimulateArgs) -> anyhow::Result<()> {
    let first = args.seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()) >> 32);
    let seeds: Vec<u64> = (first..).take(count as usize).collect();
    let (Some(least), Some(most)) = (seeds.first(), seeds.last()) else { return Ok(()) };
    out.line(&format!("{count} random scenarios, seeds {least} to {most}"))?;
    let one_server = Deployment { is_informed: args.informed, ..Deployment::one_server() };
    let servers = match args.servers.is_empty() {
        true => one_server.clone(),
        false => Deployment { servers: args.servers.clone(), shared_store: args.shared_store, ..one_server.clone() },
    };
    let is_asked = |group: RowGroup| args.rows.contains(&group) || args.rows.contains(&RowGroup::All);
    let mut cold = None;
    if is_asked(RowGroup::Cold) {
        let figures = ordinary(&seeds, Start::Cold, &servers)?;
        print(out, "cold start", ordinary_rows(&figures, true))?;
        cold = Some(figures);
    }
    for (group, start, title) in [
        (RowGroup::One, Start::One, "start with everything on one cluster"),
        (RowGroup::Mirror, Start::Mirror, "start with the mirror image of the optimum"),
    ] {
        if is_asked(group) {
            print(out, title, ordinary_rows(&ordinary(&seeds, start, &servers)?, false))?;
        }
    }
    for incident in Incident::ALL.into_iter().filter(|incident| is_asked(group(*incident))) {
        print_incident(out, incident, &seeds, &servers)?;
    }
    if is_asked(RowGroup::Elsewhere) {
        print(
            out,
            "30 % of a cluster's capacity from elsewhere, on and off ten times",
            elsewhere_rows(&seeds, &servers)?,
        )?;
    }
    let stores = [(RowGroup::Servers, false), (RowGroup::SharedStore, true)];
    let stores: Vec<bool> = stores.into_iter().filter(|(group, _)| is_asked(*group)).map(|(_, is)| is).collect();
    if !stores.is_empty() {
        let is_one = args.servers.is_empty();
        let one = cold.filter(|_| is_one);
        let one = one.map_or_else(|| ordinary(&seeds, Start::Cold, &one_server), Ok)?;
        let servers = if is_one { TWO_SERVERS.to_vec() } else { args.servers.clone() };
        for shared_store in stores {
            print_compared(out, &one, &seeds, &Deployment { servers: servers.clone(), shared_store, ..one_server })?;
        }
    }
    Ok(())
}

/// Prints the rows of several servers, and how much worse they are than one.
fn print_compared(out: Out, one: &[Ordinary], seeds: &[u64], deployment: &Deployment) -> anyhow::Result<()> {
    let figures = ordinary(seeds, Start::Cold, deployment)?;
    let mut rows = ordinary_rows(&figures, true);
    rows.extend(compared_rows(one, &figures));
    let store = if deployment.shared_store { "with" } else { "without" };
    print(out, &format!("servers {store} a shared store, parts {:?}", deployment.servers), rows)
}

const fn group(incident: Incident) -> RowGroup {
    match incident {
        Incident::Death => RowGroup::Death,
        Incident::Step => RowGroup::Step,
        Incident::Reports => RowGroup::Reports,
        Incident::Liar => RowGroup::Liar,
        Incident::Frozen => RowGroup::Frozen,
        Incident::Drain => RowGroup::Drain,
        Incident::RestartKept | Incident::RestartBlank => RowGroup::Restart,
    }
}

/// A seed, the exponent of its Zipf's law, and its figures.
type Ordinary = (u64, f64, Figures);

/// Draws and runs a scenario per seed, on all cores.
fn run_all<T: Send>(
    seeds: &[u64],
    draw: impl Fn(u64) -> Result<Scenario, String> + Sync,
    run: impl Fn(&Scenario, u64) -> T + Sync,
) -> anyhow::Result<Vec<T>> {
    let results = on_all_cores(seeds.to_vec(), |seed| draw(seed).map(|scenario| run(&scenario, seed)));
    results.into_iter().collect::<Result<_, _>>().map_err(anyhow::Error::msg)
}

fn ordinary(seeds: &[u64], start: Start, deployment: &Deployment) -> anyhow::Result<Vec<Ordinary>> {
    let run = |scenario: &Scenario, seed| (seed, scenario.clients.zipf, random::figures(scenario, seed));
    run_all(seeds, |seed| random::draw(seed, start, deployment), run)
}

/// Returns the rows of runs without events. The load of the first TTLs says nothing where the start is overload.
fn ordinary_rows(all: &[Ordinary], has_ordinary_start: bool) -> Vec<Row> {
    let row = |name, counts: &dyn Fn(&Ordinary) -> bool, figure: &dyn Fn(&Figures) -> f64, goal| {
        let counted = all.iter().filter(|own| counts(own));
        Row { name, values: counted.map(|(seed, _, own)| (figure(own), *seed)).collect(), is_low_bad: false, goal }
    };
    let always = |_: &Ordinary| true;
    let is_possible = |(_, _, figures): &Ordinary| figures.optimum_peak < 1.0;
    let is_even = |(_, zipf, _): &Ordinary| *zipf <= 0.6;
    let mut rows = vec![
        Row {
            is_low_bad: true,
            ..row("near / optimum", &always, &|f| f.near, Goal { median: Some(0.95), worst: Some(0.9) })
        },
        Row {
            is_low_bad: true,
            ..row("near / bound of divided networks", &always, &|f| f.near_to_bound, Goal::default())
        },
        row("peak - that of the optimum, Zipf up to 0.6", &is_even, &|f| f.peak, worst(0.08)),
        row("peak - that of the optimum, Zipf over 0.6", &|own| !is_even(own), &|f| f.peak, worst(0.12)),
    ];
    if has_ordinary_start {
        rows.push(row("highest load after the first TTL", &is_possible, &|f| f.highest, worst(1.1)));
        rows.push(row("TTLs over 1.1", &is_possible, &|f| f.overload, worst(1.0)));
    }
    rows.push(row("TTLs until 95 % of the optimum", &always, &|f| f.reached, worst(15.0)));
    rows.push(row("the same, with no cluster over 1.1", &always, &|f| f.settled, worst(15.0)));
    rows.push(row("answers changed that could have stayed", &always, &|f| f.churn, worst(0.01)));
    if has_ordinary_start {
        rows.push(row("peak of the optimum", &always, &|f| f.optimum_peak, Goal::default()));
    }
    rows
}

/// Returns how much worse several servers are than one.
fn compared_rows(one: &[Ordinary], several: &[Ordinary]) -> Vec<Row> {
    let row = |name, worse: &dyn Fn(&Figures, &Figures) -> f64| {
        let values = one.iter().zip(several).map(|((seed, _, one), (_, _, several))| (worse(one, several), *seed));
        Row { name, values: values.collect(), is_low_bad: false, goal: Goal { median: Some(0.03), worst: None } }
    };
    vec![
        row("near / optimum: less than with one server", &|one, several| one.near - several.near),
        row("peak: more than with one server", &|one, several| several.peak - one.peak),
        row("time until 95 %: longer than with one server, as a part", &|one, several| {
            longer(one.reached, several.reached)
        }),
    ]
}

/// Returns by which part a time that ends with the TTL `several` is longer than one that ends with the TTL `one`. Two runs that never get
/// there are equal.
fn longer(one: f64, several: f64) -> f64 {
    if one == several { 0.0 } else { (several + 1.0) / (one + 1.0) - 1.0 }
}

fn elsewhere_rows(seeds: &[u64], deployment: &Deployment) -> anyhow::Result<Vec<Row>> {
    let run = |scenario: &Scenario, seed| (seed, elsewhere::figures(scenario, seed));
    let all = run_all(seeds, |seed| elsewhere::draw(seed, deployment), run)?;
    let row = |name, figure: &dyn Fn(&elsewhere::Figures) -> f64, goal| {
        let values = all.iter().map(|(seed, figures)| (figure(figures), *seed)).collect();
        Row { name, values, is_low_bad: false, goal }
    };
    Ok(vec![
        row("highest load", &|f| f.highest, Goal::default()),
        row("highest load, 2 TTLs and the lag after it came", &|f| f.highest_after, worst(1.0)),
        row("TTLs until back under the target", &|f| f.back, Goal::default()),
        row("the same, less the lag of reports", &|f| f.back_after_lag, worst(2.0)),
        row("times of ten that it took more", &|f| f.late, worst(0.0)),
        row("the same, with 0.05 over the target", &|f| f.late_by_more, Goal::default()),
    ])
}

const fn worst(worst: f64) -> Goal {
    Goal { median: None, worst: Some(worst) }
}

fn print(out: Out, title: &str, rows: Vec<Row>) -> anyhow::Result<()> {
    out.line("")?;
    out.line(title)?;
    let head = ["FIGURE", "OF", "MEDIAN", "90 %", "WORST", "SEED", "GOAL", ""];
    Ok(out.print(&table(out.palette, 1, &head, rows.into_iter().map(Row::cells)))?)
}

impl Row {
    fn cells(mut self) -> Vec<Cell> {
        let is_low_bad = self.is_low_bad;
        self.values.sort_by(|a, b| if is_low_bad { b.0.total_cmp(&a.0) } else { a.0.total_cmp(&b.0) });
        let value = |part: f64| self.values.get((self.values.len().saturating_sub(1) as f64 * part).round() as usize);
        let text = |part| value(part).map_or_else(|| "-".to_owned(), |(value, _)| number(*value));
        let reaches = |part: f64, bound: Option<f64>| {
            let is_in = |bound: f64, value: f64| if is_low_bad { value >= bound } else { value <= bound };
            bound.is_none_or(|bound| value(part).is_none_or(|(value, _)| is_in(bound, *value)))
        };
        let Goal { median, worst } = self.goal;
        let sign = if is_low_bad { ">=" } else { "<=" };
        let goal = |what, bound: Option<f64>| bound.map(|bound| format!("{what}{sign} {bound}"));
        let goals: Vec<String> = goal("median ", median).into_iter().chain(goal("", worst)).collect();
        let result = if goals.is_empty() || self.values.is_empty() {
            Cell::from("")
        } else if reaches(0.5, median) && reaches(1.0, worst) {
            Cell::new(Tone::Good, "reached")
        } else {
            Cell::new(Tone::Bad, "missed")
        };
        vec![
            self.name.into(),
            self.values.len().to_string().into(),
            text(0.5).into(),
            text(0.9).into(),
            text(1.0).into(),
            value(1.0).map_or_else(String::new, |(_, seed)| seed.to_string()).into(),
            goals.join(", ").into(),
            result,
        ]
    }
}

fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.3}") } else { "never".to_owned() }
}

/// Prints how many seeds reach all goals of an event, then each goal with the seed that is farthest from it.
fn print_incident(out: Out, incident: Incident, seeds: &[u64], deployment: &Deployment) -> anyhow::Result<()> {
    let run = |scenario: &Scenario, seed| incident.run(scenario, seed);
    let all = run_all(seeds, |seed| incident.draw(seed, deployment), run)?;
    let reached = all.iter().filter(|marks| marks.iter().all(Mark::is_reached)).count();
    out.line("")?;
    out.line(&format!("{}: {reached} of {} reach all goals", incident.title(), seeds.len()))?;
    let row = |mark: usize| {
        let mut marks: Vec<(&Mark, u64)> = all.iter().zip(seeds).map(|(marks, seed)| (&marks[mark], *seed)).collect();
        // Last is the one that is farthest from the goal, of those that count if there are any.
        marks.sort_by(|a, b| a.0.counts.cmp(&b.0.counts).then(a.0.excess().total_cmp(&b.0.excess())));
        let counted = marks.iter().filter(|(mark, _)| mark.counts);
        let reached = counted.clone().filter(|(mark, _)| mark.is_reached()).count();
        let (mark, seed) = marks[marks.len() - 1];
        let result = match (mark.counts, mark.is_reached()) {
            (false, _) => Cell::from("does not count"),
            (true, true) => Cell::new(Tone::Good, "reached"),
            (true, false) => Cell::new(Tone::Bad, "missed"),
        };
        vec![
            <&str>::from(mark.goal.figure).into(),
            mark.from.to_string().into(),
            mark.to.to_string().into(),
            format!("<= {}", mark.goal.within.end()).into(),
            format!("{reached} of {}", counted.count()).into(),
            mark.value.map_or_else(|| "none".to_owned(), number).into(),
            number(mark.most).into(),
            seed.to_string().into(),
            result,
        ]
    };
    let head = ["FIGURE", "FROM", "TO", "GOAL", "REACHED", "WORST", "AT MOST", "SEED", ""];
    let marks = all.first().map_or(0, Vec::len);
    Ok(out.print(&table(out.palette, 2, &head, (0..marks).map(row)))?)
}
