//! Variants of a pool, which depend on the zone of the name that it answers.

use fairway_model::{MonitorName, Pool, Visibility, ZoneSpec, mix};

use crate::hash;

/// Inputs of a pool from the zone of its name. Names in zones with equal inputs share one compiled pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Variant<'a> {
    /// Monitor of the zone, if a member uses it.
    pub(crate) monitor: Option<&'a MonitorName>,
    /// True if the zone is public and so hides internal members.
    pub(crate) hides: bool,
}

impl<'a> Variant<'a> {
    /// Returns the variant for a zone. Without a zone, the pool is public.
    pub(crate) fn of(pool: &Pool, zone: Option<&'a ZoneSpec>) -> Self {
        let takes_monitor = pool.monitor.is_none() && pool.members.iter().any(|member| member.monitor.is_none());
        let is_public = zone.is_none_or(|zone| zone.visibility == Visibility::Public);
        Self {
            monitor: zone.and_then(|zone| zone.monitor.as_ref()).filter(|_| takes_monitor),
            hides: is_public && pool.members.iter().any(|member| member.internal),
        }
    }

    /// Returns the key of the variant, which is `pool_key` if nothing comes from the zone.
    pub(super) fn key(self, pool_key: u64) -> u64 {
        let monitor = self.monitor.map_or(0, |monitor| hash::text(hash::seed::POOL, monitor.as_str()));
        let of_zone = monitor ^ u64::from(self.hides);
        if of_zone == 0 { pool_key } else { mix(pool_key ^ of_zone) }
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::{ClusterName, Member, Name, Policy, PoolName};

    use super::*;

    fn key(pool: &Pool, zone: Option<&ZoneSpec>) -> u64 {
        Variant::of(pool, zone).key(42)
    }

    #[test]
    fn only_zone_inputs_make_a_variant() {
        let zone = ZoneSpec::new("example.test".parse::<Name>().unwrap());
        let private = ZoneSpec { visibility: Visibility::Private, ..zone.clone() };
        let with_monitor = ZoneSpec { monitor: Some(MonitorName::new("gateway").unwrap()), ..private.clone() };
        let mut pool = Pool::new(PoolName::new("shop").unwrap(), Policy::WEIGHTED);
        pool.members = vec![Member::new(ClusterName::new("eu1").unwrap())];
        assert_eq!([&zone, &private].map(|zone| key(&pool, Some(zone))), [42, 42]);
        assert_ne!(key(&pool, Some(&with_monitor)), 42, "the zone's monitor source its member");
        pool.monitor = Some(MonitorName::new("own").unwrap());
        assert_eq!(key(&pool, Some(&with_monitor)), 42);
        pool.members[0].internal = true;
        assert_eq!([Some(&private), Some(&with_monitor)].map(|zone| key(&pool, zone)), [42, 42]);
        assert_ne!(key(&pool, Some(&zone)), 42, "a public zone hides its member");
        assert_eq!(key(&pool, Some(&zone)), key(&pool, None));
    }
}
