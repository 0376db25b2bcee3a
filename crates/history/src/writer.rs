//! The thread that writes the log.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::{Builder, JoinHandle},
    time::SystemTime,
};

use fairway_model::{DesiredState, Timestamp};
use fairway_zones::ServingState;

use crate::{
    files::{LogFile, RecordKind, append, files, micros},
    recorder::{LoadEvents, State},
};

/// The change log; clones share it. It keeps nothing until it is [opened](History::open).
#[derive(Clone, Debug)]
pub struct History(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    queue: SyncSender<Entry>,
    /// Taken by the thread.
    entries: Mutex<Option<Receiver<Entry>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    folder: OnceLock<PathBuf>,
    /// Number of states that were left out since the last one.
    skipped: AtomicU32,
    lost: AtomicU64,
}

#[derive(Debug)]
enum Entry {
    Event(Timestamp, String),
    /// A state, and the number of states before it that were left out.
    State(Timestamp, Arc<DesiredState>, ServingState, u32),
    End,
}

impl Default for History {
    fn default() -> Self {
        let (queue, entries) = sync_channel(QUEUE_MAX);
        Self(Arc::new(Inner {
            queue,
            entries: Mutex::new(Some(entries)),
            thread: Mutex::default(),
            folder: OnceLock::new(),
            skipped: AtomicU32::new(0),
            lost: AtomicU64::new(0),
        }))
    }
}

impl History {
    /// Begins to write to a folder, with a new file. Call it once.
    ///
    /// # Errors
    ///
    /// The file or the thread cannot be created.
    pub fn open(&self, folder: &Path, bytes_max: u64) -> io::Result<()> {
        let entries = self.0.entries.lock().unwrap_or_else(PoisonError::into_inner).take();
        let entries = entries.ok_or(io::ErrorKind::AlreadyExists)?;
        let mut writer = LogWriter::create(folder, bytes_max, SystemTime::now().into())?;
        let inner = Arc::clone(&self.0);
        let thread = Builder::new().name("history".to_owned()).spawn(move || inner.run(&mut writer, &entries))?;
        *self.0.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        let _ = self.0.folder.set(folder.to_owned());
        Ok(())
    }

    /// Writes what is queued, and ends the thread.
    pub fn close(&self) {
        let thread = self.0.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && self.0.queue.send(Entry::End).is_ok()
        {
            // A panic of the thread was printed.
            let _ = thread.join();
        }
    }

    /// Returns the folder of the log, once it is open.
    pub fn folder(&self) -> Option<&Path> {
        self.0.folder.get().map(PathBuf::as_path)
    }

    /// Returns the number of events and states that were left out, since the disk was slow, full or gone.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Relaxed)
    }

    /// Adds an event: a JSON object without its time.
    pub fn add_event(&self, at: Timestamp, event: String) {
        self.add(Entry::Event(at, event));
    }

    /// Adds the state that is served from now on.
    pub fn add_state(&self, at: Timestamp, desired: &Arc<DesiredState>, serving: &ServingState) {
        // Without a reader, states would wait in memory.
        if self.folder().is_some() {
            let skipped = self.0.skipped.swap(0, Relaxed);
            self.add(Entry::State(at, Arc::clone(desired), serving.clone(), skipped));
        }
    }

    fn add(&self, entry: Entry) {
        if let Err(TrySendError::Full(entry) | TrySendError::Disconnected(entry)) = self.0.queue.try_send(entry) {
            self.0.leave_out(&entry);
        }
    }
}

impl Inner {
    fn run(&self, writer: &mut LogWriter, entries: &Receiver<Entry>) {
        let mut is_failing = [false; 2];
        while let Ok(entry) = entries.recv() {
            let result = match &entry {
                Entry::End => return,
                Entry::Event(at, event) => writer.add_event(*at, event),
                Entry::State(at, desired, serving, skipped) => writer.add_state(*at, desired, serving, *skipped),
            };
            // Of events and of states, only the first of several failures, and their end, are logged.
            let is_failing = &mut is_failing[usize::from(matches!(entry, Entry::State(..)))];
            if let Err(error) = &result {
                self.leave_out(&entry);
                if !*is_failing {
                    tracing::error!(%error, "change log not written");
                }
            } else if *is_failing {
                tracing::info!("change log written again");
            }
            *is_failing = result.is_err();
        }
    }

    /// Counts an entry that is not written. The next state says how many states before it are missing.
    fn leave_out(&self, entry: &Entry) {
        // Without a data folder there is nothing to miss.
        self.lost.fetch_add(u64::from(self.folder.get().is_some()), Relaxed);
        if let Entry::State(.., skipped) = entry {
            self.skipped.fetch_add(skipped + 1, Relaxed);
        }
    }
}

