//! `fairway store backup`, `restore`, `verify` and `history`. They read the data folder, with or without a running server.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueHint};

use super::{
    client::data_dir,
    output::{Cell, Out, Palette, Tone, count, table},
};
use fairway_model::Secret;
use fairway_store::{
    DataFolder, FolderError,
    objects::{Entry, Key, KeyError, StoreError, StoreFile, StoreKeys, Verified},
};
use fairway_transport::become_owner;

/// Back up, restore and verify the object store, and show the history of an object.
///
/// These commands read the data folder themselves. A server may run on it meanwhile, except for `restore`.
#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Copy the store into a new file, also while a server runs.
    ///
    /// The copy is consistent and is verified; it is on disk when the command ends. An existing file is not overwritten.
    #[command(after_long_help = "\
Examples:
  fairway store backup /var/backups/fairway-$(date +%F).redb")]
    Backup(StoreFileArgs),
    /// Show the changes of an object, each with its time, author and reason.
    #[command(after_long_help = "\
Examples:
  fairway store history pools/shop
  fairway store history pools/shop --revision 1207 > shop.json")]
    History(StoreHistoryArgs),
    /// Replace the store by a backup. No server may run on the data folder.
    ///
    /// The backup is verified first. The replaced store is kept as `objects.redb.replaced`. Revisions continue above those of both
    /// stores, so that no revision number is used twice.
    Restore(StoreFileArgs),
    /// Verify the store of a data folder, or a backup.
    ///
    /// Reads every row. If no server runs, it also checks the pages of the file and repairs a file that a crash left unclean, as the
    /// next start would do.
    Verify(StoreVerifyArgs),
}

/// Arguments of `store backup` and `store restore`.
#[derive(Debug, Args)]
pub(super) struct StoreFileArgs {
    /// The backup.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,

    /// The data folder.
    #[command(flatten)]
    folder: StoreFolderArgs,
}

/// Arguments of `store history`.
#[derive(Debug, Args)]
pub(super) struct StoreHistoryArgs {
    /// The object: KIND/NAME or KIND/NAME/NAME/..., as in pools/shop.
    key: String,

    /// Print the object as it was at this revision, byte for byte, instead of the list. Former secrets are not kept.
    #[arg(long, value_name = "N")]
    revision: Option<u64>,

    /// File with the keys of an encrypted store, as `store.keys` has them.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    keys: Option<PathBuf>,

    /// The data folder.
    #[command(flatten)]
    folder: StoreFolderArgs,
}

/// Arguments of `store verify`.
#[derive(Debug, Args)]
pub(super) struct StoreVerifyArgs {
    /// A backup, instead of the store of the data folder.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "data_dir")]
    file: Option<PathBuf>,

    /// The data folder.
    #[command(flatten)]
    folder: StoreFolderArgs,
}

/// The data folder that holds the store.
#[derive(Clone, Debug, Args)]
pub(super) struct StoreFolderArgs {
    /// Data folder of the server; default as for `serve`. Environment: FAIRWAY_DATA_DIR.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
}

/// Runs one of the commands.
pub(super) fn store(out: Out, command: StoreCommand) -> anyhow::Result<()> {
    match command {
        StoreCommand::Backup(args) => {
            let folder = data_dir(args.folder.data_dir)?;
            let verified = open(&folder, &StoreKeys::default())?.back_up(&args.file).with_context(|| at(&args.file))?;
            Ok(out.line(&format!("{}: {}", args.file.display(), summary(&verified)))?)
        }
        StoreCommand::History(args) => history(out, args),
        StoreCommand::Restore(args) => {
            let folder = data_dir(args.folder.data_dir)?;
            // Before root becomes the folder's owner, who may not be allowed to read the backup.
            let backup = StoreFile::open(&args.file, &StoreKeys::default()).with_context(|| at(&args.file))?;
            // The lock is held until the end, so that no server starts meanwhile.
            let folder = open_folder(&folder)?;
            reject_etcd_copy(folder.path())?;
            let restored = backup.restore(&folder).with_context(|| at(folder.path()))?;
            Ok(out.line(&format!("{}: restored, {}", folder.path().display(), summary(&restored)))?)
        }
        StoreCommand::Verify(args) => match args.file {
            Some(file) => verify_backup(out, &file),
            None => verify(out, &data_dir(args.folder.data_dir)?),
        },
    }
}

fn history(out: Out, args: StoreHistoryArgs) -> anyhow::Result<()> {
    let folder = data_dir(args.folder.data_dir)?;
    let key = key(&args.key).context("invalid key; write KIND/NAME or KIND/NAME/NAME/..., as in pools/shop")?;
    let file = open(&folder, &keys(args.keys.as_deref())?)?;
    let entries = file.history(&key, usize::MAX).with_context(|| at(&folder))?;
    let Some(revision) = args.revision else {
        if entries.is_empty() {
            bail!("{key}: no history in {}; check the key and --data-dir", folder.display());
        }
        return Ok(out.print(&history_text(out.palette, &entries))?);
    };
    let Some(entry) = entries.iter().find(|entry| entry.revision == revision) else {
        bail!("{key}: no entry of revision {revision}; `fairway store history {key}` lists the revisions");
    };
    match &entry.value {
        // Intents hold private keys, which are never shown.
        Some(value) if entry.is_redacted => Ok(out.bytes(value)?),
        Some(value) => {
            Ok(out.bytes(&fairway_intents::public_value(key.kind(), value).unwrap_or_else(|| value.to_vec()))?)
        }
        None => bail!("{key}: deleted at revision {revision}; give an earlier revision"),
    }
}

