//! Splits: backends of a name with their weights, of which some stand for other clusters.
//!
//! A Service stands for another cluster if its endpoints are addresses of that cluster's ingress gateway. The graph of one cluster does
//! not know these, so it keeps the backends, and this file assigns them once all clusters are known.

use std::{collections::BTreeMap, net::IpAddr};

use fairway_model::{ClusterName, DeclaredClusters, Name};

use crate::objects::ObjectKey;

/// The backends of a name in one cluster, if some of them may stand for another cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Split {
    /// Time of creation of the object with the weights, in seconds since 1970: of two splits, the older one is used.
    pub created: u64,
    /// The object with the weights.
    pub object: ObjectKey,
    /// False if no weights are declared, as for the paths of an Ingress.
    pub is_weighted: bool,
    /// The backends.
    pub parts: Box<[SplitPart]>,
}

/// A backend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SplitPart {
    /// Its weight.
    pub weight: u64,
    /// Number of its ready endpoints; `None` if it is unknown.
    pub ready: Option<u32>,
    /// Place of its endpoints, if it may be another cluster.
    pub place: Option<Place>,
}

/// The place of endpoints that may be the gateway of another cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Addresses.
    Addresses(Box<[IpAddr]>),
    /// A host name.
    Host(Name),
}

impl Place {
    /// Maximum number of addresses. A Service with more is none of a gateway.
    pub(crate) const ADDRESSES_MAX: usize = crate::objects::Targets::MAX;

    /// Returns the cluster whose gateway has the host name, or addresses; `None` without one, or with several. Other addresses do not
    /// matter: a gateway may have got one that is not known yet.
    fn cluster<'a>(&self, clusters: &'a DeclaredClusters) -> Option<&'a ClusterName> {
        match self {
            Self::Host(host) => clusters.with_host(host),
            Self::Addresses(addresses) => {
                let mut known = addresses.iter().filter_map(|address| clusters.with_address(address));
                let first = known.next()?;
                known.all(|other| other == first).then_some(first)
            }
        }
    }
}

impl Split {
    /// Returns each backend with the cluster that it stands for: `own`, which has the object, unless it is at the gateway of another one.
    fn parts<'a>(
        &'a self,
        own: &'a ClusterName,
        clusters: &'a DeclaredClusters,
    ) -> impl Iterator<Item = (&'a ClusterName, &'a SplitPart)> {
        let cluster = |part: &SplitPart| part.place.as_ref().and_then(|place| place.cluster(clusters)).unwrap_or(own);
        self.parts.iter().map(move |part| (cluster(part), part))
    }

    /// Returns the sum of the weights of each cluster. Returns `None` if it is no split over clusters.
    pub(crate) fn weights(&self, own: &ClusterName, clusters: &DeclaredClusters) -> Option<BTreeMap<ClusterName, u64>> {
        let mut weights = BTreeMap::<ClusterName, u64>::new();
        for (cluster, part) in self.parts(own, clusters) {
            let sum = weights.entry(cluster.clone()).or_default();
            *sum = sum.saturating_add(part.weight);
        }
        (self.is_weighted && weights.len() > 1).then_some(weights)
    }

    /// Returns the number of ready endpoints in the own cluster; `None` if no known backend is ready and one is unknown. Backends with a
    /// weight of 0 count only in a split over clusters: a member of weight 0 is standby, and so it must be known whether it is ready.
    pub(crate) fn ready(&self, own: &ClusterName, clusters: &DeclaredClusters) -> Option<u32> {
        let is_split = self.weights(own, clusters).is_some();
        let is_own = |(cluster, part): &(&ClusterName, &SplitPart)| *cluster == own && (is_split || part.weight > 0);
        let readiness = self.parts(own, clusters).filter(is_own).map(|(_, part)| part.ready);
        readiness.fold(Readiness::new(true), Readiness::with).ready()
    }
}

/// The ready endpoints of several backends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readiness {
    /// Sum of the known numbers.
    count: u32,
    /// True if a number is unknown, or there is no backend at all.
    is_unknown: bool,
}

impl Readiness {
    /// Returns the readiness of backends before any of them is counted.
    pub(crate) const fn new(is_declared: bool) -> Self {
        Self { count: 0, is_unknown: !is_declared }
    }

    /// Counts a Service, or (`None`) a backend whose number is unknown.
    pub(crate) const fn with(self, ready: Option<u32>) -> Self {
        match ready {
            Some(ready) => Self { count: self.count.saturating_add(ready), ..self },
            None => Self { is_unknown: true, ..self },
        }
    }

    /// Returns the number of ready endpoints; `None` if no known backend is ready and one is unknown.
    pub(crate) fn ready(self) -> Option<u32> {
        (self.count > 0 || !self.is_unknown).then_some(self.count)
    }
}
