//! Writes objects to an API server, over connections that are kept open.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    thread,
    time::Instant,
};

use fairway_integration::cluster::{Cluster, LIMIT};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};

use super::NAMESPACES;

/// Connections that write objects to one API server.
const WRITERS: usize = 4;

/// Address and trusted certificates of an API server.
#[derive(Clone)]
pub(super) struct Access {
    api: SocketAddr,
    client: Arc<ClientConfig>,
}

impl Access {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let config = cluster.kubectl(&["config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster}"]);
        let entry: Value = serde_json::from_str(&config).expect("kubectl prints JSON");
        let text = |key: &str| entry[key].as_str().unwrap_or_else(|| panic!("no {key}: {config}"));
        let mut authorities = RootCertStore::empty();
        let certificates = CertificateDer::pem_file_iter(text("certificate-authority")).expect("it is a file");
        authorities.add_parsable_certificates(certificates.map(|certificate| certificate.expect("PEM")));
        let client = ClientConfig::builder().with_root_certificates(authorities).with_no_client_auth();
        let api = text("server").trim_start_matches("https://").parse().expect("an address");
        Self { api, client: Arc::new(client) }
    }

    pub(super) fn connect(&self) -> Api {
        let name = ServerName::from(self.api.ip());
        let connection = ClientConnection::new(Arc::clone(&self.client), name).expect("the configuration is valid");
        let stream = TcpStream::connect(self.api).expect("the API listens");
        stream.set_nodelay(true).expect("it is connected");
        stream.set_read_timeout(Some(LIMIT)).expect("the limit is not zero");
        Api(StreamOwned::new(connection, stream))
    }

    /// Creates the objects of all indices below `count`, over several connections.
    pub(super) fn fill(&self, count: usize, create: impl Fn(&mut Api, usize) + Sync) {
        let write = |writer: usize| {
            let mut api = self.connect();
            (writer..count).step_by(WRITERS).for_each(|index| create(&mut api, index));
        };
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || write(writer));
            }
        });
    }
}

/// A connection to an API server that is kept open. kubectl would take 50 ms for each object.
pub(super) struct Api(StreamOwned<ClientConnection, TcpStream>);

impl Api {
    /// Creates namespaces.
    #[track_caller]
    pub(super) fn create_namespaces(&mut self, names: impl Iterator<Item = String>) {
        for name in names {
            let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            self.create("/api/v1/namespaces", &object);
        }
    }

    #[track_caller]
    pub(super) fn create(&mut self, path: &str, object: &Value) {
        self.write("POST", path, "application/json", object);
    }

    /// Applies a merge patch; returns the time at which the API server has answered.
    #[track_caller]
    pub(super) fn patch(&mut self, path: &str, patch: &Value) -> Instant {
        self.patched(path, patch);
        Instant::now()
    }

    /// Applies a merge patch; returns the object as the API server has it then.
    #[track_caller]
    pub(super) fn patched(&mut self, path: &str, patch: &Value) -> String {
        self.write("PATCH", path, "application/merge-patch+json", patch)
    }

    /// Returns what the API server has at a path.
    #[track_caller]
    pub(super) fn get(&mut self, path: &str) -> String {
        self.request(&format!("GET {path}"), "", "")
    }

    #[track_caller]
    fn write(&mut self, method: &str, path: &str, media_type: &str, body: &Value) -> String {
        let body = body.to_string();
        let head = format!("Content-Type: {media_type}\r\nContent-Length: {}\r\n", body.len());
        self.request(&format!("{method} {path}"), &head, &body)
    }

    /// Sends a request; returns the body of the response.
    #[track_caller]
    fn request(&mut self, what: &str, head: &str, body: &str) -> String {
        let request = format!("{what} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer admin-token\r\n{head}\r\n{body}");
        self.0.write_all(request.as_bytes()).and_then(|()| self.0.flush()).expect("the API reads");
        let response = self.response();
        let status = response.split(' ').nth(1).unwrap_or_default();
        assert!(status.starts_with('2'), "{what}: {response}");
        body_of(&response)
    }

    /// Reads one whole response, so that the next one begins where it ends.
    fn response(&mut self) -> String {
        let (mut response, mut part) = (Vec::new(), [0; 16_384]);
        while !is_whole(&response) {
            let length = self.0.read(&mut part).expect("the API answers");
            assert_ne!(length, 0, "the API closed the connection: {}", String::from_utf8_lossy(&response));
            response.extend_from_slice(&part[..length]);
        }
        String::from_utf8_lossy(&response).into_owned()
    }
}

/// True if a response of HTTP/1.1 has ended. JSON of an API server contains no line break, so that of the last chunk is unique.
fn is_whole(response: &[u8]) -> bool {
    let Some(end) = response.windows(4).position(|part| part == b"\r\n\r\n") else { return false };
    let (head, body) = (String::from_utf8_lossy(&response[..end]), &response[end + 4..]);
    match head.lines().find_map(|line| line.strip_prefix("Content-Length: ")) {
        Some(length) => body.len() >= length.parse::<usize>().expect("a number"),
        None => body.starts_with(b"0\r\n\r\n") || body.ends_with(b"\r\n0\r\n\r\n"),
    }
}

/// Returns the body of a whole response, without the sizes of its chunks.
fn body_of(response: &str) -> String {
    let (head, mut rest) = response.split_once("\r\n\r\n").expect("a head");
    if head.contains("Content-Length: ") {
        return rest.to_owned();
    }
    let mut body = String::new();
    loop {
        let (size, chunk) = rest.split_once("\r\n").expect("the size of a chunk");
        let size = usize::from_str_radix(size, 16).expect("a hexadecimal number");
        if size == 0 {
            return body;
        }
        body.push_str(&chunk[..size]);
        rest = &chunk[size + 2..];
    }
}

pub(super) fn namespace(index: usize) -> String {
    format!("team-{}", index % NAMESPACES)
}

pub(super) fn slice_path(index: usize) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices", namespace(index))
}

/// Returns the endpoints of the service with this index, as EndpointSlices have them.
pub(super) fn endpoints(index: usize, ready: bool) -> Value {
    let address = |part: usize| format!("10.{}.{}.{}", 128 + part, index / 250, 1 + index % 250);
    json!([0, 1].map(|part| json!({ "addresses": [address(part)], "conditions": { "ready": ready } })))
}

/// Creates the Service with this index, and its EndpointSlice.
pub(super) fn create_backend(api: &mut Api, index: usize) {
    let name = format!("n{index}");
    api.create(
        &format!("/api/v1/namespaces/{}/services", namespace(index)),
        &json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] } }),
    );
    api.create(
        &slice_path(index),
        &json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": { "name": name, "labels": { "kubernetes.io/service-name": name } },
            "endpoints": endpoints(index, true), "ports": [{ "port": 8_080 }],
        }),
    );
}
