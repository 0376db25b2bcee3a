//! The serving state that files alone result in, for `fairway explain --config`, `check --impact` and `replay`. Nothing is probed or bound.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use fairway_config::{Environment, Source};
use fairway_model::{ClusterName, DesiredState, Diagnostic, Health, HealthStatus};
use fairway_zones::{RuntimeState, ServingState, TargetIndex};

use fairway_control::{
    configured::{Compiled, Configured},
    overrides::OverrideTable,
    reader::Reader,
    reloads::ReloadScope,
    serving_state,
};

/// A configuration as it would be served.
#[derive(Debug)]
pub struct Offline {
    /// The serving state.
    pub view: ServingState,
    /// Declarations of the files.
    pub desired: Arc<DesiredState>,
    /// Overrides of the files.
    pub overrides: OverrideTable,
    /// The configuration.
    pub configured: Configured,
    /// Targets of each cluster.
    targets: HashMap<ClusterName, Vec<TargetIndex>>,
}

impl Offline {
    /// Returns the same without schedules: every member is open.
    pub fn at_any_time(self) -> Self {
        let ServingState { snapshot, runtime } = self.view;
        let open = RuntimeState::new(&snapshot, |target| runtime.health(target));
        Self { view: ServingState { snapshot, runtime: Arc::new(open) }, ..self }
    }

    /// Returns the runtime state with every target of these clusters down, including targets that they share with others. Overrides stay.
    pub fn without<'a>(&self, clusters: impl IntoIterator<Item = &'a ClusterName>) -> RuntimeState {
        let ServingState { snapshot, runtime } = &self.view;
        let targets = clusters.into_iter().filter_map(|cluster| self.targets.get(cluster)).flatten();
        let down = |target: &TargetIndex| (*target, runtime.health(*target).with_status(HealthStatus::Down));
        runtime.with(snapshot, &targets.map(down).collect::<Vec<_>>())
    }
}

/// Reads and compiles a configuration. `status` returns the health status of a cluster; a target has that of its first cluster.
///
/// Overrides and schedules of the configuration are in force as in a server that starts now.
pub fn of_files(
    source: &Source,
    environment: &Environment,
    status: impl Fn(&ClusterName) -> HealthStatus,
) -> Result<Offline, Vec<Diagnostic>> {
    let now = SystemTime::now().into();
    let reader = Reader::new(source.clone(), environment.clone());
    let Compiled { configured, snapshot, .. } = reader.read_here(ReloadScope::Files, None, now).outcome?;
    let mut targets: HashMap<_, Vec<_>> = HashMap::new();
    let mut statuses = Vec::new();
    for index in configured.uses.targets_all() {
        let clusters = configured.uses.clusters(index);
        statuses.push(clusters.first().map_or(HealthStatus::Pending, &status));
        for cluster in clusters {
            targets.entry(cluster).or_default().push(index);
        }
    }
    let overrides = OverrideTable { declared: configured.overrides.clone(), ..OverrideTable::default() };
    let actions = overrides.actions(&configured.uses);
    let view = serving_state(snapshot, None, now, |target| {
        Health::new(statuses[target.0 as usize], actions[target.0 as usize])
    });
    let desired = Arc::clone(&configured.merged.desired);
    Ok(Offline { view, desired, overrides, configured, targets })
}
