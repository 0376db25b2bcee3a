//! The host names that are looked up: their addresses, and the time of the next look-up of each.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_model::{Cluster, HostAddresses, Name, SharedMap, Timestamp, stable_hash};

/// Addresses and state of one host name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Its addresses, at most [`Cluster::ADDRESSES_MAX`] of each family, in an order that does not depend on that of the answer.
    pub addresses: Arc<[IpAddr]>,
    /// Time of the last look-up that found addresses; `None` if none has.
    pub resolved_at: Option<Timestamp>,
    /// Cause of the failure of the last look-up; `None` if it succeeded.
    pub failure: Option<String>,
}

/// The answer of a resolver for one family of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// These addresses, perhaps none.
    Addresses(Vec<IpAddr>),
    /// No answer, or one that says nothing about addresses, with the cause.
    Failed(String),
}

/// The result of one look-up: IPv4 and IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lookup {
    /// The answers, IPv4 first.
    pub(crate) answers: [Answer; 2],
    /// Time for which the addresses may be used.
    pub(crate) ttl: Duration,
}

/// Addresses of a host name from the last process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedHost {
    /// The host name.
    pub name: Name,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Time of the look-up.
    pub resolved_at: Timestamp,
}

/// The host names that are looked up.
#[derive(Debug, Default)]
pub(crate) struct HostTable {
    entries: BTreeMap<Name, Entry>,
    /// Names that wait for their next look-up: those of tenants, and those of the operator.
    due: [BTreeSet<(Instant, Name)>; 2],
    /// Number of names of tenants.
    of_tenants: u32,
    /// Addresses of the names that have some.
    addresses: HostAddresses,
    /// Addresses and state of each name.
    hosts: SharedMap<Name, Arc<Host>>,
    /// Number of names whose last look-up failed.
    failing: usize,
}

/// The progress of one host name.
#[derive(Debug)]
struct Entry {
    /// True if the files declare it. Names of tenants may be many and slow, and never delay those of the operator.
    is_own: bool,
    /// Time of the next look-up; `None` while one runs.
    due: Option<Instant>,
    /// Look-ups in a row that failed.
    failures: u32,
    /// True if the last answer had less than [`HostTable::PERIOD_MIN`] of its TTL left, and the one before had not.
    was_rest: bool,
}

impl HostTable {
    /// Shortest time between two look-ups of a name. If an answer from the cache of the resolver has the rest of a TTL only, the next
    /// look-up follows the end of that.
    pub(crate) const PERIOD_MIN: Duration = Duration::from_secs(5);
    /// Longest time between two look-ups of a name, whatever its TTL.
    pub(crate) const PERIOD_MAX: Duration = Duration::from_secs(300);
    /// Time after the end of a TTL at which a name is looked up again.
    const EXPIRY: Duration = Duration::from_millis(250);
    /// Resolvers count in whole seconds: up to a second after the end of a TTL, they answer from their cache, with a TTL of 0.
    const SECOND: Duration = Duration::from_secs(1);
    /// Longest time between two look-ups that fail.
    const RETRY_MAX: Duration = Duration::from_secs(30);
    /// Look-ups per second of all names of tenants together.
    const PER_SECOND: u32 = 100;
    /// Maximum number of names of tenants. Further ones, in order of name, are not looked up.
    pub(crate) const OF_TENANTS_MAX: usize = 10_000;

    /// Returns a table that knows these addresses until a look-up replaces them.
    pub(crate) fn new(saved: impl IntoIterator<Item = SavedHost>) -> Self {
        let mut table = Self::default();
        for SavedHost { name, addresses, resolved_at } in saved {
            let addresses = chosen(addresses);
            let host = Host { addresses, resolved_at: Some(resolved_at), failure: None };
            table.set(name, host);
        }
        table
    }

