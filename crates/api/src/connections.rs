//! Open connections of one listener: which newcomer gets a slot, and which connection it replaces. Pure: the caller closes connections.
//!
//! A connection is *busy* from a complete request until its response is sent, and then is never closed for another. For callers that did
//! not authenticate it ends once the response is known, so that nobody holds a slot by not reading. All other connections may be replaced:
//! first those that never authenticated, of these those of the client that has most, of these the one without a complete request for the
//! longest time. So a client with one connection does not lose it to somebody who opens many.
//!
//! A newcomer costs one pass over the clients, of which there are at most as many as slots.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use fairway_access::ClientKey;

/// Numbers of connections of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    /// Connections of all clients.
    pub(crate) all: usize,
    /// Additional connections, for newcomers while every other one is busy: health probes are answered there, all else is refused.
    pub(crate) reserve: usize,
}

/// The reason why a connection is in the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overload {
    /// All connections of this client are busy, and it may have no more.
    Client,
    /// All connections of the listener are busy.
    Listener,
}

/// A connection.
#[derive(Debug)]
struct Entry {
    client: ClientKey,
    overload: Option<Overload>,
    is_authenticated: bool,
    is_busy: bool,
    /// True after the first head of a request.
    has_requested: bool,
    /// Number of its last complete request, or of its arrival.
    last_use: u64,
    /// Is notified if the connection has to close.
    close: Arc<Notify>,
}

impl Entry {
    /// Order in which the connections of one client are replaced, the first one first.
    fn rank(&self) -> (bool, u64) {
        (self.is_authenticated, self.last_use)
    }
}

/// Connections of one client within the slots of all clients, or within the reserve.
#[derive(Debug, Default)]
struct OfClient {
    /// All of them.
    count: usize,
    /// Numbers of those that may be replaced, by their rank.
    idle: BTreeMap<(bool, u64), u64>,
}

/// Connections that share a bound, by client.
#[derive(Debug, Default)]
struct Group {
    count: usize,
    clients: HashMap<ClientKey, OfClient>,
}

impl Group {
    fn add(&mut self, number: u64, entry: &Entry) {
        self.count += 1;
        let of = self.clients.entry(entry.client).or_default();
        of.count += 1;
        if !entry.is_busy {
            of.idle.insert(entry.rank(), number);
        }
    }

    fn remove(&mut self, entry: &Entry) {
        self.count -= 1;
        if let Some(of) = self.clients.get_mut(&entry.client) {
            of.count -= 1;
            of.idle.remove(&entry.rank());
            if of.count == 0 {
                self.clients.remove(&entry.client);
            }
        }
    }

    /// Returns the connection that a newcomer replaces; `None` if all are busy.
    fn replaceable(&self) -> Option<u64> {
        let firsts = self.clients.values().filter_map(|of| {
            let ((is_authenticated, last_use), number) = of.idle.first_key_value()?;
            Some(((*is_authenticated, Reverse(of.count), *last_use), *number))
        });
        firsts.min().map(|(_, number)| number)
    }
}

/// All connections of a listener.
#[derive(Debug)]
struct Table {
    slots: Slots,
    /// Counts arrivals and requests, so that their order is known.
    uses: u64,
    entries: HashMap<u64, Entry>,
    /// Connections within the slots of all clients.
    main: Group,
    reserve: Group,
}

impl Table {
    /// Admits a connection. A client has at most `client_max`. Returns its number, and the reason if it is in the reserve; `None` if even
    /// that is busy.
    fn admit(&mut self, client: ClientKey, client_max: usize, close: Arc<Notify>) -> Option<(u64, Option<Overload>)> {
        let overload = if !self.has_space_for(client, client_max) {
            Some(Overload::Client)
        } else if self.main.count >= self.slots.all && !self.replace(self.main.replaceable()) {
            Some(Overload::Listener)
        } else {
            None
        };
        if overload.is_some() && self.reserve.count >= self.slots.reserve && !self.replace(self.reserve.replaceable()) {
            return None;
        }
        self.uses += 1;
        let (is_authenticated, is_busy, has_requested, last_use) = (false, false, false, self.uses);
        self.insert(last_use, Entry { client, overload, is_authenticated, is_busy, has_requested, last_use, close });
        Some((last_use, overload))
    }

    /// Replaces a connection of a client that is at its limit. Returns false if all of its connections are busy.
    fn has_space_for(&mut self, client: ClientKey, client_max: usize) -> bool {
        match self.main.clients.get(&client) {
            Some(of) if of.count >= client_max => {
                let first = of.idle.first_key_value().map(|(_, number)| *number);
                self.replace(first)
            }
            _ => true,
        }
    }

