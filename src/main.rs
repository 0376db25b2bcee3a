//! The `fairway` program.

use std::process::ExitCode;

use fairway_zones::WipingAllocator;

/// Overwrites freed memory, so that no copy of a credential stays in it.
#[global_allocator]
static ALLOCATOR: WipingAllocator = WipingAllocator;

fn main() -> ExitCode {
    fairway::cli::main()
}
