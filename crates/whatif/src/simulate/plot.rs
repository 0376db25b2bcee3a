//! A run as an SVG picture: events and the load of each cluster above; demand at the nearest cluster and changed answers below.

use std::fmt::Write as _;

use fairway_model::{Pool, Rank, Spread};

use super::{
    Recording,
    scenario::{Event, FloodSpec, SAMPLES_PER_TTL, Scenario},
};

/// Width of the picture in pixels.
const WIDTH: f64 = 860.0;
/// Height of the picture in pixels.
const HEIGHT: f64 = 430.0;
/// Left edge of both panels. Numbers are left of it.
const LEFT: f64 = 46.0;
/// Right edge of both panels. Names are right of it.
const RIGHT: f64 = 770.0;
/// Colours of the clusters: a palette that colour-blind people can distinguish (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// Colour of the line at the capacity.
const CAPACITY: &str = "#c00";

/// Colour of event lines.
const EVENT: &str = "#777";

/// Largest number of text lines above the upper panel.
const LABEL_LINES_MAX: usize = 3;
/// Height of such a line in pixels.
const LABEL_HEIGHT: f64 = 13.0;

/// Panel of the picture. Its lower edge is at value 0.
struct Panel {
    top: f64,
    bottom: f64,
    /// Value at the upper edge.
    max: f64,
}

/// Draws a run as SVG.
pub fn draw(scenario: &Scenario, recording: &Recording, seed: u64) -> String {
    let highest = recording.samples.iter().flat_map(|s| &s.loads).copied().fold(1.1, f64::max);
    let lines = (scenario.events.len() + recording.schedule_changes.len()).min(LABEL_LINES_MAX);
    let loads = Panel { top: 40.0 + LABEL_HEIGHT * lines as f64, bottom: 260.0, max: highest * 1.05 };
    let parts = Panel { top: 300.0, bottom: 400.0, max: 1.0 };
    let length = scenario.length.as_secs_f64() / scenario.ttl.as_secs_f64();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    text(&mut svg, LEFT, 18.0, "start", &format!("{} (seed {seed})", scenario.title));
    text(&mut svg, LEFT, 33.0, "start", "load, 1 = capacity");
    text(&mut svg, LEFT, 293.0, "start", &legend(recording));
    draw_events(&mut svg, &loads, scenario, recording, lines);
    loads.frame(&mut svg, &[0.25, 0.5, 0.75, 1.0], length);
    parts.frame(&mut svg, &[0.25, 0.5, 0.75], length);
    for (number, cluster) in scenario.clusters.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        loads.line(&mut svg, colour, recording.samples.iter().map(|s| s.loads[number]));
        key(&mut svg, colour, loads.y(1.0) + 24.0 + 16.0 * number as f64, cluster.name.as_str());
    }
    key(&mut svg, CAPACITY, loads.y(1.0) + 4.0, "capacity");
    parts.line(&mut svg, COLOURS[0], recording.samples.iter().map(|s| s.near));
    if loses(recording) {
        parts.line(&mut svg, CAPACITY, recording.samples.iter().map(|s| s.lost));
        key(&mut svg, CAPACITY, 352.0, "lost");
    }
    parts.line(&mut svg, COLOURS[1], churn(recording).into_iter());
    key(&mut svg, COLOURS[0], 320.0, "near");
    key(&mut svg, COLOURS[1], 336.0, "changed");
    svg.push_str("</svg>\n");
    svg
}

fn legend(recording: &Recording) -> String {
    let lost = if loses(recording) { "; part that is lost" } else { "" };
    format!("part of the demand at its nearest cluster{lost}; answers changed without need, x10")
}

fn loses(recording: &Recording) -> bool {
    recording.samples.iter().any(|sample| sample.lost > 0.0)
}

/// Draws a line for each event, with its label above the panel. Neighbouring labels are on different text lines.
fn draw_events(svg: &mut String, panel: &Panel, scenario: &Scenario, recording: &Recording, lines: usize) {
    let length = scenario.length.as_secs_f64() / scenario.ttl.as_secs_f64();
    let ttls = |at: std::time::Duration| at.as_secs_f64() / scenario.ttl.as_secs_f64();
    let name = |cluster: usize| scenario.clusters[cluster].name.as_str();
    let mut pool = &scenario.pools[0];
    let events = scenario.events.iter().map(|(at, event)| {
        let before = pool;
        if let Event::Pool(number) = event {
            pool = &scenario.pools[*number];
        }
        (ttls(*at), label(scenario, before, *event))
    });
    let changes = recording.schedule_changes.iter().map(|change| {
        let verb = if change.is_open { "opens" } else { "closes" };
        (ttls(change.at), format!("{} {verb}", name(change.cluster)))
    });
    let mut all: Vec<(f64, String)> = events.chain(changes).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (number, (at, label)) in all.iter().enumerate() {
        let (x, bottom) = (LEFT + at / length * (RIGHT - LEFT), panel.bottom);
        let y = panel.top - 4.0 - LABEL_HEIGHT * (lines - 1 - number % lines) as f64;
        let top = y - LABEL_HEIGHT + 4.0;
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"{EVENT}\" stroke-width=\"0.7\" stroke-dasharray=\"3 3\"/>"
        );
        let (x, anchor) = if x > RIGHT - 120.0 { (x - 4.0, "end") } else { (x + 4.0, "start") };
        text(svg, x, y, anchor, label);
    }
}

