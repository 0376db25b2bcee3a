//! Events on random geometries, with the goals that `bench/scenarios` sets for the same event.
//!
//! There the goals are for one geometry. On another one they count relative to what is possible: see [`Mark`].

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Recording, random, read, run, run_with_optima,
    scenario::{Clients, Deployment, Figure, Goal, Scenario},
};

/// An event on a random geometry. It happens to the cluster that most clients are near to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// The cluster dies while 60 % of the capacity is offered, and returns.
    Death,
    /// The demand near the cluster grows from 60 to 80 % of the capacity in all.
    Step,
    /// The load reports of all clusters are lost for 20 TTLs.
    Reports,
    /// The cluster reports 0.
    Liar,
    /// The cluster reports its last load for ever.
    Frozen,
    /// The cluster is drained.
    Drain,
    /// The server restarts with its state.
    RestartKept,
    /// The server restarts without its state.
    RestartBlank,
}

/// Result of one goal in one run.
///
/// - Loads (`peak`, `highest`) count relative to the optimum: the goal is that of the scenario, plus what the highest load of the optimum
///   in that time is over 0.85, which is about that of the scenarios.
/// - `offSplit` may be that of the scenario, or 2.5 standard deviations of a random division of the networks, if that is more.
/// - `slope`, `turns` and `churn` count if the same run without the event reaches the goal.
/// - `drainError` counts as it is.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The goal of the scenario.
    pub goal: Goal,
    /// Start of its part of the run, in TTLs.
    pub from: u32,
    /// End of its part of the run, in TTLs.
    pub to: u32,
    /// Largest value that reaches it here.
    pub most: f64,
    /// The value; `None` if the run has no such figure.
    pub value: Option<f64>,
    /// True if the goal counts for this run.
    pub counts: bool,
}

impl Mark {
    /// True if the goal does not count, or is reached.
    pub fn is_reached(&self) -> bool {
        !self.counts || self.value.is_some_and(|value| value <= self.most)
    }

    /// Returns how far the value is over the goal; infinite without a value.
    pub fn excess(&self) -> f64 {
        self.value.map_or(f64::INFINITY, |value| value - self.most)
    }
}

impl Incident {
    /// All incidents, in the order of their rows.
    pub const ALL: [Self; 8] = [
        Self::Death,
        Self::Step,
        Self::Reports,
        Self::Liar,
        Self::Frozen,
        Self::Drain,
        Self::RestartKept,
        Self::RestartBlank,
    ];

