//! Tables of latencies that were pushed, each a file of its own. What they say is not looked at here: `config` reads them.

use std::{io, path::Path};

use fairway_files::Readers;

/// The text of a table; none where there is none. For the process that holds the folder.
pub fn read_table(folder: &Path, file: &str) -> io::Result<Option<Vec<u8>>> {
    fairway_files::read(&folder.join(file), TABLE_MAX)
}

/// Replaces a table, or takes it away; when this returns that survives a power cut.
pub fn replace_table(folder: &Path, file: &str, text: Option<&[u8]>) -> io::Result<()> {
    match text {
        Some(text) => fairway_files::replace(&folder.join(file), text, Readers::Owner),
        None => fairway_files::remove(&folder.join(file)),
    }
}

/// Most octets of a table: as `config` reads.
const TABLE_MAX: u64 = 256 << 20;
