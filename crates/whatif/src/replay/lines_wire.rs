//! Lines of the query log, as `queryLog` writes them.

use std::{
    io::{self, BufRead, Read},
    net::IpAddr,
};

use fairway_model::{Name, Network, Rtype};
use fairway_zones::PlayedQuery;
use serde::Deserialize;

/// Line of a log.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A query.
    Query(PlayedQuery),
    /// An empty line, or another event of a log.
    Other,
    /// An invalid line: its number from 1, and the error.
    Invalid(u64, String),
}

/// Reader of a log. It holds one line at a time.
pub struct LogLines<R> {
    from: R,
    number: u64,
    line: Vec<u8>,
}

/// A line of the query log. Further keys are ignored.
#[derive(Deserialize)]
struct Logged<'a> {
    msg: Option<std::borrow::Cow<'a, str>>,
    client: Option<IpAddr>,
    subnet: Option<std::borrow::Cow<'a, str>>,
    name: Option<std::borrow::Cow<'a, str>>,
    #[serde(rename = "type")]
    rtype: Option<std::borrow::Cow<'a, str>>,
    class: Option<u16>,
}

impl<R: BufRead> LogLines<R> {
    /// Returns a reader of a query log.
    pub fn new(from: R) -> Self {
        Self { from, number: 0, line: Vec::new() }
    }

    /// Reads the next line; `None` at the end of the log.
    pub fn read_next(&mut self) -> io::Result<Option<Line>> {
        self.line.clear();
        self.number += 1;
        let taken = self.from.by_ref().take(LINE_MAX as u64 + 1).read_until(b'\n', &mut self.line)?;
        if taken == 0 {
            return Ok(None);
        }
        if taken > LINE_MAX {
            self.skip_rest()?;
            return Ok(Some(self.invalid(format!("longer than {LINE_MAX} bytes"))));
        }
        if self.line.trim_ascii().is_empty() {
            return Ok(Some(Line::Other));
        }
        let logged: Logged<'_> = match serde_json::from_slice(&self.line) {
            Ok(logged) => logged,
            Err(error) => return Ok(Some(self.invalid(format!("not a line of the query log: {error}")))),
        };
        if logged.msg.as_deref() != Some("query") {
            return Ok(Some(Line::Other));
        }
        Ok(Some(match logged.query() {
            Ok(Some(query)) => Line::Query(query),
            Ok(None) => Line::Other,
            Err(error) => self.invalid(error),
        }))
    }

    fn invalid(&self, error: String) -> Line {
        Line::Invalid(self.number, error)
    }

    /// Skips the rest of a line that is too long, in pieces.
    fn skip_rest(&mut self) -> io::Result<()> {
        while self.line.last() != Some(&b'\n') {
            self.line.clear();
            if self.from.by_ref().take(LINE_MAX as u64).read_until(b'\n', &mut self.line)? == 0 {
                break;
            }
        }
        Ok(())
    }
}

impl Logged<'_> {
    /// Returns the query; `None` for a class other than IN, which no pool answers.
    fn query(&self) -> Result<Option<PlayedQuery>, String> {
        if self.class.is_some_and(|class| class != 1) {
            return Ok(None);
        }
        let missing = |key| format!("key `{key}` is missing");
        let name = self.name.as_deref().ok_or_else(|| missing("name"))?;
        let rtype = self.rtype.as_deref().ok_or_else(|| missing("type"))?;
        let subnet = self.subnet.as_deref().map(str::parse::<Network>).transpose();
        Ok(Some(PlayedQuery {
            name: name.parse::<Name>().map_err(|error| error.to_string())?,
            rtype: rtype.parse::<Rtype>().map_err(|error| error.to_string())?,
            address: self.client.ok_or_else(|| missing("client"))?,
            subnet: subnet.map_err(|error| error.to_string())?,
        }))
    }
}

/// Longest line in bytes. A name of 255 octets as escapes (`\\ddd` in JSON) takes about 1,300.
const LINE_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Line> {
        let mut lines = LogLines::new(text.as_bytes());
        std::iter::from_fn(|| lines.read_next().unwrap()).collect()
    }

    #[test]
    fn queries_are_read_and_other_events_skipped() {
        let query = r#"{"time":"t","msg":"query","client":"192.0.2.53","subnet":"198.51.100.0/24","transport":"udp","name":"shop.gslb.example.","type":"A","class":1,"rcode":0}"#;
        let lines = read(&format!("{query}\n\n{{\"msg\":\"serving\"}}\n"));
        let played = PlayedQuery {
            name: "shop.gslb.example".parse().unwrap(),
            rtype: Rtype::A,
            address: "192.0.2.53".parse().unwrap(),
            subnet: Some("198.51.100.0/24".parse().unwrap()),
        };
        assert_eq!(lines, [Line::Query(played), Line::Other, Line::Other]);
    }

    #[test]
    fn invalid_lines_are_reported_by_number_and_reading_continues() {
        let good = r#"{"msg":"query","client":"::1","name":"a.example","type":"AAAA"}"#;
        let long = "x".repeat(3 * LINE_MAX);
        let bad = r#"{"msg":"query","client":"192.0.2.53","subnet":"198.51.100.1/24","name":"a.example","type":"A"}"#;
        let lines = read(&format!("{{\"msg\"\n{long}\n{bad}\n{{\"msg\":\"query\"}}\n{good}"));
        let invalid: Vec<u64> =
            lines.iter().filter_map(|l| if let Line::Invalid(n, _) = l { Some(*n) } else { None }).collect();
        assert_eq!(invalid, [1, 2, 3, 4]);
        assert!(matches!(lines.last(), Some(Line::Query(_))), "{lines:?}");
    }
}