    /// Returns one line about it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Death => "a cluster dies at 60 % offered, and returns",
            Self::Step => "demand near a cluster grows from 60 to 80 %",
            Self::Reports => "load reports are lost for 20 TTLs at 45 % offered, then back",
            Self::Liar => "a gateway reports 0 at 75 % offered",
            Self::Frozen => "a gateway reports its last load for ever, at 75 % offered",
            Self::Drain => "a cluster is drained at 60 % offered",
            Self::RestartKept => "restart with kept state at 75 % offered",
            Self::RestartBlank => "restart without state at 75 % offered",
        }
    }

    /// Returns the length in TTLs, the offered part, and if the demand swings within the hour. Where the event is about a part of the
    /// capacity, it does not, so that the event finds that part.
    const fn setting(self) -> (u32, f64, bool) {
        match self {
            Self::Death => (70, 0.6, false),
            Self::Step => (50, 0.6, false),
            Self::Drain => (40, 0.6, false),
            Self::Reports => (65, 0.45, true),
            Self::Liar | Self::RestartBlank => (50, 0.75, true),
            Self::Frozen => (60, 0.75, true),
            Self::RestartKept => (40, 0.75, true),
        }
    }

    /// Returns the events, and each goal as figure, start, end and largest value.
    fn events(self, cluster: &Value) -> (Value, &'static [(&'static str, u32, u32, f64)]) {
        match self {
            Self::Death => (
                json!([{ "at": 25, "dies": cluster }, { "at": 40, "returns": cluster }]),
                &[("peak", 25, 40, 1.0), ("highest", 25, 40, 1.1), ("highest", 40, 70, 1.0)],
            ),
            Self::Step => (
                json!([{ "at": 25, "demand": { "near": cluster, "offered": 0.8 } }]),
                &[("highest", 28, 50, 1.0), ("highest", 30, 50, 0.95), ("turns", 30, 50, 0.0)],
            ),
            Self::Reports => (
                json!([{ "at": 25, "reports": "lost" }, { "at": 45, "reports": "back" }]),
                &[
                    ("slope", 25, 45, 0.1),
                    ("offSplit", 40, 45, 0.03),
                    ("slope", 45, 65, 0.2),
                    ("highest", 45, 65, 0.95),
                ],
            ),
            Self::Liar => (json!([{ "at": 20, "lies": cluster }]), &[("highest", 20, 50, 1.0)]),
            Self::Frozen => (json!([{ "at": 20, "freeze": cluster }]), &[("highest", 20, 60, 1.0)]),
            Self::Drain => {
                (json!([{ "at": 25, "drain": cluster }]), &[("highest", 25, 40, 1.0), ("drainError", 25, 40, 0.1)])
            }
            Self::RestartKept => {
                (json!([{ "at": 25, "restart": "kept" }]), &[("highest", 25, 40, 1.0), ("churn", 25, 40, 0.02)])
            }
            Self::RestartBlank => (json!([{ "at": 25, "restart": "blank" }]), &[("highest", 25, 50, 1.1)]),
        }
    }

    /// Draws the scenario of a seed.
    ///
    /// # Errors
    ///
    /// The error of [`read`]: a wrong list of servers.
    pub fn draw(self, seed: u64, deployment: &Deployment) -> Result<Scenario, String> {
        let (length, offered, swings) = self.setting();
        let mut file = random::file(seed);
        let (events, goals) = self.events(&random::busiest(&file));
        let goal = |(figure, from, to, most): &(&str, u32, u32, f64)| json!({ "figure": figure, "from": from, "to": to, "atMost": most });
        file["goals"] = goals.iter().map(goal).collect();
        file["events"] = events;
        file["length"] = json!(length);
        file["offered"] = json!(offered);
        deployment.write(&mut file);
        if !swings {
            file["clients"]["swing"] = json!(0.0);
        }
        read(file)
    }

    /// Runs the scenario of a seed, and compares it with the goals.
    pub fn run(self, scenario: &Scenario, seed: u64) -> Vec<Mark> {
        let recording = run_with_optima(scenario, seed);
        let needs_quiet = |goal: &Goal| matches!(goal.figure, Figure::Slope | Figure::Turns | Figure::Churn);
        let quiet = scenario.goals.iter().any(needs_quiet).then(|| run(&self.without_event(scenario), seed));
        let mark = |goal: &Goal| {
            let Goal { figure, from, to, .. } = *goal;
            let most = *goal.within.end();
            let most = match figure {
                Figure::Peak | Figure::Highest => most + (optimum_peak(&recording, from, to) - ORDINARY_PEAK).max(0.0),
                Figure::OffSplit => most.max(2.5 * deviation(scenario)),
                _ => most,
            };
            let is_quiet = |quiet: &Recording| quiet.figure(figure, from, to).is_some_and(|value| value <= most);
            let counts = !needs_quiet(goal) || quiet.as_ref().is_some_and(is_quiet);
            let ttls = |at: Duration| at.div_duration_f64(scenario.ttl).round() as u32;
            let value = recording.figure(figure, from, to);
            Mark { goal: goal.clone(), from: ttls(from), to: ttls(to), most, value, counts }
        };
        scenario.goals.iter().map(mark).collect()
    }

    /// Returns the scenario without its event; with the demand after the event, if that changes it.
    fn without_event(self, scenario: &Scenario) -> Scenario {
        let offered = if self == Self::Step { 0.8 } else { scenario.offered };
        Scenario { events: Vec::new(), offered, ..scenario.clone() }
    }
}

/// Returns the highest load of the optimum in a part of the run.
fn optimum_peak(recording: &Recording, from: Duration, to: Duration) -> f64 {
    let part = recording.optima.iter().filter(|(at, _)| (from..=to).contains(at));
    part.map(|(_, optimum)| optimum.peak).fold(0.0, f64::max)
}