    /// Follows these names from now on, each with true if the files declare it: new ones are due at once, others are forgotten. Returns true
    /// if addresses were forgotten.
    pub(crate) fn follow(&mut self, names: &BTreeMap<Name, bool>, now: Instant) -> bool {
        let is_kept = |name: &Name| self.entries.get(name).is_some_and(|of| names.get(name) == Some(&of.is_own));
        let is_saved = |name: &Name| !self.entries.contains_key(name) && names.contains_key(name);
        let gone: Vec<Name> = self.hosts.keys().filter(|name| !is_kept(name) && !is_saved(name)).cloned().collect();
        let mut had_addresses = false;
        for name in &gone {
            if let Some(Entry { due, is_own, .. }) = self.entries.remove(name) {
                self.of_tenants -= u32::from(!is_own);
                due.map(|due| self.due[usize::from(is_own)].remove(&(due, name.clone())));
            }
            if !names.contains_key(name) {
                had_addresses |= self.addresses.remove(name).is_some();
                let host = self.hosts.remove(name);
                self.failing -= usize::from(host.is_some_and(|host| host.failure.is_some()));
            }
        }
        for (name, is_own) in names {
            if self.entries.contains_key(name) {
                continue;
            }
            if !self.hosts.contains_key(name) {
                self.hosts.insert(name.clone(), Arc::default());
            }
            if !is_own && self.of_tenants as usize >= Self::OF_TENANTS_MAX {
                let failure =
                    format!("{} other host names are looked up for tenants, which is the limit", self.of_tenants);
                let host = self.hosts.get(name).map(|host| Host::clone(host)).unwrap_or_default();
                self.set(name.clone(), Host { failure: Some(failure), ..host });
                continue;
            }
            self.of_tenants += u32::from(!is_own);
            self.entries.insert(name.clone(), Entry { is_own: *is_own, due: Some(now), failures: 0, was_rest: false });
            self.due[usize::from(*is_own)].insert((now, name.clone()));
        }
        had_addresses
    }

    /// Returns a name that is due, and true if the files declare it; marks it as being looked up. Names of tenants come last, and not at all
    /// without `with_tenants`.
    pub(crate) fn begin(&mut self, now: Instant, with_tenants: bool) -> Option<(Name, bool)> {
        let mut queues = self.due.iter_mut().zip([false, true]).rev().filter(|(_, is_own)| *is_own || with_tenants);
        let (queue, is_own) = queues.find(|(queue, _)| queue.first().is_some_and(|(due, _)| *due <= now))?;
        let (_, name) = queue.pop_first()?;
        self.entries.get_mut(&name)?.due = None;
        Some((name, is_own))
    }

    /// Returns the time of the next look-up, of the names of the operator alone without `with_tenants`.
    pub(crate) fn next_due(&self, with_tenants: bool) -> Option<Instant> {
        let [tenants, own] = &self.due;
        let tenants = tenants.first().filter(|_| with_tenants);
        own.first().into_iter().chain(tenants).map(|(due, _)| *due).min()
    }

    /// Takes the result of a look-up. A family without an answer keeps its last good addresses, until no look-up has found any for
    /// `keep_for`. Returns true if addresses changed.
    pub(crate) fn finish(
        &mut self,
        name: &Name,
        lookup: Lookup,
        keep_for: Duration,
        (now, wall): (Instant, Timestamp),
    ) -> bool {
        let Some(entry) = self.entries.get_mut(name) else { return false };
        let before = self.hosts.get(name).map(Arc::clone).unwrap_or_default();
        let host = before.after(lookup.answers, keep_for, wall);
        entry.failures = if host.failure.is_some() { entry.failures.saturating_add(1) } else { 0 };
        let pause = match entry.failures {
            0 if lookup.ttl >= Self::PERIOD_MIN => lookup.ttl.min(Self::PERIOD_MAX) + Self::EXPIRY,
            // The rest of a longer TTL, from the cache of the resolver. The next answer should have the whole TTL.
            0 if !entry.was_rest => lookup.ttl + Self::SECOND - Self::EXPIRY,
            0 => Self::PERIOD_MIN,
            failures => Self::RETRY_MAX.min(Self::PERIOD_MIN * (1 << failures.min(8)) / 2),
        };
        entry.was_rest = entry.failures == 0 && lookup.ttl < Self::PERIOD_MIN && !entry.was_rest;
        let others = if entry.is_own { 0 } else { self.of_tenants };
        let due = now + pause.max(Duration::from_secs(1) * others / Self::PER_SECOND);
        let queue = &mut self.due[usize::from(entry.is_own)];
        // A name that was forgotten and followed again meanwhile is due already.
        if let Some(due) = entry.due.replace(due) {
            queue.remove(&(due, name.clone()));
        }
        queue.insert((due, name.clone()));
        let is_changed = before.addresses != host.addresses;
        self.set(name.clone(), host);
        is_changed
    }

