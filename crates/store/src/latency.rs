//! Files of pushed latency tables. Their content is bytes here; `config` parses it.

use std::{io, path::Path};

use fairway_files::Readers;

/// Reads a table; `None` if there is none. The caller holds the lock of the folder.
pub fn read_latency_table(folder: &Path, file: &str) -> io::Result<Option<Vec<u8>>> {
    fairway_files::read(&folder.join(file), TABLE_MAX)
}

/// Replaces a table, or removes it. When this returns, the change survives a power cut.
pub fn replace_latency_table(folder: &Path, file: &str, content: Option<&[u8]>) -> io::Result<()> {
    match content {
        Some(content) => fairway_files::replace(&folder.join(file), content, Readers::Owner),
        None => fairway_files::remove(&folder.join(file)),
    }
}

/// Maximum bytes of a table, the bound that `config` has.
const TABLE_MAX: u64 = 256 << 20;
