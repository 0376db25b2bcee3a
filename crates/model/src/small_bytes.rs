//! Octets that are mostly few.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

/// Octets that lie in place up to `INLINE` of them, and on the heap where they are more: a million names or addresses
/// then take no allocation each.
///
/// Takes `INLINE` + 2 octets itself, rounded up to a multiple of 8 (and at least 24).
#[derive(Clone)]
pub struct SmallBytes<const INLINE: usize>(Kept<INLINE>);

#[derive(Clone)]
enum Kept<const INLINE: usize> {
    Inline { len: u8, octets: [u8; INLINE] },
    Heap(Box<[u8]>),
}

impl<const INLINE: usize> From<&[u8]> for SmallBytes<INLINE> {
    fn from(from: &[u8]) -> Self {
        match u8::try_from(from.len()) {
            Ok(len) if from.len() <= INLINE => {
                let mut octets = [0; INLINE];
                octets[..from.len()].copy_from_slice(from);
                Self(Kept::Inline { len, octets })
            }
            _ => Self(Kept::Heap(from.into())),
        }
    }
}

impl<const INLINE: usize> From<Vec<u8>> for SmallBytes<INLINE> {
    fn from(from: Vec<u8>) -> Self {
        if from.len() <= INLINE { from.as_slice().into() } else { Self(Kept::Heap(from.into())) }
    }
}

impl<const INLINE: usize> Deref for SmallBytes<INLINE> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kept::Inline { len, octets } => &octets[..usize::from(*len)],
            Kept::Heap(octets) => octets,
        }
    }
}

impl<const INLINE: usize> DerefMut for SmallBytes<INLINE> {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Kept::Inline { len, octets } => &mut octets[..usize::from(*len)],
            Kept::Heap(octets) => octets,
        }
    }
}

impl<const INLINE: usize> PartialEq for SmallBytes<INLINE> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<const INLINE: usize> Eq for SmallBytes<INLINE> {}

impl<const INLINE: usize> fmt::Debug for SmallBytes<INLINE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_octets_are_kept_alike() {
        for len in 0..40u8 {
            let octets: Vec<u8> = (0..len).collect();
            let (copied, moved) = (SmallBytes::<22>::from(&octets[..]), SmallBytes::<22>::from(octets.clone()));
            assert_eq!((&*copied, &copied), (&octets[..], &moved));
        }
        assert_eq!((size_of::<SmallBytes<22>>(), size_of::<SmallBytes<30>>()), (24, 32));
    }
}
