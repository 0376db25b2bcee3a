//! Requests to the API, as bytes of a connection: heads and bodies through the real connection handling, routes and handlers. None makes
//! the server panic, answer 500, or leave a complete request without an answer.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::timeout,
};

use crate::{Target, mix, mutate, rng::Rng, server::Server};

/// The HTTP target.
pub struct Requests {
    server: Server,
}

/// Words of requests.
const WORDS: &[&str] = &[
    "GET ",
    "HEAD ",
    "PUT ",
    "POST ",
    "PATCH ",
    "DELETE ",
    "OPTIONS ",
    "/v1/state",
    "/v1/explain?name=shop.gslb.test&type=A&client=192.0.2.9",
    "/v1/overrides",
    "/v1/overrides/1",
    "/v1/watch",
    "/v1/clusters",
    "/v1/clusters/eu1",
    "/v1/clusters/x/history",
    "/v1/pools/x",
    "/v1/names/x.gslb.test",
    "/v1/monitors/x",
    "/v1/records",
    "/v1/apply?dryRun=true",
    "/v1/latency",
    "/v1/load/eu1",
    "/v1/publishing/x/plan",
    "/v1/contributions",
    "/v1/intents/inbound/p/a/v1/default/default/n",
    "/v2/projects/p/composite-apps/a/v1/traffic-intent-set/inbound-intents/n",
    "/metrics",
    "/readyz",
    "/openapi.json",
    "?limit=1&after=x",
    "%2e%2e/",
    "%00",
    " HTTP/1.1\n",
    "Host: localhost\n",
    "Host: evil.example\n",
    "Origin: http://evil.example\n",
    "Content-Type: application/json\n",
    "Content-Type: application/yaml\n",
    "Content-Type: application/merge-patch+json\n",
    "Content-Length: 99999999999\n",
    "Transfer-Encoding: chunked\n",
    "Expect: 100-continue\n",
    "Idempotency-Key: k\n",
    "If-Match: \"1\"\n",
    "If-None-Match: *\n",
    "Authorization: Bearer x\n",
    "Authorization: Bearer eyJhbGciOiJub25lIn0.e30.\n",
    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n",
    "\n\n",
    "{\"name\": \"x\"",
    "\"addresses\": [\"192.0.2.7\", \"::1\"]",
    "\"members\": [{\"cluster\": \"eu1\", \"weight\": 1}]",
    "\"policy\": \"weighted\"",
    "\"pool\": \"shop\"",
    "\"metadata\": {\"name\": \"n\"}",
    "\"spec\": {",
    "\"scope\": \"cluster:eu1\", \"action\": \"down\", \"reason\": \"r\", \"for\": \"1h\"",
    "null",
    "1e999",
    "-1",
    "18446744073709551616",
    "\"\\ud800\"",
    "[[[[[[[[",
    "}",
    "]",
    ",",
];

impl Requests {
    /// Starts a server for the target.
    pub fn new() -> Result<Self, String> {
        Ok(Self { server: Server::start()? })
    }

    async fn exchange(&self, input: &[u8]) -> Result<Vec<u64>, String> {
        let (mut client, server) = duplex(BUFFER);
        self.server.connections.send(server).await.map_err(|_| "the listener has ended")?;
        // The server may already have answered and closed the connection.
        let _ = client.write_all(input).await;
        let is_complete = is_complete(input);
        if !is_complete {
            let _ = client.shutdown().await;
        }
        let answer = timeout(ANSWER_MAX, read_answer(&mut client, input.starts_with(b"HEAD "))).await;
        match answer {
            Ok(answer) if answer.is_empty() && is_complete => Err("a complete request has no answer".to_owned()),
            Ok(answer) => check(input, &answer),
            Err(_) => Err(format!("no answer within {ANSWER_MAX:?}")),
        }
    }
}

impl Target for Requests {
    fn run(&mut self, input: &[u8]) -> Result<Vec<u64>, String> {
        self.server.runtime.block_on(self.exchange(input))
    }

    fn mutate(&self, rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
        let input = mutate::text(rng, input, other, WORDS);
        if rng.one_in(8) { input } else { with_length(&input) }
    }
}

/// Returns the place after a head, if it ends.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let crlf = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
    let lf = bytes.windows(2).position(|two| two == b"\n\n").map(|at| at + 2);
    crlf.into_iter().chain(lf).min()
}

/// Returns the length that a head states.
fn length_of(head: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let line = text.lines().find_map(|line| line.strip_prefix("content-length:").map(|rest| rest.trim().to_owned()))?;
    line.parse().ok()
}

/// Returns true if this is a whole request whose body has the length that its head states. The server ignores empty lines before it (RFC 9112,
/// section 2.2), so they end no head.
fn is_complete(input: &[u8]) -> bool {
    let empty = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let input = &input[empty..];
    end_of_head(input).is_some_and(|end| length_of(&input[..end]).is_none_or(|length| input.len() - end >= length))
}

/// Returns a request with the length of its body in its head, instead of any other.
fn with_length(input: &[u8]) -> Vec<u8> {
    let Some(end) = end_of_head(input) else { return input.to_vec() };
    let (head, body) = input.split_at(end);
    let is_length = |line: &[u8]| line.to_ascii_lowercase().starts_with(b"content-length:");
    let lines = head.split_inclusive(|byte| *byte == b'\n').filter(|line| !is_length(line) && line.trim_ascii() != b"");
    let mut out: Vec<u8> = lines.flatten().copied().collect();
    out.extend(format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes());
    out.extend(body);
    out
}

/// Reads one response; of a stream of events, its head alone.
async fn read_answer(client: &mut DuplexStream, is_head: bool) -> Vec<u8> {
    let mut answer = Vec::new();
    loop {
        if let Some(end) = end_of_head(&answer) {
            let length = if is_head { 0 } else { length_of(&answer[..end]).unwrap_or_default() };
            if answer.len() - end >= length {
                return answer;
            }
        }
        match client.read_buf(&mut answer).await {
            Ok(0) | Err(_) => return answer,
            Ok(_) => {}
        }
    }
}

fn check(input: &[u8], answer: &[u8]) -> Result<Vec<u64>, String> {
    if answer.is_empty() {
        return Ok(vec![0]);
    }
    let text = String::from_utf8_lossy(answer);
    let status = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse::<u64>().ok());
    match status {
        None => Err(format!("the answer has no status: {text:.200}")),
        Some(500) => Err(format!("an internal error: {text:.2000}")),
        // Errors differ by their words, others by method and first part of the path.
        Some(status @ 400..) => Ok(vec![mix(status ^ crate::kind(&text))]),
        Some(status) => {
            let line =
                String::from_utf8_lossy(input.split(|byte| *byte == b'\n').next().unwrap_or_default()).into_owned();
            let parts = line.split(['/', '?']).take(3).collect::<Vec<_>>().join(" ");
            Ok(vec![mix(status ^ crate::kind(&parts))])
        }
    }
}

/// As many bytes as an input has at most, so that writing one never waits.
const BUFFER: usize = 128 << 10;
/// Longest time for an answer: under the time that an input may take, so that the input is named.
const ANSWER_MAX: Duration = Duration::from_millis(1_800);
