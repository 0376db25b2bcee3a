//! The table: each mark with what live runs and simulated ones reached, and how far the simulator is from the live runs.

use std::{fmt::Write as _, time::Duration};

use fairway_whatif::simulate::{
    Reached, Runs,
    scenario::{Figure, Mark, Scenario},
};

use crate::{Conduct, Played};

/// Largest difference between the simulator's median peak and the live one.
const APART_MAX: f64 = 0.10;
/// Part of a TTL that this program may be late without the figures being worth less.
const LATE_MAX: f64 = 0.1;

/// The whole page, in Markdown.
pub(crate) fn text(all: &[Played], conduct: &Conduct, ttl: u64) -> String {
    let mut text = String::from(
        "| scenario | figure | TTLs | asked | live worst (seed) | live median | simulated worst | median | |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for played in all {
        for (place, mark) in played.scenario.marks.iter().enumerate() {
            text += &row(played, place, mark);
        }
    }
    text +=
        "\n| scenario | p99 of the second half: live median | simulated median | apart | |\n|---|---|---|---|---|\n";
    for played in all {
        text += &peaks(played);
    }
    text += &conduct_of(conduct, ttl);
    text
}

fn row(played: &Played, place: usize, mark: &Mark) -> String {
    let ttls = |at: Duration| at.as_secs_f64() / played.scenario.ttl.as_secs_f64();
    let reached = |runs: &Option<Runs>| runs.as_ref().map(|runs| runs.marks[place].clone());
    let (live, simulated) = (reached(&played.live), reached(&played.simulated));
    let worst = |reached: &Option<Reached>| {
        let worst = |reached: &Reached| format!("{} ({})", value(reached.worst), reached.seed);
        reached.as_ref().map_or_else(String::new, worst)
    };
    let median = |runs: &Option<Runs>| {
        let median = |runs: &Runs| {
            let mark = &runs.marks[place].mark;
            value(median(runs, mark.figure, mark.from, mark.to))
        };
        runs.as_ref().map_or_else(String::new, median)
    };
    let holds = [&live, &simulated].map(|reached| reached.as_ref().is_none_or(Reached::holds));
    let result = match holds {
        [true, true] => "reached",
        [false, true] => "**missed live**",
        [true, false] => "**missed simulated**",
        [false, false] => "**missed**",
    };
    format!(
        "| {} | {} | {:.0}–{:.0} | {} | {} | {} | {} | {} | {result} |\n",
        played.name,
        mark.figure.shown(&played.scenario),
        ttls(mark.from),
        ttls(mark.to),
        asked(mark),
        worst(&live),
        median(&played.live),
        worst(&simulated),
        median(&played.simulated),
    )
}

fn asked(mark: &Mark) -> String {
    let (least, most) = (*mark.within.start(), *mark.within.end());
    match (least.is_finite(), most.is_finite()) {
        (true, true) => format!("{least} to {most}"),
        (true, false) => format!("≥ {least}"),
        _ => format!("≤ {most}"),
    }
}

fn value(value: Option<f64>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| format!("{value:.3}"))
}

/// The middle one of all seeds; none where a run has no such figure.
fn median(runs: &Runs, figure: Figure, from: Duration, to: Duration) -> Option<f64> {
    let values = runs.recordings.iter().map(|(_, recording)| recording.figure(figure, from, to));
    let mut values: Vec<f64> = values.collect::<Option<_>>()?;
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

fn peaks(played: &Played) -> String {
    let peak = |runs: &Option<Runs>, length: Duration| {
        runs.as_ref().and_then(|runs| median(runs, Figure::Peak, length / 2, length))
    };
    // Live runs take their own time: the whole of it is long enough for both.
    let length = |runs: &Option<Runs>, scenario: &Scenario| {
        let last = runs.as_ref().and_then(|runs| runs.recordings.first()?.1.samples.last().map(|sample| sample.at));
        last.unwrap_or(scenario.length)
    };
    let live = peak(&played.live, length(&played.live, &played.scenario));
    let simulated = peak(&played.simulated, played.scenario.length);
    let apart = live.zip(simulated).map(|(live, simulated)| (live - simulated).abs());
    let result = apart.map_or("", |apart| if apart <= APART_MAX { "reached" } else { "**missed**" });
    format!("| {} | {} | {} | {} | {result} |\n", played.name, value(live), value(simulated), value(apart))
}

/// Returns lines that show if the live figures are usable.
fn conduct_of(conduct: &Conduct, ttl: u64) -> String {
    let mut text = String::new();
    if let Some(most) = conduct.held_up.iter().max() {
        let limit = Duration::from_secs(ttl).mul_f64(LATE_MAX);
        let late = conduct.held_up.iter().filter(|held_up| **held_up > limit).count();
        let _ = writeln!(
            text,
            "\nTTL {ttl} s live. Of {} live runs {late} were held up by the machine for over {limit:?} (at most {most:?}); \
             {} questions were asked again.",
            conduct.held_up.len(),
            conduct.lost,
        );
    }
    for failure in &conduct.failures {
        let _ = writeln!(text, "\n**Not played**: {failure}");
    }
    text
}
