//! Files of the change log and their records.
//!
//! ```text
//! file    FAIRWAY-LOG, version (1 byte), records
//! record  length of the content (4), CRC-32 of all that follows (4), time in µs (8), kind (1), content     little-endian
//! ```
//! A file is named by the time of its beginning in µs. A record that a crash cut off ends its file.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use fairway_model::Timestamp;

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// A change of the state, or a whole state.
    State,
    /// An event, as a JSON object.
    Event,
}

impl RecordKind {
    const fn byte(self) -> u8 {
        match self {
            Self::State => 1,
            Self::Event => 2,
        }
    }
}

/// One record. Its time is unique in the log and rises.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Time in µs since 1970, which is also its id.
    pub(crate) micros: u64,
    /// The content.
    pub(crate) content: Vec<u8>,
}

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogFile {
    /// Time of its beginning in µs since 1970.
    pub begin: u64,
    /// Path.
    pub path: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
}

/// Returns the files of the log in a folder, oldest first; none if the folder is missing.
///
/// # Errors
///
/// The folder cannot be read.
pub fn files(folder: &Path) -> io::Result<Vec<LogFile>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(SUFFIX));
        let Some(begin) = name.and_then(|begin| begin.parse().ok()) else { continue };
        // The writer may delete it meanwhile.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        files.push(LogFile { begin, path, bytes: metadata.len() });
    }
    files.sort();
    Ok(files)
}

impl LogFile {
    /// Creates a file.
    pub(crate) fn create(folder: &Path, begin: u64) -> io::Result<(Self, File)> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let path = folder.join(format!("{begin:017}{SUFFIX}"));
        let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(HEAD)?;
        Ok((Self { begin, path, bytes: HEAD.len() as u64 }, file))
    }

    /// Returns its records of these kinds, oldest first. Others are skipped without being read.
    ///
    /// # Errors
    ///
    /// The file cannot be opened. A file of another version has no records.
    pub(crate) fn records(&self, kinds: &[RecordKind]) -> io::Result<impl Iterator<Item = Record> + use<>> {
        let mut file = BufReader::new(File::open(&self.path)?);
        let mut head = [0; HEAD.len()];
        let is_ours = file.read_exact(&mut head).is_ok() && head == *HEAD;
        let kinds = kinds.to_vec();
        Ok(std::iter::from_fn(move || if is_ours { next(&mut file, &kinds) } else { None }))
    }
}

/// Returns the next record of these kinds; `None` at the end, which may be in the middle of a record.
fn next(file: &mut BufReader<File>, kinds: &[RecordKind]) -> Option<Record> {
    loop {
        let mut head = [0; RECORD_HEAD];
        file.read_exact(&mut head).ok()?;
        let (length, rest) = head.split_at(4);
        let (crc, rest) = rest.split_at(4);
        let length = u32::from_le_bytes(length.try_into().ok()?);
        let kind = [RecordKind::State, RecordKind::Event].into_iter().find(|kind| kind.byte() == rest[8]);
        if !kind.is_some_and(|kind| kinds.contains(&kind)) {
            file.seek_relative(i64::from(length)).ok()?;
            continue;
        }
        let mut content = Vec::new();
        file.by_ref().take(length.into()).read_to_end(&mut content).ok()?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(rest);
        hasher.update(&content);
        let is_whole =
            content.len() == length as usize && hasher.finalize() == u32::from_le_bytes(crc.try_into().ok()?);
        return is_whole
            .then(|| Record { micros: u64::from_le_bytes(rest[..8].try_into().unwrap_or_default()), content });
    }
}

/// Appends a record; returns its bytes in the file.
pub(crate) fn append(file: &mut File, micros: u64, kind: RecordKind, content: &[u8]) -> io::Result<u64> {
    let length = u32::try_from(content.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut record = Vec::with_capacity(RECORD_HEAD + content.len());
    record.extend(length.to_le_bytes());
    record.extend([0; 4]);
    record.extend(micros.to_le_bytes());
    record.push(kind.byte());
    record.extend(content);
    let crc = crc32fast::hash(&record[8..]);
    record[4..8].copy_from_slice(&crc.to_le_bytes());
    let begin = file.seek(SeekFrom::End(0))?;
    if let Err(error) = file.write_all(&record) {
        // A part of a record would hide those after it.
        let _ = file.set_len(begin);
        return Err(error);
    }
    Ok(record.len() as u64)
}

/// Returns a moment in µs since 1970.
pub fn micros(at: Timestamp) -> u64 {
    u64::try_from(at.since(Timestamp::from_secs(0)).as_micros()).unwrap_or(u64::MAX)
}

const SUFFIX: &str = ".log";
/// Of the frame only. The content of states has a version of its own.
const HEAD: &[u8; 12] = b"FAIRWAY-LOG\x01";
const RECORD_HEAD: usize = 17;

/// The part of the log's events to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRange {
    /// Earliest time, in µs since 1970.
    pub since: u64,
    /// Latest time.
    pub until: u64,
    /// Maximum number of events.
    pub limit: usize,
    /// True for the newest ones if there are more, else the oldest.
    pub newest: bool,
}

/// Returns events that `choose` returns something for, oldest first.
///
/// # Errors
///
/// A file cannot be read.
pub fn events<T>(
    folder: &Path,
    range: EventRange,
    mut choose: impl FnMut(u64, &[u8]) -> Option<T>,
) -> io::Result<Vec<T>> {
    let mut files = files(folder)?;
    // A file ends where the next one begins.
    let first = files.iter().skip(1).take_while(|file| file.begin <= range.since).count();
    files.drain(..first.min(files.len()));
    files.retain(|file| file.begin <= range.until);
    if range.newest {
        files.reverse();
    }
    let mut found = VecDeque::new();
    for file in files {
        let records = file.records(&[RecordKind::Event])?;
        let records = records.filter(|record| (range.since..=range.until).contains(&record.micros));
        let mut chosen = records.filter_map(|record| choose(record.micros, &record.content));
        let left = range.limit - found.len();
        if range.newest {
            let mut of_file = VecDeque::new();
            for event in chosen {
                if of_file.len() == left {
                    of_file.pop_front();
                }
                of_file.push_back(event);
            }
            of_file.into_iter().rev().for_each(|event| found.push_front(event));
        } else {
            found.extend(chosen.by_ref().take(left));
        }
        if found.len() == range.limit {
            break;
        }
    }
    Ok(found.into())
}
