//! `fairway version`.

use super::{args::VersionArgs, output::Out};

/// Version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Prints the version.
pub(super) fn version(out: Out, args: &VersionArgs) -> anyhow::Result<()> {
    let line = if args.json { format!("{{\"version\":\"{VERSION}\"}}") } else { format!("fairway {VERSION}") };
    Ok(out.line(&line)?)
}
