//! Secrets in the memory of the server: no copy stays once a secret is replaced or deleted.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Seek, SeekFrom, Write},
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    thread,
};

use fairway_access::TokenHash;
use fairway_integration::real::{Fairway, call, free_port, wait_until};
use serde_json::json;

use super::{LIMIT, answering};

/// Calls `found` with what follows each place of these bytes in the writable memory of a process.
fn search(pid: u32, wanted: &[u8], mut found: impl FnMut(&[u8])) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let mut memory = fs::File::open(format!("/proc/{pid}/mem")).expect("it is our child");
    for line in maps.lines() {
        let mut fields = line.split_whitespace();
        let (range, mode) = (fields.next().expect("a range"), fields.next().expect("a mode"));
        let (from, to) = range.split_once('-').expect("FROM-TO");
        let [from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).expect("hexadecimal"));
        if !mode.starts_with("rw") {
            continue;
        }
        let mut content = Vec::new();
        memory.seek(SeekFrom::Start(from)).expect("within the memory");
        // A mapping without pages behind it, such as that of a device, is not readable.
        let _ = Read::by_ref(&mut memory).take(to - from).read_to_end(&mut content);
        let places = content.windows(wanted.len()).enumerate().filter(|(_, window)| *window == wanted);
        places.for_each(|(at, _)| found(&content[at + wanted.len()..]));
    }
}

/// Returns true if the writable memory of a process holds these bytes.
fn holds(pid: u32, wanted: &[u8]) -> bool {
    let mut is_found = false;
    search(pid, wanted, |_| is_found = true);
    is_found
}

/// The server keeps keys of cookies as two numbers, and needs their text only until these are made.
#[test]
fn text_of_cookie_keys_is_wiped() {
    const KEY: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    let config = answering(&["192.0.2.1"]);
    let server = Fairway::start(&(config.clone() + "cookies: { keyFile: key }\n"), &[("key", KEY)]);
    // The search finds what is there.
    assert!(holds(server.process.pid(), b"\x04gslb\x07example"));
    assert!(!holds(server.process.pid(), KEY.as_bytes()), "the key of cookies.keyFile is in memory");
    let server = Fairway::start(&config, &[]);
    let key = fs::read(server.folder.path().join("data/cookie.key")).expect("the server made it");
    assert!(!holds(server.process.pid(), &key), "the key of the data folder is in memory");
}

/// Beginning of every credential below; two digits follow. Also valid base64, as a TSIG secret has to be.
const MARK: &str = "CREDENTIAL";

fn credential(number: u32) -> String {
    format!("{MARK}{number}xxxx")
}

/// Returns the numbers of the credentials that are in the memory of the server.
fn credentials(server: &Fairway) -> BTreeSet<u32> {
    let mut numbers = BTreeSet::new();
    search(server.process.pid(), MARK.as_bytes(), |rest| {
        numbers.extend(rest.get(..2).and_then(|digits| str::from_utf8(digits).ok()?.parse::<u32>().ok()));
    });
    numbers
}

fn wait_until_gone(server: &Fairway, numbers: &[u32], mut meanwhile: impl FnMut()) {
    let mut left = vec![];
    let what = format!("of {numbers:?} nothing is in memory");
    wait_until(&what, LIMIT, || {
        meanwhile();
        let all = credentials(server);
        let now = numbers.iter().filter(|number| all.contains(number)).copied().collect();
        if left != now {
            println!("in memory: {now:?}");
            left = now;
        }
        left.is_empty()
    });
}

/// An HTTP service that records what it gets. It ends with the test's process.
struct Service {
    at: SocketAddr,
    seen: Arc<Mutex<String>>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let at = listener.local_addr().expect("it is bound");
        let seen = Arc::<Mutex<String>>::default();
        let record = Arc::clone(&seen);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut head = [0; 4_096];
                let length = stream.read(&mut head).unwrap_or_default();
                record.lock().expect("nobody panics").push_str(&String::from_utf8_lossy(&head[..length]));
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\n{\"a\": 1}";
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { at, seen }
    }

    fn wait_for(&self, numbers: &[u32]) {
        let has = |number: &u32| self.seen.lock().expect("nobody panics").contains(&credential(*number));
        wait_until(&format!("{numbers:?} are sent"), LIMIT, || numbers.iter().all(has));
    }
}

