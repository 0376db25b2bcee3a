//! `fairway store backup`, `restore`, `verify` and `history`: on the data folder itself, with or without a server.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};

use super::{
    args::{StoreCommand, StoreHistoryArgs},
    ask::data_dir,
    output::{Cell, Out, Palette, Tone, count, table},
};
use fairway_store::{
    DataFolder, FolderError,
    objects::{Entry, Key, StoreError, StoreFile, Verified},
};

/// Runs one of the commands.
pub(super) fn store(out: Out, command: StoreCommand) -> anyhow::Result<ExitCode> {
    match command {
        StoreCommand::Backup(args) => {
            let folder = data_dir(args.folder.data_dir)?;
            let verified = opened(&folder)?.back_up(&args.file).with_context(|| at(&args.file))?;
            out.line(&format!("{}: {}", args.file.display(), summary(&verified)))?;
        }
        StoreCommand::History(args) => history(out, args)?,
        StoreCommand::Restore(args) => {
            // The lock is held to the end, so that no server starts meanwhile.
            let folder = DataFolder::open(&data_dir(args.folder.data_dir)?)?;
            refuse_copy(folder.path())?;
            let backup = StoreFile::open(&args.file).with_context(|| at(&args.file))?;
            let restored = backup.restore(&folder).with_context(|| at(folder.path()))?;
            out.line(&format!("{}: restored, {}", folder.path().display(), summary(&restored)))?;
        }
        StoreCommand::Verify(args) => match args.file {
            Some(file) => verify_backup(out, &file)?,
            None => verify(out, &data_dir(args.folder.data_dir)?)?,
        },
    }
    Ok(ExitCode::SUCCESS)
}

fn history(out: Out, args: StoreHistoryArgs) -> anyhow::Result<()> {
    let folder = data_dir(args.folder.data_dir)?;
    let key = Key::parse(&args.key).context("a key is KIND/NAME or KIND/NAME/NAME/..., as in pool/shop")?;
    let file = opened(&folder)?;
    let entries = file.history(&key, usize::MAX).with_context(|| at(&folder))?;
    let Some(revision) = args.revision else {
        if entries.is_empty() {
            bail!(
                "{key}: nothing is remembered of it; see how it is written in `GET /v1`, and which --data-dir is meant"
            );
        }
        return Ok(out.print(&history_text(out.palette, &entries))?);
    };
    let Some(entry) = entries.iter().find(|entry| entry.revision == revision) else {
        bail!("{key}: it has no entry of revision {revision}; `fairway store history {key}` lists those it has");
    };
    match &entry.value {
        // What an intent keeps holds private keys, which are shown to nobody.
        Some(value) => Ok(out.bytes(&fairway_intents::shown(key.kind(), value).unwrap_or_else(|| value.to_vec()))?),
        None => bail!("{key}: revision {revision} took it away, so it says nothing"),
    }
}

fn history_text(palette: Palette, entries: &[Entry]) -> String {
    let row = |entry: &Entry| {
        let says = match &entry.value {
            Some(value) => Cell::from(format!("{} octets", value.len()).as_str()),
            None => Cell::new(Tone::Warn, "taken away"),
        };
        // Written by whoever used the API: nothing of it may command the terminal.
        let shown = |text: &str| text.replace(char::is_control, "\u{fffd}").into();
        let (who, why) = (shown(&entry.by.who), shown(&entry.by.why));
        vec![entry.revision.to_string().into(), entry.at.to_string().into(), says, who, why]
    };
    let head = ["revision", "at", "says", "who", "why"];
    table(palette, 0, &head, &entries.iter().map(row).collect::<Vec<_>>())
}

