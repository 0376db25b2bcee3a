//! A run as a picture: load of each cluster and what happens above, nearness and changed answers below, in SVG.

use std::fmt::Write as _;

use fairway_model::{Pool, Rank, Spread};

use super::{
    Recording,
    scenario::{Event, Scenario},
};

/// Width of the picture, in pixels.
const WIDTH: f64 = 860.0;
/// Height of the picture.
const HEIGHT: f64 = 430.0;
/// Left edge of both panels; the numbers stand left of it.
const LEFT: f64 = 46.0;
/// Right edge of both panels; the names stand right of it.
const RIGHT: f64 = 770.0;
/// Colours of the clusters, in turn; told apart also by those who see red and green alike (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// Colour of the line that load should stay below.
const CAPACITY: &str = "#c00";

/// Colour of what happens.
const EVENT: &str = "#777";

/// Part of the picture, and the values at its lower and upper edge.
struct Panel {
    top: f64,
    bottom: f64,
    most: f64,
}

/// Draws one run.
pub fn draw(scenario: &Scenario, recording: &Recording, seed: u64) -> String {
    let highest = recording.samples.iter().flat_map(|s| &s.loads).copied().fold(1.1, f64::max);
    let words = (scenario.events.len() + recording.turned.len()).min(WORDS);
    let loads = Panel { top: 40.0 + WORD * words as f64, bottom: 260.0, most: highest * 1.05 };
    let parts = Panel { top: 300.0, bottom: 400.0, most: 1.0 };
    let length = scenario.length.as_secs_f64() / scenario.ttl.as_secs_f64();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    text(&mut svg, LEFT, 18.0, "start", &format!("{} (seed {seed})", scenario.title));
    text(&mut svg, LEFT, 33.0, "start", "load, 1 = capacity");
    text(&mut svg, LEFT, 293.0, "start", &legend(recording));
    happenings(&mut svg, &loads, scenario, recording, words);
    loads.frame(&mut svg, &[0.25, 0.5, 0.75, 1.0], length);
    parts.frame(&mut svg, &[0.25, 0.5, 0.75], length);
    for (place, cluster) in scenario.clusters.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        loads.line(&mut svg, colour, recording.samples.iter().map(|s| s.loads[place]));
        key(&mut svg, colour, loads.y(1.0) + 24.0 + 16.0 * place as f64, cluster.name.as_str());
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
    let lost = if loses(recording) { "; part that comes to nobody" } else { "" };
    format!("part of the demand at its nearest cluster{lost}; answers changed without need, x10")
}

fn loses(recording: &Recording) -> bool {
    recording.samples.iter().any(|sample| sample.lost > 0.0)
}

/// Most lines of words above the panel of loads, for what happens.
const WORDS: usize = 3;
/// Height of each.
const WORD: f64 = 13.0;

/// A line for each thing that happens, with its words above the panel at one of a few heights, so that neighbours can be
/// read.
fn happenings(svg: &mut String, panel: &Panel, scenario: &Scenario, recording: &Recording, words: usize) {
    let length = scenario.length.as_secs_f64() / scenario.ttl.as_secs_f64();
    let ttls = |at: std::time::Duration| at.as_secs_f64() / scenario.ttl.as_secs_f64();
    let name = |place: usize| scenario.clusters[place].name.as_str();
    let mut pool = &scenario.pools[0];
    let events = scenario.events.iter().map(|(at, event)| {
        let before = pool;
        if let Event::Pool(number) = event {
            pool = &scenario.pools[*number];
        }
        (ttls(*at), word(scenario, before, *event))
    });
    let turned = recording.turned.iter();
    let turned = turned.map(|t| (ttls(t.at), format!("{} {}", name(t.place), if t.open { "opens" } else { "closes" })));
    let mut all: Vec<(f64, String)> = events.chain(turned).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (number, (at, word)) in all.iter().enumerate() {
        let (x, bottom) = (LEFT + at / length * (RIGHT - LEFT), panel.bottom);
        let y = panel.top - 4.0 - WORD * (words - 1 - number % words) as f64;
        let top = y - WORD + 4.0;
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"{EVENT}\" stroke-width=\"0.7\" stroke-dasharray=\"3 3\"/>"
        );
        let (x, anchor) = if x > RIGHT - 120.0 { (x - 4.0, "end") } else { (x + 4.0, "start") };
        text(svg, x, y, anchor, word);
    }
}

