//! Memory management that no safe library offers.
#![allow(unsafe_code, reason = "malloc_trim and mallopt have no safe interface")]

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

/// Bounds the free memory that the allocator keeps: blocks that were freed, and the end of each of its areas.
///
/// Without a bound, glibc raises it to twice the largest block that was freed, for each of some ten areas, and [`give_back_memory`] does
/// not reach the end of an area: after requests of 8 MB it kept 120 MiB beside the 170 MiB of what they declared. Does nothing if the C
/// library is not glibc, or if there is another thread already (mallopt(3): MT-Unsafe).
pub fn bound_free_memory() {
    #[cfg(target_env = "gnu")]
    if std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1) {
        for option in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
            // SAFETY: mallopt takes two numbers, and there is no other thread.
            unsafe {
                libc::mallopt(option, KEPT_BYTES);
            }
        }
    }
}

/// Free memory that an area keeps at most. With less, a start with 600,000 names takes longer (1 MiB: 3 %; this: 1 %; median of 12).
#[cfg(target_env = "gnu")]
const KEPT_BYTES: libc::c_int = 4 << 20;
