//! A real etcd for one test, and a network path to it that can be cut.

use std::{
    env, fs,
    io::Write,
    net::{SocketAddr, TcpListener as Bound},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use fairway_etcd::{Client, RangeRequest, Txn};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// An etcd on loopback. It ends with the test process, even if that is killed.
#[derive(Debug)]
pub(super) struct Etcd {
    folder: TempDir,
    ports: [u16; 2],
    more: Vec<String>,
    is_secured: bool,
    child: Child,
}

impl Etcd {
    /// Starts an etcd without fsync, which is faster: a killed process loses nothing without it.
    pub(super) fn start() -> Self {
        Self::start_with(&["--unsafe-no-fsync"])
    }

    /// Starts an etcd with fsync.
    pub(super) fn start_durable() -> Self {
        Self::start_with(&[])
    }

    pub(super) fn start_with(more: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), more, false)
    }

    /// Starts an etcd that requires TLS and client certificates. Clients use `ca.pem`, `client.pem` and `client-key.pem`.
    pub(super) fn start_secured() -> Self {
        let folder = tempfile::tempdir().unwrap();
        certify(folder.path());
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let more = ["server.pem", "server-key.pem", "ca.pem"].map(path);
        let [certificate, key, ca] = more.each_ref().map(String::as_str);
        let options = ["--cert-file", certificate, "--key-file", key, "--trusted-ca-file", ca, "--client-cert-auth"];
        Self::start_in(folder, &[&options[..], &["--unsafe-no-fsync"]].concat(), true)
    }

    /// Returns the path of a file in its folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Posts a request to the JSON gateway.
    pub(super) fn post(&self, path: &str, body: &str) {
        let url = format!("{}{path}", self.url());
        let result = Command::new("curl").args(["-s", "-m", "30", "-f", "-d", body, &url]).output().unwrap();
        assert!(result.status.success(), "{path}: {}", String::from_utf8_lossy(&result.stdout));
    }

    fn start_in(folder: TempDir, more: &[&str], is_secured: bool) -> Self {
        // Bound at the same time, so that the ports differ.
        let bound = [(); 2].map(|()| Bound::bind("127.0.0.1:0").unwrap());
        let ports = bound.map(|bound| bound.local_addr().unwrap().port());
        let more: Vec<String> = more.iter().map(|word| (*word).to_owned()).collect();
        let child = run(folder.path(), ports, &more, is_secured);
        let etcd = Self { folder, ports, more, is_secured, child };
        etcd.wait();
        etcd
    }

    /// Returns the URL for clients.
    pub(super) fn url(&self) -> String {
        format!("{}://{}", scheme(self.is_secured), self.address())
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[0]))
    }

    /// Kills the process.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again with the same data.
    pub(super) fn restart(&mut self) {
        self.child = run(self.folder.path(), self.ports, &self.more, self.is_secured);
        self.wait();
    }

    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Returns the number of keys with a prefix.
    pub(super) async fn keys(&self, below: &str) -> usize {
        let request = RangeRequest { key: below.into(), range_end: b"\0".to_vec(), ..RangeRequest::default() };
        let found = self.client().range(request).await.unwrap().pairs;
        found.iter().filter(|found| found.key.starts_with(below.as_bytes())).count()
    }

    /// Deletes all keys.
    pub(super) async fn empty(&self) {
        let mut txn = Txn::default();
        txn.delete_range(b"\0", b"\0");
        self.client().txn(txn).await.unwrap();
    }

    /// Compacts all revisions but the last one.
    pub(super) async fn compact(&self) {
        let request = RangeRequest { key: b"none".to_vec(), ..RangeRequest::default() };
        let client = self.client();
        let revision = client.range(request.clone()).await.unwrap().revision;
        self.post("/v3/kv/compaction", &format!("{{\"revision\": {revision}, \"physical\": true}}"));
        assert!(
            client.range(RangeRequest { revision: revision - 1, ..request }).await.is_err(),
            "the former revision is compacted"
        );
    }

    fn client(&self) -> Client {
        Client::new(super::settings(&[self.url()]))
    }

    /// Waits until etcd answers.
    fn wait(&self) {
        let end = std::time::Instant::now() + super::LIMIT;
        let log = self.folder.path().join("log");
        loop {
            let mut health = Command::new("curl");
            health.args(["-s", "-m", "1", &format!("{}/health", self.url())]);
            if self.is_secured {
                let files = [("--cacert", "ca.pem"), ("--cert", "client.pem"), ("--key", "client-key.pem")];
                files.iter().for_each(|(option, name)| _ = health.arg(option).arg(self.file(name)));
            }
            if String::from_utf8_lossy(&health.output().expect("curl is installed").stdout).contains("true") {
                return;
            }
            let output = || fs::read_to_string(&log).unwrap_or_default();
            assert!(std::time::Instant::now() < end, "etcd does not answer: {}", output());
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const fn scheme(is_secured: bool) -> &'static str {
    if is_secured { "https" } else { "http" }
}

/// Creates an authority, and certificates for server and client.
fn certify(folder: &Path) {
    // Each with a subject of its own: a certificate with the subject of its issuer counts as self-signed.
    let named = |names: Vec<String>, subject: &str| {
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, subject);
        params
    };
    let mut params = named(vec![], "authority");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    for (name, subject) in [("server", "127.0.0.1"), ("client", "fairway")] {
        let key = KeyPair::generate().unwrap();
        let certificate = named(vec![subject.to_owned()], name).signed_by(&key, &authority).unwrap();
        fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{name}-key.pem")), key.serialize_pem()).unwrap();
    }
}

