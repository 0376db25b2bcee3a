//! `fairway token create`.

use std::{
    fs::OpenOptions,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use fairway_model::Timestamp;

use super::{
    output::Out,
    server_args::{TokenCommand, TokenCreateArgs},
};
use fairway_access::{TokenHash, new_token};

/// Runs one of the commands.
pub(super) fn token(out: Out, command: TokenCommand) -> anyhow::Result<ExitCode> {
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
    out.print(&entry(&name.to_string(), &hash, lasts.map(|lasts: Duration| now.plus(lasts))))?;
    Ok(ExitCode::SUCCESS)
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
