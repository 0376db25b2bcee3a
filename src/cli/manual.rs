//! `fairway completions` and `fairway manual`, from the definition of the command line.

use std::{io, path::Path, process::ExitCode};

use anyhow::Context;
use clap_complete::Shell;

use super::{command, output::Out};

/// Prints the completion script of a shell.
pub(super) fn completions(out: Out, shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "fairway", &mut script);
    out.bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the main page, or writes all pages into a folder.
pub(super) fn manual(out: Out, folder: Option<&Path>) -> anyhow::Result<ExitCode> {
    match folder {
        Some(folder) => clap_mangen::generate_to(command(), folder)
            .with_context(|| format!("{}: cannot write the pages; create the folder first", folder.display()))?,
        None => out.bytes(&main_page()?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn main_page() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command()).manual("Fairway").render(&mut page)?;
    Ok(page)
}
