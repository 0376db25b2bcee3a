//! The data folder: creating, checking and locking it; its state files.

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
use fairway_hosts::SavedHost;
use fairway_model::Timestamp;
use nix::unistd::{Uid, User, geteuid};

use super::{
    SavedBalance, SavedOverride, SavedTarget, ZoneSizes, balance, health, hosts, names, overrides,
    state_wire::FileError,
};

/// A data folder that is locked for this process until the value is dropped.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    /// The lock lasts while this file is open; the kernel releases it when the process ends, even after kill -9.
    lock: File,
}

impl DataFolder {
    /// Creates the folder (mode 0700) if it is missing, checks that it belongs to the user of this process and that nobody else can write to
    /// it, and locks it.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let at = |source| FolderError::Unusable { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| match error.kind() {
            // Not a folder, or a dangling link: an existing folder is no error.
            io::ErrorKind::AlreadyExists => at(io::ErrorKind::NotADirectory.into()),
            _ => at(error),
        })?;
        check_owner(path, geteuid())?;
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
                let mut pid = String::new();
                // The process id is a courtesy: without a number in the file the error has none.
                let _ = lock.take(20).read_to_string(&mut pid);
                return Err(FolderError::Locked { path: path.to_owned(), pid: pid.trim().parse().ok() });
            }
            Err(TryLockError::Error(source)) => return Err(at(source)),
        }
        Ok(Self::locked(path, lock))
    }

    /// Takes over the folder from another process, with its lock: the folder is locked at every moment.
    pub fn adopt(path: &Path, lock: OwnedFd) -> Result<Self, FolderError> {
        let lock = File::from(lock);
        match lock.try_lock() {
            Ok(()) => Ok(Self::locked(path, lock)),
            // The file that was handed over does not hold the lock.
            Err(TryLockError::WouldBlock) => Err(FolderError::Locked { path: path.to_owned(), pid: None }),
            Err(TryLockError::Error(source)) => Err(FolderError::Unusable { path: path.to_owned(), source }),
        }
    }

    /// Creates the folder, if it is missing, for the user that this process is about to switch to.
    pub fn create_for(path: &Path, user: &str) -> Result<(), FolderError> {
        let at = |source| FolderError::Unusable { path: path.to_owned(), source };
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            result => result.map_err(at)?,
        }
        // A missing user is reported when the process switches to it.
        let Some(user) = User::from_name(user).map_err(|errno| at(errno.into()))? else { return Ok(()) };
        // Not through a link that somebody put in place of the new folder.
        std::os::unix::fs::lchown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(at)
    }

    /// Checks a folder that another process has locked: it belongs to `user` (default: the user of this process), and nobody else can write
    /// to it. Returns the user id. Call it before anything in the folder is trusted.
    pub fn owner(path: &Path, user: Option<&str>) -> Result<u32, FolderError> {
        let at = |source| FolderError::Unusable { path: path.to_owned(), source };
        let named = user.map(User::from_name).transpose().map_err(|errno| at(errno.into()))?.flatten();
        let owner = named.map_or_else(geteuid, |user| user.uid);
        check_owner(path, owner)?;
        Ok(owner.as_raw())
    }

    fn locked(path: &Path, mut lock: File) -> Self {
        // The process id is for error messages only; the disk may be full.
        let _ = lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| write!(lock, "{}", std::process::id()));
        Self { path: path.to_owned(), lock }
    }

    /// Returns the lock, to hand it over to another process.
    pub fn lock_copy(&self) -> io::Result<OwnedFd> {
        Ok(self.lock.try_clone()?.into())
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the state of the process that had the folder before.
    pub fn read_state(&self) -> SavedState {
        SavedState {
            health: self.read(HEALTH, health::decode).unwrap_or_default(),
            overrides: self.read_overrides(),
            balance: self.read(BALANCE, balance::decode),
            zones: self.read(NAMES, names::decode),
            hosts: self.read(HOSTS, hosts::decode).unwrap_or_default(),
            found: self.read(FOUND, whole),
        }
    }

    /// Reads the overrides of operators; empty without a readable file.
    pub fn read_overrides(&self) -> Vec<SavedOverride> {
        self.read(OVERRIDES, overrides::decode).unwrap_or_default()
    }

    /// Writes the state of balancing.
    pub fn write_balance(&self, saved: &SavedBalance) -> io::Result<()> {
        self.write(BALANCE, &balance::encode(saved))
    }

    /// Writes the health of targets.
    pub fn write_health(&self, states: &[fairway_health::TargetState]) -> io::Result<()> {
        self.write(HEALTH, &health::encode(states, SystemTime::now().into()))
    }

    /// Writes the overrides of operators. When this returns, they survive a power cut.
    pub fn write_overrides(&self, saved: &[SavedOverride]) -> io::Result<()> {
        self.write(OVERRIDES, &overrides::encode(saved, Timestamp::from(SystemTime::now())))
    }

    /// Writes the numbers of records of each zone.
    pub fn write_zones(&self, zones: &ZoneSizes) -> io::Result<()> {
        self.write(NAMES, &names::encode(zones, Timestamp::from(SystemTime::now())))
    }

    /// Writes the addresses of host names of clusters.
    pub fn write_hosts(&self, hosts: &[SavedHost]) -> io::Result<()> {
        self.write(HOSTS, &hosts::encode(hosts, Timestamp::from(SystemTime::now())))
    }

    /// Writes what was found in Kubernetes clusters.
    pub fn write_found(&self, found: &[u8]) -> io::Result<()> {
        self.write(FOUND, found)
    }

    fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        fairway_files::replace(&self.path.join(name), content, Readers::Owner)
    }

    /// Reads one file. A file that cannot be read is renamed, so that the next write does not destroy it.
    fn read<T>(&self, name: &str, decode: fn(&[u8]) -> Result<T, FileError>) -> Option<T> {
        let file = self.path.join(name);
        let reason = match read(&file, decode) {
            Ok(content) => return content,
            Err(reason) => reason,
        };
        let moved_to = format!("{name}.unreadable");
        match fs::rename(&file, self.path.join(&moved_to)) {
            Ok(()) => {
                tracing::error!(file = %file.display(), error = reason, moved_to, "state file moved aside")
            }
            Err(e) => {
                tracing::error!(file = %file.display(), reason, error = %e, "state file ignored")
            }
        }
        None
    }
}

