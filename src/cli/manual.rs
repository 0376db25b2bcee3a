//! `fairway completions` and `fairway manual`, from the definition of the command line.

use std::path::Path;

use anyhow::Context;
use clap_complete::Shell;

use super::{command, output::Out};

/// Prints the completion script of a shell.
pub(super) fn completions(out: Out, shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "fairway", &mut script);
    Ok(out.bytes(&script)?)
}

/// Prints the main page, or writes all pages into a folder.
pub(super) fn manual(out: Out, folder: Option<&Path>) -> anyhow::Result<()> {
    if let Some(folder) = folder {
        return clap_mangen::generate_to(command(), folder)
            .with_context(|| format!("{}: cannot write the pages; create the folder first", folder.display()));
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command()).manual("Fairway").render(&mut page)?;
    Ok(out.bytes(&page)?)
}
