//! The sampled query log: one JSON object per line, written by a separate thread, never by a worker.
//!
//! Each worker puts one query in N into its ring; this thread empties the rings ten times a second. A sample is lost and counted
//! (`fairway_query_log_lost_total`) if the ring is full.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::{Duration, UNIX_EPOCH},
};

use fairway_model::{Name, Network, Rtype, Timestamp};
use serde_json::json;

/// The running query log. Dropping it writes the remaining samples and ends the thread.
#[derive(Debug)]
pub struct QueryLog {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// One sampled query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuerySample {
    /// Seconds since 1970.
    pub at: u64,
    /// Address of the client.
    pub client: IpAddr,
    /// The client subnet of the query (RFC 7871), if it had one.
    pub subnet: Option<Network>,
    /// `udp` or `tcp`.
    pub transport: &'static str,
    /// Response code.
    pub rcode: u16,
    /// The question in wire form: name, type, class.
    pub question: Vec<u8>,
    /// Pool of the name.
    pub pool: Option<String>,
    /// Clusters in the answer.
    pub clusters: Vec<String>,
    /// Addresses and CNAME targets of the answer.
    pub answer: Vec<String>,
}

/// Destination of the lines of the query log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryLogSink {
    /// Standard output.
    Stdout,
    /// Appended to this file.
    File(PathBuf),
}

/// Settings of the query log now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryLogOptions {
    /// Destination; none switches the log off.
    pub sink: Option<QueryLogSink>,
    /// Changes when files are to be opened again, as after a rotation.
    pub opened: u64,
}

/// Returns the settings in use, and passes the waiting samples to its argument.
type Source = dyn FnMut(&mut dyn FnMut(QuerySample)) -> QueryLogOptions + Send;

impl QueryLog {
    /// Starts the thread. It calls `source` ten times a second, so that a reload is followed.
    pub fn start(source: Box<Source>) -> io::Result<Self> {
        let (stop, stopped) = sync_channel(0);
        let writer = Writer { source, current: QueryLogOptions::default(), to: None, is_failing: false };
        let thread = thread::Builder::new().name("fairway-query-log".to_owned()).spawn(move || writer.run(&stopped))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for QueryLog {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is reported by its hook.
            let _ = thread.join();
        }
    }
}

struct Writer {
    source: Box<Source>,
    /// Settings in use.
    current: QueryLogOptions,
    to: Option<Box<dyn Write + Send>>,
    /// True if the last write failed; the first failure and the recovery are logged.
    is_failing: bool,
}

impl Writer {
    fn run(mut self, stopped: &Receiver<()>) {
        // At once, since this sets the rate of the threads that answer.
        self.drain();
        loop {
            let ends = !matches!(stopped.recv_timeout(DRAIN_EVERY), Err(RecvTimeoutError::Timeout));
            self.drain();
            if ends {
                return;
            }
        }
    }

    /// Writes the waiting samples.
    fn drain(&mut self) {
        let mut lines = String::new();
        let options = (self.source)(&mut |sample| lines += &line(&sample));
        if options != self.current {
            self.current = options;
            self.to = None;
        }
        let Some(sink) = self.current.sink.as_ref().filter(|_| !lines.is_empty()) else { return };
        let opened = self.to.take().map_or_else(|| open(sink), Ok);
        let outcome = opened.and_then(|mut to| {
            to.write_all(lines.as_bytes())?;
            to.flush()?;
            self.to = Some(to);
            Ok(())
        });
        match &outcome {
            Err(error) if !self.is_failing => tracing::error!(%error, "query log write failed; samples are lost"),
            Ok(()) if self.is_failing => tracing::info!("query log write recovered"),
            _ => {}
        }
        self.is_failing = outcome.is_err();
    }
}

fn open(sink: &QueryLogSink) -> io::Result<Box<dyn Write + Send>> {
    Ok(match sink {
        QueryLogSink::Stdout => Box::new(io::stdout()),
        QueryLogSink::File(path) => Box::new(OpenOptions::new().append(true).create(true).mode(0o640).open(path)?),
    })
}

