//! Replacing a file whole, so that whoever reads it sees the old text or the new one.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Replaces `name` in `folder`: when this returns, the new text survives a power cut.
///
/// One writer at a time, which the folder's lock gives; what a killed writer left beside is overwritten.
pub(super) fn replace(folder: &Path, name: &str, text: &[u8]) -> io::Result<()> {
    let beside = folder.join(format!("{name}.new"));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(libc::O_NONBLOCK)
        .open(&beside)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&beside, folder.join(name))?;
    // The rename itself lies in the folder.
    File::open(folder)?.sync_all()
}

/// Takes `name` away, if it is there: when this returns, that survives a power cut.
pub(super) fn remove(folder: &Path, name: &str) -> io::Result<()> {
    match fs::remove_file(folder.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::open(folder)?.sync_all()
}

/// The text of `name`, if the file is there. One over `most` octets is refused before it is read. Nothing is waited for: a
/// pipe or a device in its place is refused, too.
pub(super) fn read(folder: &Path, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
    // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever; a regular file takes no notice of it.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(folder.join(name));
    let file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = Vec::new();
    file.take(most + 1).read_to_end(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::other(format!("it has over {most} octets, more than this program ever writes")));
    }
    Ok(Some(text))
}

/// Moves a file that cannot be read out of the way; returns the name it has now.
pub(super) fn move_aside(folder: &Path, name: &str) -> io::Result<String> {
    let aside = format!("{name}.unreadable");
    fs::rename(folder.join(name), folder.join(&aside))?;
    Ok(aside)
}
