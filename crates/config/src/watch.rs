//! Detects changed files by the result of `stat` on each path, with links followed.
//!
//! The caller polls. When a ConfigMap swaps its `..data` link, the same path has another inode.

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// State of a set of files at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    stamps: BTreeMap<PathBuf, Option<Stamp>>,
}

/// Result of `stat` for one file. It includes the change time of the inode, because tools that preserve the
/// modification time cannot preserve that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Fingerprint {
    /// Returns the current fingerprint of these files. An inaccessible file counts as absent; its appearance is a
    /// change.
    pub fn of<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Self {
        let mut now = Self::default();
        for path in files {
            now.add(path.as_ref(), fs::metadata(path.as_ref()).ok().as_ref());
        }
        now
    }

    /// Adds the state of a file when it was opened. A later state of the same file is ignored, so that it shows as a
    /// change.
    pub fn add(&mut self, path: &Path, metadata: Option<&Metadata>) {
        self.stamps.entry(path.to_owned()).or_insert_with(|| metadata.map(Stamp::of));
    }

    /// Adds the files of another fingerprint that this one lacks.
    pub fn join(&mut self, other: &Self) {
        other.stamps.iter().for_each(|(path, stamp)| {
            self.stamps.entry(path.clone()).or_insert(*stamp);
        });
    }

    /// True if each file exists and is older than one tick of the coarsest file system clock, which is two seconds: two
    /// changes within one tick look the same.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        self.stamps.values().all(|stamp| stamp.is_some_and(|stamp| stamp.changed.0.max(stamp.modified.0) < now - TICK))
    }

    /// The files, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.stamps.keys().map(PathBuf::as_path)
    }

    /// True if no file changed. Called right after a load, false means that a file changed during the load.
    pub fn is_current(&self) -> bool {
        self.changed().next().is_none()
    }

    /// The files that changed.
    pub fn changed(&self) -> impl Iterator<Item = &Path> {
        self.stamps
            .iter()
            .filter(|(path, stamp)| fs::metadata(path).ok().as_ref().map(Stamp::of) != **stamp)
            .map(|(path, _)| path.as_path())
    }
}

/// Seconds between two ticks of the coarsest file system clock (FAT).
const TICK: i64 = 2;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn untouched_file_is_current_and_longer_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        fs::write(&file, "version: 1\n").unwrap();
        let before = Fingerprint::of([&file]);
        assert!(before.is_current());
        fs::write(&file, "version: 1\n# more\n").unwrap();
        assert_eq!(before.changed().collect::<Vec<_>>(), [file.as_path()]);
    }

    #[test]
    fn created_or_deleted_file_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        let absent = Fingerprint::of([&file]);
        assert!(absent.is_current());
        fs::write(&file, "").unwrap();
        assert!(!absent.is_current());
        let present = Fingerprint::of([&file]);
        fs::remove_file(&file).unwrap();
        assert!(!present.is_current());
    }

    #[test]
    fn swap_of_a_config_map_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for version in ["..2024_01", "..2024_02"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("fairway.yaml"), "version: 1\n").unwrap();
        }
        symlink("..2024_01", at("..data")).unwrap();
        symlink("..data/fairway.yaml", at("fairway.yaml")).unwrap();
        let before = Fingerprint::of([at("fairway.yaml")]);
        assert!(before.is_current());
        symlink("..2024_02", at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        assert!(!before.is_current());
    }
}
