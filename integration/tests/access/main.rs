//! Access control of the API on the real program: curl sends requests, openssl creates certificates and signs tokens.
//!
//! Every forged, expired or misdirected credential is tried and must change nothing; granted access must work.
#![cfg(feature = "real")]

mod black_hole;
mod credentials;

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant, SystemTime},
};

use data_encoding::{BASE64URL_NOPAD, HEXUPPER};
use fairway_integration::real::{Process, SetAtEnd, fairway_binary, free_port, program, serve, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

/// The server in a folder with certificates of its own authority.
struct Server {
    process: Option<Process>,
    folder: TempDir,
    dns: u16,
    http: u16,
    scheme: &'static str,
}

/// An HTTP answer; status 0 if there was none.
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    #[track_caller]
    fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.body);
        self
    }
}

impl Server {
    /// Creates a folder with an authority and certificates, without a running server.
    fn folder() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let server = Self { process: None, folder, dns: free_port(), http: free_port(), scheme: "https" };
        // Without the extensions that the system's configuration of openssl adds.
        fs::write(server.path("openssl.cnf"), "[req]\ndistinguished_name=dn\n[dn]\n").expect("a file");
        for authority in ["ca", "other"] {
            server.authority(authority);
        }
        server.certificate("server", "ca", "IP:127.0.0.1,DNS:localhost");
        server.certificate("client", "ca", "URI:spiffe://corp/ops");
        server.certificate("stranger", "other", "URI:spiffe://corp/ops");
        server
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn openssl(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(program("openssl", "openssl"));
        let output = command.args(arguments).current_dir(self.folder.path()).output().expect("openssl runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    fn request(&self, name: &str, further: &[&str]) {
        let (key, pem, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
        let mut arguments = vec!["req", "-x509", "-config", "openssl.cnf", "-newkey", "ec", "-pkeyopt"];
        arguments.extend(["ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", &subject]);
        arguments.extend(["-keyout", &key, "-out", &pem]);
        arguments.extend(further);
        self.openssl(&arguments);
    }

    fn authority(&self, name: &str) {
        self.request(name, &["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign"]);
    }

    fn certificate(&self, name: &str, authority: &str, names: &str) {
        let (ca, key) = (format!("{authority}.pem"), format!("{authority}.key"));
        self.request(name, &["-CA", &ca, "-CAkey", &key, "-addext", &format!("subjectAltName={names}")]);
    }

    /// Creates a token in the file `NAME.token`. Returns its entry for the configuration.
    fn token(&self, name: &str) -> String {
        let file = self.path(&format!("{name}.token"));
        let output = Command::new(fairway_binary()).args(["token", "create", name, "--out"]).arg(&file).output();
        let output = output.expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && !text.contains(self.shown(name).trim()), "{text}");
        text.lines().find(|line| line.contains("sha256:")).expect("an entry").trim().trim_start_matches("- ").to_owned()
    }

    fn shown(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.token"))).expect("a token").trim().to_owned()
    }

    fn write(&self, config: &str) {
        let text = format!(
            "version: 1\nlisten: {{ dns: [\"127.0.0.1:{}\"], http: \"127.0.0.1:{}\" }}\n{config}\n",
            self.dns, self.http
        );
        fs::write(self.path("next"), text).expect("a file");
        fs::rename(self.path("next"), self.path("fairway.yaml")).expect("a file");
    }

    fn start(&mut self, config: &str) {
        self.write(config);
        self.process = Some(Process::start(&mut serve(self.folder.path()), &self.path("fairway.log")));
        wait_until("it is ready", PATIENCE, || self.curl("/readyz", &[]).status == 200);
    }

    /// Sends a request with curl, which trusts the authority.
    fn curl(&self, path: &str, arguments: &[&str]) -> Reply {
        let mut command = Command::new(program("curl", "curl"));
        command.args(["-sS", "-i", "-m", "30", "--path-as-is", "--cacert", "ca.pem"]).args(arguments);
        command.arg(format!("{}://127.0.0.1:{}{path}", self.scheme, self.http)).current_dir(self.folder.path());
        let output = command.output().expect("curl runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Sends a request with a token.
    fn curl_as(&self, token: &str, path: &str, arguments: &[&str]) -> Reply {
        let header = format!("Authorization: Bearer {token}");
        self.curl(path, &[&["-H", &header], arguments].concat())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("fairway.log")).unwrap_or_default()
    }

    /// Returns the lines of the audit log.
    fn audit(&self) -> Vec<Value> {
        let lines = self.log();
        let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["target"] == "fairway::audit").collect()
    }

    fn peer(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.http))
    }

    /// Signs a token with the issuer's key with openssl.
    fn signed(&self, header: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()));
        fs::write(self.path("text"), &text).expect("a file");
        let signature = self.openssl(&["dgst", "-sha256", "-sign", "issuer.key", "text"]).stdout;
        format!("{text}.{}", base64(&signature))
    }

    /// Creates the issuer's key, and its key set in `keys.json`.
    fn issuer(&self) {
        self.openssl(&["genrsa", "-out", "issuer.key", "2048"]);
        self.openssl(&["rsa", "-in", "issuer.key", "-pubout", "-out", "issuer.pub"]);
        let modulus = self.openssl(&["rsa", "-in", "issuer.key", "-noout", "-modulus"]).stdout;
        let digits = String::from_utf8(modulus).expect("text");
        let digits = digits.trim().trim_start_matches("Modulus=");
        let modulus = HEXUPPER.decode(digits.as_bytes()).expect("hexadecimal digits");
        let keys = json!({"keys": [{"kty": "RSA", "kid": "k", "use": "sig", "n": base64(&modulus), "e": "AQAB"}]});
        fs::write(self.path("keys.json"), keys.to_string()).expect("a file");
    }
}

