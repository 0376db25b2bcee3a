//! Prepared monitors, shared by targets with equal monitors and kept while the targets change.

use std::{collections::HashMap, sync::Arc};

use fairway_model::{Monitor, Target};
use tokio::sync::Semaphore;

use super::{prepare::PreparedMonitor, resolve, tls::TlsConfigs};

/// Prepared monitors by monitor. Equal monitors share one, and equal TLS settings share one configuration.
#[derive(Debug)]
pub(crate) struct PreparedMonitors {
    prepared: HashMap<Arc<Monitor>, Arc<PreparedMonitor>>,
    lookups: Arc<Semaphore>,
}

impl PreparedMonitors {
    /// Returns an empty set.
    pub(crate) fn new() -> Self {
        Self { prepared: HashMap::new(), lookups: Arc::new(Semaphore::new(resolve::LOOKUPS_MAX)) }
    }

    /// Returns the prepared monitor of each target, in the order of the targets. Monitors that no target uses are dropped.
    pub(crate) fn prepare(&mut self, targets: &[Target]) -> Vec<Arc<PreparedMonitor>> {
        let mut used = HashMap::new();
        // Most targets share their monitor by pointer, which saves hashing its settings and certificates.
        let mut by_pointer: HashMap<*const Monitor, Arc<PreparedMonitor>> = HashMap::new();
        let mut configs = TlsConfigs::new();
        let mut all = Vec::with_capacity(targets.len());
        for Target { monitor, .. } in targets {
            let prepared = by_pointer.entry(Arc::as_ptr(monitor)).or_insert_with(|| {
                let known = self.prepared.get_key_value(monitor).filter(|(_, prepared)| prepared.is_valid());
                let known = known.or_else(|| used.get_key_value(monitor));
                let (key, prepared) = match known {
                    Some((key, prepared)) => (Arc::clone(key), Arc::clone(prepared)),
                    None => {
                        let prepared = PreparedMonitor::new(monitor, Arc::clone(&self.lookups), &mut configs);
                        (Arc::clone(monitor), Arc::new(prepared))
                    }
                };
                used.insert(key, Arc::clone(&prepared));
                prepared
            });
            all.push(Arc::clone(prepared));
        }
        self.prepared = used;
        all
    }

    /// Returns the prepared monitor that equals this monitor.
    pub(crate) fn find(&self, monitor: &Monitor) -> Option<&Arc<PreparedMonitor>> {
        self.prepared.get(monitor)
    }
}
