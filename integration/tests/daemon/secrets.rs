//! Secrets in the memory of the server.

use std::{
    fs,
    io::{Read, Seek, SeekFrom},
};

use fairway_integration::real::Fairway;

use super::answering;

/// Returns true if the writable memory of a process holds these bytes.
fn holds(pid: u32, wanted: &[u8]) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let mut memory = fs::File::open(format!("/proc/{pid}/mem")).expect("it is our child");
    maps.lines().any(|line| {
        let mut fields = line.split_whitespace();
        let (range, mode) = (fields.next().expect("a range"), fields.next().expect("a mode"));
        let (from, to) = range.split_once('-').expect("FROM-TO");
        let [from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).expect("hexadecimal"));
        if !mode.starts_with("rw") {
            return false;
        }
        let mut content = Vec::new();
        memory.seek(SeekFrom::Start(from)).expect("within the memory");
        // A mapping without pages behind it, such as that of a device, is not readable.
        let _ = memory.by_ref().take(to - from).read_to_end(&mut content);
        content.windows(wanted.len()).any(|window| window == wanted)
    })
}

/// The server keeps keys of cookies as two numbers, and needs their text only until these are made.
#[test]
fn text_of_cookie_keys_is_wiped() {
    const KEY: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    let config = answering(&["192.0.2.1"]);
    let server = Fairway::start(&(config.clone() + "cookies: { keyFile: key }\n"), &[("key", KEY)]);
    // The search finds what is there.
    assert!(holds(server.process.pid(), b"gslb.example"));
    assert!(!holds(server.process.pid(), KEY.as_bytes()), "the key of cookies.keyFile is in memory");
    let server = Fairway::start(&config, &[]);
    let key = fs::read(server.folder.path().join("data/cookie.key")).expect("the server made it");
    assert!(!holds(server.process.pid(), &key), "the key of the data folder is in memory");
}
