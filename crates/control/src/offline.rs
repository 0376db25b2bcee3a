//! The view that files alone would give, for `fairway explain --config`, `check --impact` and `replay`: nothing is probed, nothing
//! is bound.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use fairway_model::{ClusterName, DesiredState, Diagnostic, Health, HealthStatus};
use fairway_zones::{RuntimeState, ServingState, TargetIndex};

use super::{
    compile::Compiled,
    configured::{Reader, What},
    reload::view_of,
};
use fairway_config::Environment;
use fairway_config::Source;

/// A configuration as it would answer, and what it wishes for.
#[derive(Debug)]
pub struct Offline {
    /// What would be served.
    pub view: ServingState,
    /// What is wished for.
    pub desired: Arc<DesiredState>,
    /// The targets of each cluster, by number.
    targets: HashMap<ClusterName, Vec<TargetIndex>>,
}

impl Offline {
    /// The same whatever the time is: every member is open.
    pub fn at_any_time(self) -> Self {
        let ServingState { snapshot, runtime } = self.view;
        let open = RuntimeState::new(&snapshot, |target| runtime.health(target));
        Self { view: ServingState { snapshot, runtime: Arc::new(open) }, ..self }
    }

    /// The runtime state with every target of these clusters down, whoever else is judged by it; what is forced stays forced.
    pub fn without<'a>(&self, clusters: impl IntoIterator<Item = &'a ClusterName>) -> RuntimeState {
        let ServingState { snapshot, runtime } = &self.view;
        let targets = clusters.into_iter().filter_map(|cluster| self.targets.get(cluster)).flatten();
        let down = |target: &TargetIndex| {
            (*target, Health::new(HealthStatus::Down, runtime.health(*target).override_action()))
        };
        runtime.with(snapshot, &targets.map(down).collect::<Vec<_>>())
    }
}

/// Reads and compiles a configuration, and judges each target by one of the clusters it speaks for.
///
/// Overrides of the configuration hold, and members are open or closed, as they would in a daemon that starts now.
pub fn of_files(
    source: &Source,
    environment: &Environment,
    judge: impl Fn(&ClusterName) -> HealthStatus,
) -> Result<Offline, Vec<Diagnostic>> {
    let reader = Reader { source: source.clone(), environment: environment.clone(), declared: Arc::default() };
    let now = SystemTime::now().into();
    let Compiled { configured, snapshot, .. } = reader.read_here(What::Files, None, now).outcome?;
    let numbered = (0..).map(TargetIndex).zip(snapshot.targets());
    let mut targets: HashMap<_, Vec<_>> = HashMap::new();
    let mut statuses = HashMap::new();
    for (number, target) in numbered {
        let clusters = configured.uses.clusters(number);
        statuses.insert(target.clone(), clusters.first().map_or(HealthStatus::Pending, &judge));
        clusters.into_iter().for_each(|cluster| targets.entry(cluster).or_default().push(number));
    }
    let book = super::book::Book::new(configured.overrides.clone(), vec![]);
    let forced = book.forced(&configured.uses);
    Ok(Offline { view: view_of(snapshot, None, now, &statuses, &forced), desired: configured.merged.desired, targets })
}
