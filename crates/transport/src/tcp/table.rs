//! All connections, ordered by their last query, in total and per client. Pure: it decides which connection is evicted, and the caller
//! closes it.
//!
//! Each use has a number, and a connection is filed under the number of its last use. So both orders are sorted maps, and every operation
//! takes logarithmic time, also in a flood.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
};

/// Number of a connection's last use; stale once the connection was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot(u64);

/// All connections. `H` is the handle that the owner needs to close one.
#[derive(Debug)]
pub(super) struct Table<H> {
    connections_max: usize,
    per_client_max: usize,
    /// Number of the last use of any connection.
    uses: u64,
    /// Client and handle of each connection, the idlest first.
    all: BTreeMap<u64, (IpAddr, H)>,
    /// Connections of each client that has one, the idlest first.
    clients: HashMap<IpAddr, BTreeSet<u64>>,
}

impl<H> Table<H> {
    /// Returns an empty table; both limits are at least 1.
    pub(super) fn new(connections_max: usize, per_client_max: usize) -> Self {
        let (connections_max, per_client_max) = (connections_max.max(1), per_client_max.max(1));
        Self { connections_max, per_client_max, uses: 0, all: BTreeMap::new(), clients: HashMap::new() }
    }

    /// Adds a connection as the busiest. If that exceeds a limit, removes the idlest connection of the same client, or else of all, and
    /// returns its handle.
    pub(super) fn admit(&mut self, from: IpAddr, handle: H) -> (Slot, Option<H>) {
        let client = client_of(from);
        let of_client = self.clients.get(&client).filter(|uses| uses.len() >= self.per_client_max);
        let evicted = match of_client.and_then(BTreeSet::first) {
            Some(&idlest) => self.take(Slot(idlest)).map(|(_, handle)| handle),
            None if self.all.len() >= self.connections_max => self.evict_idlest(),
            None => None,
        };
        (self.insert(client, handle), evicted)
    }

    /// Removes and returns the idlest connection, for a limit other than those of the table.
    pub(super) fn evict_idlest(&mut self) -> Option<H> {
        let idlest = *self.all.first_key_value()?.0;
        self.take(Slot(idlest)).map(|(_, handle)| handle)
    }

    /// Makes a connection the busiest, after a query, and returns its new slot. Ignores a stale slot.
    pub(super) fn touch(&mut self, slot: Slot) -> Slot {
        if slot.0 == self.uses {
            return slot;
        }
        match self.take(slot) {
            Some((client, handle)) => self.insert(client, handle),
            None => slot,
        }
    }

    /// Removes a connection. Ignores a stale slot.
    pub(super) fn remove_connection(&mut self, slot: Slot) {
        self.take(slot);
    }

    /// Returns the handles of all connections.
    pub(super) fn handles(&self) -> impl Iterator<Item = &H> {
        self.all.values().map(|(_, handle)| handle)
    }

    /// True if there are no connections.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn insert(&mut self, client: IpAddr, handle: H) -> Slot {
        self.uses += 1;
        self.all.insert(self.uses, (client, handle));
        self.clients.entry(client).or_default().insert(self.uses);
        Slot(self.uses)
    }

    fn take(&mut self, Slot(last_use): Slot) -> Option<(IpAddr, H)> {
        let (client, handle) = self.all.remove(&last_use)?;
        if let Some(uses) = self.clients.get_mut(&client) {
            uses.remove(&last_use);
            if uses.is_empty() {
                self.clients.remove(&client);
            }
        }
        Some((client, handle))
    }
}

/// Returns the key of a client: its IPv4 address or its IPv6 /64, because one host usually has a whole /64.
fn client_of(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => IpAddr::from((u128::from(v6) & (u128::MAX << 64)).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn full_table_evicts_the_connection_with_the_oldest_query() {
        let mut table = Table::new(2, 9);
        let (first, _) = table.admit(ip("192.0.2.1"), "first");
        table.admit(ip("192.0.2.2"), "second");
        assert_ne!(table.touch(first), first);
        assert_eq!(table.admit(ip("192.0.2.3"), "third").1, Some("second"));
        assert_eq!(table.admit(ip("192.0.2.4"), "fourth").1, Some("first"));
    }

    #[test]
    fn client_at_its_limit_loses_only_its_own_idlest_connection() {
        let mut table = Table::new(9, 2);
        table.admit(ip("192.0.2.9"), "bystander");
        table.admit(ip("2001:db8::1"), "a");
        table.admit(ip("2001:db8::2"), "b");
        assert_eq!(table.admit(ip("2001:db8::3"), "c").1, Some("a"));
        assert_eq!(table.admit(ip("2001:db8:0:1::1"), "d").1, None);
        assert_eq!(table.admit(ip("::ffff:192.0.2.9"), "e").1, None);
        assert_eq!(table.admit(ip("192.0.2.9"), "f").1, Some("bystander"));
    }

    #[test]
    fn stale_slot_changes_no_other_connection() {
        let mut table = Table::new(1, 1);
        let (stale, _) = table.admit(ip("192.0.2.1"), 1);
        table.admit(ip("192.0.2.2"), 2);
        table.remove_connection(stale);
        assert_eq!(table.touch(stale), stale);
        assert_eq!(table.evict_idlest(), Some(2));
        assert!(table.is_empty() && table.clients.is_empty());
        assert_eq!(table.evict_idlest(), None);
    }

    proptest! {
        /// Compares with a plain list after random operations: the same connections remain, in the same order.
        #[test]
        fn table_equals_a_list_ordered_by_last_use(steps in prop::collection::vec((0u8..4, any::<prop::sample::Index>(), 0u8..5), 1..200)) {
            let (mut table, mut plain) = (Table::new(8, 3), Vec::<(u8, u32, Slot)>::new());
            for (number, (step, index, client)) in (0u32..).zip(steps) {
                match step {
                    0 | 1 => {
                        let mut expected = plain.iter().position(|p| p.0 == client);
                        if plain.iter().filter(|p| p.0 == client).count() < 3 {
                            expected = (plain.len() == 8).then_some(0);
                        }
                        let expected = expected.map(|at| plain.remove(at).1);
                        let (slot, left) = table.admit(IpAddr::from([192, 0, 2, client]), number);
                        prop_assert_eq!(left, expected);
                        plain.push((client, number, slot));
                    }
                    2 if !plain.is_empty() => {
                        let mut used = plain.remove(index.index(plain.len()));
                        used.2 = table.touch(used.2);
                        plain.push(used);
                    }
                    _ if !plain.is_empty() => table.remove_connection(plain.remove(index.index(plain.len())).2),
                    _ => {}
                }
                prop_assert_eq!(table.all.len(), plain.len());
            }
            let rest: Vec<_> = std::iter::from_fn(|| table.evict_idlest()).collect();
            prop_assert_eq!(rest, plain.iter().map(|p| p.1).collect::<Vec<_>>());
            prop_assert!(table.clients.is_empty());
        }
    }
}
