//! `fairway config schema` and `fairway config example`.

use super::{args::ConfigCommand, output::Out};

/// A commented configuration to start from.
const EXAMPLE: &str = include_str!("example.yaml");

/// Prints the schema or the example.
pub(super) fn config(out: Out, command: &ConfigCommand) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Schema => out.line(fairway_config::schema().trim_end())?,
        ConfigCommand::Example => out.print(EXAMPLE)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use fairway_config::{Source, load};

    #[test]
    fn example_loads_without_warnings() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fairway.yaml");
        fs::write(&file, EXAMPLE).unwrap();
        let loaded = load(&Source::Path(file), &|_| None).unwrap();
        assert_eq!(loaded.warnings, []);
        assert_eq!((loaded.desired.zones.len(), loaded.desired.names.len()), (1, 3), "zones and names of the example");
    }
}