fn base64(bytes: &[u8]) -> String {
    BASE64URL_NOPAD.encode(bytes)
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs()
}

const JSON: [&str; 2] = ["-H", "Content-Type: application/json"];
const CLUSTER: &str = "{\"name\": \"ap1\", \"addresses\": [\"192.0.2.1\"]}";
const TLS: &str = "tls: { cert: { file: server.pem }, key: { file: server.key }, clientCa: { file: ca.pem } }";

#[test]
fn loopback_accepts_programs_and_rejects_foreign_pages() {
    let mut server = Server::folder();
    server.scheme = "http";
    server.start("");
    let put = |further: &[&str]| server.curl("/v1/clusters/ap1", &[&["-X", "PUT", "-d", CLUSTER], further].concat());
    let foreign: [(&[&str], u16); 9] = [
        (&["-H", "Content-Type: application/json", "-H", "Origin: http://evil.example"], 403),
        (&["-H", "Content-Type: application/json", "-H", "Origin: null"], 403),
        (&["-H", "Content-Type: application/json", "-H", "Origin: http://127.0.0.1:1"], 403),
        (&["-H", "Content-Type: application/json", "-H", "Sec-Fetch-Site: cross-site"], 403),
        (&["-H", "Content-Type: application/json", "-H", "Host: evil.example"], 421),
        (&["-H", "Content-Type: application/json", "-H", "Host: 127.0.0.1.evil.example"], 421),
        (&[], 415),
        (&["-H", "Content-Type: text/plain"], 415),
        (&["-H", "Content-Type: multipart/form-data; boundary=a"], 415),
    ];
    for (headers, status) in foreign {
        let refused = put(headers).expect(status);
        assert_eq!(refused.header("content-type"), Some("application/problem+json"), "{headers:?}");
    }
    server.curl("/v1/clusters/ap1", &[]).expect(404);
    assert_eq!(server.curl("/v1/state", &["-H", "Host: evil.example"]).status, 421, "nor is anything shown to it");
    server.curl("/healthz", &["-H", "Host: pod.example"]).expect(200);
    let own = format!("Origin: http://127.0.0.1:{}", server.http);
    put(&["-H", "Content-Type: application/json", "-H", &own]).expect(201);
    put(&JSON).expect(200);
    let shown = server.curl("/v1/clusters/ap1/history", &[]).expect(200);
    assert!(shown.body.contains("127.0.0.1 without authentication"), "{}", shown.body);
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(shown.header(name), Some(value));
    }
    let page = server.curl("/", &[]).expect(200);
    assert!(page.header("content-security-policy").is_some_and(|policy| policy.contains("script-src 'self'")));
    let written = server.audit();
    let outcomes: Vec<_> = written.iter().map(|line| line["outcome"].as_str().unwrap_or_default()).collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == "denied").count(), 6, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == "done").count(), 2, "{outcomes:?}");
    assert_eq!(written[9]["action"], "PUT /v1/clusters/ap1");
    for path in [
        "/v1/../../etc/passwd",
        "/page/../../../etc/passwd",
        "/page/%2e%2e/%2e%2e/etc/passwd",
        "/v1/clusters/..%2f..%2fkey",
    ] {
        let reply = server.curl(path, &[]);
        assert!(reply.status == 404 && !reply.body.contains("root:"), "{path}: {} {}", reply.status, reply.body);
    }
    server.curl("/v1/stop", &["-X", "POST"]).expect(404);
}

