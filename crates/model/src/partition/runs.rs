//! The runs of one family: sorted flat arrays, an index over their leading bits, and how networks within networks become runs.

use std::fmt::Debug;

/// An address as a number.
pub(super) trait Bits: Copy + Ord + Debug {
    /// Bits of an address.
    const WIDTH: u8;
    /// The first address.
    const FIRST: Self;

    /// Returns the address after this one; none after the last.
    fn next(self) -> Option<Self>;

    /// How many leading bits tell this address from the one before `first` and from `next`, neither of which it is. Before the first
    /// address is the last one.
    fn told_apart(self, first: Self, next: Self) -> u8;

    /// Returns the last address of the block of this length that begins here.
    fn last(self, length: u8) -> Self;

    /// How far it is from `base` in steps of 2^shift, from an address before that once around; past the end of `usize` its largest
    /// value.
    fn steps(self, base: Self, shift: u8) -> usize;

    /// Returns the address so many steps of 2^shift after `base`; none past the last one.
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
            fn told_apart(self, first: Self, next: Self) -> u8 {
                // Whichever shares more bits with the address differs from it by the smaller number.
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
    /// The first is the first address of all.
    starts: Box<[A]>,
    values: Box<[u32]>,
    index: Index<A>,
}

/// Where among the starts to look for an address, by its leading bits.
#[derive(Clone, Debug)]
struct Index<A> {
    /// The second start: what is before it is in the first run.
    base: A,
    shift: u8,
    /// For each step from the base: the run in which it begins, and whether others begin in it ([`SEVERAL`]). What is behind the last
    /// step is in the last run.
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

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn starts(&self) -> &[A] {
        &self.starts
    }

    pub(super) fn values(&self) -> &[u32] {
        &self.values
    }

    pub(super) fn octets(&self) -> usize {
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

    /// The same where several runs have to be looked at, or the address is outside of the index.
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

    /// Length of the largest block around an address within its run: the first bits that tell it from the last address before
    /// the run and from the first one after it.
    ///
    /// Addresses are a ring here. What lies across its end tells no more bits than the run's other neighbour does: the first address
    /// shares at most the leading zeros of an address with it, and all of these are shared by whatever is between; likewise the last.
    #[inline(always)]
    fn length(&self, at: usize, address: A) -> u8 {
        if self.starts.len() == 1 {
            return 0;
        }
        address.told_apart(self.starts[at], self.starts.get(at + 1).copied().unwrap_or(A::FIRST))
    }

    /// First address, length and value of every block.
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
        let mut sketch = Sketch::default();
        self.starts.iter().zip(&self.values).for_each(|(start, value)| sketch.begin(*start, change(*value)));
        sketch.finish()
    }

    pub(super) fn overlay(&self, other: &Self, join: &mut impl FnMut(u32, u32) -> u32) -> Self {
        let (mut a, mut b) = (0, 0);
        let mut sketch = Sketch::default();
        sketch.begin(A::FIRST, join(self.values[0], other.values[0]));
        loop {
            let start = match (self.starts.get(a + 1), other.starts.get(b + 1)) {
                (None, None) => return sketch.finish(),
                (Some(of_a), Some(of_b)) => *of_a.min(of_b),
                (Some(start), None) | (None, Some(start)) => *start,
            };
            a += usize::from(self.starts.get(a + 1) == Some(&start));
            b += usize::from(other.starts.get(b + 1) == Some(&start));
            sketch.begin(start, join(self.values[a], other.values[b]));
        }
    }
}

impl<A: Bits> Index<A> {
    fn new(starts: &[A]) -> Self {
        let (Some(base), Some(last)) = (starts.get(1).copied(), starts.last().copied()) else {
            return Self { base: A::FIRST, shift: 0, steps: Box::default() };
        };
        // A step for each run, about, so that most steps lie in one; and never so many that the index leaves the second level of a cache.
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
            // A step past the last address has the first ones in it, around the ring.
            let end = A::at(base, step + 1, shift);
            let is_one = end.is_some_and(|end| starts.get(run + 1).is_none_or(|next| *next >= end));
            steps.push(if is_one { number } else { number | SEVERAL });
        }
        Self { base, shift, steps: steps.into() }
    }
}

/// Runs in the making: they begin in order.
#[derive(Debug)]
struct Sketch<A> {
    starts: Vec<A>,
    values: Vec<u32>,
}

impl<A> Default for Sketch<A> {
    fn default() -> Self {
        Self { starts: Vec::new(), values: Vec::new() }
    }
}

impl<A: Bits> Sketch<A> {
    /// From this address on there is another value. Said twice of one address, the later word counts.
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

/// Runs from networks that come in order, each before those inside it.
#[derive(Debug)]
pub(super) struct Nest<A> {
    sketch: Sketch<A>,
    elsewhere: u32,
    /// The networks around the place that is reached, the outermost first: last address and value.
    around: Vec<(A, u32)>,
    /// First address and length of the last network, below which nothing may come any more.
    reached: Option<(A, u8)>,
}

impl<A: Bits> Nest<A> {
    pub(super) fn new(elsewhere: u32) -> Self {
        let mut sketch = Sketch::default();
        sketch.begin(A::FIRST, elsewhere);
        Self { sketch, elsewhere, around: Vec::new(), reached: None }
    }

    pub(super) fn add(&mut self, first: A, length: u8, value: u32) {
        if self.reached.is_some_and(|reached| (first, length) < reached) {
            return;
        }
        self.reached = Some((first, length));
        self.leave(Some(first));
        self.sketch.begin(first, value);
        self.around.push((first.last(length), value));
    }

    /// Leaves the networks that end before an address; all of them where there is none.
    fn leave(&mut self, before: Option<A>) {
        while let Some((last, _)) = self.around.pop_if(|(last, _)| before.is_none_or(|first| *last < first)) {
            let Some(next) = last.next() else { continue };
            self.sketch.begin(next, self.around.last().map_or(self.elsewhere, |(_, value)| *value));
        }
    }

    pub(super) fn finish(mut self) -> Runs<A> {
        self.leave(None);
        self.sketch.finish()
    }
}

/// Most steps of the index of one family: 256 KiB.
const STEPS_MAX: usize = 1 << 16;
/// Bit of a step in which further runs begin.
const SEVERAL: u32 = 1 << 31;
