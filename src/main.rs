//! The `fairway` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    fairway::cli::main()
}
