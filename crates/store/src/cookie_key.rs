//! The key of this server's DNS cookies: random, made once, and kept in the data folder.

use std::{io, path::Path};

use fairway_files::Readers;
use fairway_model::Secret;
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

/// File of the key in the data folder: 32 hexadecimal digits.
const FILE: &str = "cookie.key";
/// Octets of the key.
const KEY_LEN: usize = 16;

/// Returns the key of a data folder as hexadecimal digits, and makes it the first time. Without a folder, or if the folder cannot be
/// written, the key lasts as long as the process; then clients get new cookies after the next start.
///
/// Returns `None` if the system has no random numbers.
pub fn cookie_key(folder: Option<&Path>) -> Option<Secret> {
    let path = folder.map(|folder| folder.join(FILE));
    match path.as_deref().map(read).transpose() {
        Ok(Some(Some(key))) => return Some(key),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, file = FILE, "cookie key not readable: a new one is used"),
    }
    let key = draw()?;
    if let Some(path) = path
        && let Err(error) = fairway_files::replace(&path, key.expose().as_bytes(), Readers::Owner)
    {
        tracing::warn!(%error, file = FILE, "cookie key not saved: clients get new cookies after the next start");
    }
    Some(key)
}

/// Reads the key; `None` if there is none yet.
fn read(path: &Path) -> io::Result<Option<Secret>> {
    let Some(bytes) = fairway_files::read(path, 2 * KEY_LEN as u64)?.map(Zeroizing::new) else { return Ok(None) };
    let is_key = bytes.len() == 2 * KEY_LEN && bytes.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(&bytes).ok().filter(|_| is_key);
    text.map(|text| Some(Secret::new(text))).ok_or_else(|| io::Error::other("not 32 hexadecimal digits"))
}

fn draw() -> Option<Secret> {
    let mut key = Zeroizing::new([0; KEY_LEN]);
    SystemRandom::new().fill(&mut *key).ok()?;
    Some(Secret::new(data_encoding::HEXLOWER.encode(&*key)))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn key_is_made_once_and_only_the_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let key = cookie_key(Some(folder.path())).unwrap();
        assert_eq!(cookie_key(Some(folder.path())).unwrap(), key);
        let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_ne!(cookie_key(None).unwrap(), cookie_key(None).unwrap());
    }

    #[test]
    fn broken_key_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "not a key").unwrap();
        let key = cookie_key(Some(folder.path())).unwrap();
        assert_eq!(cookie_key(Some(folder.path())).unwrap(), key);
    }
}
