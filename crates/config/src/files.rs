//! Reads files within bounds and remembers what they looked like: never a device, never a pipe that blocks, never more
//! than the bound.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use super::watch::Fingerprint;

/// Most octets of a configuration file: 64 MiB, some 300,000 pools with a name each.
pub(super) const CONFIG_MAX: u64 = 64 << 20;
/// Most octets of a certificate, key or other secret: 1 MiB.
pub(super) const SECRET_MAX: u64 = 1 << 20;
/// Most octets of a zone file or a file it includes: 4 GiB, some fifty million records.
pub(super) const ZONE_MAX: u64 = 4 << 30;
/// Most octets of a database of a map: 1 GiB, some three times the largest ones of today.
pub(super) const MMDB_MAX: u64 = 1 << 30;
/// Most octets of a table of latencies: 256 MiB.
pub(super) const LATENCIES_MAX: u64 = 256 << 20;
/// Most files of a configuration folder.
const FOLDER_MAX: usize = 1_000;

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// What each file and folder looked like when it was opened, also those that could not be read.
    pub(super) fingerprint: Fingerprint,
}

/// Why a file cannot be read, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// The fact, to follow the path: `does not exist`.
    pub(super) what: String,
    /// The way out.
    pub(super) hint: &'static str,
}

impl Files {
    /// The whole of a file of at most `limit` octets.
    pub(super) fn read(&mut self, path: &Path, limit: u64) -> Result<Vec<u8>, Unreadable> {
        // Without O_NONBLOCK, opening a pipe nobody writes to would wait for ever; a regular file takes no notice of it.
        // O_NOCTTY: a terminal given by mistake must not become ours.
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
        let file = opened.map_err(|error| {
            self.fingerprint.add(path, None);
            if path.is_symlink() && error.kind() == ErrorKind::NotFound { dangling() } else { explain(&error) }
        })?;
        let metadata = file.metadata().map_err(|error| explain(&error))?;
        self.fingerprint.add(path, Some(&metadata));
        if metadata.is_dir() {
            return Err(Unreadable { what: "is a folder".to_owned(), hint: "give the file in it" });
        }
        if !metadata.is_file() {
            return Err(Unreadable { what: "is a pipe, socket or device".to_owned(), hint: "give a regular file" });
        }
        read_bounded(file, metadata.len(), limit)
    }

    /// The configuration files of a folder, by name; what is hidden is left out (ConfigMaps keep `..data` there).
    pub(super) fn list(&mut self, folder: &Path) -> Result<Vec<PathBuf>, Unreadable> {
        let metadata = fs::metadata(folder);
        self.fingerprint.add(folder, metadata.as_ref().ok());
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).map_err(|error| explain(&error))? {
            let path = entry.map_err(|error| explain(&error))?.path();
            let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            let yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
            // A folder that is called like a file is none of ours; a dangling link is a fault, found on reading.
            if !hidden && yaml && !path.is_dir() {
                found.push(path);
            }
            if found.len() > FOLDER_MAX {
                let what = format!("holds more than {FOLDER_MAX} configuration files");
                return Err(Unreadable { what, hint: "join some of them" });
            }
        }
        found.sort();
        Ok(found)
    }
}

fn read_bounded(file: File, length: u64, limit: u64) -> Result<Vec<u8>, Unreadable> {
    let too_long = || Unreadable { what: format!("is longer than {limit} octets"), hint: "split it" };
    if length > limit {
        return Err(too_long());
    }
    let mut octets = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    // Files of /proc say 0 and hold more; a file may also grow while it is read.
    file.take(limit + 1).read_to_end(&mut octets).map_err(|error| explain(&error))?;
    if octets.len() as u64 > limit { Err(too_long()) } else { Ok(octets) }
}

/// A link is there, so that "does not exist" would send people the wrong way.
fn dangling() -> Unreadable {
    Unreadable { what: "is a link to what does not exist".to_owned(), hint: "mend the link, or what it leads to" }
}

fn explain(error: &io::Error) -> Unreadable {
    if error.raw_os_error() == Some(libc::ELOOP) {
        return Unreadable { what: "is a link that leads back to itself".to_owned(), hint: "mend the link" };
    }
    let (what, hint) = match error.kind() {
        ErrorKind::NotFound => {
            ("does not exist", "mend the path; relative ones begin at the configuration file's folder")
        }
        ErrorKind::PermissionDenied => {
            ("may not be read by this user", "give the user that runs fairway leave to read it")
        }
        ErrorKind::NotADirectory => ("leads through something that is no folder", "mend the path"),
        _ => return Unreadable { what: format!("cannot be read: {error}"), hint: "mend the file or the path" },
    };
    Unreadable { what: what.to_owned(), hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_a_folder_and_a_missing_file_are_told_apart_and_none_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
        let mut files = Files::default();
        let mut why = |path: &Path| files.read(path, 10).unwrap_err().what;
        assert_eq!(why(&pipe), "is a pipe, socket or device");
        assert_eq!(why(Path::new("/dev/zero")), "is a pipe, socket or device");
        assert_eq!(why(folder.path()), "is a folder");
        assert_eq!(why(&folder.path().join("none")), "does not exist");
        assert_eq!(why(&pipe.join("x")), "leads through something that is no folder");
        for (link, leads_to, what) in
            [("a", "none", "is a link to what does not exist"), ("b", "b", "is a link that leads back to itself")]
        {
            std::os::unix::fs::symlink(leads_to, folder.path().join(link)).unwrap();
            assert_eq!(why(&folder.path().join(link)), what);
        }
        assert_eq!(files.fingerprint.files().count(), 7);
    }

    #[test]
    fn a_file_at_the_bound_is_read_and_one_octet_more_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "0123456789").unwrap();
        assert_eq!(Files::default().read(&path, 10).unwrap(), b"0123456789");
        assert_eq!(Files::default().read(&path, 9).unwrap_err().what, "is longer than 9 octets");
        // Says it is empty, and is not.
        assert!(Files::default().read(Path::new("/proc/self/status"), 4).is_err());
    }

    #[test]
    fn a_folder_gives_its_yaml_files_by_name_and_nothing_hidden() {
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
    fn an_unreadable_file_is_told_as_such() {
        if nix::unistd::geteuid().is_root() {
            return; // root reads everything
        }
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(Files::default().read(&path, 9).unwrap_err().what, "may not be read by this user");
    }
}
