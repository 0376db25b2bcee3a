//! Atomic replacement of files, and reads with a bound.
//!
//! A replaced file is written under a temporary name in the same folder, synced, renamed, and the folder synced. A reader sees the old
//! content or the new content, never a part of either; so does the next start after a power cut.
#![forbid(unsafe_code)]

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use rustix::fs::OFlags;

/// Users that may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// The user of this process only: mode 0600.
    Owner,
    /// Other programs of the machine as well. A file that is replaced keeps its mode; a new one has mode 0644, whatever the umask.
    Everyone,
}

/// Replaces a file, or creates it. When this returns, the new content survives a power cut.
///
/// The caller ensures that no other process or thread replaces the same file. The temporary file of a process that was killed is
/// overwritten.
pub fn replace(path: &Path, content: &[u8], readers: Readers) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(".new");
    let folder = folder_of(path);
    remove_if_present(&folder.join(&temporary))?;
    // One fixed name instead of a random one, so that killed processes leave one file at most. It is created with O_EXCL and mode 0600.
    let mut file = tempfile::Builder::new().prefix(&temporary).rand_bytes(0).tempfile_in(folder)?;
    file.write_all(content)?;
    if readers == Readers::Everyone {
        let mode = fs::metadata(path).map_or_else(|_| Permissions::from_mode(0o644), |found| found.permissions());
        file.as_file().set_permissions(mode)?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    // The rename is a change of the folder.
    sync_folder(folder)
}

/// Removes a file, if it exists. When this returns, the removal survives a power cut.
pub fn remove(path: &Path) -> io::Result<()> {
    remove_if_present(path)?;
    sync_folder(folder_of(path))
}

/// Reads a file of at most `max` bytes; `None` if there is none. A longer file is rejected after `max` + 1 bytes, and anything but a
/// regular file without waiting for it.
pub fn read(path: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    // Without O_NONBLOCK, opening a pipe waits until another process writes to it. Regular files ignore the flag.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    // The whole length at once: a vector that grows leaves copies of its content, which may be a secret, in freed memory.
    let mut content = Vec::with_capacity(usize::try_from(metadata.len().min(max)).unwrap_or(0));
    file.take(max.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > max {
        return Err(io::Error::other(format!("the file has more than {max} bytes")));
    }
    Ok(Some(content))
}

/// Syncs a folder, so that files created, renamed and removed in it survive a power cut.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Returns the folder of a path; `.` for a bare file name.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// Removes a file, if it exists, without syncing its folder.
pub fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn replaced_file_has_new_content_and_no_temporary_file_remains() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        // Left by a process that was killed.
        fs::write(folder.path().join(".a.json.new"), "half").unwrap();
        for content in ["first, and longer", "second"] {
            replace(&path, content.as_bytes(), Readers::Owner).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn replaced_file_has_the_mode_of_its_readers() {
        let folder = tempfile::tempdir().unwrap();
        let [private, public] = ["private", "public"].map(|name| folder.path().join(name));
        fs::write(&private, "").unwrap();
        replace(&private, b"x", Readers::Owner).unwrap();
        assert_eq!(mode(&private), 0o600);
        replace(&public, b"x", Readers::Everyone).unwrap();
        assert_eq!(mode(&public), 0o644);
        fs::set_permissions(&public, Permissions::from_mode(0o640)).unwrap();
        replace(&public, b"y", Readers::Everyone).unwrap();
        assert_eq!(mode(&public), 0o640);
    }

    #[test]
    fn failed_replacement_keeps_the_file_and_removes_the_temporary_one() {
        let folder = tempfile::tempdir().unwrap();
        // A folder cannot be replaced by a file.
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        replace(&path, b"x", Readers::Owner).unwrap_err();
        assert!(path.is_dir() && fs::read_dir(folder.path()).unwrap().count() == 1);
    }

    #[test]
    fn read_returns_nothing_for_a_missing_file_and_rejects_long_and_irregular_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert_eq!(read(&path, 4).unwrap(), None);
        fs::write(&path, "four").unwrap();
        assert_eq!(read(&path, 4).unwrap().as_deref(), Some(&b"four"[..]));
        assert_eq!(read(&path, 3).unwrap_err().to_string(), "the file has more than 3 bytes");
        assert_eq!(read(folder.path(), 3).unwrap_err().to_string(), "not a regular file");
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert!(!path.exists());
    }
}
