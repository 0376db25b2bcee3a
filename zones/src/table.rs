//! Hash table from names to node numbers, with open addressing, one for all zones.

/// A hash table of lower-case names.
///
/// A slot holds 32 bits of the hash as a tag, and the node's number plus one. So a lookup reads a name only if the tag
/// matches. It ends at the first unused slot. [`RUN_MAX`] bounds the used slots in a row, so it bounds each lookup.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    slots: Box<[u64]>,
    names: usize,
    is_crowded: bool,
}

impl Table {
    /// Returns a table with space for `count` names. At most half of the slots are used, so that runs stay short.
    pub(crate) fn with_room(count: usize) -> Self {
        Self { slots: vec![0; (count.max(4) * 2).next_power_of_two()].into(), names: 0, is_crowded: false }
    }

    /// True if more than [`RUN_MAX`] slots in a row are used, or were at some time. Then the table of names must not be
    /// served: another key for the hashes is needed.
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// True if the table holds no names.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.names == 0
    }

    /// Inserts a node and grows the table if it is full. `hash_of` returns the hash of a node in the table.
    pub(crate) fn add(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        if self.names == self.slots.len() / 2 {
            let mut larger = Self::with_room(self.names * 2);
            for held in self.numbers() {
                larger.place(hash_of(held), held);
            }
            *self = larger;
        }
        self.place(hash, number);
    }

    /// Removes a node. `hash_of` returns the hash of a node in the table.
    ///
    /// The nodes after it in its run move up, since a gap would end the run too early.
    pub(crate) fn remove(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        let mask = self.slots.len() - 1;
        let (sought, mut gap) = (hash & TAG | u64::from(number + 1), hash as usize & mask);
        while self.slots[gap] != sought {
            if self.slots[gap] == 0 {
                return;
            }
            gap = (gap + 1) & mask;
        }
        let mut at = (gap + 1) & mask;
        while let Some(held) = (self.slots[at] as u32).checked_sub(1) {
            let from_home = at.wrapping_sub(hash_of(held) as usize) & mask;
            if from_home >= at.wrapping_sub(gap) & mask {
                self.slots[gap] = self.slots[at];
                gap = at;
            }
            at = (at + 1) & mask;
        }
        self.slots[gap] = 0;
        self.names -= 1;
    }

    /// Returns the numbers of all nodes, in no order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().filter_map(|slot| (*slot as u32).checked_sub(1))
    }

    /// Replaces the number of every node.
    pub(crate) fn renumber(&mut self, numbers: &[u32]) {
        for slot in self.slots.iter_mut().filter(|slot| **slot != 0) {
            *slot = *slot & TAG | u64::from(numbers[*slot as u32 as usize - 1] + 1);
        }
    }

    /// Inserts a node. The caller has made space for it.
    fn place(&mut self, hash: u64, number: u32) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = hash & TAG | u64::from(number + 1);
        self.names += 1;
        self.is_crowded |= self.run_at(at) > RUN_MAX;
    }

    /// Returns the number of used slots in a row around a used one, counted up to [`RUN_MAX`] on each side.
    fn run_at(&self, at: usize) -> usize {
        let is_used = |at: usize| self.slots[at & (self.slots.len() - 1)] != 0;
        let after = (1..=RUN_MAX).take_while(|step| is_used(at.wrapping_add(*step))).count();
        let before = (1..=RUN_MAX).take_while(|step| is_used(at.wrapping_sub(*step))).count();
        before + 1 + after
    }

    /// Returns the first node whose tag matches, which most likely is the one that [`Table::find`] returns.
    #[inline(always)]
    pub(crate) fn guess(&self, hash: u64) -> Option<u32> {
        self.candidates(hash).next()
    }

    /// Returns the node with this hash for which `is_it` returns true.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.candidates(hash).find(|number| is_it(*number))
    }

    /// Returns the nodes whose tag matches, in the order of the probe sequence.
    #[inline(always)]
    pub(crate) fn candidates(&self, hash: u64) -> Candidates<'_> {
        Candidates { slots: &self.slots, at: hash as usize, hash }
    }
}