#[test]
fn certificates_are_renewed_under_load_and_damaged_ones_are_rejected() {
    let mut server = Server::folder();
    let ci = server.token("ci");
    server.start(&format!("access: {{ {TLS}, tokens: [ {ci} ], grants: [ {{ role: viewer, to: [\"token:ci\"] }} ], limits: {{ perSecond: 10000, burst: 10000, connections: 64 }} }}"));
    server.certificate("renewed", "other", "IP:127.0.0.1");
    let both = [fs::read(server.path("ca.pem")), fs::read(server.path("other.pem"))].map(Result::unwrap).concat();
    fs::write(server.path("both.pem"), both).expect("a file");
    let token = server.shown("ci");
    let (asked, ending) = (AtomicUsize::new(0), AtomicBool::new(false));
    let is_by = |authority: &str| server.curl("/healthz", &["--cacert", authority]).status == 200;
    thread::scope(|scope| {
        // Also if an assertion below fails, because the scope waits for its threads.
        let end = SetAtEnd(&ending);
        for _ in 0..4 {
            scope.spawn(|| {
                while !ending.load(Relaxed) {
                    server.curl_as(&token, "/version", &["--cacert", "both.pem"]).expect(200);
                    asked.fetch_add(1, Relaxed);
                }
            });
        }
        let renew = |from: &str| {
            for kind in ["key", "pem"] {
                fs::copy(server.path(&format!("{from}.{kind}")), server.path("next")).expect("a file");
                fs::rename(server.path("next"), server.path(&format!("server.{kind}"))).expect("a file");
            }
        };
        fs::copy(server.path("server.pem"), server.path("first.pem")).expect("a file");
        fs::copy(server.path("server.key"), server.path("first.key")).expect("a file");
        renew("renewed");
        wait_until("the renewed one is shown", PATIENCE, || is_by("other.pem"));
        assert!(!is_by("ca.pem"), "and the old one no more");
        // Truncated: the old certificate stays in use.
        let whole = fs::read(server.path("server.pem")).expect("a file");
        fs::write(server.path("server.pem"), &whole[..whole.len() / 2]).expect("a file");
        wait_until("it is refused", PATIENCE, || server.log().contains("configuration rejected"));
        assert!(is_by("other.pem"), "the one before serves on");
        // The key of another certificate.
        fs::copy(server.path("first.pem"), server.path("server.pem")).expect("a file");
        server.process.as_ref().expect("it runs").signal("HUP");
        wait_until("it is refused, too", PATIENCE, || server.log().matches("configuration rejected").count() >= 2);
        assert!(is_by("other.pem"));
        renew("first");
        server.process.as_ref().expect("it runs").signal("HUP");
        wait_until("the first one is shown again", PATIENCE, || is_by("ca.pem"));
        drop(end);
    });
    println!("{} requests over new connections, none lost", asked.load(Relaxed));
    assert!(asked.load(Relaxed) > 20);
}

