//! The table: each mark with what live runs and simulated ones reached, and how far the simulator is from the truth.

use std::{fmt::Write as _, time::Duration};

use fairway_whatif::simulate::{
    Reached, Runs,
    scenario::{Figure, Mark, Scenario},
};

use crate::{Conduct, Judged};

/// How far the simulator's median peak may be from the live one.
const APART_MAX: f64 = 0.10;
/// Part of a TTL that this program may be late without the figures being worth less.
const LATE_MAX: f64 = 0.1;

/// The whole page, in Markdown.
pub(crate) fn text(all: &[Judged], conduct: &Conduct, ttl: u64) -> String {
    let mut text = String::from(
        "| scenario | figure | TTLs | asked | live worst (seed) | live median | simulated worst | median | |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for judged in all {
        for (place, mark) in judged.scenario.marks.iter().enumerate() {
            text += &row(judged, place, mark);
        }
    }
    text +=
        "\n| scenario | p99 of the second half: live median | simulated median | apart | |\n|---|---|---|---|---|\n";
    for judged in all {
        text += &peaks(judged);
    }
    text += &conduct_of(conduct, ttl);
    text
}

fn row(judged: &Judged, place: usize, mark: &Mark) -> String {
    let ttls = |at: Duration| at.as_secs_f64() / judged.scenario.ttl.as_secs_f64();
    let reached = |runs: &Option<Runs>| runs.as_ref().map(|runs| runs.marks[place].clone());
    let (live, simulated) = (reached(&judged.live), reached(&judged.simulated));
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
    let verdict = match holds {
        [true, true] => "reached",
        [false, true] => "**missed live**",
        [true, false] => "**missed simulated**",
        [false, false] => "**missed**",
    };
    format!(
        "| {} | {} | {:.0}–{:.0} | {} | {} | {} | {} | {} | {verdict} |\n",
        judged.name,
        mark.figure.shown(&judged.scenario),
        ttls(mark.from),
        ttls(mark.to),
        asked(mark),
        worst(&live),
        median(&judged.live),
        worst(&simulated),
        median(&judged.simulated),
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

fn peaks(judged: &Judged) -> String {
    let peak = |runs: &Option<Runs>, length: Duration| {
        runs.as_ref().and_then(|runs| median(runs, Figure::Peak, length / 2, length))
    };
    // Live runs take their own time: the whole of it is long enough for both.
    let length = |runs: &Option<Runs>, scenario: &Scenario| {
        let last = runs.as_ref().and_then(|runs| runs.recordings.first()?.1.samples.last().map(|sample| sample.at));
        last.unwrap_or(scenario.length)
    };
    let live = peak(&judged.live, length(&judged.live, &judged.scenario));
    let simulated = peak(&judged.simulated, judged.scenario.length);
    let apart = live.zip(simulated).map(|(live, simulated)| (live - simulated).abs());
    let verdict = apart.map_or("", |apart| if apart <= APART_MAX { "reached" } else { "**missed**" });
    format!("| {} | {} | {} | {} | {verdict} |\n", judged.name, value(live), value(simulated), value(apart))
}

/// What says whether the live figures are worth anything.
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