/// Checks that a path is a folder that belongs to `owner`, and that nobody else can write to it. Somebody who can could replace the control
/// socket, the hand-over socket or the store.
fn check_owner(path: &Path, owner: Uid) -> Result<(), FolderError> {
    let at = |source| FolderError::Unusable { path: path.to_owned(), source };
    let found = fs::metadata(path).map_err(at)?;
    if !found.is_dir() {
        return Err(at(io::ErrorKind::NotADirectory.into()));
    }
    if found.uid() != owner.as_raw() {
        return Err(FolderError::OtherOwner { path: path.to_owned(), found: found.uid(), owner: owner.as_raw() });
    }
    // With an access control list, the bits of the group are the most that any entry of it allows (acl(5)).
    if found.mode() & 0o022 != 0 {
        return Err(FolderError::Writable { path: path.to_owned(), mode: found.mode() & 0o777 });
    }
    Ok(())
}

/// State of a previous process.
#[derive(Debug, Default)]
pub struct SavedState {
    /// Health of each target.
    pub health: Vec<SavedTarget>,
    /// Overrides that were added by command.
    pub overrides: Vec<SavedOverride>,
    /// State of balancing; `None` if nothing was kept.
    pub balance: Option<SavedBalance>,
    /// Numbers of records of each zone; `None` if nothing was kept.
    pub zones: Option<ZoneSizes>,
    /// Addresses of host names of clusters.
    pub hosts: Vec<SavedHost>,
    /// Findings in Kubernetes clusters, as the crate `sources` writes it; `None` if nothing was kept.
    pub found: Option<Vec<u8>>,
}

impl SavedState {
    /// Reads a data folder that another process has locked, for the process that is about to replace it. Unreadable files stay where they
    /// are.
    pub fn peek(folder: &Path) -> Self {
        Self {
            health: read(&folder.join(HEALTH), health::decode).ok().flatten().unwrap_or_default(),
            overrides: read(&folder.join(OVERRIDES), overrides::decode).ok().flatten().unwrap_or_default(),
            balance: read(&folder.join(BALANCE), balance::decode).ok().flatten(),
            zones: read(&folder.join(NAMES), names::decode).ok().flatten(),
            hosts: read(&folder.join(HOSTS), hosts::decode).ok().flatten().unwrap_or_default(),
            found: read(&folder.join(FOUND), whole).ok().flatten(),
        }
    }
}

/// Returns a file as it is: another crate parses it.
fn whole(text: &[u8]) -> Result<Vec<u8>, FileError> {
    Ok(text.to_vec())
}

