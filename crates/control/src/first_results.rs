//! Lets one write wait for the first results of its own targets, so that its response shows them.
//!
//! Nothing else waits: the change is in the answers before, and other writes go on.

use std::{collections::HashSet, time::Duration};

use fairway_model::{HealthStatus, Name, PoolName, Target};
use fairway_store::objects::{Key, Kind};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::{Control, Published, configured::Configured, declared::exposed, shared::AppliedTransition};

impl Control {
    /// Waits at most `limit` until the targets that the object at a key added to its pool are evaluated. `before` is the state before the
    /// change; targets that were there before are not waited for, even if they never answered.
    pub async fn first_results(&self, key: &Key, before: &Published, limit: Duration) {
        let mut transitions = self.transitions();
        let pending = self.pending_targets(key, before);
        if !pending.is_empty() {
            // After the limit, the targets stay pending.
            let _ = tokio::time::timeout(limit, evaluated(&mut transitions, pending)).await;
        }
    }

    /// Returns the new targets of an object that were not evaluated yet.
    fn pending_targets(&self, key: &Key, before: &Published) -> HashSet<Target> {
        let current = self.shared.serving.load();
        let uses = &current.published.configured.uses;
        let pool = pool_of(&current.published.configured, key);
        let all = pool.iter().flat_map(|pool| uses.targets_of(pool));
        let pending = all.filter(|number| current.runtime.health(*number).status() == HealthStatus::Pending);
        let targets = pending.filter_map(|number| current.snapshot.targets().get(number.0 as usize));
        targets.filter(|target| before.configured.uses.number_of(target).is_none()).cloned().collect()
    }
}

/// Waits for a transition of each of these targets.
async fn evaluated(transitions: &mut Receiver<AppliedTransition>, mut pending: HashSet<Target>) {
    while !pending.is_empty() {
        match transitions.recv().await {
            Ok(applied) => _ = pending.remove(&applied.transition.target),
            // Lost transitions may have been those that are waited for: the time limit ends the wait.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Returns the pool that an object declares, or the one of the name that it declares.
fn pool_of(configured: &Configured, key: &Key) -> Option<PoolName> {
    let pool_of = |name: &Name| Some(configured.merged.desired.names.get(name)?.pool.clone());
    match key.kind() {
        Kind::Pool => PoolName::new(key.name()).ok(),
        Kind::Name => key.name().parse().ok().and_then(|name| pool_of(&name)),
        _ => exposed(key).and_then(|intent| configured.objects.claimed_by(&intent)).and_then(|name| pool_of(&name)),
    }
}
