//! `fairway version`.

use std::process::ExitCode;

use super::{args::VersionArgs, output::Out};

/// Version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Prints the version.
pub(super) fn version(out: Out, args: &VersionArgs) -> anyhow::Result<ExitCode> {
    if args.json {
        out.line(&format!("{{\"version\":\"{VERSION}\"}}"))?;
    } else {
        out.line(&format!("fairway {VERSION}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
