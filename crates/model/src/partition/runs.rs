//! The runs of one address family: sorted flat arrays, an index over their leading bits, and a builder that turns nested
//! networks into runs.

use std::fmt::Debug;

/// An address as a number.
pub(super) trait Bits: Copy + Ord + Debug {
    /// Number of bits of an address.
    const WIDTH: u8;
    /// The first address.
    const FIRST: Self;

    /// Returns the next address; `None` after the last one.
    fn next(self) -> Option<Self>;

    /// Returns the number of leading bits in which this address differs from the address before `first` and from `next`.
    /// It must equal neither. The last address counts as the one before the first.
    fn distinct_prefix(self, first: Self, next: Self) -> u8;

    /// Returns the last address of the block of this length that begins here.
    fn last(self, length: u8) -> Self;

    /// Returns the distance from `base` in steps of 2^shift, at most `usize::MAX`. The distance from a later `base` wraps
    /// around the end of the address space.
    fn steps(self, base: Self, shift: u8) -> usize;

    /// Returns the address `steps` times 2^shift after `base`; `None` past the last one.
    fn at(base: Self, steps: usize, shift: u8) -> Option<Self>;
}

macro_rules! bits {
    ($type:ty) => {
        impl Bits for $type {
            const WIDTH: u8 = <$type>::BITS as u8;
            const FIRST: Self = 0;

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            #[inline]
            fn distinct_prefix(self, first: Self, next: Self) -> u8 {
                // The neighbour with the longer common prefix gives the smaller number.
                (self ^ first.wrapping_sub(1)).min(self ^ next).leading_zeros() as u8 + 1
            }

            fn last(self, length: u8) -> Self {
                self | Self::MAX.checked_shr(length.into()).unwrap_or(0)
            }

            #[inline]
            fn steps(self, base: Self, shift: u8) -> usize {
                usize::try_from(self.wrapping_sub(base) >> shift).unwrap_or(usize::MAX)
            }

            fn at(base: Self, steps: usize, shift: u8) -> Option<Self> {
                let steps = Self::try_from(steps).ok()?;
                let distance = steps.checked_mul((1 as Self).checked_shl(shift.into())?)?;
                base.checked_add(distance)
            }
        }
    };
}

bits!(u32);
bits!(u128);

/// Runs of addresses with one value each: a run begins at its start and ends before the next one.
#[derive(Clone, Debug)]
pub(super) struct Runs<A> {
    /// Sorted; begins with the first address of the family.
    pub(super) starts: Box<[A]>,
    /// The value of each run.
    pub(super) values: Box<[u32]>,
    index: Index<A>,
}

/// Maps the leading bits of an address to the runs that it may be in.
#[derive(Clone, Debug)]
struct Index<A> {
    /// The second start. Addresses before it are in the first run.
    base: A,
    shift: u8,
    /// The run at the beginning of each step of 2^shift addresses from the base, with [`SEVERAL`] if more runs begin in
    /// the step. Addresses after the last step are in the last run.
    steps: Box<[u32]>,
}

impl<A: Bits> PartialEq for Runs<A> {
    fn eq(&self, other: &Self) -> bool {
        (&self.starts, &self.values) == (&other.starts, &other.values)
    }
}

impl<A: Bits> Eq for Runs<A> {}

impl<A: Bits> Runs<A> {
    fn new(starts: Vec<A>, values: Vec<u32>) -> Self {
        let index = Index::new(&starts);
        Self { starts: starts.into(), values: values.into(), index }
    }

    pub(super) fn size_in_bytes(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.values) + size_of_val(&*self.index.steps)
    }

    #[inline(always)]
    pub(super) fn find(&self, address: A) -> (u32, u8) {
        let at = self.run_of(address);
        (self.values[at], self.length(at, address))
    }

    /// Returns the run that an address is in.
    #[inline(always)]
    fn run_of(&self, address: A) -> usize {
        match self.index.steps.get(address.steps(self.index.base, self.index.shift)) {
            Some(step) if step & SEVERAL == 0 => *step as usize,
            None if address < self.index.base => 0,
            _ => self.run_among(address),
        }
    }

    /// Finds the run of an address outside the index, or in a step with several runs.
    #[inline(never)]
    fn run_among(&self, address: A) -> usize {
        let Index { base, shift, steps } = &self.index;
        let run = |step: &u32| (step & !SEVERAL) as usize;
        let (low, high) = match steps.get(address.steps(*base, *shift)..) {
            _ if address < *base => (0, 0),
            Some([step, next, ..]) => (run(step), run(next)),
            Some([step]) => (run(step), self.starts.len() - 1),
            _ => return self.starts.len() - 1,
        };
        low + self.starts[low + 1..=high].partition_point(|start| *start <= address)
    }

    /// Returns the prefix length of the largest block around an address within its run: one bit more than the longest prefix
    /// it has in common with the last address before the run or the first one after it.
    ///
    /// The address space counts as a ring here, which does not change the result. The first address has only leading zeros
    /// in common with a later one, and every address between them has these zeros, too; likewise the last address.
    #[inline(always)]
    fn length(&self, at: usize, address: A) -> u8 {
        if self.starts.len() == 1 {
            return 0;
        }
        address.distinct_prefix(self.starts[at], self.starts.get(at + 1).copied().unwrap_or(A::FIRST))
    }

    /// Returns first address, prefix length and value of every block.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (A, u8, u32)> {
        self.starts.iter().enumerate().flat_map(move |(at, start)| {
            let end = self.starts.get(at + 1);
            let mut first = Some(*start);
            std::iter::from_fn(move || {
                let block = first.filter(|first| end.is_none_or(|end| first < end))?;
                let length = self.length(at, block);
                first = block.last(length).next();
                Some((block, length, self.values[at]))
            })
        })
    }

    pub(super) fn map(&self, change: &mut impl FnMut(u32) -> u32) -> Self {
        let mut drafted = Draft::default();
        for (start, value) in self.starts.iter().zip(&self.values) {
            drafted.begin(*start, change(*value));
        }
        drafted.finish()
    }

    pub(super) fn overlay(&self, other: &Self, merge: &mut impl FnMut(u32, u32) -> u32) -> Self {
        let (mut a, mut b) = (0, 0);
        let mut drafted = Draft::default();
        drafted.begin(A::FIRST, merge(self.values[0], other.values[0]));
        loop {
            let start = match (self.starts.get(a + 1), other.starts.get(b + 1)) {
                (None, None) => return drafted.finish(),
                (Some(of_a), Some(of_b)) => *of_a.min(of_b),
                (Some(start), None) | (None, Some(start)) => *start,
            };
            a += usize::from(self.starts.get(a + 1) == Some(&start));
            b += usize::from(other.starts.get(b + 1) == Some(&start));
            drafted.begin(start, merge(self.values[a], other.values[b]));
        }
    }
}

