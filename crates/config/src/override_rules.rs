//! Warnings of overrides of the files that leave fewer clusters than a rule keeps. Only commands and the API refuse such an override.

use std::time::SystemTime;

use fairway_model::{Diagnostic, OverrideAction, OverrideRule, OverrideScope, Pool};

use super::{Loaded, OverrideSpec};

/// Returns a warning for each pool with too few clusters, at the first override that takes one of them out.
pub(super) fn broken(loaded: &Loaded, now: SystemTime) -> Vec<Diagnostic> {
    let active = loaded.overrides.iter().filter(|spec| spec.until > now);
    let of_health = active.filter_map(|spec| Some((spec.kind.health()?, spec)));
    let taking_out = of_health.filter(|((_, action), _)| *action != OverrideAction::Up);
    let overrides: Vec<(&OverrideScope, &OverrideSpec)> = taking_out.map(|((scope, _), spec)| (scope, spec)).collect();
    let warning = |pool: &Pool| {
        let matches = |rule: &&OverrideRule| rule.pools.iter().any(|pattern| pattern.matches(&pool.name));
        let min = loaded.settings.override_rules.iter().filter(matches).map(|rule| rule.min_clusters).max()?;
        let clusters = pool.members.iter().filter_map(|member| loaded.desired.clusters.get(&member.cluster));
        let (mut count, mut left, mut first) = (0, 0, None);
        for cluster in clusters {
            let of = |address| overrides.iter().find(|(scope, _)| scope.matches(&cluster.name, address));
            let of_host = |_| overrides.iter().find(|(scope, _)| scope.matches_whole(&cluster.name));
            let of_hosts = cluster.hosts.iter().map(of_host);
            let taken: Vec<_> = cluster.addresses.iter().map(|address| of(*address)).chain(of_hosts).collect();
            count += 1;
            match taken.iter().all(Option::is_some) {
                true => first = first.or_else(|| taken.into_iter().flatten().next()),
                false => left += 1,
            }
        }
        let (_, spec) = first.filter(|_| left < usize::from(min))?;
        let fact = format!(
            "the overrides leave pool {} with {left} of {count} clusters, and overrideRules require {min}",
            pool.name
        );
        Some(Diagnostic::warning(spec.location.clone(), fact, "remove an override, or change the rule"))
    };
    loaded.desired.pools.values().filter_map(warning).collect()
}