    /// Closes a connection for another one. Returns false if there is none.
    fn replace(&mut self, number: Option<u64>) -> bool {
        let replaced = number.and_then(|number| self.remove(number));
        replaced.inspect(|entry| entry.close.notify_one()).is_some()
    }

    fn insert(&mut self, number: u64, entry: Entry) {
        self.group(&entry).add(number, &entry);
        self.entries.insert(number, entry);
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        self.group(&entry).remove(&entry);
        Some(entry)
    }

    fn group(&mut self, entry: &Entry) -> &mut Group {
        if entry.overload.is_none() { &mut self.main } else { &mut self.reserve }
    }
}

/// All connections of a listener, shared by their tasks.
#[derive(Clone, Debug)]
pub(crate) struct Connections(Arc<Mutex<Table>>);

impl Connections {
    pub(crate) fn new(slots: Slots) -> Self {
        let (entries, main, reserve) = (HashMap::new(), Group::default(), Group::default());
        Self(Arc::new(Mutex::new(Table { slots, uses: 0, entries, main, reserve })))
    }

    /// Admits a connection, see [`Table::admit`].
    pub(crate) fn admit(&self, client: ClientKey, client_max: usize) -> Option<Slot> {
        let close = Arc::new(Notify::new());
        let (number, overload) = self.table().admit(client, client_max, Arc::clone(&close))?;
        Some(Slot { mark: Mark { connections: self.clone(), number }, overload, close })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of a connection; free once this is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    /// State of the connection.
    pub(crate) mark: Mark,
    /// Set if the connection is in the reserve.
    pub(crate) overload: Option<Overload>,
    close: Arc<Notify>,
}

impl Slot {
    /// Waits until the connection has to close for another one.
    pub(crate) async fn replaced(&self) {
        self.close.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.mark.connections.table().remove(self.mark.number);
    }
}

/// Records the state of a connection. Does nothing after the connection was replaced.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    connections: Connections,
    number: u64,
}

impl Mark {
    fn set(&self, change: impl FnOnce(&mut Entry, u64)) {
        let mut table = self.connections.table();
        table.uses += 1;
        let now = table.uses;
        if let Some(mut entry) = table.remove(self.number) {
            change(&mut entry, now);
            table.insert(self.number, entry);
        }
    }

    /// Records that the head of a request has arrived.
    pub(crate) fn requested(&self) {
        self.set(|entry, _| entry.has_requested = true);
    }

    /// Records that a request has arrived as a whole.
    pub(crate) fn busy(&self) {
        self.set(|entry, now| (entry.is_busy, entry.last_use) = (true, now));
    }

    /// Records that the response of a request is known (`is_sent` is false) or sent.
    pub(crate) fn answered(&self, is_sent: bool) {
        self.set(|entry, now| {
            entry.is_busy = entry.is_busy && entry.is_authenticated && !is_sent;
            entry.last_use = now;
        });
    }

    /// Records that the caller has authenticated.
    pub(crate) fn authenticated(&self) {
        self.set(|entry, _| entry.is_authenticated = true);
    }

