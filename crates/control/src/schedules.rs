//! Members that open and close by the clock.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use fairway_zones::MemberTurn;

use super::actor::Actor;

impl Actor {
    /// Publishes the runtime state of the moment, where a member has opened or closed, or the clock was set; tells of each
    /// member.
    ///
    /// A look at the clock, and nothing else, until one is due.
    pub fn follow_schedules(&mut self) {
        let now = (self.clock)();
        let view = self.shared.serving.load();
        let Some(runtime) = view.runtime.at(&view.snapshot, now) else { return };
        let turned = runtime.turned(&view.snapshot, &view.runtime);
        // A cluster that came or went changes the shares of the others at once, and not a report later.
        let runtime = Arc::new(runtime);
        let balanced = self.balance.look(&view.snapshot, &runtime, Instant::now());
        self.publish_runtime(&view, balanced.map_or(runtime, Arc::new));
        for MemberTurn { pool, cluster, turn } in turned {
            let is_open = turn.turn.open;
            self.shared.counts.turns[usize::from(is_open)].fetch_add(1, Relaxed);
            let to = if is_open { "open" } else { "closed" };
            let until = turn.until.as_deref().unwrap_or_default();
            tracing::info!(%pool, %cluster, to, until, "schedule transition");
        }
    }
}
