//! Writes lines on a thread of its own, through a bounded queue.
//!
//! The crate `tracing-appender` does this too, but its guard (0.2.5) prints to standard output when the queue is full at the end of the
//! process, and so waits without bound for the reader that has stopped.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use tracing_subscriber::fmt::MakeWriter;

/// Sends lines to the writing thread; clones share it.
#[derive(Clone, Debug)]
pub(super) struct LineWriter {
    queue: SyncSender<Job>,
    /// Lines lost since the last one that was queued.
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Job {
    Line(Vec<u8>),
    /// Replies once every earlier line is written.
    Flush(SyncSender<()>),
}

impl LineWriter {
    /// Starts the thread, which runs `on_thread` first.
    pub(super) fn start(to: impl Write + Send + 'static, on_thread: fn()) -> io::Result<Self> {
        let (queue, jobs) = sync_channel(QUEUE_MAX);
        thread::Builder::new().name("fairway-log".to_owned()).spawn(move || {
            on_thread();
            write_all(&jobs, to);
        })?;
        Ok(Self { queue, lost: Arc::default() })
    }

    /// Waits until every line so far is written, at most a second: the reader may have stopped for good.
    pub(super) fn flush_queue(&self) {
        let (done, wait) = sync_channel(1);
        let mut job = Job::Flush(done);
        // A full queue empties as fast as its reader reads; the second covers both.
        for _ in 0..FLUSH_TRIES {
            match self.queue.try_send(job) {
                Ok(()) => {
                    let _ = wait.recv_timeout(FLUSH_MAX);
                    return;
                }
                Err(TrySendError::Full(back)) => {
                    job = back;
                    thread::park_timeout(FLUSH_MAX / FLUSH_TRIES);
                }
                Err(TrySendError::Disconnected(_)) => return,
            }
        }
    }

    fn send(&self, line: Vec<u8>) {
        let lost = self.lost.swap(0, Relaxed);
        let mut line = line;
        if lost > 0 {
            // A line of its own, in JSON, which both people and programs can read.
            let note =
                format!("{{\"level\":\"WARN\",\"msg\":\"log lines lost: the reader was slow\",\"lost\":{lost}}}\n");
            line.splice(0..0, note.into_bytes());
        }
        if self.queue.try_send(Job::Line(line)).is_err() {
            self.lost.fetch_add(lost + 1, Relaxed);
        }
    }
}

fn write_all(jobs: &Receiver<Job>, mut to: impl Write) {
    while let Ok(job) = jobs.recv() {
        match job {
            // There is nowhere to report that the log cannot be written.
            Job::Line(line) => drop(to.write_all(&line).and_then(|()| to.flush())),
            Job::Flush(done) => drop(done.send(())),
        }
    }
}

/// The line of one event while it is composed.
#[derive(Debug)]
pub(super) struct Line<'a> {
    writer: &'a LineWriter,
    text: Vec<u8>,
}

impl Write for Line<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if !self.text.is_empty() {
            self.writer.send(std::mem::take(&mut self.text));
        }
    }
}

impl<'a> MakeWriter<'a> for LineWriter {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { writer: self, text: Vec::new() }
    }
}

/// Maximum number of lines in the queue: some seconds of a storm.
const QUEUE_MAX: usize = 4096;
/// Longest wait for the queue at the end of the process.
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// Attempts to enter a full queue within that time.
const FLUSH_TRIES: u32 = 100;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Accepts nothing before the first message of its channel.
    struct Blocked(Receiver<()>, Sender<Vec<u8>>, bool);

    impl Write for Blocked {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            if !self.2 {
                self.0.recv().unwrap();
                self.2 = true;
            }
            self.1.send(text.to_vec()).unwrap();
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn stopped_reader_loses_lines_and_blocks_nobody() {
        let (open, opened) = channel();
        let (written, lines) = channel();
        let writer = LineWriter::start(Blocked(opened, written, false), || {}).unwrap();
        for n in 0..QUEUE_MAX + 100 {
            writer.send(format!("{n}\n").into_bytes());
        }
        open.send(()).unwrap();
        writer.flush_queue();
        writer.send(b"last\n".to_vec());
        writer.flush_queue();
        let all: Vec<u8> = lines.try_iter().flatten().collect();
        let all = String::from_utf8(all).unwrap();
        assert!(all.starts_with("0\n1\n") && all.ends_with("last\n"));
        assert!(all.contains("\"lost\":"), "the loss is logged");
    }
}
