//! `fairway token create`.

use std::{
    fs::OpenOptions,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use clap::{Args, Subcommand, ValueHint};
use fairway_model::{ClusterName, Timestamp};

use super::{output::Out, values};
use fairway_access::{TokenHash, new_token};

/// Create API tokens.
#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Create a token and its entry for the configuration.
    ///
    /// The token has 256 random bits. It is shown once; the configuration holds only its SHA-256. No server is called: put the printed
    /// entry into `access.tokens`, and give the token permissions with a grant.
    #[command(after_long_help = "\
Examples:
  fairway token create ci
  fairway token create ci --out ci.token --for 90d")]
    Create(TokenCreateArgs),
}

/// Arguments of `token create`.
#[derive(Debug, Args)]
pub(super) struct TokenCreateArgs {
    /// Name of the token in grants, logs and histories.
    #[arg(value_name = "NAME", value_parser = values::cluster)]
    name: ClusterName,

    /// Write the token to this new file, with mode 0600, instead of showing it.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// Validity, like 90d. Default: until the entry is removed from the configuration.
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    lasts: Option<Duration>,
}

/// Runs one of the commands.
pub(super) fn token(out: Out, command: TokenCommand) -> anyhow::Result<()> {
    let TokenCommand::Create(TokenCreateArgs { name, out: file, lasts }) = command;
    let (token, hash) = new_token().context("cannot read random numbers from the system; try again")?;
    if let Some(path) = &file {
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let written = created.and_then(|mut file| writeln!(file, "{token}"));
        written.with_context(|| format!("cannot write {}; give the path of a new file", path.display()))?;
    } else {
        out.line(&token)?;
    }
    let now = Timestamp::from(SystemTime::now());
    Ok(out.print(&entry(&name.to_string(), &hash, lasts.map(|lasts| now.plus(lasts))))?)
}

/// Returns the entry of a token for the configuration.
fn entry(name: &str, hash: &TokenHash, expires: Option<Timestamp>) -> String {
    let expires = expires.map_or_else(String::new, |at| format!(", expires: {at}"));
    format!(
        "\n# for the configuration; choose the role:\naccess:\n  tokens:\n    - {{ name: {name}, sha256: {hash}{expires} }}\n  \
         grants:\n    - {{ role: viewer, to: [\"token:{name}\"] }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_entry_is_a_valid_configuration() {
        let (_, hash) = new_token().unwrap();
        let text = entry("ci", &hash, Some(Timestamp::from_secs(4_000_000_000)));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f.yaml");
        std::fs::write(&file, format!("version: 1\n{text}")).unwrap();
        let loaded = fairway_config::load(&fairway_config::Source::Path(file), &|_| None).unwrap();
        let access = &loaded.settings.access;
        assert!(access.is_enabled() && access.grants.len() == 1 && access.tokens[0].hash == hash);
        assert_eq!(access.tokens[0].expires, Some(Timestamp::from_secs(4_000_000_000)));
    }
}
