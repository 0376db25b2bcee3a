//! Refuses steered names that lead back to themselves: by the fallback of their pool, by the `dnsName` of a cluster in
//! mode `cname`, or by declared CNAMEs.
//!
//! A resolver answers SERVFAIL for such a chain. Records of zone files are not known here. The compiler finds the loops
//! that they are part of, with the same search.

use std::{
    collections::{BTreeSet, HashSet},
    fmt::Write,
};

use super::{DesiredState, Subject, Violation, validate::error};
use crate::{AnswerMode, DownAnswer, Name, Pool, PoolName, Rtype};

/// Finds a chain of aliases that leads from a name back to it. `targets` returns the names that a name may be an alias
/// of. Returns the names of the chain, from the given one to the last before it comes back.
///
/// Each name is visited once, and at most 1,000 names are.
pub fn alias_loop(start: &Name, mut targets: impl FnMut(&Name) -> Vec<Name>) -> Option<Vec<Name>> {
    let mut visited: BTreeSet<Name> = BTreeSet::new();
    // Names of the current chain, each with its targets that were not followed yet.
    let mut chain = vec![(start.clone(), targets(start))];
    while let Some((_, ahead)) = chain.last_mut() {
        match ahead.pop() {
            None => {
                chain.pop();
            }
            Some(next) if next == *start => return Some(chain.into_iter().map(|(name, _)| name).collect()),
            Some(next) => {
                if visited.len() < VISITED_MAX && visited.insert(next.clone()) {
                    let ahead = targets(&next);
                    chain.push((next, ahead));
                }
            }
        }
    }
    None
}

/// Maximum number of names that the search of a loop visits. A resolver follows 8 to 16 aliases.
const VISITED_MAX: usize = 1_000;

/// Returns fact and hint about a chain of names that [`alias_loop`] returned.
pub fn describe_alias_loop(chain: &[Name]) -> (String, &'static str) {
    let mut what = String::new();
    for name in chain.iter().chain(chain.first()).take(SHOWN_MAX) {
        let _ = write!(what, "{}{name}", if what.is_empty() { "a CNAME leads back to its own name: " } else { " -> " });
    }
    (what, "change the fallback in down, dnsName of a cluster, or the record, so that the chain ends at addresses")
}

/// Maximum number of names of a loop that a message shows.
const SHOWN_MAX: usize = 8;

