//! Numbers of probed targets.

/// Index of a target in [`Snapshot::targets`](crate::snapshot::Snapshot::targets) and in the runtime state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetIndex(pub u32);

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use fairway_model::{Check, Monitor, MonitorName, ProbeAddress, Target, stable_hash};

    pub(crate) fn target(address: &str, port: u16, label: &str) -> Target {
        Target {
            address: ProbeAddress::Address(address.parse().unwrap()),
            monitor: Arc::new(Monitor::new(Check::Tcp { port })),
            label: MonitorName::new(label).unwrap(),
        }
    }

    #[test]
    fn target_hash_is_pinned() {
        assert_eq!(stable_hash(&target("192.0.2.1", 443, "a")), 0xb425_c73b_60ec_94e3);
        assert_eq!(stable_hash(&target("2001:db8::1", 443, "a")), 0x85a7_726b_e95a_87c8);
    }
}