/// Nodes that may have a given hash.
pub(crate) struct Candidates<'a> {
    slots: &'a [u64],
    at: usize,
    hash: u64,
}

impl Iterator for Candidates<'_> {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        let mask = self.slots.len() - 1;
        // At least half of the slots are free and at most RUN_MAX in a row are used, so the loop ends soon.
        loop {
            let slot = self.slots[self.at & mask];
            if slot == 0 {
                return None;
            }
            self.at = self.at.wrapping_add(1);
            if (slot ^ self.hash) & TAG == 0 {
                return Some(slot as u32 - 1);
            }
        }
    }
}

/// Upper half of the hash, which is stored in the slot. The lower half selects the slot.
const TAG: u64 = 0xffff_ffff_0000_0000;

/// Maximum number of used slots in a row: 2 KiB, or 33 cache lines.
///
/// In a table that is half full, random hashes make a run of this length once in 10^21 slots: lengths fall by a factor of
/// e^0.19 per slot (0.19 = 0.5 - 1 - ln 0.5).
pub(crate) const RUN_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_equal_hashes_are_distinguished() {
        let mut table = Table::with_room(4);
        for (number, hash) in [7, 7, 1 << 40, 7].into_iter().enumerate() {
            table.place(hash, number as u32);
        }
        for wanted in [0, 1, 3] {
            assert_eq!(table.find(7, |n| n == wanted), Some(wanted));
        }
        assert_eq!((table.guess(7), table.guess(1 << 40), table.guess(1 << 50)), (Some(0), Some(2), None));
        assert_eq!(table.find(1 << 40, |n| n == 2), Some(2));
        assert_eq!(table.find(9, |_| false), None);
    }

    #[test]
    fn find_after_adds_and_removes_returns_present_nodes() {
        // Few first slots, so that runs are long and some wrap around the end of the table.
        let hash = |number: u32| u64::from(number % 7) * 5 + (u64::from(number % 3) << 40);
        let mut table = Table::with_room(0);
        let mut held = Vec::new();
        for step in 0..4_000u32 {
            let number = step.wrapping_mul(0x9e37_79b9) >> 26;
            if let Some(at) = held.iter().position(|known| *known == number) {
                held.swap_remove(at);
                table.remove(hash(number), number, hash);
            } else {
                held.push(number);
                table.add(hash(number), number, hash);
            }
            for number in 0..64 {
                let found = table.find(hash(number), |n| n == number);
                assert_eq!(found.is_some(), held.contains(&number), "{number} in step {step}");
            }
            assert_eq!(table.is_empty(), held.is_empty());
        }
        table.remove(hash(3), 1 << 20, hash);
        assert_eq!(table.names, held.len(), "one that it does not hold changes nothing");
    }

    #[test]
    fn run_longer_than_the_bound_makes_the_table_crowded() {
        let mut table = Table::with_room(4 * RUN_MAX);
        for number in 0..RUN_MAX as u32 {
            table.add(7, number, |_| 7);
        }
        assert!(!table.is_crowded());
        assert_eq!(table.find(7, |number| number == RUN_MAX as u32 - 1), Some(RUN_MAX as u32 - 1));
        table.add(7, RUN_MAX as u32, |_| 7);
        assert!(table.is_crowded());
        table.remove(7, 0, |_| 7);
        assert!(table.is_crowded(), "it stays so, as it is not counted anew");
    }

    #[test]
    fn runs_that_a_name_joins_count_as_one() {
        let mut table = Table::with_room(4 * RUN_MAX);
        // Slots on both sides of number 128, and around the end of the table.
        let hash = |number: u32| u64::from(number).wrapping_sub(100);
        for number in (0..=RUN_MAX as u32).filter(|number| *number != 128) {
            table.add(hash(number), number, hash);
        }
        assert!(!table.is_crowded());
        table.add(hash(128), 128, hash);
        assert!(table.is_crowded());
    }

    #[test]
    fn empty_table_finds_nothing() {
        assert_eq!(Table::with_room(0).find(0, |_| true), None);
    }
}
