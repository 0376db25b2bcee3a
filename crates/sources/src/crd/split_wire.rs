//! TrafficSplit of SMI, version v1alpha4, as JSON.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use serde_json::Value;

use super::lenient_wire::{List, Maybe, Share};
use crate::objects::TrafficSplit;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TrafficSplitSpec {
    service: Maybe<String>,
    backends: List<SplitBackend>,
    matches: List<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SplitBackend {
    service: Maybe<String>,
    weight: Share,
}

/// Returns the fields of a TrafficSplit that matter. Weights of one Service add up.
pub(crate) fn traffic_split(spec: TrafficSplitSpec) -> TrafficSplit {
    let mut backends = BTreeMap::<Arc<str>, u32>::new();
    for SplitBackend { service, weight } in spec.backends {
        let Some(service) = service.0.filter(|name| !name.is_empty()) else { continue };
        let sum = backends.entry(service.into()).or_default();
        *sum = sum.saturating_add(weight.or(0));
    }
    TrafficSplit {
        service: spec.service.0.unwrap_or_default().into(),
        backends: backends.into_iter().collect(),
        has_matches: !spec.matches.0.is_empty(),
    }
}
