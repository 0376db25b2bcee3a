//! Byte strings that are mostly short.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

/// A byte string that is stored in place if it has at most `INLINE` bytes, else on the heap. So a million names or
/// addresses need no million allocations.
///
/// Its own size is `INLINE` + 2 bytes, rounded up to a multiple of 8, and at least 24.
#[derive(Clone)]
pub struct SmallBytes<const INLINE: usize>(Storage<INLINE>);

#[derive(Clone)]
enum Storage<const INLINE: usize> {
    Inline { len: u8, bytes: [u8; INLINE] },
    Heap(Box<[u8]>),
}

impl<const INLINE: usize> From<&[u8]> for SmallBytes<INLINE> {
    fn from(from: &[u8]) -> Self {
        match u8::try_from(from.len()) {
            Ok(len) if from.len() <= INLINE => {
                let mut bytes = [0; INLINE];
                bytes[..from.len()].copy_from_slice(from);
                Self(Storage::Inline { len, bytes })
            }
            _ => Self(Storage::Heap(from.into())),
        }
    }
}

impl<const INLINE: usize> From<Vec<u8>> for SmallBytes<INLINE> {
    fn from(from: Vec<u8>) -> Self {
        if from.len() <= INLINE { from.as_slice().into() } else { Self(Storage::Heap(from.into())) }
    }
}

impl<const INLINE: usize> Deref for SmallBytes<INLINE> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Storage::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Storage::Heap(bytes) => bytes,
        }
    }
}

impl<const INLINE: usize> DerefMut for SmallBytes<INLINE> {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Storage::Inline { len, bytes } => &mut bytes[..usize::from(*len)],
            Storage::Heap(bytes) => bytes,
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
    fn short_and_long_strings_read_back_equal() {
        for len in 0..40u8 {
            let octets: Vec<u8> = (0..len).collect();
            let (copied, moved) = (SmallBytes::<22>::from(&octets[..]), SmallBytes::<22>::from(octets.clone()));
            assert_eq!((&*copied, &copied), (&octets[..], &moved));
        }
        assert_eq!((size_of::<SmallBytes<22>>(), size_of::<SmallBytes<30>>()), (24, 32));
    }
}