/// Returns the label of an event; for a new pool its difference to the one before.
fn label(scenario: &Scenario, before: &Pool, event: Event) -> String {
    let name = |cluster: usize| scenario.clusters[cluster].name.as_str();
    match event {
        Event::Dies(cluster) => format!("{} dies", name(cluster)),
        Event::Returns(cluster) => format!("{} returns", name(cluster)),
        Event::Demand(cluster, offered) => format!("demand near {}: {offered} of all", name(cluster)),
        Event::ReportsLost => "reports lost".to_owned(),
        Event::ReportsBack => "reports back".to_owned(),
        Event::Lies(cluster) => format!("{} lies", name(cluster)),
        Event::Honest(cluster) => format!("{} is honest", name(cluster)),
        Event::Freeze(cluster) => format!("reports of {} frozen", name(cluster)),
        Event::Thaw(cluster) => format!("reports of {} correct", name(cluster)),
        Event::Elsewhere(cluster, part) => format!("{:.0} % of {} from elsewhere", part * 100.0, name(cluster)),
        Event::Flood(FloodSpec { per_second: 0, .. }) => "flood ends".to_owned(),
        Event::Flood(FloodSpec { near, per_second, sources: 0 }) => {
            format!("{per_second} forged queries a second near {}", name(near))
        }
        Event::Flood(FloodSpec { near, per_second, sources }) => {
            format!("{per_second} queries a second near {}, {sources} proven sources", name(near))
        }
        Event::Drain(cluster) => format!("{} drained", name(cluster)),
        Event::Undrain(cluster) => format!("{} undrained", name(cluster)),
        Event::Partition(cluster) => format!("{} partitioned", name(cluster)),
        Event::Heal(cluster) => format!("{} healed", name(cluster)),
        Event::Restart | Event::RestartBlank => "restart".to_owned(),
        Event::Pool(pool) => pool_changes(before, &scenario.pools[pool]),
        Event::Measured(error) => format!("new table, ±{:.0} %", error * 100.0),
    }
}

/// Describes the difference between two pools.
fn pool_changes(before: &Pool, after: &Pool) -> String {
    let mut changes = Vec::new();
    if before.policy.to_string() != after.policy.to_string() {
        changes.push(format!("policy: {}", after.policy));
    }
    let tolerance = |pool: &Pool| {
        pool.policy
            .ranks
            .iter()
            .find_map(|rank| if let Rank::Latency { tolerance } = rank { Some(*tolerance) } else { None })
    };
    if let Some(tolerance) = tolerance(after).filter(|now| tolerance(before) != Some(*now)) {
        changes.push(format!("tolerance: {} ms", tolerance.as_millis()));
    }
    if before.answers != after.answers {
        changes.push(format!("answers: {}", after.answers));
    }
    if before.spread != after.spread {
        changes.push(format!("spread: {}", if after.spread == Spread::Query { "query" } else { "client" }));
    }
    let weights = |pool: &Pool| pool.members.iter().map(|member| member.weight.0.to_string()).collect::<Vec<_>>();
    if weights(before) != weights(after) {
        changes.push(format!("weights: {}", weights(after).join(" ")));
    }
    if changes.is_empty() { "another pool".to_owned() } else { changes.join("; ") }
}

/// Returns for each sample the part of the answers that changed without need within the last TTL. It is multiplied by 10, so that one
/// percent is visible.
fn churn(recording: &Recording) -> Vec<f64> {
    let before = |at: usize| at.checked_sub(SAMPLES_PER_TTL as usize).map_or((0, 0), |at| recording.answers[at]);
    let changed = |(at, now): (usize, &(u64, u64))| {
        let before = before(at);
        (10.0 * (now.1 - before.1) as f64 / (now.0 - before.0).max(1) as f64).min(1.0)
    };
    recording.answers.iter().enumerate().map(changed).collect()
}

impl Panel {
    fn y(&self, value: f64) -> f64 {
        self.bottom - value.clamp(0.0, self.max) / self.max * (self.bottom - self.top)
    }

    fn frame(&self, svg: &mut String, values: &[f64], length: f64) {
        for value in values {
            let (y, colour) = (self.y(*value), if *value == 1.0 { CAPACITY } else { "#ddd" });
            let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"{colour}\" stroke-width=\"0.7\"/>");
            text(svg, LEFT - 5.0, y + 4.0, "end", &value.to_string());
        }
        let _ =
            writeln!(svg, "<path d=\"M{LEFT} {}V{}H{RIGHT}\" fill=\"none\" stroke=\"#333\"/>", self.top, self.bottom);
        let step = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0].into_iter().find(|step| length / step <= 12.0);
        let step = step.unwrap_or(length);
        let mut at = 0.0;
        while at <= length {
            let x = LEFT + at / length * (RIGHT - LEFT);
            text(svg, x, self.bottom + 13.0, "middle", &format!("{at} TTL"));
            at += step;
        }
    }

    fn line(&self, svg: &mut String, colour: &str, values: impl ExactSizeIterator<Item = f64>) {
        let last = values.len().saturating_sub(1).max(1) as f64;
        let point =
            |(at, value): (usize, f64)| format!("{:.1},{:.1}", LEFT + at as f64 / last * (RIGHT - LEFT), self.y(value));
        // Every fourth sample: more points than pixels cannot be seen.
        let points: Vec<String> = values.enumerate().step_by(4).map(point).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.2\"/>",
            points.join(" ")
        );
    }
}

/// Draws the name of a colour, right of a panel.
fn key(svg: &mut String, colour: &str, y: f64, name: &str) {
    let (x, above) = (RIGHT + 8.0, y - 5.0);
    let _ = writeln!(svg, "<rect x=\"{x}\" y=\"{above:.1}\" width=\"10\" height=\"3\" fill=\"{colour}\"/>");
    text(svg, RIGHT + 22.0, y, "start", name);
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}