    /// Returns the addresses of all names that have some.
    pub(crate) const fn addresses(&self) -> &HostAddresses {
        &self.addresses
    }

    /// Returns the number of names whose last look-up failed.
    pub(crate) const fn failing(&self) -> usize {
        self.failing
    }

    /// Returns what is known of each name.
    pub(crate) const fn hosts(&self) -> &SharedMap<Name, Arc<Host>> {
        &self.hosts
    }

    fn set(&mut self, name: Name, host: Host) {
        if host.addresses.is_empty() {
            self.addresses.remove(&name);
        } else if self.addresses.get(&name) != Some(&host.addresses) {
            self.addresses.insert(name.clone(), Arc::clone(&host.addresses));
        }
        self.failing += usize::from(host.failure.is_some());
        let before = self.hosts.insert(name, Arc::new(host));
        self.failing -= usize::from(before.is_some_and(|before| before.failure.is_some()));
    }
}

impl Host {
    /// Returns what is known after a look-up.
    fn after(&self, answers: [Answer; 2], keep_for: Duration, now: Timestamp) -> Self {
        let is_kept = self.resolved_at.is_some_and(|at| now.since(at) < keep_for);
        let (mut addresses, mut failure, mut is_any_new) = (Vec::new(), None, false);
        let has_found_none =
            answers.iter().all(|answer| matches!(answer, Answer::Addresses(found) if found.is_empty()));
        for (answer, is_v4) in answers.into_iter().zip([true, false]) {
            match answer {
                Answer::Addresses(found) if !has_found_none => {
                    is_any_new |= !found.is_empty();
                    addresses.extend(found);
                }
                answer => {
                    addresses.extend(self.addresses.iter().filter(|address| is_kept && address.is_ipv4() == is_v4));
                    if let Answer::Failed(cause) = answer {
                        failure.get_or_insert(cause);
                    }
                }
            }
        }
        if has_found_none {
            failure = Some("the name has no addresses".to_owned());
        }
        let resolved_at = if is_any_new { Some(now) } else { self.resolved_at };
        Self { addresses: chosen(addresses), resolved_at, failure }
    }
}