/// Returns the largest standard deviation of a cluster's part of the demand, if each network is at a cluster at random, with a probability
/// proportional to the capacity.
fn deviation(scenario: &Scenario) -> f64 {
    let Clients { networks, zipf, .. } = scenario.clients;
    let (sum, squares) = (1..=networks)
        .map(|number| f64::from(number).powf(-zipf))
        .fold((0.0, 0.0), |(sum, squares), demand| (sum + demand, squares + demand * demand));
    let part = |capacity: u64| capacity as f64 / scenario.capacity();
    let variance = |part: f64| part * (1.0 - part) * squares / (sum * sum);
    scenario.clusters.iter().map(|cluster| variance(part(cluster.capacity))).fold(0.0, f64::max).sqrt()
}

/// Highest load of the optimum up to which goals for loads count as they are. In `bench/scenarios` it is 0.8 to 0.84.
const ORDINARY_PEAK: f64 = 0.85;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{super::read_file, *};

    #[test]
    fn goals_are_those_of_the_scenarios() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/scenarios");
        for (incident, name) in [
            (Incident::Death, "death"),
            (Incident::Step, "demand-step"),
            (Incident::Reports, "reports-lost"),
            (Incident::Liar, "liar"),
            (Incident::Drain, "drain"),
            (Incident::RestartKept, "restart-kept"),
            (Incident::RestartBlank, "restart-blank"),
        ] {
            let scenario = read_file(&folder.join(name).with_extension("yaml")).unwrap();
            let random = incident.draw(7, &Deployment::one_server()).unwrap();
            let goals = |scenario: &Scenario| -> Vec<_> {
                let ttls = |at: Duration| at.div_duration_f64(scenario.ttl).round();
                scenario.goals.iter().map(|g| (g.figure, ttls(g.from), ttls(g.to), *g.within.end())).collect()
            };
            assert_eq!(goals(&random), goals(&scenario), "{name}");
            assert_eq!(random.offered, scenario.offered, "{name}");
        }
    }

    #[test]
    fn goals_for_loads_are_relative_to_the_optimum_without_the_cluster() {
        let file = json!({
            "version": 1, "title": "test", "ttl": 30, "length": 10, "offered": 0.6, "seeds": [],
            "clusters": [{ "name": "a", "capacity": 100, "near": 0.5 }, { "name": "b", "capacity": 100, "near": 0.5 }],
            "clients": { "networks": 200, "zipf": 0.4 }, "reports": { "every": 10, "late": 0 },
            "events": [{ "at": 4, "dies": "a" }],
            "goals": [
                { "figure": "highest", "from": 1, "to": 3, "atMost": 1.0 },
                { "figure": "highest", "from": 6, "to": 10, "atMost": 1.0 },
                { "figure": "highest", "from": 6, "to": 10, "atMost": 0.8 },
            ],
        });
        let marks = Incident::Death.run(&read(file).unwrap(), 1);
        assert_eq!(marks[0].most, 1.0, "the optimum is below 0.85");
        assert!((marks[1].most - 1.35).abs() < 0.01, "the other cluster carries 1.2: {marks:?}");
        assert_eq!(marks.iter().map(Mark::is_reached).collect::<Vec<_>>(), [true, true, false], "{marks:?}");
    }

    #[test]
    fn goal_counts_only_if_the_run_without_the_event_reaches_it() {
        let slopes = |event: Value| {
            let file = json!({
                "version": 1, "title": "test", "ttl": 30, "length": 6, "offered": 0.4, "seeds": [],
                "clusters": [{ "name": "a", "capacity": 100, "near": 1 }], "events": [event],
                "clients": { "networks": 50, "zipf": 0.4 }, "reports": { "every": 10, "late": 0 },
                "goals": [
                    { "figure": "slope", "from": 0, "to": 6, "atMost": 0.05 },
                    { "figure": "slope", "from": 3, "to": 6, "atMost": 0.05 },
                ],
            });
            let marks = Incident::Reports.run(&read(file).unwrap(), 1);
            marks.iter().map(|mark| (mark.counts, mark.is_reached())).collect::<Vec<_>>()
        };
        // At the start the load grows from nothing with and without the event.
        assert_eq!(slopes(json!({ "at": 4, "reports": "lost" })), [(false, true), (true, true)]);
        assert_eq!(
            slopes(json!({ "at": 4, "demand": { "near": "a", "offered": 0.8 } })),
            [(false, true), (true, false)]
        );
    }
}
