//! The data folder: made, checked, locked.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    time::SystemTime,
};

use fairway_files::Readers;
use fairway_model::Timestamp;
use nix::unistd::User;

use super::{KeptBalance, KeptOverride, Remembered, balance, health, overrides, state_wire::FileError};

/// A data folder that this process alone writes to, until the value is dropped.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    /// Holds the lock while it is open; the kernel lets go of it when the process ends, however it ends.
    lock: File,
}

impl DataFolder {
    /// Makes the folder (0700) if it is missing, checks that no one else can write to it, and takes its lock.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let at = |source| FolderError::Unusable { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| match error.kind() {
            // Something of another kind is there, or a link that leads nowhere; a folder would have done.
            io::ErrorKind::AlreadyExists => at(io::ErrorKind::NotADirectory.into()),
            _ => at(error),
        })?;
        let metadata = fs::metadata(path).map_err(at)?;
        if !metadata.is_dir() {
            return Err(at(io::Error::from(io::ErrorKind::NotADirectory)));
        }
        if metadata.mode() & 0o002 != 0 {
            return Err(FolderError::Shared(path.to_owned()));
        }
        let lock = path.join(LOCK);
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(lock)
            .map_err(at)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who holds it is told as a courtesy; a text that is not a number is left out.
                let _ = lock.take(20).read_to_string(&mut holder);
                return Err(FolderError::Taken { path: path.to_owned(), pid: holder.trim().parse().ok() });
            }
            Err(TryLockError::Error(source)) => return Err(at(source)),
        }
        Ok(Self::held(path, lock))
    }

    /// Takes the folder of a daemon that has let go, with the lock it handed over: there is no moment without one.
    pub fn adopt(path: &Path, lock: OwnedFd) -> Result<Self, FolderError> {
        let lock = File::from(lock);
        match lock.try_lock() {
            Ok(()) => Ok(Self::held(path, lock)),
            // What was handed over is not what holds the lock.
            Err(TryLockError::WouldBlock) => Err(FolderError::Taken { path: path.to_owned(), pid: None }),
            Err(TryLockError::Error(source)) => Err(FolderError::Unusable { path: path.to_owned(), source }),
        }
    }

    /// Makes the folder for a user that this process is about to become, if it is missing.
    pub fn make_for(path: &Path, user: &str) -> Result<(), FolderError> {
        let at = |source| FolderError::Unusable { path: path.to_owned(), source };
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            made => made.map_err(at)?,
        }
        // A user that does not exist is told by whoever becomes it.
        let Some(user) = User::from_name(user).map_err(|errno| at(errno.into()))? else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(at)
    }

    fn held(path: &Path, mut lock: File) -> Self {
        // The lock holds whether or not the id can be written (the disk may be full).
        let _ = lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| write!(lock, "{}", std::process::id()));
        Self { path: path.to_owned(), lock }
    }

    /// The lock once more, to hand over.
    pub fn lock_copy(&self) -> io::Result<OwnedFd> {
        Ok(self.lock.try_clone()?.into())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was known of targets before this start; nothing where there is no readable file.
    pub fn read_health(&self) -> Vec<Remembered> {
        self.read(HEALTH, health::decode)
    }

    /// The overrides that operators gave before this start; nothing where there is no readable file.
    pub fn read_overrides(&self) -> Vec<KeptOverride> {
        self.read(OVERRIDES, overrides::decode)
    }

    /// What balancing had learnt before this start; nothing where there is no readable file.
    pub fn read_balance(&self) -> Option<KeptBalance> {
        self.read(BALANCE, |text| balance::decode(text).map(|kept| vec![kept])).pop()
    }

    /// Replaces what balancing has learnt.
    pub fn write_balance(&self, kept: &KeptBalance) -> io::Result<()> {
        self.write(BALANCE, &balance::encode(kept))
    }

    /// Replaces what is known of targets.
    pub fn write_health(&self, states: &[fairway_health::TargetState]) -> io::Result<()> {
        self.write(HEALTH, &health::encode(states, SystemTime::now().into()))
    }

    /// Replaces the overrides; when this returns they survive a power cut.
    pub fn write_overrides(&self, kept: &[KeptOverride]) -> io::Result<()> {
        self.write(OVERRIDES, &overrides::encode(kept, Timestamp::from(SystemTime::now())))
    }

    fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        fairway_files::replace(&self.path.join(name), content, Readers::Owner)
    }

    /// Reads one file. What cannot be understood is moved aside, so that the next write does not destroy it.
    fn read<T>(&self, name: &str, decode: impl Fn(&[u8]) -> Result<Vec<T>, FileError>) -> Vec<T> {
        let why = match fairway_files::read(&self.path.join(name), FILE_MAX) {
            Ok(None) => return Vec::new(),
            Ok(Some(text)) => match decode(&text) {
                Ok(content) => return content,
                Err(e) => e.to_string(),
            },
            Err(e) => e.to_string(),
        };
        let file = self.path.join(name);
        let aside = format!("{name}.unreadable");
        match fs::rename(&file, self.path.join(&aside)) {
            Ok(()) => {
                tracing::error!(file = %file.display(), error = why, moved_to = aside, "state file moved aside")
            }
            Err(e) => {
                tracing::error!(file = %file.display(), reason = why, error = %e, "state file ignored")
            }
        }
        Vec::new()
    }
}

