//! Flips and force into runtime state, and what is said about them.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use fairway_health::HealthTransition;
use fairway_model::{Health, HealthStatus};
use fairway_zones::TargetIndex;

use super::{AppliedTransition, actor::Actor};

impl Actor {
    /// Folds every flip that waits into one change of runtime state, publishes it, and then tells of each.
    pub fn apply_flips(&mut self) {
        let transitions = std::mem::take(&mut self.waiting);
        let published = self.shared.serving.published();
        let uses = &published.configured.uses;
        let changes: Vec<(TargetIndex, Health)> = transitions
            .iter()
            .filter_map(|transition| {
                let number = uses.number_of(&transition.target)?;
                Some((number, Health::new(transition.to, self.forced[number.0 as usize])))
            })
            .collect();
        self.change_conditions(&changes);
        let applied = SystemTime::now();
        for transition in transitions {
            self.shared.counts.transition(transition.to);
            let number = uses.number_of(&transition.target);
            let event = AppliedTransition {
                clusters: number.map(|n| uses.clusters(n)).unwrap_or_default(),
                pools: number.map(|n| uses.pools(n).clone()).unwrap_or_default(),
                transition,
                applied,
            };
            log(&event);
            // Nobody listening is no fault.
            let _ = self.shared.transitions.send(event);
        }
        self.keeper.health_changed();
    }

    /// Publishes the runtime state with these changes, if there is any.
    pub fn change_conditions(&mut self, changes: &[(TargetIndex, Health)]) {
        if changes.is_empty() {
            return;
        }
        let view = self.shared.serving.load();
        let runtime = Arc::new(view.runtime.with(&view.snapshot, changes));
        // A cluster that came or went changes the shares of the others at once, and not a report later; who asked until then counts.
        let now = Instant::now();
        self.take_asked(&view, now);
        let balanced = self.balance.look(&view.snapshot, &runtime, now);
        let runtime = balanced.map_or(runtime, Arc::new);
        let paced = self.pacer.pace(&view.snapshot, &runtime, &self.balance, (now, (self.clock)()));
        self.publish_runtime(&view, paced.map_or(runtime, Arc::new));
    }

    /// Brings what is forced in line with the overrides.
    pub fn apply_force(&mut self) {
        let published = self.shared.serving.published();
        let forced = published.book.forced(&published.configured.uses);
        let view = self.shared.serving.load();
        let numbers = (0..).map(TargetIndex);
        let changes: Vec<_> = numbers
            .zip(self.forced.iter().zip(&forced))
            .filter(|(_, (before, after))| before != after)
            .map(|(number, (_, after))| (number, Health::new(view.runtime.health(number).status(), *after)))
            .collect();
        self.forced = forced;
        self.change_conditions(&changes);
        self.watch_drains();
    }
}

/// One line a flip. The first good verdict of a target is no news; anything else is.
fn log(event: &AppliedTransition) {
    let AppliedTransition { transition: HealthTransition { target, from, to, cause, .. }, clusters, pools, .. } = event;
    let (clusters, pools) = (some(clusters), some(pools.keys()));
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                address = %target.address, monitor = %target.label, clusters, pools, %from, %to, %cause, "health changed"
            )
        };
    }
    match (from, to) {
        (HealthStatus::Pending, HealthStatus::Up) => line!(debug),
        (_, HealthStatus::Up) => line!(info),
        _ => line!(warn),
    }
}

/// Names with commas between; of many the first, and how many more there are.
fn some<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let mut names = names.into_iter();
    let listed: Vec<String> = names.by_ref().take(LISTED_MAX).map(|name| name.to_string()).collect();
    match names.count() {
        0 => listed.join(","),
        more => format!("{} and {more} more", listed.join(",")),
    }
}

/// Names in a line of the log.
const LISTED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_eight_names_at_most() {
        assert_eq!(some(["shop", "pay"]), "shop,pay");
        assert_eq!(some(1..=8), "1,2,3,4,5,6,7,8");
        assert_eq!(some(1..=15_000), "1,2,3,4,5,6,7,8 and 14992 more");
        assert_eq!(some([""; 0]), "");
    }
}
