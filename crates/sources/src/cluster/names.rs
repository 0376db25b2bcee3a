//! Names of one cluster: what its objects declare for them now, and what stays although the objects are gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::SystemTime,
};

use fairway_contributions::Release;
use fairway_model::{Name, Timestamp};

use super::{ClusterTask, Publish};
use crate::{
    found::{FoundName, FoundRow},
    holds::{Evidence, Withdrawn, owners, with_rows, withdraw},
    objects::{Kind, ObjectKey},
    rows::found_name,
};

impl<P: Publish> ClusterTask<P> {
    /// Updates these names.
    pub(super) fn update(&mut self, names: BTreeSet<Arc<str>>) {
        let zones = Arc::clone(&self.settings.borrow().zones);
        let mut withdrawn = Vec::new();
        for text in names {
            let is_inside = text.parse::<Name>().is_ok_and(|name| zones.iter().any(|zone| name.is_within(zone)));
            let exposures: Vec<_> = self.graph.exposures(&text).into_iter().collect();
            if !is_inside {
                if exposures.is_empty() {
                    self.outside.remove(&text);
                } else {
                    self.outside.insert(Arc::clone(&text));
                }
            }
            let before = self.found.names.get(&*text).cloned();
            let own = (&*self.found.addresses, &*self.found.hosts);
            let services = |object: &ObjectKey| self.graph.services_of(object);
            let (mut now, mut rows) = (None, Vec::new());
            if is_inside {
                now = found_name(&self.name, &text, &exposures, own, before.as_deref(), services);
                (now, rows) = withdraw(before.as_deref(), now);
            }
            if !rows.is_empty() {
                let declared_by = owners(now.as_ref()).into_iter().cloned().collect();
                withdrawn.push(Withdrawn { name: Arc::clone(&text), rows, declared_by });
            }
            self.replace(&text, now);
        }
        if !withdrawn.is_empty() {
            self.weigh(withdrawn);
        }
    }

    /// Replaces what is found for a name.
    fn replace(&mut self, text: &Arc<str>, now: Option<FoundName>) {
        let before = self.found.names.get(&**text).cloned();
        if before.as_deref() == now.as_ref() {
            return;
        }
        self.holds.follow(text, before.as_deref(), now.as_ref());
        match now {
            Some(now) => _ = self.found.names.insert(Arc::clone(text), Arc::new(now)),
            None => _ = self.found.names.remove(&**text),
        }
        self.is_changed = true;
    }

    /// Keeps what was withdrawn and looks like a mistake.
    fn weigh(&mut self, withdrawn: Vec<Withdrawn>) {
        let mut holds = std::mem::take(&mut self.holds);
        let held = self.with_evidence(|evidence| holds.weigh(withdrawn, evidence));
        self.holds = holds;
        let mut by_owner: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new();
        for (text, mut rows) in held {
            let known = self.found.names.get(&*text).cloned();
            // Another namespace may declare the member by now.
            let set = |row: &FoundRow| row.row.row.endpoint.set_identifier.clone();
            let is_known =
                |row: &FoundRow| known.iter().flat_map(|name| &name.rows).any(|known| set(known) == set(row));
            rows.retain(|row| !is_known(row));
            let Some(row) = rows.first() else { continue };
            by_owner.entry(Arc::clone(&row.owner)).or_default().push(Arc::clone(&text));
            self.replace(&text, Some(with_rows(known.as_deref(), rows)));
        }
        for (owner, names) in by_owner {
            tracing::warn!(
                event = "hold", %owner, names = names.len(), first = %names[0],
                "withdrawal held; `fairway contributions confirm {owner}` releases it"
            );
        }
    }

    /// Releases the holds that are due, and updates the numbers of endpoints of the others. Returns true if anything changed.
    pub(super) fn review_holds(&mut self) -> bool {
        // Taken in any case: a confirmation whose names have left meanwhile must not release later ones.
        let confirmed = self.publisher.take_confirmed(&self.name);
        if self.holds.names().is_empty() {
            return false;
        }
        let due = self.with_evidence(|evidence| self.holds.due(&self.found.names, &confirmed, evidence));
        let mut by_cause: BTreeMap<(Arc<str>, Release), Vec<Arc<str>>> = BTreeMap::new();
        for (text, owner, release) in due {
            by_cause.entry((Arc::clone(&owner), release)).or_default().push(Arc::clone(&text));
            let Some(name) = self.found.names.get(&*text) else { continue };
            let is_kept = |row: &&FoundRow| !(row.is_held() && row.owner == owner);
            let rows: Box<[FoundRow]> = name.rows.iter().filter(is_kept).cloned().collect();
            self.replace(&text, (!rows.is_empty()).then_some(FoundName { rows }));
        }
        for ((owner, release), names) in by_cause {
            let cause = <&str>::from(release);
            tracing::info!(event = "hold", %owner, cause, names = names.len(), first = %names[0], "held withdrawal released");
        }
        for text in self.holds.names().clone() {
            let Some(name) = self.found.names.get(&*text) else { continue };
            if !name.rows.iter().any(|row| row.is_held() && row.ready != self.ready_endpoints(row)) {
                continue;
            }
            let mut now = FoundName::clone(name);
            for row in now.rows.iter_mut().filter(|row| row.is_held()) {
                row.ready = self.ready_endpoints(row);
            }
            self.replace(&text, Some(now));
        }
        self.is_changed
    }

    /// Publishes the names, if any changed.
    pub(super) fn publish_found(&mut self) {
        if std::mem::take(&mut self.is_changed) {
            let held = self.holds.summary(&self.found.names);
            if held != *self.found.held {
                self.found.held = Arc::new(held);
                self.is_status_due = true;
            }
            self.publisher.found(&self.name, Arc::new(self.found.clone()));
        }
    }

    fn with_evidence<T>(&self, use_it: impl FnOnce(&Evidence<'_>) -> T) -> T {
        let health = self.publisher.health();
        let now = Timestamp::from(SystemTime::now()).secs();
        let ready = |row: &FoundRow| self.ready_endpoints(row);
        let settings = self.settings.borrow().withdrawals;
        use_it(&Evidence { health: &*health, ready: &ready, settings, now })
    }

    /// Returns the number of ready endpoints of a row now, also if its object is gone; `None` if it is unknown.
    fn ready_endpoints(&self, row: &FoundRow) -> Option<u32> {
        let before = row.ready?;
        let is_read = [Kind::Service, Kind::EndpointSlice].iter().all(|kind| self.listed.contains(kind));
        if row.services.is_empty() || !is_read {
            return Some(before);
        }
        Some(row.services.iter().map(|service| self.graph.ready_of(service)).fold(0, u32::saturating_add))
    }
}