impl<A: Bits> Index<A> {
    fn new(starts: &[A]) -> Self {
        let (Some(base), Some(last)) = (starts.get(1).copied(), starts.last().copied()) else {
            return Self { base: A::FIRST, shift: 0, steps: Box::default() };
        };
        // About one step per run, so that most steps are within one run; bounded so that the index fits a level-2 cache.
        let most = starts.len().next_power_of_two().min(STEPS_MAX);
        let shift = (0..A::WIDTH).find(|shift| last.steps(base, *shift) < most).unwrap_or(A::WIDTH - 1);
        let count = last.steps(base, shift) + 1;
        let mut run = 0;
        let mut steps = Vec::with_capacity(count);
        for step in 0..count {
            let begin = A::at(base, step, shift).unwrap_or(last);
            while starts.get(run + 1).is_some_and(|next| *next <= begin) {
                run += 1;
            }
            let number = u32::try_from(run).ok().filter(|number| number & SEVERAL == 0);
            let number = number.expect("a partition has fewer than 2^31 runs");
            // The end of a step past the last address is unknown, so its runs are searched.
            let end = A::at(base, step + 1, shift);
            let is_one = end.is_some_and(|end| starts.get(run + 1).is_none_or(|next| *next >= end));
            steps.push(if is_one { number } else { number | SEVERAL });
        }
        Self { base, shift, steps: steps.into() }
    }
}

/// Runs that are added in order.
#[derive(Debug)]
struct Draft<A> {
    starts: Vec<A>,
    values: Vec<u32>,
}

impl<A> Default for Draft<A> {
    fn default() -> Self {
        Self { starts: Vec::new(), values: Vec::new() }
    }
}

impl<A: Bits> Draft<A> {
    /// Begins a run. Of two runs that begin at one address the later one is used; a run equal to the one before extends it.
    fn begin(&mut self, start: A, value: u32) {
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.values.pop();
        }
        if self.values.last() != Some(&value) {
            self.starts.push(start);
            self.values.push(value);
        }
    }

    fn finish(self) -> Runs<A> {
        Runs::new(self.starts, self.values)
    }
}

/// Builds runs from networks in order, each before those within it.
#[derive(Debug)]
pub(super) struct RunsBuilder<A> {
    runs: Draft<A>,
    elsewhere: u32,
    /// The networks that contain the current address, outermost first: last address and value.
    open: Vec<(A, u32)>,
    /// First address and length of the last network; no later one may sort before it.
    last_added: Option<(A, u8)>,
}

impl<A: Bits> RunsBuilder<A> {
    pub(super) fn new(elsewhere: u32) -> Self {
        let mut runs = Draft::default();
        runs.begin(A::FIRST, elsewhere);
        Self { runs, elsewhere, open: Vec::new(), last_added: None }
    }

    pub(super) fn add(&mut self, first: A, length: u8, value: u32) {
        if self.last_added.is_some_and(|last| (first, length) < last) {
            return;
        }
        self.last_added = Some((first, length));
        self.close(Some(first));
        self.runs.begin(first, value);
        self.open.push((first.last(length), value));
    }

    /// Ends the networks that end before an address; all of them without an address.
    fn close(&mut self, before: Option<A>) {
        while let Some((last, _)) = self.open.pop_if(|(last, _)| before.is_none_or(|first| *last < first)) {
            let Some(next) = last.next() else { continue };
            self.runs.begin(next, self.open.last().map_or(self.elsewhere, |(_, value)| *value));
        }
    }

    pub(super) fn finish(mut self) -> Runs<A> {
        self.close(None);
        self.runs.finish()
    }
}

/// Largest number of steps of the index of one family; 256 KiB of 4 bytes each.
const STEPS_MAX: usize = 1 << 16;
/// Flag of a step in which more than one run lies.
const SEVERAL: u32 = 1 << 31;
