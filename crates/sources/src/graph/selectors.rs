//! The Services that the selectors of Istio's Gateways choose.
//!
//! A Gateway chooses pods by labels, and its addresses are those of the Services that choose pods by these labels, too. Most Gateways of a
//! cluster have the same selector, so each distinct one is resolved once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::objects::{ExternalService, Kind, Label, ObjectKey, Selector, Targets};

/// Key and addresses of a Service.
pub(super) type SelectedService = (ObjectKey, Arc<Targets>);

/// The distinct selectors of Istio's Gateways.
#[derive(Debug, Default)]
pub(super) struct SelectorIndex {
    selected: BTreeMap<Selector, Selected>,
    /// Selector and addresses of each Service for clients outside the cluster.
    services: BTreeMap<ObjectKey, (Selector, Arc<Targets>)>,
    /// The same Services by each label of their selectors.
    by_label: BTreeSet<(Label, ObjectKey)>,
    /// Selectors whose Services changed since the last refresh.
    stale: BTreeSet<Selector>,
}

/// The Services of a selector, and the Gateways that have it.
#[derive(Debug, Default)]
struct Selected {
    gateways: BTreeSet<ObjectKey>,
    services: Box<[SelectedService]>,
}

impl SelectorIndex {
    /// Replaces a Service; `None` if it has no addresses for clients outside the cluster.
    pub(super) fn replace_service(&mut self, key: &ObjectKey, after: Option<&ExternalService>) {
        let after = after.map(|service| (service.selector.clone(), Arc::clone(&service.targets)));
        if self.services.get(key) == after.as_ref() {
            return;
        }
        if let Some((selector, _)) = self.services.remove(key) {
            for label in &*selector.0 {
                self.by_label.remove(&(label.clone(), key.clone()));
            }
            self.mark_stale(&selector);
        }
        if let Some((selector, targets)) = after {
            self.by_label.extend(selector.0.iter().map(|label| (label.clone(), key.clone())));
            self.mark_stale(&selector);
            self.services.insert(key.clone(), (selector, targets));
        }
    }

    /// Replaces the selector of a Gateway.
    pub(super) fn replace_gateway(&mut self, key: &ObjectKey, before: Option<Selector>, after: Option<Selector>) {
        if before == after {
            return;
        }
        if let Some(selector) = before
            && let Some(selected) = self.selected.get_mut(&selector)
        {
            selected.gateways.remove(key);
            if selected.gateways.is_empty() {
                self.selected.remove(&selector);
            }
        }
        if let Some(selector) = after {
            let selected = self.selected.entry(selector.clone()).or_default();
            if selected.gateways.is_empty() {
                self.stale.insert(selector);
            }
            selected.gateways.insert(key.clone());
        }
    }

    /// Resolves the selectors whose Services changed. Returns the Gateways of those that differ.
    pub(super) fn refresh(&mut self) -> Vec<ObjectKey> {
        let mut changed = Vec::new();
        for selector in std::mem::take(&mut self.stale) {
            let services = self.resolve(&selector);
            let Some(selected) = self.selected.get_mut(&selector) else { continue };
            if selected.services != services {
                selected.services = services;
                changed.extend(selected.gateways.iter().cloned());
            }
        }
        changed
    }

    /// Returns the Services of the selector of a Gateway, sorted by key.
    pub(super) fn services(&self, selector: &Selector) -> &[SelectedService] {
        self.selected.get(selector).map_or(&[], |selected| &*selected.services)
    }

    fn resolve(&self, selector: &Selector) -> Box<[SelectedService]> {
        let fits = |key: &ObjectKey| {
            let (_, targets) = self.services.get(key).filter(|(own, _)| selector.is_subset_of(own))?;
            Some((key.clone(), Arc::clone(targets)))
        };
        let Some(label) = selector.0.first() else { return self.services.keys().filter_map(fits).collect() };
        let first = ObjectKey::before(Kind::ALL[0], &Arc::default());
        let with_label = self.by_label.range((label.clone(), first)..).take_while(|(own, _)| own == label);
        with_label.filter_map(|(_, key)| fits(key)).collect()
    }

    /// Marks the selectors that choose a Service with this one. Each of them is empty, or its first label is one of the Service's.
    fn mark_stale(&mut self, service: &Selector) {
        let empty = Selector::default();
        if self.selected.contains_key(&empty) {
            self.stale.insert(empty);
        }
        for label in &*service.0 {
            let from_label = self.selected.range(Selector(Arc::from([label.clone()]))..);
            let with_label = from_label.map(|(selector, _)| selector).take_while(|of| of.0.first() == Some(label));
            self.stale.extend(with_label.filter(|selector| selector.is_subset_of(service)).cloned());
        }
    }
}
