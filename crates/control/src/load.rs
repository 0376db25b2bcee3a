//! Load of clusters in the daemon: what is pushed, and how it is shown.

use fairway_health::load::{ClusterLoad, PushError, PushedLoad, SourceLoad};

use super::{Control, ControlError};
use fairway_api_types::{load_wire::LoadState, state_wire::ClusterState};

impl Control {
    /// Takes a load that somebody reports; returns how it stands then.
    pub async fn push_load(&self, cluster: &str, push: PushedLoad) -> Result<LoadState, ControlError> {
        let loads = &self.shared.loads;
        loads.push(cluster, push).await.map_err(|error| match error {
            PushError::Stopped => ControlError::Stopped,
            PushError::Unknown(..) => ControlError::NoSuchCluster(error.to_string()),
            PushError::NoCapacity(_) | PushError::Sequence { .. } => ControlError::LoadRefused(error.to_string()),
        })?;
        let (states, _) = loads.states().await;
        let state = states.into_iter().find(|state| state.cluster.as_str() == cluster);
        let word = state.as_ref().and_then(|state| state.sources.first());
        Ok(word.map(shown).unwrap_or_default())
    }
}

/// Adds to clusters in order of name what is known of their load.
pub(crate) fn add(clusters: &mut [ClusterState], loads: &[ClusterLoad]) {
    for load in loads {
        let Ok(place) = clusters.binary_search_by(|cluster| cluster.name.as_str().cmp(load.cluster.as_str())) else {
            continue;
        };
        let cluster = &mut clusters[place];
        cluster.load = load.sources.iter().map(shown).collect();
        cluster.warnings = load.warnings.iter().map(ToString::to_string).collect();
        cluster.exhausted = load.is_exhausted;
    }
}

fn shown(said: &SourceLoad) -> LoadState {
    LoadState {
        source: said.source.clone(),
        permille: said.load.map(|(load, _)| load.0),
        signal: said.load.map(|(_, signal)| signal.to_string()),
        age_ms: said.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        status: said.status.as_str().to_owned(),
        failure: said.failure.clone(),
        gateways_answering: said.gateways.map(|(answering, _)| answering),
        gateways: said.gateways.map(|(_, all)| all),
    }
}