/// Returns a sample as a JSON line.
fn line(sample: &QuerySample) -> String {
    let time = Timestamp::from(UNIX_EPOCH + Duration::from_secs(sample.at));
    let (name, rtype, class) = question(&sample.question);
    let name = serde_json::Value::from(name);
    let QuerySample { client, transport, rcode, clusters, answer, .. } = sample;
    let pool = sample
        .pool
        .as_ref()
        .map(|pool| format!(",\"pool\":\"{pool}\",\"clusters\":{}", json!(clusters)))
        .unwrap_or_default();
    let answer = json!(answer);
    let subnet = sample.subnet.map(|subnet| format!("\"subnet\":\"{subnet}\",")).unwrap_or_default();
    format!(
        "{{\"time\":\"{time}\",\"msg\":\"query\",\"client\":\"{client}\",{subnet}\"transport\":\"{transport}\",\"name\":{name},\
         \"type\":\"{rtype}\",\"class\":{class},\"rcode\":{rcode}{pool},\"answer\":{answer}}}\n"
    )
}

/// Returns name, type and class of a question; the root, type 0 and class 0 if it is malformed.
fn question(wire: &[u8]) -> (String, Rtype, u16) {
    let Ok(name) = Name::from_wire(wire) else { return (".".to_owned(), Rtype(0), 0) };
    let number = |at: usize| {
        let octets = wire.get(at..at + 2).and_then(|octets| octets.try_into().ok());
        octets.map_or(0, u16::from_be_bytes)
    };
    let end = name.as_wire().len();
    (name.to_string(), Rtype(number(end)), number(end + 2))
}

/// Interval between two readings of the rings.
const DRAIN_EVERY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(question: &[u8]) -> QuerySample {
        QuerySample {
            at: 1_700_000_000,
            client: "192.0.2.1".parse().unwrap(),
            subnet: Some("198.51.100.0/24".parse().unwrap()),
            transport: "udp",
            rcode: 3,
            question: question.to_vec(),
            pool: Some("shop".to_owned()),
            clusters: vec!["eu1".to_owned(), "us1".to_owned()],
            answer: vec!["192.0.2.1".to_owned()],
        }
    }

    #[test]
    fn sample_with_any_name_is_one_json_object() {
        let line = line(&sample(b"\x04a\"\n\\\x07example\x00\x00\x1c\x00\x01"));
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["name"], "a\\\"\\010\\\\.example.");
        assert_eq!((&value["type"], &value["class"], &value["rcode"]), (&"AAAA".into(), &1.into(), &3.into()));
        assert_eq!((&value["client"], &value["subnet"]), (&"192.0.2.1".into(), &"198.51.100.0/24".into()));
        assert_eq!(value["clusters"], json!(["eu1", "us1"]));
        assert_eq!((&value["pool"], &value["answer"]), (&json!("shop"), &json!(["192.0.2.1"])));
        assert_eq!(value["time"], "2023-11-14T22:13:20Z");
    }

    #[test]
    fn truncated_question_is_logged_as_the_root() {
        assert_eq!(question(b"\x04abc"), (".".to_owned(), Rtype(0), 0));
    }

    #[test]
    fn missing_folder_does_not_end_the_thread() {
        let folder = tempfile::tempdir().unwrap();
        let sink = QueryLogSink::File(folder.path().join("missing/query.log"));
        let options = QueryLogOptions { sink: Some(sink), opened: 0 };
        let (asked, asks) = std::sync::mpsc::channel();
        let source = Box::new(move |each: &mut dyn FnMut(QuerySample)| {
            each(sample(b"\x00\x00\x01\x00\x01"));
            let _ = asked.send(());
            options.clone()
        });
        let log = QueryLog::start(source).unwrap();
        for _ in 0..3 {
            asks.recv_timeout(Duration::from_secs(5)).unwrap();
        }
        drop(log);
    }
}