#[test]
fn each_client_has_its_own_limits_and_slow_ones_are_closed() {
    let mut server = Server::folder();
    server.scheme = "http";
    server.start("access: { limits: { perSecond: 1, burst: 3, connections: 2 } }");
    let from = |address: &str| server.curl("/version", &["--interface", address]);
    let replies: Vec<Reply> = (0..8).map(|_| from("127.0.0.2")).collect();
    assert_eq!(replies[0].status, 200);
    let refused = replies.iter().find(|reply| reply.status == 429).expect("eight at once are too many");
    assert!(refused.header("retry-after").is_some_and(|secs| secs.parse::<u32>().is_ok_and(|secs| secs >= 1)));
    from("127.0.0.3").expect(200);
    wait_until("it may ask again", PATIENCE, || from("127.0.0.2").status == 200);

    let long = format!("X-Long: {}", "x".repeat(20_000));
    // From another client, because the connection may stay counted for a moment after its answer.
    let other = ["--interface", "127.0.0.4", "-H", &long];
    assert_eq!(server.curl("/healthz", &other).status, 431, "a long head");
    // An incomplete head and an incomplete body; together they reach the limit of this client.
    let head = format!("POST /v1/reload HTTP/1.1\r\nHost: {}\r\n", server.peer());
    let body = format!("{}Content-Type: application/json\r\n", head.replace("reload", "overrides"));
    let began = Instant::now();
    let mut slow = [head, format!("{body}Content-Length: 100\r\n\r\n{{")].map(|text| {
        let mut stream = TcpStream::connect(server.peer()).expect("a connection");
        stream.write_all(text.as_bytes()).expect("it is taken");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream
    });
    // A third connection replaces the one that has sent no complete request for the longest time.
    server.curl("/healthz", &[]).expect(200);
    server.curl("/healthz", &["--interface", "127.0.0.3"]).expect(200);
    let ends = slow.each_mut().map(|stream| {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    });
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    assert!(!ends[0].contains(" 200 ") && ends[1].contains(" 400 "), "{ends:?}");
    drop(slow);
    wait_until("its places are free again", PATIENCE, || server.curl("/healthz", &[]).status == 200);
}

#[test]
fn command_line_works_with_a_remote_server() {
    let mut server = Server::folder();
    let ci = server.token("ci");
    server.start(&format!("access: {{ {TLS}, tokens: [ {ci} ], grants: [ {{ role: editor, to: [\"token:ci\"] }}, {{ role: operator, to: [\"certificate:spiffe://corp/ops\"] }} ] }}"));
    fs::write(server.path("shop.yaml"), format!("clusters: [ {CLUSTER} ]\n")).expect("a file");
    let url = format!("https://127.0.0.1:{}", server.http);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(fairway_binary());
        command.args(arguments).args(["--server", &url]).current_dir(server.folder.path());
        let output = command.output().expect("it runs");
        let text = [output.stdout, output.stderr].map(|octets| String::from_utf8_lossy(&octets).into_owned()).concat();
        (output.status.success(), text)
    };
    let token = ["--token-file", "ci.token", "--cacert", "ca.pem"];
    let (done, text) = run(&[&["apply", "-f", "shop.yaml", "--reason", "it opens"], &token[..]].concat());
    assert!(done && text.contains("created  clusters/ap1"), "{text}");
    let (done, text) = run(&[&["get", "clusters"], &token[..]].concat());
    assert!(done && text.contains("token:ci") && text.contains("it opens"), "{text}");
    let (done, text) =
        run(&[&["override", "add", "ap1", "drain", "--reason", "r", "--for", "1h"], &token[..]].concat());
    assert!(!done && text.contains("403") && text.contains("lacks the verb override"), "{text}");
    let client = ["--cert", "client.pem", "--key", "client.key", "--cacert", "ca.pem"];
    let (done, text) =
        run(&[&["override", "add", "ap1", "drain", "--reason", "r", "--for", "1h"], &client[..]].concat());
    assert!(done, "{text}");
    let (done, text) = run(&[&["status"], &token[..]].concat());
    assert!(done && text.contains("drain"), "{text}");
    let (done, text) = run(&[&["delete", "clusters", "ap1"], &token[..]].concat());
    assert!(done, "{text}");
    let (done, text) = run(&["status", "--cacert", "ca.pem"]);
    assert!(!done && text.contains("401"), "{text}");
    let (done, text) = run(&["status", "--token-file", "ci.token"]);
    assert!(!done && text.contains("--cacert"), "{text}");
    let (done, text) = run(&["status", "--token-file", "ci.token", "--cacert", "other.pem"]);
    assert!(!done && text.contains("--cacert"), "{text}");
    assert!(!text.contains(&server.shown("ci")));
    assert!(Path::new(&server.path("data/control.sock")).exists(), "the socket is there as ever");
}
