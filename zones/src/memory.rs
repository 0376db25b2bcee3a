//! Memory management that no safe library offers.
#![allow(unsafe_code, reason = "malloc_trim has no safe interface")]

/// Returns free memory of the allocator to the system.
///
/// The allocator keeps the peak of a compilation, several times what the snapshot needs. Takes some milliseconds for a
/// million names, so call it from a thread that nothing waits for. Does nothing if the C library is not glibc.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim takes no pointer, and any thread may call it at any time (malloc_trim(3): MT-Safe).
    unsafe {
        libc::malloc_trim(0);
    }
}