#[test]
fn replaced_credentials_of_files_leave_the_memory() {
    let service = Service::start();
    let at = service.at;
    let config = answering(&["192.0.2.1"]).replace("addresses:", "capacity: 10, load: feed, addresses:")
        + &format!(
            "load: [{{ name: feed, type: json, url: \"http://{at}/\", pointer: /a, period: 300ms, timeout: 300ms, token: {{ file: load }} }}]
publish:
  providers:
    - {{ name: a, zones: [a.example], powerdns: {{ url: \"http://{at}\", key: {{ file: powerdns }} }} }}
    - {{ name: b, zones: [b.example], webhook: {{ url: \"http://{at}\", token: {{ file: webhook }} }} }}
    - {{ name: c, zones: [c.example], rfc2136: {{ server: \"{at}\", tsig: {{ name: fairway, secret: {{ file: tsig }} }} }} }}
"
        );
    let files = ["load", "powerdns", "webhook", "tsig"];
    let texts = |first: u32| (first..).map(credential);
    let first: Vec<String> = texts(11).take(4).collect();
    let server = Fairway::start(&config, &[0, 1, 2, 3].map(|at| (files[at], first[at].as_str())));
    service.wait_for(&[11, 12, 13]);
    // The search finds what is there.
    assert!(credentials(&server).is_superset(&BTreeSet::from([11, 12, 13, 14])));
    for (file, text) in files.iter().zip(texts(21)) {
        fs::write(server.folder.path().join(file), text).expect("the folder can be written");
    }
    assert!(server.command(&["reload"]).status.success());
    service.wait_for(&[21, 22, 23]);
    wait_until_gone(&server, &[11, 12, 13, 14], || ());
    assert!(credentials(&server).is_superset(&BTreeSet::from([21, 22, 23, 24])));
}

const RECORDS: &str = "/v2/projects/shop/dns-update-records";
const INTENTS: &str = "/v2/projects/shop/composite-apps/a/v1/traffic-intent-set/inbound-intents";

#[test]
fn replaced_and_deleted_credentials_of_callers_and_objects_leave_the_memory() {
    let service = Service::start();
    let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let config = |[api, calls]: [u32; 2]| {
        format!(
            "{}webhook: {{ listen: \"{webhook}\", token: {} }}
access:
  tokens: [{{ name: ci, sha256: {} }}]
  grants: [{{ role: admin, to: [\"token:ci\"] }}]
",
            answering(&["192.0.2.1"]),
            TokenHash::of(&credential(calls)),
            TokenHash::of(&credential(api))
        )
    };
    let record = |key: u32| {
        let parameters = json!({"pdns-server": format!("http://{}", service.at), "pdns-api-key": credential(key),
            "domain-filter": "a.example"});
        json!({"metadata": {"name": "r"}, "spec": {"provider": "pdns", "external-dns-parameters": parameters}})
    };
    let intent = |key: u32| {
        json!({"metadata": {"name": "i"}, "spec": {"app": "a", "serviceName": "shop", "externalSupport": true,
            "externalName": "shop.gslb.example", "Servicecertificate": "Q0VSVA==", "ServicePrivateKey": credential(key)}})
    };
    let server = Fairway::start(&config([31, 32]), &[]);
    let api = |token: u32, request: &str, body: &str| {
        let reply = call(server.http, request, (&credential(token), "application/json"), body, LIMIT);
        assert!(reply.as_ref().is_some_and(|(status, _)| (200..300).contains(status)), "{request}: {reply:?}");
    };
    let hook = |token: u32| {
        let media_type = "application/external.dns.webhook+json;version=1";
        call(webhook, "GET /records", (&credential(token), media_type), "", LIMIT).is_some_and(|reply| reply.0 == 200)
    };
    wait_until("the webhook is open", LIMIT, || hook(32));
    api(31, &format!("POST {RECORDS}"), &record(41).to_string());
    api(31, &format!("PUT {INTENTS}/i"), &intent(42).to_string());
    service.wait_for(&[41]);
    assert!(credentials(&server).is_superset(&BTreeSet::from([41, 42])));

    server.write_config(&config([33, 34]));
    assert!(server.command(&["reload"]).status.success());
    api(33, &format!("PUT {RECORDS}/r"), &record(43).to_string());
    api(33, &format!("PUT {INTENTS}/i"), &intent(44).to_string());
    service.wait_for(&[43]);
    // The next writes replace pages of the store, and the next calls the stacks of threads.
    let mut number = 0;
    let mut go_on = || {
        number += 1;
        let cluster = json!({"name": "other", "addresses": [format!("192.0.2.{number}")]});
        api(33, "PUT /v1/clusters/other", &cluster.to_string());
        assert!(hook(34));
    };
    wait_until_gone(&server, &[31, 32, 41, 42], &mut go_on);
    assert!(credentials(&server).is_superset(&BTreeSet::from([43, 44])));

    api(33, &format!("DELETE {RECORDS}/r"), "");
    api(33, &format!("DELETE {INTENTS}/i"), "");
    wait_until_gone(&server, &[43, 44], &mut go_on);
}