/// Returns the addresses that are used: of each family the first ones by a hash, so that an answer in another order, or with a part of a
/// large set, changes as few as possible.
fn chosen(mut addresses: Vec<IpAddr>) -> Arc<[IpAddr]> {
    addresses.sort_by_cached_key(|address| (address.is_ipv6(), stable_hash(address), *address));
    addresses.dedup();
    let [mut v4, mut v6] = [0; 2];
    addresses.retain(|address| {
        let count = if address.is_ipv4() { &mut v4 } else { &mut v6 };
        *count += 1;
        *count <= Cluster::ADDRESSES_MAX
    });
    addresses.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    /// A table that follows one name, with a clock.
    struct Scene {
        table: HostTable,
        begun: Instant,
        at: u64,
    }

    impl Scene {
        fn new(saved: Vec<SavedHost>) -> Self {
            let mut scene = Self { table: HostTable::new(saved), begun: Instant::now(), at: 1_000 };
            scene.table.follow(&BTreeMap::from([(lb(), true)]), scene.now().0);
            scene
        }

        fn now(&self) -> (Instant, Timestamp) {
            (self.begun + Duration::from_secs(self.at), Timestamp::from_secs(self.at))
        }

        /// Waits until the name is due, and looks it up. Returns how long that took, and what is known then.
        fn look_up(&mut self, answers: [Answer; 2], ttl: u64) -> (u64, Host) {
            let due = self.table.next_due(true).unwrap();
            // Whole seconds: a look-up comes a moment after the end of a TTL.
            let waited = due.saturating_duration_since(self.now().0).as_secs_f64().ceil() as u64;
            self.at += waited;
            assert_eq!(self.table.begin(self.now().0, true), Some((lb(), true)));
            assert_eq!((self.table.begin(self.now().0, true), self.table.next_due(true)), (None, None));
            self.table.finish(&lb(), Lookup { answers, ttl: Duration::from_secs(ttl) }, DAY, self.now());
            (waited, Host::clone(self.table.hosts().get(&lb()).unwrap()))
        }
    }

    fn lb() -> Name {
        "lb.elb.test".parse().unwrap()
    }

    fn found(addresses: &[&str]) -> Answer {
        Answer::Addresses(addresses.iter().map(|address| address.parse().unwrap()).collect())
    }

    fn failed() -> Answer {
        Answer::Failed("no answer".to_owned())
    }

    fn texts(host: &Host) -> Vec<String> {
        let mut texts: Vec<_> = host.addresses.iter().map(ToString::to_string).collect();
        texts.sort();
        texts
    }

    #[test]
    fn addresses_follow_their_ttl_within_bounds() {
        let mut scene = Scene::new(vec![]);
        let (waited, host) = scene.look_up([found(&["192.0.2.1"]), found(&["2001:db8::1"])], 60);
        assert_eq!((waited, texts(&host)), (0, vec!["192.0.2.1".to_owned(), "2001:db8::1".to_owned()]));
        let (waited, host) = scene.look_up([found(&["192.0.2.2"]), found(&[])], 1);
        assert_eq!((waited, texts(&host)), (61, vec!["192.0.2.2".to_owned()]));
        let waits = [1, 1, 1, 86_400, 60].map(|ttl| scene.look_up([found(&["192.0.2.2"]), found(&[])], ttl).0);
        assert_eq!(
            waits,
            [2, 5, 2, 5, 301],
            "a TTL of a second may be the rest of a longer one, but not twice in a row"
        );
    }

    #[test]
    fn last_good_addresses_stay_while_look_ups_fail_and_are_forgotten_after_keep_for() {
        let saved =
            SavedHost { name: lb(), addresses: vec![[192, 0, 2, 1].into()], resolved_at: Timestamp::from_secs(900) };
        let mut scene = Scene::new(vec![saved]);
        assert!(scene.table.addresses().contains_key(&lb()), "before the first look-up of this process");
        let waits: Vec<u64> = (0..6)
            .map(|_| {
                let (waited, host) = scene.look_up([failed(), failed()], 0);
                assert_eq!((texts(&host), host.failure.as_deref()), (vec!["192.0.2.1".to_owned()], Some("no answer")));
                waited
            })
            .collect();
        assert_eq!(waits, [0, 5, 10, 20, 30, 30]);
        // A name that is gone for a moment keeps its addresses, too: a mistake at the load balancer's zone must not empty answers.
        let (_, host) = scene.look_up([found(&[]), found(&[])], 0);
        assert_eq!((host.addresses.len(), host.failure.as_deref()), (1, Some("the name has no addresses")));
        scene.at += DAY.as_secs();
        let (_, host) = scene.look_up([failed(), failed()], 0);
        assert_eq!((host.addresses.len(), host.resolved_at), (0, Some(Timestamp::from_secs(900))));
        assert!(scene.table.addresses().is_empty() && scene.table.failing() == 1);
        let (_, host) = scene.look_up([found(&["192.0.2.7"]), failed()], 60);
        assert_eq!((texts(&host), host.failure.is_some()), (vec!["192.0.2.7".to_owned()], true));
    }

    #[test]
    fn family_without_an_answer_keeps_its_addresses() {
        let mut scene = Scene::new(vec![]);
        scene.look_up([found(&["192.0.2.1"]), found(&["2001:db8::1"])], 60);
        let (_, host) = scene.look_up([found(&["192.0.2.2"]), failed()], 60);
        assert_eq!(texts(&host), ["192.0.2.2", "2001:db8::1"]);
    }

    #[test]
    fn of_many_addresses_the_same_eight_are_used_in_whatever_order_they_come() {
        let all: Vec<String> = (0..250).map(|n| format!("192.0.2.{n}")).collect();
        let mut order: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut scene = Scene::new(vec![]);
        let (_, first) = scene.look_up([found(&order), found(&[])], 60);
        order.reverse();
        let (_, second) = scene.look_up([found(&order), found(&[])], 60);
        assert_eq!((first.addresses.len(), &first.addresses), (Cluster::ADDRESSES_MAX, &second.addresses));
    }

    #[test]
    fn name_that_is_no_longer_used_is_forgotten_and_its_running_look_up_changes_nothing() {
        let mut scene = Scene::new(vec![]);
        scene.look_up([found(&["192.0.2.1"]), found(&[])], 5);
        scene.at += 6;
        assert_eq!(scene.table.begin(scene.now().0, true), Some((lb(), true)));
        assert!(scene.table.follow(&BTreeMap::new(), scene.now().0), "its addresses are forgotten");
        let late = Lookup { answers: [found(&["192.0.2.9"]), found(&[])], ttl: Duration::ZERO };
        assert!(!scene.table.finish(&lb(), late, DAY, scene.now()));
        assert_eq!((scene.table.hosts().len(), scene.table.next_due(true)), (0, None));
    }

    #[test]
    fn names_of_tenants_are_bounded_and_do_not_delay_those_of_the_operator() {
        let of_tenants = (0..HostTable::OF_TENANTS_MAX + 5).map(|n| format!("lb{n:05}.elb.test").parse().unwrap());
        let mut names: BTreeMap<Name, bool> = of_tenants.map(|name| (name, false)).collect();
        names.insert(lb(), true);
        let (mut table, now) = (HostTable::default(), Instant::now());
        table.follow(&names, now);
        assert_eq!(table.failing(), 5, "those over the bound");
        let mut began = Vec::new();
        while let Some((name, is_own)) = table.begin(now, began.len() < 4_000) {
            let lookup = Lookup { answers: [found(&["192.0.2.1"]), found(&[])], ttl: Duration::from_secs(5) };
            table.finish(&name, lookup, DAY, (now, Timestamp::from_secs(0)));
            began.push(is_own);
        }
        assert_eq!((began.len(), began[0], began.iter().filter(|is_own| **is_own).count()), (4_000, true, 1));
        assert_eq!(table.next_due(false), Some(now + Duration::from_millis(5_250)), "whatever tenants have");
        while let Some((name, false)) = table.begin(now, true) {
            let lookup = Lookup { answers: [failed(), failed()], ttl: Duration::ZERO };
            table.finish(&name, lookup, DAY, (now, Timestamp::from_secs(0)));
        }
        table.follow(&BTreeMap::from([(lb(), false)]), now);
        assert_eq!((table.hosts().len(), table.of_tenants, table.failing()), (1, 1, 0));
        assert_eq!(table.begin(now, true), Some((lb(), false)), "it is a tenant's now");
        table.follow(&BTreeMap::new(), now);
        assert_eq!((table.of_tenants, table.next_due(true), table.addresses().len()), (0, None, 0));
    }
}
