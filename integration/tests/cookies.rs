//! DNS cookies on the real binary: a client gets one, uses it, and keeps it across a restart and a change of keys.

use std::time::Duration;

use fairway_integration::{
    message::Message,
    query::{COOKIE, Opt, Query},
    real::{Fairway, Process, ask, serve, wait_until},
};
use fairway_model::Rtype;

/// Longest wait for an event that is immediate on an idle machine.
const LIMIT: Duration = Duration::from_secs(30);

const ZONE: &str = "zones: [{ name: example.test, ns: [ns1.example.net] }]\n";
const CLIENT: [u8; 8] = *b"\x01\x02\x03\x04\x05\x06\x07\x08";

/// Sends a query with a cookie; returns the cookie of the answer, which is the client's with a server cookie.
fn exchange(server: &Fairway, cookie: &[u8]) -> Option<Vec<u8>> {
    let edns = Some(Opt { options: vec![(COOKIE, cookie.to_vec())], ..Opt::default() });
    let packet = Query { id: 7, edns, ..Query::new("example.test".parse().expect("a name"), Rtype::SOA) }.encode();
    let reply = Message::decode(&ask(server.dns, &packet).expect("an answer")).expect("a sound message");
    assert_eq!(reply.sections[0].len(), 1, "the SOA is answered, whatever the cookie is");
    let cookie = reply.option(COOKIE)?.to_vec();
    assert!(cookie.len() == 24 && cookie[..8] == CLIENT, "{cookie:02x?}");
    Some(cookie)
}

/// Returns the counts of valid, new and bad cookies.
fn counts(server: &Fairway) -> [f64; 3] {
    ["valid", "new", "bad"].map(|status| server.metric("fairway_cookies_total", &format!("\"{status}\"")))
}

fn restart(server: &mut Fairway) {
    server.process.signal("TERM");
    server.process.ended(LIMIT);
    server.process = Process::start(&mut serve(server.folder.path()), &server.folder.path().join("fairway.log"));
    server.wait_ready();
}

#[test]
fn cookie_is_given_accepted_and_kept_across_a_restart() {
    let mut server = Fairway::start(ZONE, &[]);
    let given = exchange(&server, &CLIENT).expect("a cookie");
    assert_eq!(exchange(&server, &given), Some(given.clone()), "a fresh cookie goes back as it is");
    let mut forged = given.clone();
    forged[23] ^= 1;
    assert_ne!(exchange(&server, &forged), Some(forged), "a forged one does not");
    wait_until("the counts", LIMIT, || counts(&server) == [1.0, 1.0, 1.0]);
    restart(&mut server);
    assert_eq!(exchange(&server, &given), Some(given));
    wait_until("the count", LIMIT, || counts(&server) == [1.0, 0.0, 0.0]);
}

#[test]
fn keys_of_a_file_roll_over_without_losing_a_cookie() {
    const KEYS: [&str; 2] = ["e5e973e5a6b2a43f48e7dc849e37bfcf", "445536bcd2513298075a5d379663c962"];
    let mut server = Fairway::start(&format!("{ZONE}cookies: {{ keyFile: keys }}\n"), &[("keys", KEYS[0])]);
    let write = |server: &Fairway, keys: &[&str]| {
        let next = server.folder.path().join("keys.next");
        std::fs::write(&next, keys.join("\n")).expect("the folder can be written");
        std::fs::rename(next, server.folder.path().join("keys")).expect("the folder can be written");
    };
    let old = exchange(&server, &CLIENT).expect("a cookie");
    write(&server, &[KEYS[1], KEYS[0]]);
    wait_until("the answer is renewed with the new key", LIMIT, || {
        exchange(&server, &old).is_some_and(|renewed| renewed != old)
    });
    let new = exchange(&server, &old).expect("a cookie");
    assert_eq!(counts(&server)[2], 0.0, "no cookie was bad");
    write(&server, &KEYS[1..]);
    wait_until("the old key is gone", LIMIT, || {
        exchange(&server, &old);
        counts(&server)[2] > 0.0
    });
    assert_eq!(exchange(&server, &new), Some(new));
    // The keys are shown nowhere.
    let shown = server.process.output() + &server.metrics();
    assert!(KEYS.iter().all(|key| !shown.contains(key)), "{shown}");
    assert!(server.process.is_running());
}

#[test]
fn cookies_that_are_off_are_ignored() {
    let server = Fairway::start(&format!("{ZONE}cookies: off\n"), &[]);
    assert_eq!(exchange(&server, &CLIENT), None);
    assert_eq!(exchange(&server, b"\x01"), None);
    assert_eq!(counts(&server), [0.0; 3]);
}
