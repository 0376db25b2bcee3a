//! What makes several pools of one: the zone of the name that it answers for.

use fairway_model::{MonitorName, Pool, Visibility, ZoneSpec};

use super::hash;

/// What a pool has from the zone of its name. Names whose zones give the same share one compiled pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Variant<'a> {
    /// The zone's monitor, where members are judged by it.
    monitor: Option<&'a MonitorName>,
    /// Whether the zone is public, so that it hides members that are internal.
    pub(crate) hides: bool,
}

impl<'a> Variant<'a> {
    /// Where no zone is given, it is public.
    pub(crate) fn of(pool: &Pool, zone: Option<&'a ZoneSpec>) -> Self {
        let takes_monitor = pool.monitor.is_none() && pool.members.iter().any(|member| member.monitor.is_none());
        let is_public = zone.is_none_or(|zone| zone.visibility == Visibility::Public);
        Self {
            monitor: zone.and_then(|zone| zone.monitor.as_ref()).filter(|_| takes_monitor),
            hides: is_public && pool.members.iter().any(|member| member.internal),
        }
    }

    /// Stands for the pool and the variant: that of the pool's name alone, where nothing comes from the zone.
    pub(super) fn key(self, pool_key: u64) -> u64 {
        let monitor = self.monitor.map_or(0, |monitor| hash::text(hash::seed::POOL, monitor.as_str()));
        let of_zone = monitor ^ u64::from(self.hides);
        if of_zone == 0 { pool_key } else { hash::mix(pool_key ^ of_zone) }
    }
}
