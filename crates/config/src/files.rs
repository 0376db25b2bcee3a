//! Reads files within limits and records their fingerprints. Devices and pipes are rejected, because reading them can
//! block.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use super::{reason::Reason, watch::Fingerprint};

/// Largest configuration file: 64 MiB, about 300,000 pools with one name each.
pub(super) const CONFIG_MAX: u64 = 64 << 20;
/// Largest certificate, key or other secret: 1 MiB.
pub(super) const SECRET_MAX: u64 = 1 << 20;
/// Largest zone file or included file: 4 GiB, about fifty million records.
pub(super) const ZONE_MAX: u64 = 4 << 30;
/// Largest database of a map: 1 GiB, about three times the largest ones available today.
pub(super) const MMDB_MAX: u64 = 1 << 30;
/// Largest latency table: 256 MiB.
pub(super) const LATENCIES_MAX: u64 = 256 << 20;
/// Largest number of files in a configuration folder.
const FOLDER_MAX: usize = 1_000;

/// The files read so far.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Fingerprint of each file and folder when it was opened, including those that could not be read.
    pub(super) fingerprint: Fingerprint,
}

impl Files {
    /// Returns the content of a file of at most `limit` bytes.
    pub(super) fn read(&mut self, path: &Path, limit: u64) -> Result<Vec<u8>, Reason> {
        // Without O_NONBLOCK, opening a pipe without a writer would block; it has no effect on regular files. O_NOCTTY:
        // a terminal named by mistake must not become the controlling one.
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
        let file = opened.map_err(|error| {
            // A file that this process may not open is there nevertheless: without its state it would count as changed meanwhile.
            let found = fs::metadata(path).ok().filter(|_| error.kind() == ErrorKind::PermissionDenied);
            self.fingerprint.add(path, found.as_ref());
            match error.kind() {
                ErrorKind::NotFound if path.is_symlink() => {
                    Reason::new("is a link to a file that does not exist", "fix the link or its target")
                }
                _ if found.as_ref().is_some_and(|found| !found.is_file() && !found.is_dir()) => irregular(),
                ErrorKind::PermissionDenied if is_readable(path) => restricted(),
                _ => explain(&error),
            }
        })?;
        let metadata = file.metadata().map_err(|error| explain(&error))?;
        self.fingerprint.add(path, Some(&metadata));
        if metadata.is_dir() {
            return Err(Reason::new("is a folder", "name a file in it"));
        }
        if !metadata.is_file() {
            return Err(irregular());
        }
        read_bounded(file, metadata.len(), limit)
    }

    /// Returns the configuration files of a folder, sorted by name. Hidden files are skipped (ConfigMaps have
    /// `..data`).
    pub(super) fn list(&mut self, folder: &Path) -> Result<Vec<PathBuf>, Reason> {
        let metadata = fs::metadata(folder);
        self.fingerprint.add(folder, metadata.as_ref().ok());
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).map_err(|error| explain(&error))? {
            let path = entry.map_err(|error| explain(&error))?.path();
            let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            let yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
            // A folder whose name ends with .yaml is skipped; a dangling link is an error, reported when it is read.
            if !hidden && yaml && !path.is_dir() {
                found.push(path);
            }
            if found.len() > FOLDER_MAX {
                let what = format!("holds more than {FOLDER_MAX} configuration files");
                return Err(Reason::new(what, "join some of them"));
            }
        }
        found.sort();
        Ok(found)
    }
}

fn read_bounded(file: File, length: u64, limit: u64) -> Result<Vec<u8>, Reason> {
    let too_long = || Reason::new(format!("is larger than {limit} bytes"), "split it");
    if length > limit {
        return Err(too_long());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    // Files in /proc report length 0 but have content, and a file may grow while it is read.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| explain(&error))?;
    if bytes.len() as u64 > limit { Err(too_long()) } else { Ok(bytes) }
}

/// True if the modes of the file and its folders allow this user to read it. Landlock does not restrict that question.
fn is_readable(path: &Path) -> bool {
    nix::unistd::access(path, nix::unistd::AccessFlags::R_OK).is_ok()
}

fn irregular() -> Reason {
    Reason::new("is a pipe, socket or device", "name a regular file")
}

fn restricted() -> Reason {
    Reason::new(
        "is outside of the folders that this process may read (Landlock)",
        "restart fairway with this configuration, or add the folder to landlock.read before a start",
    )
}

fn explain(error: &io::Error) -> Reason {
    if error.raw_os_error() == Some(libc::ELOOP) {
        return Reason::new("is a link that leads back to itself", "fix the link");
    }
    match error.kind() {
        ErrorKind::NotFound => {
            Reason::new("does not exist", "fix the path; relative paths start at the configuration file's folder")
        }
        ErrorKind::PermissionDenied => {
            Reason::new("is not readable by this user", "allow the user that runs fairway to read it")
        }
        ErrorKind::NotADirectory => Reason::new("has a component that is not a folder", "fix the path"),
        _ => Reason::new(format!("cannot be read: {error}"), "fix the file or the path"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_file_has_its_own_message_and_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
        let mut files = Files::default();
        let mut why = |path: &Path| files.read(path, 10).unwrap_err().what;
        assert_eq!(why(&pipe), "is a pipe, socket or device");
        assert_eq!(why(Path::new("/dev/zero")), "is a pipe, socket or device");
        assert_eq!(why(folder.path()), "is a folder");
        assert_eq!(why(&folder.path().join("none")), "does not exist");
        assert_eq!(why(&pipe.join("x")), "has a component that is not a folder");
        for (link, leads_to, what) in [
            ("a", "none", "is a link to a file that does not exist"),
            ("b", "b", "is a link that leads back to itself"),
        ] {
            std::os::unix::fs::symlink(leads_to, folder.path().join(link)).unwrap();
            assert_eq!(why(&folder.path().join(link)), what);
        }
        assert_eq!(files.fingerprint.files().count(), 7);
    }

    #[test]
    fn file_over_size_limit_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "0123456789").unwrap();
        assert_eq!(Files::default().read(&path, 10).unwrap(), b"0123456789");
        assert_eq!(Files::default().read(&path, 9).unwrap_err().what, "is larger than 9 bytes");
        // Its metadata reports length 0, but it has content.
        assert!(Files::default().read(Path::new("/proc/self/status"), 4).is_err());
    }

    #[test]
    fn folder_lists_yaml_files_sorted_without_hidden_ones() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.yml", "a.yaml", ".c.yaml", "..2024_01.yaml", "d.zone", "e.yaml~"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("f.yaml")).unwrap();
        let names: Vec<_> = Files::default().list(folder.path()).unwrap();
        let names: Vec<_> = names.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.yaml", "b.yml"]);
    }

    #[test]
    fn file_without_read_permission_is_reported() {
        if nix::unistd::geteuid().is_root() {
            return; // root reads everything
        }
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(Files::default().read(&path, 9).unwrap_err().what, "is not readable by this user");
    }
}