/// What is known of targets, read without the lock: for the process that is about to replace the one that holds it.
pub fn peek_health(path: &Path) -> Vec<Remembered> {
    let text = fairway_files::read(&path.join(HEALTH), FILE_MAX).ok().flatten();
    text.and_then(|text| health::decode(&text).ok()).unwrap_or_default()
}

/// The overrides, read without the lock: as [`peek_health`].
pub fn peek_overrides(path: &Path) -> Vec<KeptOverride> {
    let text = fairway_files::read(&path.join(OVERRIDES), FILE_MAX).ok().flatten();
    text.and_then(|text| overrides::decode(&text).ok()).unwrap_or_default()
}

/// What balancing has learnt, read without the lock: as [`peek_health`].
pub fn peek_balance(path: &Path) -> Option<KeptBalance> {
    let text = fairway_files::read(&path.join(BALANCE), FILE_MAX).ok().flatten();
    text.and_then(|text| balance::decode(&text).ok())
}

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another process has it.
    #[error(
        "data folder {}: {} uses it; stop that one, replace it with `serve --replace`, or give another --data-dir",
        path.display(),
        pid.map_or_else(|| "another fairway".to_owned(), |pid| format!("fairway with process id {pid}"))
    )]
    Taken {
        /// The folder.
        path: PathBuf,
        /// Who holds it, where that is known.
        pid: Option<u32>,
    },
    /// Everybody may write to it.
    #[error("data folder {}: every user may write to it; take that right away (chmod 700)", .0.display())]
    Shared(PathBuf),
    /// The system says no.
    #[error("data folder {}: {source}; make it writable for this user, or give another --data-dir", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
}

const LOCK: &str = "lock";
const BALANCE: &str = "balance.json";
const HEALTH: &str = "health.json";
const OVERRIDES: &str = "overrides.json";
/// Most octets of a state file: 10,000 targets with full history and long causes are under 40 MB.
const FILE_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_second_opener_is_told_who_holds_the_folder() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("data");
        let first = DataFolder::open(&path).unwrap();
        let Err(FolderError::Taken { pid, .. }) = DataFolder::open(&path) else { panic!("it must be taken") };
        assert_eq!(pid, Some(std::process::id()));
        drop(first);
        assert!(DataFolder::open(&path).is_ok(), "the lock ends with its holder");
    }

    #[test]
    fn a_new_folder_is_private_and_a_shared_one_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a/b");
        drop(DataFolder::open(&path).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(DataFolder::open(&path), Err(FolderError::Shared(_))));
    }

    #[test]
    fn a_file_in_the_place_of_the_folder_is_a_clear_error() {
        let scratch = tempfile::NamedTempFile::new().unwrap();
        let error = DataFolder::open(scratch.path()).unwrap_err().to_string();
        assert!(error.contains("--data-dir"), "{error}");
    }

    #[test]
    fn an_unreadable_file_is_moved_aside_and_its_text_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(scratch.path()).unwrap();
        for text in ["{\"version\":99,\"targets\":[]}", "not JSON", ""] {
            fs::write(scratch.path().join(HEALTH), text).unwrap();
            assert!(folder.read_health().is_empty());
            assert_eq!(fs::read_to_string(scratch.path().join("health.json.unreadable")).unwrap(), text);
            assert!(!scratch.path().join(HEALTH).exists());
        }
    }
}
