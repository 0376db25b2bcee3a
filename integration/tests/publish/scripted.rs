//! A scripted webhook provider: it fails, hangs, breaks connections and lies.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use fairway_http::{Tls, Url};
use fairway_providers::{Endpoint, Json, MEDIA_TYPE, http::Api, webhook::Webhook};

use crate::ZONE;

/// Reaction to a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Answers with a status, a media type, and a body.
    Say(u16, &'static str, String),
    /// Sends half of the answer and closes the connection.
    Cut(String),
    /// Sends nothing while the client waits.
    Hang,
}

/// Returns the reaction to a method and path with a body.
type Script = dyn Fn(&str, &str) -> Act + Send;

/// A server with a script.
pub(crate) struct Scripted {
    pub(crate) at: SocketAddr,
    script: Arc<Mutex<Box<Script>>>,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Scripted {
    pub(crate) fn start(script: impl Fn(&str, &str) -> Act + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let at = listener.local_addr().expect("it is bound");
        let script: Arc<Mutex<Box<Script>>> = Arc::new(Mutex::new(Box::new(script)));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let server = Self { at, script: Arc::clone(&script), asked: Arc::clone(&asked) };
        // The thread ends with the process: nothing waits for it.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, asked) = (Arc::clone(&script), Arc::clone(&asked));
                thread::spawn(move || serve(stream, &script, &asked));
            }
        });
        server
    }

    /// Replaces the script.
    pub(crate) fn act(&self, script: impl Fn(&str, &str) -> Act + Send + 'static) {
        *self.script.lock().expect("nobody panics with it") = Box::new(script);
    }

    /// Returns the requests: method and path, and the body.
    pub(crate) fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().expect("nobody panics with it").clone()
    }

    /// Returns a client of the server.
    pub(crate) fn provider(&self, timeout: Duration) -> Webhook {
        provider(&format!("http://{}", self.at), timeout)
    }
}

/// Returns a client of a webhook.
pub(crate) fn provider(url: &str, timeout: Duration) -> Webhook {
    let url = Url::parse_base(url).expect("a URL");
    let zones = vec![ZONE.parse().expect("a name")];
    Webhook { api: Api::new(url, Tls::default(), None, timeout), zones, weights: None, timeout }
}

/// Returns the script of a working provider without records that accepts every change.
pub(crate) fn well(asked: &str, body: &str) -> Act {
    match asked {
        "GET /" => Act::Say(200, MEDIA_TYPE, "{}".to_owned()),
        "GET /records" => Act::Say(200, MEDIA_TYPE, "null\n".to_owned()),
        "POST /adjustendpoints" => Act::Say(200, MEDIA_TYPE, body.to_owned()),
        "POST /records" => Act::Say(204, MEDIA_TYPE, String::new()),
        other => Act::Say(404, "text/plain", other.to_owned()),
    }
}

/// Returns the endpoints of a body.
pub(crate) fn endpoints(body: &str) -> Vec<Endpoint> {
    Json::from_json(body.as_bytes()).expect("the client writes endpoints well")
}

fn serve(stream: TcpStream, script: &Mutex<Box<Script>>, asked: &Mutex<Vec<(String, String)>>) {
    let mut reader = BufReader::new(&stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().expect("a length");
        }
        if head.is_empty() {
            head = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let body = String::from_utf8(body).expect("JSON is text");
    let act = script.lock().expect("nobody panics with it")(&head, &body);
    asked.lock().expect("nobody panics with it").push((head, body));
    let said = |status: u16, kind: &str, body: &str| {
        let length = body.len();
        format!(
            "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
    };
    let mut stream = &stream;
    // The client may already have closed the connection.
    let _ = match act {
        Act::Say(status, kind, body) => stream.write_all(said(status, kind, &body).as_bytes()),
        Act::Cut(body) => {
            let text = said(200, MEDIA_TYPE, &body);
            stream.write_all(&text.as_bytes()[..text.len() - body.len() / 2])
        }
        Act::Hang => stream.read(&mut [0]).map(drop),
    };
}
