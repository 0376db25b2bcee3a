//! The bound on the probes of each tenant: a tenant chooses how many targets it declares, and this server does the work.

use std::collections::{HashMap, HashSet};

use fairway_health::DeclaredTarget;
use fairway_model::{ClusterName, PoolName, Target};
use fairway_zones::TargetIndex;

use crate::configured::Configured;

/// Tenants with more regular probes per second than one may have, with their number.
#[derive(Debug, Default)]
pub(crate) struct OverLimit(HashMap<String, f64>);

impl OverLimit {
    /// Returns the targets of a new configuration, with longer periods where a tenant has too many of them. Logs each tenant that was not
    /// over the limit before.
    pub(crate) fn bound(&mut self, configured: &Configured, targets: &[Target]) -> Vec<DeclaredTarget> {
        let (bounded, over_limit) = bounded(configured, targets);
        for (tenant, rate) in over_limit.iter().filter(|(tenant, _)| !self.0.contains_key(*tenant)) {
            let per_second = rate.round();
            tracing::warn!(tenant, per_second, "too many probes of one tenant, so their periods are longer");
        }
        self.0 = over_limit;
        bounded
    }
}

/// Returns the targets with longer periods where a tenant has too many of them, and these tenants. A target of several tenants keeps the
/// shortest period, and one that the files declare as well keeps its own.
fn bounded(configured: &Configured, targets: &[Target]) -> (Vec<DeclaredTarget>, HashMap<String, f64>) {
    let rate_max = f64::from(configured.settings.health.tenant_probes_max);
    let rate =
        |target: &Target| target.monitor.check.port().map_or(0.0, |_| target.monitor.period.as_secs_f64().recip());
    // As long as all together stay below the limit, which is the usual case, nobody has to be found.
    if targets.iter().map(rate).sum::<f64>() <= rate_max {
        return (targets.iter().cloned().map(DeclaredTarget::from).collect(), HashMap::new());
    }
    let declarers = Declarers::new(configured);
    let tenants: Vec<_> = (0..).zip(targets).map(|(index, _)| declarers.tenants(TargetIndex(index))).collect();
    let mut rates: HashMap<String, f64> = HashMap::new();
    for (target, tenants) in targets.iter().zip(&tenants) {
        for tenant in tenants.iter().flatten() {
            *rates.entry(tenant.clone()).or_default() += rate(target);
        }
    }
    rates.retain(|_, rate| *rate > rate_max);
    let stretch = |tenant: &String| rates.get(tenant).map_or(1, |rate| (rate / rate_max).ceil() as u32);
    let stretched = targets.iter().zip(&tenants).map(|(target, tenants)| {
        let stretch = tenants.iter().flatten().map(stretch).min().unwrap_or(1);
        DeclaredTarget { target: target.clone(), stretch }
    });
    (stretched.collect(), rates)
}

/// Finds who declared a target.
struct Declarers<'a> {
    configured: &'a Configured,
    /// Base paths of the webhook that contribute members.
    contributors: HashMap<(&'a PoolName, &'a ClusterName), &'a str>,
}

impl<'a> Declarers<'a> {
    fn new(configured: &'a Configured) -> Self {
        let members = configured.contributed_members();
        let contributors = members.map(|of| ((&of.pool.name, &of.member.cluster), &*of.origin.owner)).collect();
        Self { configured, contributors }
    }

    /// Returns the tenants that declare a target; `None` if the files declare it.
    fn tenants(&self, target: TargetIndex) -> Option<HashSet<String>> {
        let (pools, clusters) = (self.configured.uses.pools(target), self.configured.uses.clusters(target));
        let uses = pools.keys().flat_map(|pool| clusters.iter().map(move |cluster| (pool, cluster)));
        uses.map(|(pool, cluster)| self.tenant(pool, cluster)).collect()
    }

    fn tenant(&self, pool: &PoolName, cluster: &ClusterName) -> Option<String> {
        if let Some(owner) = self.contributors.get(&(pool, cluster)) {
            return Some(format!("webhook {owner}"));
        }
        if self.configured.files.desired.pools.contains_key(pool) {
            return None;
        }
        let intent = self.configured.objects.intent_called(pool.as_str());
        let project = intent.and_then(|key| key.names().next().map(|project| format!("project {project}")));
        Some(project.unwrap_or_else(|| "objects of the API".to_owned()))
    }
}