/// What happens, in a few words; what a pool says otherwise than before.
fn word(scenario: &Scenario, before: &Pool, event: Event) -> String {
    let name = |place: usize| scenario.clusters[place].name.as_str();
    match event {
        Event::Dies(place) => format!("{} dies", name(place)),
        Event::Returns(place) => format!("{} returns", name(place)),
        Event::Demand(place, offered) => format!("demand near {}: {offered} of all", name(place)),
        Event::ReportsLost => "reports lost".to_owned(),
        Event::ReportsBack => "reports back".to_owned(),
        Event::Lies(place) => format!("{} lies", name(place)),
        Event::Honest(place) => format!("{} is honest", name(place)),
        Event::Drain(place) => format!("{} drained", name(place)),
        Event::Undrain(place) => format!("{} taken back", name(place)),
        Event::Partition(place) => format!("{} unseen", name(place)),
        Event::Heal(place) => format!("{} seen", name(place)),
        Event::Restart | Event::RestartBlank => "restart".to_owned(),
        Event::Pool(pool) => changes(before, &scenario.pools[pool]),
        Event::Measured(off) => format!("new table, ±{:.0} %", off * 100.0),
    }
}

/// What a pool says otherwise than one before it.
fn changes(before: &Pool, after: &Pool) -> String {
    let mut said = Vec::new();
    if before.policy.to_string() != after.policy.to_string() {
        said.push(format!("policy: {}", after.policy));
    }
    let tolerance = |pool: &Pool| {
        pool.policy
            .ranks
            .iter()
            .find_map(|rank| if let Rank::Latency { tolerance } = rank { Some(*tolerance) } else { None })
    };
    if let Some(tolerance) = tolerance(after).filter(|now| tolerance(before) != Some(*now)) {
        said.push(format!("tolerance: {} ms", tolerance.as_millis()));
    }
    if before.answers != after.answers {
        said.push(format!("answers: {}", after.answers));
    }
    if before.spread != after.spread {
        said.push(format!("spread: {}", if after.spread == Spread::Query { "query" } else { "client" }));
    }
    let weights = |pool: &Pool| pool.members.iter().map(|member| member.weight.0.to_string()).collect::<Vec<_>>();
    if weights(before) != weights(after) {
        said.push(format!("weights: {}", weights(after).join(" ")));
    }
    if said.is_empty() { "another pool".to_owned() } else { said.join("; ") }
}

/// Part of the answers that changed without need within each TTL, times ten, so that a percent can be seen.
fn churn(recording: &Recording) -> Vec<f64> {
    let before = |at: usize| at.checked_sub(40).map_or((0, 0), |at| recording.answers[at]);
    let changed = |(at, now): (usize, &(u64, u64))| {
        let before = before(at);
        (10.0 * (now.1 - before.1) as f64 / (now.0 - before.0).max(1) as f64).min(1.0)
    };
    recording.answers.iter().enumerate().map(changed).collect()
}

impl Panel {
    fn y(&self, value: f64) -> f64 {
        self.bottom - value.clamp(0.0, self.most) / self.most * (self.bottom - self.top)
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
        // Four points a pixel are more than can be seen.
        let points: Vec<String> = values.enumerate().step_by(4).map(point).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.2\"/>",
            points.join(" ")
        );
    }
}

/// What a colour stands for, right of a panel.
fn key(svg: &mut String, colour: &str, y: f64, name: &str) {
    let (x, above) = (RIGHT + 8.0, y - 5.0);
    let _ = writeln!(svg, "<rect x=\"{x}\" y=\"{above:.1}\" width=\"10\" height=\"3\" fill=\"{colour}\"/>");
    text(svg, RIGHT + 22.0, y, "start", name);
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}
