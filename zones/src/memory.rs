//! What memory needs and no safe library offers.
#![allow(unsafe_code, reason = "malloc_trim has no safe interface")]

/// Gives memory that nothing uses any more back to the system.
///
/// The allocator keeps what it once had, and a compilation has had several times what is left of it. Takes some milliseconds for
/// a million names, and is for threads that nobody waits for. Does nothing where the C library is not glibc.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and may be called by any thread at any time (malloc_trim(3): MT-Safe).
    unsafe {
        libc::malloc_trim(0);
    }
}