/// Returns the key of an object. Its kind may be that of the other commands, `pools`, for which the store has `pool`.
fn key(text: &str) -> Result<Key, KeyError> {
    Key::parse(text).or_else(|error| {
        match text.split_once('/').and_then(|(kind, name)| Some((kind.strip_suffix('s')?, name))) {
            Some((kind, name)) => Key::parse(&format!("{kind}/{name}")).map_err(|_| error),
            None => Err(error),
        }
    })
}

/// Reads the keys of the store from a file; none without one.
fn keys(file: Option<&Path>) -> anyhow::Result<StoreKeys> {
    let Some(file) = file else { return Ok(StoreKeys::default()) };
    let text = std::fs::read_to_string(file).map(Secret::new).with_context(|| at(file))?;
    let keys = fairway_config::store_keys(&text).map_err(|why| anyhow::anyhow!("{}: {why}", file.display()))?;
    Ok(StoreKeys::new(&keys)?)
}

fn history_text(palette: Palette, entries: &[Entry]) -> String {
    let row = |entry: &Entry| {
        let object = match &entry.value {
            Some(value) => Cell::from(format!("{} bytes", value.len())),
            None => Cell::new(Tone::Warn, "deleted"),
        };
        // Clients of the API write these texts: they must not contain escape sequences for the terminal.
        let printable = |text: &str| text.replace(char::is_control, "\u{fffd}").into();
        let (author, reason) = (printable(&entry.by.identity), printable(&entry.by.reason));
        vec![entry.revision.to_string().into(), entry.at.to_string().into(), object, author, reason]
    };
    let head = ["revision", "at", "object", "author", "reason"];
    table(palette, 0, &head, entries.iter().map(row))
}

fn verify(out: Out, folder: &Path) -> anyhow::Result<()> {
    let path = existing(folder)?;
    let checked = match open_folder(folder) {
        Ok(held) if StoreFile::repair(&held, &path).with_context(|| at(&path))? => "all pages and rows are valid",
        Ok(_) => "repaired after a crash; all pages and rows are valid",
        Err(error) if matches!(error.downcast_ref(), Some(FolderError::Locked { .. })) => {
            "all rows are valid; pages were not checked, since a server runs"
        }
        Err(error) => return Err(error),
    };
    let verified =
        StoreFile::open(&path, &StoreKeys::default()).and_then(|file| file.verify()).with_context(|| at(&path))?;
    Ok(out.line(&format!("{}: {}; {checked}", path.display(), summary(&verified)))?)
}

fn verify_backup(out: Out, file: &Path) -> anyhow::Result<()> {
    let verified =
        StoreFile::open(file, &StoreKeys::default()).and_then(|opened| opened.verify()).with_context(|| at(file))?;
    Ok(out.line(&format!("{}: {}; all rows are valid", file.display(), summary(&verified)))?)
}

/// Opens the store of a folder. If a server was killed and none runs now, the store is repaired first.
fn open(folder: &Path, keys: &StoreKeys) -> anyhow::Result<StoreFile> {
    let path = existing(folder)?;
    let file = match StoreFile::open(&path, keys) {
        Err(StoreError::Unavailable(_)) => {
            StoreFile::repair(&open_folder(folder)?, &path).with_context(|| at(&path))?;
            StoreFile::open(&path, keys)
        }
        other => other,
    };
    file.with_context(|| at(&path))
}

/// Locks a folder, as its owner: files of root there would keep the server from starting.
fn open_folder(folder: &Path) -> anyhow::Result<DataFolder> {
    become_owner(folder)?;
    Ok(DataFolder::open(folder)?)
}

/// Returns the path of the store of a folder, or of its copy of an etcd.
fn existing(folder: &Path) -> anyhow::Result<PathBuf> {
    let copy = StoreFile::copy_in(folder);
    if copy.exists() {
        return Ok(copy);
    }
    let path = StoreFile::path_in(folder);
    if !path.exists() {
        bail!("{}: no store; give the data folder of the server with --data-dir", path.display());
    }
    Ok(path)
}

/// Fails if the folder holds a copy of an etcd: a backup cannot be restored below servers that share a store.
fn reject_etcd_copy(folder: &Path) -> anyhow::Result<()> {
    let copy = StoreFile::copy_in(folder);
    if copy.exists() {
        bail!(
            "{}: the objects of this server are in etcd, and this is a copy; restore etcd (docs/operations/etcd.md), or \
             declare the objects again with `fairway apply`",
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
    fn history_shows_author_and_reason_of_each_change() {
        let entry = |revision, value: Option<&[u8]>, why: &str| Entry {
            revision,
            at: Timestamp::from_secs(0),
            by: Author::new("ann", why),
            value: value.map(Into::into),
            is_redacted: false,
        };
        let text = history_text(Palette::PLAIN, &[entry(12, None, "mov\x1b[ed"), entry(7, Some(b"{}"), "")]);
        let lines: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["12", "1970-01-01T00:00:00Z", "deleted", "ann", "mov\u{fffd}[ed"]);
        assert_eq!(lines[2], ["7", "1970-01-01T00:00:00Z", "2", "bytes", "ann"]);
    }

    #[test]
    fn restore_over_a_copy_of_etcd_is_rejected() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(reject_etcd_copy(scratch.path()).is_ok());
        std::fs::write(StoreFile::copy_in(scratch.path()), "").unwrap();
        let error = reject_etcd_copy(scratch.path()).unwrap_err().to_string();
        assert!(error.contains("restore etcd"), "{error}");
    }

    #[test]
    fn folder_without_a_store_is_an_error_with_a_hint() {
        let scratch = tempfile::tempdir().unwrap();
        let error = open(scratch.path(), &StoreKeys::default()).err().unwrap().to_string();
        assert!(error.contains("objects.redb") && error.contains("--data-dir"), "{error}");
    }
}