    /// Returns true if the head of a request has arrived, or the connection was replaced.
    pub(crate) fn has_requested(&self) -> bool {
        self.connections.table().entries.get(&self.number).is_none_or(|entry| entry.has_requested)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn client(last: u8) -> ClientKey {
        IpAddr::from(Ipv4Addr::new(192, 0, 2, last)).into()
    }

    fn connections(all: usize, reserve: usize) -> Connections {
        Connections::new(Slots { all, reserve })
    }

    /// Returns which of these slots are still open.
    fn open(slots: &[&Slot]) -> Vec<bool> {
        slots.iter().map(|slot| slot.mark.connections.table().entries.contains_key(&slot.mark.number)).collect()
    }

    #[test]
    fn full_listener_closes_the_connection_without_a_request_for_the_longest_time() {
        let all = connections(3, 1);
        let [a, b, c] = [1, 2, 3].map(|last| all.admit(client(last), 3).unwrap());
        a.mark.busy();
        a.mark.answered(true);
        let d = all.admit(client(4), 3).unwrap();
        assert_eq!(open(&[&a, &b, &c, &d]), [true, false, true, true]);
        drop(c);
        let e = all.admit(client(5), 3).unwrap();
        assert_eq!(open(&[&a, &d, &e]), [true; 3], "a connection that ended has left its slot");
        let f = all.admit(client(6), 3).unwrap();
        assert_eq!(open(&[&a, &d, &e, &f]), [false, true, true, true]);
    }

    #[test]
    fn client_with_many_connections_loses_one_before_a_client_with_one() {
        let all = connections(4, 1);
        let honest = all.admit(client(1), 4).unwrap();
        let many = [2, 2, 2].map(|last| all.admit(client(last), 4).unwrap());
        let next = all.admit(client(3), 4).unwrap();
        assert_eq!(open(&[&honest, &many[0], &many[1], &many[2], &next]), [true, false, true, true, true]);
    }

    #[test]
    fn client_at_its_limit_replaces_its_own_connection() {
        let all = connections(9, 1);
        let (other, first) = (all.admit(client(1), 2).unwrap(), all.admit(client(2), 2).unwrap());
        let (second, third) = (all.admit(client(2), 2).unwrap(), all.admit(client(2), 2).unwrap());
        assert_eq!(open(&[&other, &first, &second, &third]), [true, false, true, true]);
        assert_eq!(third.overload, None);
    }

    #[test]
    fn authenticated_connection_is_closed_last() {
        let all = connections(2, 1);
        let (first, second) = (all.admit(client(1), 2).unwrap(), all.admit(client(2), 2).unwrap());
        first.mark.authenticated();
        let third = all.admit(client(3), 2).unwrap();
        assert_eq!(open(&[&first, &second, &third]), [true, false, true]);
    }

    #[test]
    fn busy_connection_is_never_closed_and_newcomers_get_the_reserve() {
        let all = connections(2, 1);
        let busy = [1, 2].map(|last| all.admit(client(last), 1).unwrap());
        busy.iter().for_each(|slot| slot.mark.busy());
        let refused = all.admit(client(3), 1).unwrap();
        assert_eq!(refused.overload, Some(Overload::Listener));
        assert_eq!(all.admit(client(1), 1).unwrap().overload, Some(Overload::Client));
        assert_eq!(open(&[&busy[0], &busy[1], &refused]), [true, true, false], "the reserve replaces its own");
        let last = all.admit(client(4), 1).unwrap();
        last.mark.busy();
        assert!(all.admit(client(5), 1).is_none());
    }

    #[test]
    fn caller_that_reads_no_response_is_busy_only_if_authenticated() {
        let all = connections(2, 1);
        let slots = [1, 2].map(|last| all.admit(client(last), 1).unwrap());
        slots[1].mark.authenticated();
        for slot in &slots {
            slot.mark.busy();
            slot.mark.answered(false);
        }
        let third = all.admit(client(3), 1).unwrap();
        third.mark.busy();
        assert_eq!((open(&[&slots[0], &slots[1]]), third.overload), (vec![false, true], None));
        assert_eq!(all.admit(client(4), 1).unwrap().overload, Some(Overload::Listener));
        slots[1].mark.answered(true);
        assert_eq!(all.admit(client(4), 1).unwrap().overload, None);
    }

    /// Random arrivals, requests and ends: the bounds hold, and no busy connection is closed.
    #[test]
    fn random_use_keeps_bounds_and_busy_connections() {
        use proptest::prelude::*;
        proptest!(|(steps in prop::collection::vec((0u8..5, any::<prop::sample::Index>(), 0u8..4), 1..300))| {
            let (all, mut held) = (connections(6, 2), Vec::<(Slot, bool)>::new());
            for (step, index, last) in steps {
                match step {
                    0 | 1 => held.extend(all.admit(client(last), 3).map(|slot| (slot, false))),
                    2 if !held.is_empty() => drop(held.remove(index.index(held.len()))),
                    3 if !held.is_empty() => {
                        let (slot, is_busy) = index.get_mut(&mut held);
                        slot.mark.busy();
                        *is_busy = open(&[slot])[0];
                    }
                    _ if !held.is_empty() => {
                        let (slot, is_busy) = index.get_mut(&mut held);
                        slot.mark.answered(true);
                        *is_busy = false;
                    }
                    _ => {}
                }
                let table = all.table();
                let main = |entry: &&Entry| entry.overload.is_none();
                prop_assert!(table.entries.values().filter(main).count() <= 6);
                prop_assert!(table.entries.len() <= 8);
                for last in 0..4 {
                    prop_assert!(table.entries.values().filter(main).filter(|e| e.client == client(last)).count() <= 3);
                }
                drop(table);
                prop_assert!(held.iter().all(|(slot, is_busy)| !is_busy || open(&[slot])[0]));
            }
        });
    }
}