/// Reads a state file; `None` if there is none.
fn read<T>(file: &Path, decode: fn(&[u8]) -> Result<T, FileError>) -> Result<Option<T>, String> {
    let text = fairway_files::read(file, FILE_MAX).map_err(|e| e.to_string())?;
    text.map(|text| decode(&text)).transpose().map_err(|e| e.to_string())
}

/// Error of a data folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another process uses it.
    #[error(
        "data folder {}: {} uses it; stop that process, replace it with `serve --replace`, or give another --data-dir",
        path.display(),
        pid.map_or_else(|| "another fairway".to_owned(), |pid| format!("fairway with process id {pid}"))
    )]
    Locked {
        /// The folder.
        path: PathBuf,
        /// Process id of the other process, if it is known.
        pid: Option<u32>,
    },
    /// It belongs to another user.
    #[error(
        "data folder {path}: it belongs to user {found}, and fairway uses it as user {owner}; run fairway as user {found}, or change its owner: \
         chown -R {owner} {path} && chmod 700 {path}",
        path = path.display()
    )]
    OtherOwner {
        /// The folder.
        path: PathBuf,
        /// User id of its owner.
        found: u32,
        /// User id of the process.
        owner: u32,
    },
    /// Users of its group, or all users, may write to it.
    #[error(
        "data folder {path}: other users may write to it (mode {mode:04o}); remove that permission: chmod 700 {path}; or give a folder \
         inside of it as --data-dir",
        path = path.display()
    )]
    Writable {
        /// The folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The system does not allow it.
    #[error("data folder {}: {source}; make it writable for this user, or give another --data-dir", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

const LOCK: &str = "lock";
const BALANCE: &str = "balance.json";
const NAMES: &str = "names.json";
const HOSTS: &str = "hosts.json";
const FOUND: &str = "kubernetes.json";
const HEALTH: &str = "health.json";
const OVERRIDES: &str = "overrides.json";
/// Maximum bytes of a state file. 10,000 targets with full history and long causes take less than 40 MB.
const FILE_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn locked_folder_is_rejected_with_the_process_id() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("data");
        let first = DataFolder::open(&path).unwrap();
        let Err(FolderError::Locked { pid, .. }) = DataFolder::open(&path) else { panic!("the second open must fail") };
        assert_eq!(pid, Some(std::process::id()));
        drop(first);
        assert!(DataFolder::open(&path).is_ok(), "the lock ends when the first value is dropped");
    }

    #[test]
    fn new_folder_is_private_and_one_that_others_can_write_is_rejected() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a/b");
        drop(DataFolder::open(&path).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        for mode in [0o770, 0o720, 0o702, 0o777] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = DataFolder::open(&path).unwrap_err().to_string();
            let fix = format!("(mode {mode:04o}); remove that permission: chmod 700 {}", path.display());
            assert!(error.contains(&fix), "{error}");
            assert!(matches!(DataFolder::owner(&path, None), Err(FolderError::Writable { .. })));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(DataFolder::open(&path).is_ok(), "reading is no way to change it");
    }

    /// Only root can give a folder away; otherwise the folder of root is asked for.
    #[test]
    fn folder_of_another_user_is_rejected_with_the_command() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("data");
        drop(DataFolder::open(&path).unwrap());
        let own = geteuid().as_raw();
        let (path, other) = if std::os::unix::fs::chown(&path, Some(own + 1), None).is_ok() {
            (path.as_path(), own + 1)
        } else {
            (Path::new("/usr"), 0)
        };
        let error = DataFolder::open(path).unwrap_err().to_string();
        let fix = format!("chown -R {own} {path}", path = path.display());
        assert!(error.contains(&format!("belongs to user {other}")) && error.contains(&fix), "{error}");
        assert!(matches!(DataFolder::owner(path, None), Err(FolderError::OtherOwner { .. })));
    }

    #[test]
    fn file_at_the_path_is_rejected_with_a_hint() {
        let scratch = tempfile::NamedTempFile::new().unwrap();
        let error = DataFolder::open(scratch.path()).unwrap_err().to_string();
        assert!(error.contains("--data-dir"), "{error}");
    }

    #[test]
    fn unreadable_file_is_renamed_with_its_content() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(scratch.path()).unwrap();
        for text in ["{\"version\":99,\"targets\":[]}", "not JSON", ""] {
            fs::write(scratch.path().join(HEALTH), text).unwrap();
            assert!(folder.read_state().health.is_empty());
            assert_eq!(fs::read_to_string(scratch.path().join("health.json.unreadable")).unwrap(), text);
            assert!(!scratch.path().join(HEALTH).exists());
        }
    }
}
