//! Memory management that no safe library offers.
#![allow(unsafe_code, reason = "malloc_trim, mallopt and allocators have no safe interface")]

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, which overwrites memory when it is freed.
///
/// Libraries copy credentials and do not overwrite the copies: buffers of requests, values of JSON, pages of the store, headers. So every
/// block is overwritten. Blocks from 4 MiB on are not: the system takes them back at once ([`bound_free_memory`]).
#[derive(Debug)]
pub struct WipingAllocator;

// SAFETY: `System` allocates and frees every block. Between, a block is overwritten only once its owner has freed it.
unsafe impl GlobalAlloc for WipingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is that of `System`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() < WIPED_MAX {
            // SAFETY: the caller gives back a block of this size that was allocated here. The compiler may not leave out this call, as it
            // may do with other writes to a block that is freed (explicit_bzero(3)).
            unsafe { libc::explicit_bzero(block.cast(), layout.size()) };
        }
        // SAFETY: the caller's promise is that of `System`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size() >= WIPED_MAX {
            // SAFETY: the caller's promise is that of `System`.
            return unsafe { System.realloc(block, layout, size) };
        }
        // SAFETY: the caller promises a size that is valid with this alignment; both blocks have at least the copied size.
        unsafe {
            let larger = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !larger.is_null() {
                block.copy_to_nonoverlapping(larger, layout.size().min(size));
                self.dealloc(block, layout);
            }
            larger
        }
    }
}

/// Size from which the system allocator gives each block a mapping of its own, which ends when the block is freed.
const WIPED_MAX: usize = KEPT_BYTES as usize;

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
const KEPT_BYTES: libc::c_int = 4 << 20;
