//! What monitors were prepared to, shared and kept.
//!
//! The preparing itself is `prepare`'s.

use std::{collections::HashMap, sync::Arc};

use fairway_model::{Monitor, Target, TlsCheck};
use rustls::ClientConfig;
use tokio::sync::Semaphore;

use super::{prepare::Prepared, resolve, tls};

/// Makes [`Prepared`] from monitors and shares it: equal monitors get the same one, equal TLS one configuration.
#[derive(Debug)]
pub(crate) struct Workshop {
    prepared: HashMap<Arc<Monitor>, Arc<Prepared>>,
    lookups: Arc<Semaphore>,
}

impl Workshop {
    /// Returns an empty workshop.
    pub(crate) fn new() -> Self {
        Self { prepared: HashMap::new(), lookups: Arc::new(Semaphore::new(resolve::LOOKUPS_MAX)) }
    }

    /// What each target's monitor needs, in the targets' order; keeps what is used again and lets the rest go.
    pub(crate) fn prepare(&mut self, targets: &[Target]) -> Vec<Arc<Prepared>> {
        let mut now = HashMap::new();
        // Most targets share their monitor by pointer: those are not hashed by value, certificates and all.
        let mut by_pointer: HashMap<*const Monitor, Arc<Prepared>> = HashMap::new();
        let mut configs = HashMap::new();
        let made = targets.iter().map(|target| {
            let monitor = &target.monitor;
            let make = || {
                let (key, prepared) = self
                    .prepared
                    .get_key_value(monitor)
                    .filter(|(_, prepared)| prepared.is_sound())
                    .or_else(|| now.get_key_value(monitor))
                    .map(|(key, prepared)| (Arc::clone(key), Arc::clone(prepared)))
                    .unwrap_or_else(|| (Arc::clone(monitor), Arc::new(self.make(monitor, &mut configs))));
                now.insert(key, Arc::clone(&prepared));
                prepared
            };
            Arc::clone(by_pointer.entry(Arc::as_ptr(monitor)).or_insert_with(make))
        });
        let made = made.collect();
        self.prepared = now;
        made
    }

    /// What was prepared for an equal monitor.
    pub(crate) fn find(&self, monitor: &Monitor) -> Option<&Arc<Prepared>> {
        self.prepared.get(monitor)
    }

    fn make(&self, monitor: &Monitor, configs: &mut TlsConfigs) -> Prepared {
        let configure = |tls: &TlsCheck, alpn: &[u8]| {
            let key = (TlsCheck { server_name: None, ..tls.clone() }, alpn.to_vec());
            if let Some(config) = configs.get(&key) {
                return Ok(Arc::clone(config));
            }
            let config = Arc::new(tls::config(tls, alpn, &tls::system_roots)?);
            configs.insert(key, Arc::clone(&config));
            Ok(config)
        };
        Prepared::new(monitor, Arc::clone(&self.lookups), configure)
    }
}

/// TLS configurations by what they follow from: the server name is not part of it.
type TlsConfigs = HashMap<(TlsCheck, Vec<u8>), Arc<ClientConfig>>;