impl DesiredState {
    /// Reports the loops that contain one of these steered names or declared aliases: at each steered name and record
    /// of the loop, so that a source whose objects close a loop is the one that is refused.
    pub(super) fn check_alias_loops<'a>(&'a self, names: impl Iterator<Item = &'a Name>, found: &mut Vec<Violation>) {
        let mut reported: BTreeSet<Name> = BTreeSet::new();
        for name in names {
            if reported.contains(name) {
                continue;
            }
            let Some(chain) = alias_loop(name, |name| self.alias_targets(name)) else { continue };
            let (what, hint) = describe_alias_loop(&chain);
            for name in &chain {
                let subject = match self.names.contains_key(name) {
                    true => Subject::Name(name.clone()),
                    false => Subject::Records(name.clone(), Rtype::CNAME),
                };
                found.push(error(subject, what.clone(), hint));
            }
            reported.extend(chain);
        }
    }

    /// Reports all loops. Names are many, and most pools lead to no alias, so these are skipped first.
    pub(super) fn check_all_alias_loops(&self, found: &mut Vec<Violation>) {
        let has_hosts = self.clusters.values().any(|cluster| !cluster.hosts.is_empty());
        let leading = self.pools.values().filter(|pool| self.leads_to_aliases(pool, has_hosts)).map(|pool| &pool.name);
        let leading: HashSet<&PoolName> = leading.collect();
        let steered = self.names.values().filter(|_| !leading.is_empty());
        let steered = steered.filter(|steered| leading.contains(&steered.pool)).map(|steered| &steered.name);
        let records = self.records.values().filter(|set| set.rtype == Rtype::CNAME).map(|set| &set.name);
        self.check_alias_loops(steered.chain(records), found);
    }

    /// True if a pool answers with a name that is itself steered or a declared alias. Without clusters that have host names
    /// (`has_hosts`), most pools need no look-up of their clusters.
    fn leads_to_aliases(&self, pool: &Pool, has_hosts: bool) -> bool {
        if !has_hosts && pool.mode == AnswerMode::Address && !matches!(pool.down, DownAnswer::FallbackCname(_)) {
            return false;
        }
        let is_alias = |name: &Name| self.names.contains_key(name) || self.declared_alias(name).is_some();
        self.pool_targets(pool).any(is_alias)
    }

    /// Returns the names that a name may be answered with a CNAME to.
    fn alias_targets(&self, name: &Name) -> Vec<Name> {
        let pool = self.names.get(name).and_then(|steered| self.pools.get(&steered.pool));
        let by_pool = pool.into_iter().flat_map(|pool| self.pool_targets(pool)).cloned();
        by_pool.chain(self.declared_alias(name)).collect()
    }

    /// Returns the names that a pool may answer with.
    fn pool_targets<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = &'a Name> {
        let clusters = pool.members.iter().filter_map(|member| self.clusters.get(&member.cluster));
        let clusters = clusters.flat_map(|cluster| {
            let alias = cluster.dns_name.as_ref().filter(|_| pool.mode == AnswerMode::Cname);
            // A host name that this server steers to itself would never get other addresses than it has.
            alias.into_iter().chain(cluster.hosts.iter().map(|host| &host.name))
        });
        let fallback = match &pool.down {
            DownAnswer::FallbackCname(target) => Some(target),
            _ => None,
        };
        clusters.chain(fallback)
    }

    /// Returns the target of a declared CNAME.
    fn declared_alias(&self, name: &Name) -> Option<Name> {
        if self.records.is_empty() {
            return None;
        }
        let alias = self.records.get(&(name.clone(), Rtype::CNAME))?;
        Name::from_wire(alias.rdatas.first()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, ClusterName, Member, Policy, RecordSet, Severity, SteeredName, ZoneSpec};

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    /// Returns a state with one zone and names that each have a pool with this fallback.
    fn falling_back(pairs: &[(&str, &str)]) -> DesiredState {
        let mut desired = DesiredState::default();
        desired.zones.insert(name("z.test"), ZoneSpec::new(name("z.test")));
        let cluster = ClusterName::new("c").unwrap();
        let of = Cluster::new(cluster.clone(), vec![[192, 0, 2, 1].into()]);
        desired.clusters.insert(cluster.clone(), of);
        for (number, (owner, fallback)) in pairs.iter().enumerate() {
            let mut pool = Pool::new(PoolName::new(&format!("p{number}")).unwrap(), Policy::FAILOVER);
            (pool.down, pool.members) = (DownAnswer::FallbackCname(name(fallback)), vec![Member::new(cluster.clone())]);
            let steered = SteeredName { name: name(owner), pool: pool.name.clone(), ttl: None };
            desired.names.insert(name(owner), steered);
            desired.pools.insert(pool.name.clone(), pool);
        }
        desired
    }

    fn errors(desired: &DesiredState) -> Vec<String> {
        let found = desired.violations();
        assert!(found.iter().all(|violation| violation.severity == Severity::Error));
        found.into_iter().map(|violation| format!("{:?}: {}", violation.subject, violation.fact)).collect()
    }

    #[test]
    fn fallback_to_own_name_is_rejected() {
        let loops = errors(&falling_back(&[("Self.z.test", "self.Z.test")]));
        assert_eq!(loops.len(), 1, "{loops:?}");
        assert!(loops[0].ends_with("a CNAME leads back to its own name: Self.z.test. -> Self.z.test."), "{loops:?}");
    }

    #[test]
    fn loop_over_several_names_is_reported_once_at_each() {
        let pairs =
            [("a.z.test", "b.z.test"), ("b.z.test", "c.z.test"), ("c.z.test", "a.z.test"), ("d.z.test", "a.z.test")];
        let loops = errors(&falling_back(&pairs));
        assert_eq!(loops.len(), 3, "{loops:?}");
        assert!(
            loops.iter().all(|text| text.ends_with(": a.z.test. -> b.z.test. -> c.z.test. -> a.z.test.")),
            "{loops:?}"
        );
    }

    #[test]
    fn chain_that_ends_is_accepted() {
        let pairs = [("a.z.test", "b.z.test"), ("b.z.test", "elsewhere.test"), ("*.z.test", "b.z.test")];
        assert_eq!(errors(&falling_back(&pairs)), Vec::<String>::new());
    }

    #[test]
    fn cluster_that_is_called_like_the_steered_name_is_rejected_in_mode_cname_only() {
        let mut desired = falling_back(&[("a.z.test", "elsewhere.test")]);
        desired.clusters.values_mut().next().unwrap().dns_name = Some(name("a.z.test"));
        assert_eq!(errors(&desired), Vec::<String>::new());
        desired.pools.values_mut().next().unwrap().mode = AnswerMode::Cname;
        assert_eq!(errors(&desired).len(), 1);
    }

    #[test]
    fn cluster_whose_host_name_is_steered_to_it_is_rejected() {
        let mut desired = falling_back(&[("a.z.test", "elsewhere.test"), ("b.z.test", "elsewhere.test")]);
        let host = |host| crate::ClusterHost { name: name(host), addresses: [].into() };
        desired.clusters.values_mut().next().unwrap().hosts = vec![host("c.z.test")];
        assert_eq!(errors(&desired), Vec::<String>::new());
        desired.clusters.values_mut().next().unwrap().hosts = vec![host("b.z.test")];
        assert_eq!(errors(&desired), ["Name(b.z.test.): a CNAME leads back to its own name: b.z.test. -> b.z.test."]);
    }

    #[test]
    fn declared_cname_closes_a_loop_and_changed_objects_find_it() {
        let mut desired = falling_back(&[("a.z.test", "b.z.test")]);
        let target: Box<[u8]> = name("a.z.test").as_wire().into();
        let set = RecordSet::new(name("b.z.test"), Rtype::CNAME, RecordSet::TTL_USUAL, [target]);
        desired.records.insert(set.key(), set);
        let loops = errors(&desired);
        assert!(loops.len() == 2 && loops.iter().any(|text| text.starts_with("Records(")), "{loops:?}");
        let of = |names: &[Name], records: &[Name]| desired.violations_of([], [], names, records).len();
        assert_eq!([of(&[name("a.z.test")], &[]), of(&[], &[name("b.z.test")]), of(&[], &[])], [2, 2, 0]);
    }
}
