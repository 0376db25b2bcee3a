//! All connections, ordered by their last query, in total and per client. Pure: it decides which connection is evicted, and the caller
//! closes it.
//!
//! ```text
//! nodes:   [3] [0] [5] ...          one per connection, reused
//! all:     idlest > ... > busiest    a list through the nodes
//! clients: address -> list           a second list through the same nodes
//! ```
//! Every operation is O(1), also in a flood.

use std::{collections::HashMap, net::IpAddr};

/// Index of a connection; stale once the connection was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    index: u32,
    generation: u32,
}

/// All connections. `H` is the handle that the owner needs to close one.
#[derive(Debug)]
pub(super) struct Table<H> {
    connections_max: usize,
    per_client_max: usize,
    nodes: Vec<Node<H>>,
    free: Vec<u32>,
    all: List,
    clients: HashMap<IpAddr, List>,
}

#[derive(Debug)]
struct Node<H> {
    generation: u32,
    client: IpAddr,
    /// `None` while the node is free.
    handle: Option<H>,
    /// Neighbours in the list of all connections and in the list of the client.
    links: [Links; 2],
}

/// Neighbours of a node: the next idler one and the next busier one.
#[derive(Clone, Copy, Debug, Default)]
struct Links {
    idler: Option<u32>,
    busier: Option<u32>,
}

/// A list through the nodes, from the idlest to the busiest.
#[derive(Clone, Copy, Debug, Default)]
struct List {
    idlest: Option<u32>,
    busiest: Option<u32>,
    length: usize,
}

/// The two lists that each node is in.
#[derive(Clone, Copy)]
enum ListKind {
    All = 0,
    Client = 1,
}

impl<H> Table<H> {
    /// Returns an empty table; both limits are at least 1.
    pub(super) fn new(connections_max: usize, per_client_max: usize) -> Self {
        let (connections_max, per_client_max) = (connections_max.max(1), per_client_max.max(1));
        let (nodes, free, all, clients) = (vec![], vec![], List::default(), HashMap::new());
        Self { connections_max, per_client_max, nodes, free, all, clients }
    }

    /// Adds a connection as the busiest. If that exceeds a limit, removes the idlest connection of the same client, or else of all, and
    /// returns its handle.
    pub(super) fn admit(&mut self, from: IpAddr, handle: H) -> (Slot, Option<H>) {
        let client = client_of(from);
        let of_client = self.clients.get(&client).filter(|list| list.length >= self.per_client_max);
        let idlest = match of_client {
            Some(list) => list.idlest,
            None if self.all.length >= self.connections_max => self.all.idlest,
            None => None,
        };
        let evicted = idlest.and_then(|index| self.free_node(index));
        let index = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(Node { generation: 0, client, handle: None, links: Default::default() });
            u32::try_from(self.nodes.len() - 1).expect("fewer connections than file descriptors, which are 31 bits")
        });
        let node = &mut self.nodes[index as usize];
        (node.client, node.handle) = (client, Some(handle));
        let generation = node.generation;
        self.push(index);
        (Slot { index, generation }, evicted)
    }

    /// Removes and returns the idlest connection, for a limit other than those of the table.
    pub(super) fn evict_idlest(&mut self) -> Option<H> {
        self.all.idlest.and_then(|index| self.free_node(index))
    }

    /// Makes a connection the busiest, after a query. Ignores a stale slot.
    pub(super) fn touch(&mut self, slot: Slot) {
        if self.all.busiest != Some(slot.index) && self.holds(slot) {
            self.unlink(slot.index);
            self.push(slot.index);
        }
    }

    /// Removes a connection. Ignores a stale slot.
    pub(super) fn remove_connection(&mut self, slot: Slot) {
        if self.holds(slot) {
            self.free_node(slot.index);
        }
    }

    /// Returns the handles of all connections.
    pub(super) fn handles(&self) -> impl Iterator<Item = &H> {
        self.nodes.iter().filter_map(|node| node.handle.as_ref())
    }

    /// True if there are no connections.
    pub(super) fn is_empty(&self) -> bool {
        self.all.length == 0
    }

    fn holds(&self, slot: Slot) -> bool {
        self.nodes.get(slot.index as usize).is_some_and(|n| n.handle.is_some() && n.generation == slot.generation)
    }

    fn free_node(&mut self, index: u32) -> Option<H> {
        self.unlink(index);
        self.free.push(index);
        let node = &mut self.nodes[index as usize];
        node.generation = node.generation.wrapping_add(1);
        node.handle.take()
    }

    /// Makes a node the busiest of both its lists.
    fn push(&mut self, index: u32) {
        let client = self.nodes[index as usize].client;
        let mut of_client = self.clients.get(&client).copied().unwrap_or_default();
        let mut all = self.all;
        self.append(&mut all, ListKind::All, index);
        self.append(&mut of_client, ListKind::Client, index);
        self.all = all;
        self.clients.insert(client, of_client);
    }

    /// Removes a node from both its lists.
    fn unlink(&mut self, index: u32) {
        let client = self.nodes[index as usize].client;
        let mut of_client = self.clients.get(&client).copied().unwrap_or_default();
        let mut all = self.all;
        self.remove(&mut all, ListKind::All, index);
        self.remove(&mut of_client, ListKind::Client, index);
        self.all = all;
        if of_client.length == 0 {
            self.clients.remove(&client);
        } else {
            self.clients.insert(client, of_client);
        }
    }

    fn append(&mut self, list: &mut List, list_kind: ListKind, index: u32) {
        self.nodes[index as usize].links[list_kind as usize] = Links { idler: list.busiest, busier: None };
        match list.busiest {
            Some(last) => self.nodes[last as usize].links[list_kind as usize].busier = Some(index),
            None => list.idlest = Some(index),
        }
        list.busiest = Some(index);
        list.length += 1;
    }

    fn remove(&mut self, list: &mut List, list_kind: ListKind, index: u32) {
        let Links { idler, busier } = self.nodes[index as usize].links[list_kind as usize];
        match idler {
            Some(idler) => self.nodes[idler as usize].links[list_kind as usize].busier = busier,
            None => list.idlest = busier,
        }
        match busier {
            Some(busier) => self.nodes[busier as usize].links[list_kind as usize].idler = idler,
            None => list.busiest = idler,
        }
        list.length -= 1;
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
        table.touch(first);
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
        table.touch(stale);
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
                        let used = plain.remove(index.index(plain.len()));
                        table.touch(used.2);
                        plain.push(used);
                    }
                    _ if !plain.is_empty() => table.remove_connection(plain.remove(index.index(plain.len())).2),
                    _ => {}
                }
                prop_assert_eq!(table.all.length, plain.len());
            }
            let rest: Vec<_> = std::iter::from_fn(|| table.evict_idlest()).collect();
            prop_assert_eq!(rest, plain.iter().map(|p| p.1).collect::<Vec<_>>());
            prop_assert!(table.clients.is_empty());
        }
    }
}