/// The files of a log, to write to.
#[derive(Debug)]
pub struct LogWriter {
    folder: PathBuf,
    bytes_max: u64,
    /// Former files, oldest first.
    former: Vec<LogFile>,
    file: (LogFile, File),
    /// The last state of the file.
    last: Option<State>,
    load: LoadEvents,
    last_micros: u64,
    /// Size of the file after its first state.
    bytes_first: u64,
    /// True if a whole state takes more than half of the limit; then only events are kept.
    is_too_small: bool,
}

impl LogWriter {
    /// Begins a file at a time. Files over the limit of bytes are deleted, the oldest first.
    ///
    /// # Errors
    ///
    /// The folder cannot be read, or the file cannot be created.
    pub fn create(folder: &Path, bytes_max: u64, now: Timestamp) -> io::Result<Self> {
        let former = files(folder)?;
        let now = micros(now);
        let begin = former.last().map_or(now, |last| now.max(last.begin + 1));
        let file = LogFile::create(folder, begin)?;
        let mut writer = Self {
            folder: folder.to_owned(),
            bytes_max,
            former,
            file,
            last: None,
            load: LoadEvents::default(),
            last_micros: begin.saturating_sub(1),
            bytes_first: 0,
            is_too_small: false,
        };
        writer.delete_oldest();
        Ok(writer)
    }

    /// Adds an event: a JSON object without its time.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn add_event(&mut self, at: Timestamp, event: &str) -> io::Result<()> {
        self.write(at, RecordKind::Event, event.as_bytes())?;
        self.begin_file_if_due(at)
    }

    /// Adds the state that is served from a time on; nothing if it is the last one. `skipped` states since the last one are missing.
    ///
    /// # Errors
    ///
    /// It cannot be written. The next one is written as a whole.
    pub fn add_state(
        &mut self,
        at: Timestamp,
        desired: &Arc<DesiredState>,
        serving: &ServingState,
        skipped: u32,
    ) -> io::Result<()> {
        let state = State { desired: Arc::clone(desired), serving: serving.clone() };
        if self.last.as_ref().is_some_and(|last| last.is_same(&state)) {
            return Ok(());
        }
        if self.is_too_small {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let before = self.last.take();
        let content = state.change_since(before.as_ref(), skipped).encode()?;
        if content.len() as u64 > self.bytes_max / 2 {
            // A whole state at each change would take more time than it is worth.
            self.is_too_small = true;
            let needed = ((2 * content.len()) >> 20) + 1;
            return Err(io::Error::other(format!("history.bytes is too small for a state; give {needed}MiB or more")));
        }
        drop(before);
        self.write(at, RecordKind::State, &content)?;
        if self.bytes_first == 0 {
            self.bytes_first = self.file.0.bytes;
        }
        let event = self.load.event(&state);
        self.last = Some(state);
        if let Some(event) = event {
            self.write(at, RecordKind::Event, event.as_bytes())?;
        }
        self.begin_file_if_due(at)
    }

    fn write(&mut self, at: Timestamp, kind: RecordKind, content: &[u8]) -> io::Result<()> {
        self.last_micros = micros(at).max(self.last_micros + 1);
        let (file, open) = &mut self.file;
        file.bytes += append(open, self.last_micros, kind, content)?;
        Ok(())
    }

    /// Begins a new file with a whole state, so that old files can be deleted. A large state needs long files.
    fn begin_file_if_due(&mut self, at: Timestamp) -> io::Result<()> {
        let size_max = (self.bytes_max / FILES).max(2 * self.bytes_first).min(self.bytes_max);
        if self.file.0.bytes < size_max {
            return Ok(());
        }
        self.last_micros += 1;
        let next = LogFile::create(&self.folder, self.last_micros)?;
        let (full, _) = std::mem::replace(&mut self.file, next);
        self.former.push(full);
        self.bytes_first = 0;
        if let Some(state) = self.last.take() {
            let content = state.change_since(None, 0).encode()?;
            self.write(at, RecordKind::State, &content)?;
            self.bytes_first = self.file.0.bytes;
            self.last = Some(state);
        }
        self.delete_oldest();
        Ok(())
    }

    fn delete_oldest(&mut self) {
        let mut bytes: u64 = self.file.0.bytes + self.former.iter().map(|file| file.bytes).sum::<u64>();
        while bytes > self.bytes_max && !self.former.is_empty() {
            let oldest = self.former.remove(0);
            bytes -= oldest.bytes;
            if let Err(error) = fs::remove_file(&oldest.path) {
                tracing::warn!(file = %oldest.path.display(), %error, "old file of the change log not deleted");
            }
        }
    }
}

/// Number of files that the log has at its limit, unless a whole state is large.
const FILES: u64 = 8;
/// Maximum number of entries that wait for the disk.
const QUEUE_MAX: usize = 1_024;
