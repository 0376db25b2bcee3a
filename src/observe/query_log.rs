//! The sampled log of queries: one JSON object a line, written by a thread of its own, never by one that answers.
//!
//! Workers put every N-th query into a ring of their own; this thread empties the rings ten times a second. What finds a
//! ring full is lost and counted (`fairway_query_log_lost_total`).

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::{Duration, UNIX_EPOCH},
};

use fairway_model::{Name, Rtype, Timestamp};
use fairway_zones::{Sample, Transport};

use crate::{
    config::{QueryLogSettings, QueryLogSink},
    serve::Counters,
};

/// The running query log. Dropping it writes what is left and ends the thread.
#[derive(Debug)]
pub(crate) struct QueryLog {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What is wanted now: settings, and a number that changes when files are to be opened anew.
type Wanted = dyn Fn() -> (Option<QueryLogSettings>, u64) + Send;

impl QueryLog {
    /// Starts the thread; `wanted` is asked again and again, so that a reload is followed.
    pub(crate) fn start(counters: Counters, wanted: Box<Wanted>) -> io::Result<Self> {
        let (stop, stopped) = sync_channel(0);
        let writer = Writer { counters, wanted, current: (None, 0), to: None, is_failing: false };
        let thread = thread::Builder::new().name("fairway-query-log".to_owned()).spawn(move || writer.run(&stopped))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for QueryLog {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

struct Writer {
    counters: Counters,
    wanted: Box<Wanted>,
    /// What is in force.
    current: (Option<QueryLogSettings>, u64),
    to: Option<Box<dyn Write + Send>>,
    /// Whether the last write failed: told when it begins and when it ends.
    is_failing: bool,
}

impl Writer {
    fn run(mut self, stopped: &Receiver<()>) {
        loop {
            let ends = !matches!(stopped.recv_timeout(DRAIN_EVERY), Err(RecvTimeoutError::Timeout));
            self.follow();
            self.drain();
            if ends {
                return;
            }
        }
    }

    /// Brings sampling and sink in line with what is wanted.
    fn follow(&mut self) {
        let wanted = (self.wanted)();
        let every = wanted.0.as_ref().map_or(0, |settings| settings.one_in.get());
        // Each time: another thread may have begun to serve.
        self.counters.tallies_by_thread().for_each(|tally| tally.sample_every(every));
        if wanted == self.current {
            return;
        }
        self.current = wanted;
        self.to = None;
    }

    fn drain(&mut self) {
        let mut lines = String::new();
        for tally in self.counters.tallies_by_thread() {
            tally.take_samples(|sample| lines += &line(&sample));
        }
        let Some(settings) = self.current.0.as_ref().filter(|_| !lines.is_empty()) else { return };
        let outcome = match &mut self.to {
            Some(to) => to.write_all(lines.as_bytes()).and_then(|()| to.flush()),
            None => open(&settings.sink).and_then(|mut to| {
                to.write_all(lines.as_bytes())?;
                to.flush()?;
                self.to = Some(to);
                Ok(())
            }),
        };
        match &outcome {
            Err(error) if !self.is_failing => tracing::error!(%error, "query log cannot be written; samples are lost"),
            Ok(()) if self.is_failing => tracing::info!("query log can be written again"),
            _ => {}
        }
        self.is_failing = outcome.is_err();
        if self.is_failing {
            self.to = None;
        }
    }
}

fn open(sink: &QueryLogSink) -> io::Result<Box<dyn Write + Send>> {
    Ok(match sink {
        QueryLogSink::Stdout => Box::new(io::stdout()),
        QueryLogSink::File(path) => {
            let file: File = OpenOptions::new().append(true).create(true).mode(0o640).open(path)?;
            Box::new(file)
        }
    })
}

/// One sample as a JSON line. Names are in presentation form, which leaves nothing that JSON would have to escape but
/// the backslash.
fn line(sample: &Sample) -> String {
    let time = Timestamp::from(UNIX_EPOCH + Duration::from_secs(sample.at));
    let transport = match sample.transport {
        Transport::Udp => "udp",
        Transport::Tcp => "tcp",
    };
    let (name, rtype, class) = question(&sample.question);
    let name = serde_json::Value::from(name);
    let (client, rcode) = (sample.client, sample.rcode);
    let subnet = sample.subnet.map(|subnet| format!("\"subnet\":\"{subnet}\",")).unwrap_or_default();
    format!(
        "{{\"time\":\"{time}\",\"msg\":\"query\",\"client\":\"{client}\",{subnet}\"transport\":\"{transport}\",\"name\":{name},\
         \"type\":\"{rtype}\",\"class\":{class},\"rcode\":{rcode}}}\n"
    )
}

/// Name, type and class of a question; what is not well-formed shows as the root, type 0, class 0.
fn question(wire: &[u8]) -> (String, Rtype, u16) {
    let Ok(name) = Name::from_wire(wire) else { return (".".to_owned(), Rtype(0), 0) };
    let number = |at: usize| {
        let octets = wire.get(at..at + 2).and_then(|octets| octets.try_into().ok());
        octets.map_or(0, u16::from_be_bytes)
    };
    let end = name.as_wire().len();
    (name.to_string(), Rtype(number(end)), number(end + 2))
}

/// How often the rings are emptied.
const DRAIN_EVERY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(question: &[u8]) -> Sample {
        Sample {
            at: 1_700_000_000,
            client: "192.0.2.1".parse().unwrap(),
            subnet: Some("198.51.100.0/24".parse().unwrap()),
            transport: Transport::Udp,
            rcode: 3,
            question: question.to_vec(),
        }
    }

    #[test]
    fn a_sample_is_one_json_object_whatever_octets_its_name_has() {
        let line = line(&sample(b"\x04a\"\n\\\x07example\x00\x00\x1c\x00\x01"));
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["name"], "a\\\"\\010\\\\.example.");
        assert_eq!((&value["type"], &value["class"], &value["rcode"]), (&"AAAA".into(), &1.into(), &3.into()));
        assert_eq!((&value["client"], &value["subnet"]), (&"192.0.2.1".into(), &"198.51.100.0/24".into()));
        assert_eq!(value["time"], "2023-11-14T22:13:20Z");
    }

    #[test]
    fn a_cut_question_is_shown_as_the_root() {
        assert_eq!(question(b"\x04abc"), (".".to_owned(), Rtype(0), 0));
    }

    #[test]
    fn a_sink_that_cannot_be_opened_is_told_and_does_not_end_the_thread() {
        let folder = tempfile::tempdir().unwrap();
        let settings = QueryLogSettings {
            one_in: std::num::NonZeroU32::MIN,
            sink: QueryLogSink::File(folder.path().join("missing/query.log")),
        };
        let (asked, asks) = std::sync::mpsc::channel();
        let wanted = Box::new(move || {
            let _ = asked.send(());
            (Some(settings.clone()), 0)
        });
        let log = QueryLog::start(Counters::default(), wanted).unwrap();
        for _ in 0..3 {
            asks.recv_timeout(Duration::from_secs(5)).unwrap();
        }
        drop(log);
    }
}
