//! Warns of pools that can hide all of their members from some clients, and so answer these with NODATA.

use super::{DesiredState, Subject, Violation, validate::warning};
use crate::{DownAnswer, Member, Network, Partition, Pool, Rank};

impl DesiredState {
    /// Reports that some clients may get no member of a pool, unless it has a fallback for them.
    ///
    /// Members that a public zone hides are reported at the name, so here they count as visible.
    pub(super) fn check_hidden(&self, pool: &Pool, found: &mut Vec<Violation>) {
        let has_fallback = matches!(pool.down, DownAnswer::FallbackAddresses(_) | DownAnswer::FallbackCname(_));
        if has_fallback || pool.members.is_empty() {
            return;
        }
        if let Some(block) = uncovered(pool.members.iter()) {
            let clients = format!("clients outside of their networks, such as {block}");
            found.push(hides(pool, &clients, "a member without networks"));
            return;
        }
        if !pool.policy.location_rankings().any(|rank| rank == Rank::Geo) {
            return;
        }
        let region_of = |member: &Member| self.clusters.get(&member.cluster)?.location.as_ref()?.region.as_deref();
        for (number, preference) in pool.location.geo.prefer.iter().enumerate().filter(|(_, prefer)| prefer.only) {
            let is_preferred = |member: &&Member| {
                region_of(member).is_some_and(|own| preference.regions.iter().any(|region| **region == *own))
            };
            if uncovered(pool.members.iter().filter(is_preferred)).is_some() {
                let clients = format!("clients of geo.prefer[{number}], which has only: true");
                found.push(hides(pool, &clients, "a member without networks in these regions"));
            }
        }
    }
}

/// Returns a block of clients that may get none of these members.
fn uncovered<'m>(members: impl Iterator<Item = &'m Member> + Clone) -> Option<Network> {
    if members.clone().any(|member| member.networks.is_empty()) {
        return None;
    }
    let networks = members.flat_map(|member| &member.networks).map(|network| (*network, 1));
    let covered = Partition::of_networks(networks, 0);
    covered.blocks().find_map(|(block, is_covered)| (is_covered == 0).then_some(block))
}

fn hides(pool: &Pool, clients: &str, member: &str) -> Violation {
    let what = format!(
        "pool {} hides all of its members from {clients}: they get NODATA, which resolvers may cache for all of their \
         clients (RFC 7871 section 7.4)",
        pool.name
    );
    warning(Subject::Pool(pool.name.clone()), what, format!("give the pool a fallback in down, or {member}"))
}

#[cfg(test)]
mod tests {
    use crate::{
        Bias, Cluster, ClusterLocation, ClusterName, DesiredState, DownAnswer, Geo, LocationMatch, Member, Policy,
        Pool, PoolName, Preference, Rank,
    };

    /// Returns the warnings about a pool whose members have these networks and regions.
    fn warnings(members: &[(&[&str], &str)], adjust: impl FnOnce(&mut Pool)) -> Vec<String> {
        let mut desired = DesiredState::default();
        let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::WEIGHTED);
        for (number, (networks, region)) in members.iter().enumerate() {
            let name = ClusterName::new(&format!("c{number}")).unwrap();
            let region = Some((*region).to_owned());
            let location = ClusterLocation { coordinates: None, region, bias: Bias::default() };
            let cluster = Cluster { location: Some(location), ..Cluster::new(name.clone(), vec![]) };
            desired.clusters.insert(name.clone(), cluster);
            let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
            pool.members.push(Member { networks, ..Member::new(name) });
        }
        adjust(&mut pool);
        let mut found = Vec::new();
        desired.check_hidden(&pool, &mut found);
        found.into_iter().map(|violation| format!("{}; {}", violation.fact, violation.hint)).collect()
    }

    const ALL: &[&str] = &["0.0.0.0/0", "::/0"];

    #[test]
    fn pool_that_hides_all_members_from_some_clients_is_warned_of() {
        let given = warnings(&[(&["0.0.0.0/1"], "eu"), (&["192.0.2.0/24"], "eu")], |_| {});
        assert_eq!(
            given,
            [
                "pool shop hides all of its members from clients outside of their networks, such as 128.0.0.0/2: they get \
              NODATA, which resolvers may cache for all of their clients (RFC 7871 section 7.4); give the pool a \
              fallback in down, or a member without networks"
            ]
        );
    }

    #[test]
    fn fallback_open_member_or_networks_of_everybody_need_no_warning() {
        let views: &[(&[&str], &str)] = &[(&["192.0.2.0/24"], "eu")];
        let fallback = |pool: &mut Pool| pool.down = DownAnswer::FallbackAddresses(vec![[192, 0, 2, 1].into()]);
        assert_eq!(warnings(views, fallback), Vec::<String>::new());
        assert_eq!(warnings(&[views[0], (&[], "eu")], |_| {}), Vec::<String>::new());
        assert_eq!(warnings(&[views[0], (ALL, "eu")], |_| {}), Vec::<String>::new());
        assert_eq!(warnings(&[(&["0.0.0.0/0"], "eu")], |_| {}).len(), 1, "IPv6 clients get nothing");
    }

    #[test]
    fn geo_with_only_and_no_open_member_in_its_regions_is_warned_of() {
        let geo = |region: &'static str, only| {
            move |pool: &mut Pool| {
                pool.policy.ranks = vec![Rank::Geo];
                let clients = LocationMatch { asn: Some(64_500), ..LocationMatch::default() };
                let prefer = vec![Preference { clients, regions: vec![region.into()], only }];
                pool.location.geo = Geo { prefer, default: vec![] };
            }
        };
        let members: &[(&[&str], &str)] = &[(&[], "eu"), (&["192.0.2.0/24"], "us")];
        assert_eq!(warnings(members, geo("eu", true)), Vec::<String>::new());
        assert_eq!(warnings(members, geo("us", false)), Vec::<String>::new());
        for region in ["us", "ap"] {
            let given = warnings(members, geo(region, true));
            assert_eq!(given.len(), 1, "{given:?}");
            assert!(given[0].contains("from clients of geo.prefer[0], which has only: true: they get NODATA"));
        }
    }
}