fn verify(out: Out, folder: &Path) -> anyhow::Result<()> {
    let path = existing(folder)?;
    let checked = match DataFolder::open(folder) {
        Ok(held) if StoreFile::repair(&held, &path).with_context(|| at(&path))? => "every page and row is in order",
        Ok(_) => "it was not in order after a crash, and is now; every page and row was read",
        Err(FolderError::Locked { .. }) => "every row is in order; a server runs, so pages were not checked",
        Err(e) => return Err(e.into()),
    };
    let verified = StoreFile::open(&path).and_then(|file| file.verify()).with_context(|| at(&path))?;
    Ok(out.line(&format!("{}: {}; {checked}", path.display(), summary(&verified)))?)
}

fn verify_backup(out: Out, file: &Path) -> anyhow::Result<()> {
    let verified = StoreFile::open(file).and_then(|opened| opened.verify()).with_context(|| at(file))?;
    Ok(out.line(&format!("{}: {}; every row is in order", file.display(), summary(&verified)))?)
}

/// The store of a folder. Where a server was killed and none runs, it is brought in order first.
fn opened(folder: &Path) -> anyhow::Result<StoreFile> {
    let path = existing(folder)?;
    let opened = match StoreFile::open(&path) {
        Err(StoreError::Unavailable(_)) => {
            StoreFile::repair(&DataFolder::open(folder)?, &path).with_context(|| at(&path))?;
            StoreFile::open(&path)
        }
        said => said,
    };
    opened.with_context(|| at(&path))
}

fn existing(folder: &Path) -> anyhow::Result<PathBuf> {
    let copy = StoreFile::copy_in(folder);
    if copy.exists() {
        return Ok(copy);
    }
    let path = StoreFile::path_in(folder);
    if !path.exists() {
        bail!("{}: there is no store; name the server's data folder with --data-dir", path.display());
    }
    Ok(path)
}

/// A backup of one server is not put under others that share a store.
fn refuse_copy(folder: &Path) -> anyhow::Result<()> {
    let copy = StoreFile::copy_in(folder);
    if copy.exists() {
        bail!(
            "{}: this server's objects are on an etcd, and here is a copy; restore etcd (docs/operations/etcd.md), or declare them \
             anew with `fairway apply`",
            copy.display()
        );
    }
    Ok(())
}

fn at(path: &Path) -> String {
    path.display().to_string()
}

fn summary(verified: &Verified) -> String {
    let Verified { objects, entries, revision, .. } = *verified;
    let (objects, entries) = (count(objects, "object", "objects"), count(entries, "entry", "entries"));
    format!("{objects}, {entries} of history, revision {revision}")
}

#[cfg(test)]
mod tests {
    use fairway_model::Timestamp;

    use super::*;
    use fairway_store::objects::Author;

    #[test]
    fn a_history_shows_who_changed_what_and_why() {
        let entry = |revision, value: Option<&[u8]>, why: &str| Entry {
            revision,
            at: Timestamp::from_secs(0),
            by: Author::new("ann", why),
            value: value.map(Into::into),
        };
        let text = history_text(Palette::PLAIN, &[entry(12, None, "mov\x1b[ed"), entry(7, Some(b"{}"), "")]);
        let lines: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["12", "1970-01-01T00:00:00Z", "taken", "away", "ann", "mov\u{fffd}[ed"]);
        assert_eq!(lines[2], ["7", "1970-01-01T00:00:00Z", "2", "octets", "ann"]);
    }

    #[test]
    fn no_backup_is_restored_beside_what_several_servers_share() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(refuse_copy(scratch.path()).is_ok());
        std::fs::write(StoreFile::copy_in(scratch.path()), "").unwrap();
        let told = refuse_copy(scratch.path()).unwrap_err().to_string();
        assert!(told.contains("restore etcd"), "{told}");
    }

    #[test]
    fn a_folder_without_a_store_is_told_with_the_way_out() {
        let scratch = tempfile::tempdir().unwrap();
        let told = opened(scratch.path()).unwrap_err().to_string();
        assert!(told.contains("objects.redb") && told.contains("--data-dir"), "{told}");
    }
}
