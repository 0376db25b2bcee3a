//! Tables of latencies that were pushed, each a file of its own. What they say is not looked at here: `config` reads them.

use std::{io, path::Path};

use super::atomic;

/// The text of a table; none where there is none. For the process that holds the folder.
pub fn read_table(folder: &Path, file: &str) -> io::Result<Option<Vec<u8>>> {
    atomic::read(folder, file, TABLE_MAX)
}

/// Replaces a table, or takes it away; when this returns that survives a power cut.
pub fn replace_table(folder: &Path, file: &str, text: Option<&[u8]>) -> io::Result<()> {
    match text {
        Some(text) => atomic::replace(folder, file, text),
        None => atomic::remove(folder, file),
    }
}

/// Most octets of a table: as `config` reads.
const TABLE_MAX: u64 = 256 << 20;
