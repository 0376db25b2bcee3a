//! Warns of pools whose answer never fits into a UDP response.

use std::net::IpAddr;

use super::{DesiredState, Subject, Violation, validate::warning};
use crate::{AnswerMode, DownAnswer, Pool};

/// Largest UDP response, in octets (RFC 9715 section 3.1).
const UDP_MAX: usize = 1_232;
/// Octets of the shortest response without its records: header, question of the root, and OPT record.
const EMPTY: usize = 12 + 5 + 11;

impl DesiredState {
    /// Reports that a pool answers all of its members at once, which is too long for UDP: each client has to ask again over TCP.
    pub(super) fn check_answer_size(&self, pool: &Pool, found: &mut Vec<Violation>) {
        let is_all = pool.down == DownAnswer::All && pool.mode == AnswerMode::Address;
        let mut addresses: Vec<IpAddr> = match &pool.down {
            DownAnswer::FallbackAddresses(addresses) => addresses.clone(),
            _ if is_all => self.member_addresses(pool),
            _ => return,
        };
        // Pools are many, and nearly all are far from it.
        if addresses.len() * 28 <= UDP_MAX / 2 {
            return;
        }
        addresses.sort_unstable();
        addresses.dedup();
        // A record has a compressed name (2 octets), type, class, TTL and length (10), and the address.
        for (rtype, is_of, octets) in [("A", IpAddr::is_ipv4 as fn(&IpAddr) -> bool, 16), ("AAAA", IpAddr::is_ipv6, 28)]
        {
            let count = addresses.iter().filter(|address| is_of(address)).count();
            if EMPTY + count * octets > UDP_MAX {
                let what = format!(
                    "pool {} answers {count} {rtype} records if no member is eligible; these never fit into {UDP_MAX} octets, so \
                     all clients ask again over TCP then",
                    pool.name
                );
                let hint = "give the pool a fallback in down with fewer addresses, or fewer members";
                found.push(warning(Subject::Pool(pool.name.clone()), what, hint));
            }
        }
    }

    fn member_addresses(&self, pool: &Pool) -> Vec<IpAddr> {
        let clusters = pool.members.iter().filter_map(|member| self.clusters.get(&member.cluster));
        clusters.flat_map(|cluster| cluster.addresses.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::{Cluster, ClusterName, Member, Policy, PoolName};

    /// Returns the number of warnings about a pool of one cluster with this many addresses of each family.
    fn warnings(v4: u8, v6: u16, down: DownAnswer) -> usize {
        let name = ClusterName::new("eu").unwrap();
        let v4 = (0..v4).map(|n| IpAddr::from([192, 0, 2, n]));
        let addresses = v4.chain((0..v6).map(|n| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n).into())).collect();
        let cluster = Cluster::new(name.clone(), addresses);
        let desired =
            DesiredState { clusters: [(name.clone(), cluster)].into_iter().collect(), ..DesiredState::default() };
        let mut pool = Pool { down, ..Pool::new(PoolName::new("shop").unwrap(), Policy::WEIGHTED) };
        pool.members.push(Member::new(name));
        let mut found = Vec::new();
        desired.check_answer_size(&pool, &mut found);
        found.len()
    }

    #[test]
    fn answer_of_all_members_that_never_fits_is_warned_of() {
        assert_eq!(warnings(75, 43, DownAnswer::All), 0);
        assert_eq!((warnings(76, 0, DownAnswer::All), warnings(0, 44, DownAnswer::All)), (1, 1));
        assert_eq!(warnings(200, 200, DownAnswer::All), 2);
        assert_eq!(warnings(200, 200, DownAnswer::Empty), 0);
        let fallback = (0..44).map(|n| Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, n).into()).collect();
        assert_eq!(warnings(0, 0, DownAnswer::FallbackAddresses(fallback)), 1);
    }
}