fn run(folder: &Path, [client, peer]: [u16; 2], more: &[String], is_secured: bool) -> Child {
    let client = format!("{}://127.0.0.1:{client}", scheme(is_secured));
    let peer = format!("http://127.0.0.1:{peer}");
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program());
    command.args(["--name", "t", "--log-level", "warn", "--data-dir"]).arg(folder.join("etcd"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("t={peer}")]).args(more);
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().expect("setpriv is installed")
}

/// Returns the path of the program, and records that a test used it.
fn program() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let parts = env::var_os("FAIRWAY_PARTS").map_or_else(|| root.join("../../.parts"), PathBuf::from);
    let program = parts.join("bin/etcd");
    assert!(program.is_file(), "{} is missing; integration/realparts/build.sh makes it", program.display());
    let used = root.join("target/realparts-used");
    let _ = fs::create_dir_all(&used);
    let test = std::thread::current().name().unwrap_or("main").to_owned();
    if let Ok(mut file) = fs::OpenOptions::new().create(true).append(true).open(used.join("etcd")) {
        let _ = writeln!(file, "{test}");
    }
    program
}

/// A TCP proxy to an etcd. Cut, it forwards nothing and closes nothing, like a broken network.
#[derive(Debug)]
pub(super) struct Wire {
    address: SocketAddr,
    is_cut: Arc<watch::Sender<bool>>,
    task: JoinHandle<()>,
}

impl Wire {
    pub(super) async fn to(etcd: &Etcd) -> Self {
        let (listener, server) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), etcd.address());
        let (address, is_cut) = (listener.local_addr().unwrap(), Arc::new(watch::Sender::new(false)));
        let state = is_cut.clone();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(server).await else { continue };
                let (near, far) = (near.into_split(), far.into_split());
                tokio::spawn(carry(near.0, far.1, state.subscribe()));
                tokio::spawn(carry(far.0, near.1, state.subscribe()));
            }
        });
        Self { address, is_cut, task }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    pub(super) fn restore(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut is_cut: watch::Receiver<bool>,
) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut buffer = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if is_cut.wait_for(|is_cut| !is_cut).await.is_err() || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
