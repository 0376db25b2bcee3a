//! A store whose file is damaged: reported by commands and at the start, left unchanged, and restored from a backup.

use std::fs;

use fairway_integration::real::{Fairway, http_get};

use super::{LIMIT, once::ask, serve_again};

const ZONE: &str = "zones: [{ name: gslb.example, ns: [ns1.example.net] }]\n";

#[test]
fn damaged_store_is_reported_and_restored_from_backup() {
    let mut server = Fairway::start(ZONE, &[]);
    let run = |server: &Fairway, arguments: &[&str]| {
        let output = server.command(arguments);
        let output_text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), output_text)
    };
    for name in ["eu1", "us1"] {
        let body = format!("{{\"name\": \"{name}\", \"addresses\": [\"192.0.2.1\"]}}");
        assert_eq!(ask(&server, "POST", "/v1/clusters", "", &body).0, 201);
    }
    let backup = server.folder.path().join("backup.redb");
    let backup = backup.to_str().expect("a plain path");
    let (is_done, output_text) = run(&server, &["store", "backup", backup]);
    assert!(is_done && output_text.contains("2 objects"), "{output_text}");
    let (is_done, output_text) = run(&server, &["store", "verify"]);
    assert!(is_done && output_text.contains("a server runs"), "{output_text}");
    let (is_done, output_text) = run(&server, &["store", "restore", backup]);
    assert!(!is_done, "a server runs: {output_text}");
    assert_eq!(ask(&server, "DELETE", "/v1/clusters/us1", "", "").0, 204, "what is not in the backup is gone with it");

    let file = server.folder.path().join("data/objects.redb");
    for way in ["cut off", "overwritten"] {
        server.process.signal("TERM");
        server.process.ended(LIMIT);
        let mut octets = fs::read(&file).expect("the store is there");
        match way {
            "cut off" => octets.truncate(octets.len() / 3),
            _ => octets[4_096..].iter_mut().for_each(|octet| *octet ^= 0xa5),
        }
        fs::write(&file, &octets).expect("the folder can be written");
        let (is_done, output_text) = run(&server, &["store", "verify"]);
        assert!(!is_done && output_text.contains("the store is damaged"), "{way}: {output_text}");
        // Files are served, and the API rejects declared objects.
        server.process = serve_again(&server, &format!("damaged-{}", way.len()));
        server.wait_ready();
        let refused =
            ask(&server, "PUT", "/v1/clusters/ap1", "", "{\"name\": \"ap1\", \"addresses\": [\"192.0.2.2\"]}");
        assert_eq!(refused.0, 503, "{way}: {refused:?}");
        server.process.signal("TERM");
        server.process.ended(LIMIT);
        let output_text = server.process.output();
        assert!(
            output_text.contains("the store is damaged") && output_text.contains("docs/operations/store.md"),
            "{way}: {output_text}"
        );
        assert!(fs::read(&file).is_ok_and(|found| found == octets), "{way}: it is left as it is");

        let (is_done, output_text) = run(&server, &["store", "restore", backup]);
        assert!(is_done && output_text.contains("restored, 2 objects"), "{way}: {output_text}");
        let replaced = file.with_extension("redb.replaced");
        assert!(fs::read(replaced).is_ok_and(|found| found == octets), "{way}: what was there stays beside it");
        server.process = serve_again(&server, &format!("log-{}", way.len()));
        server.wait_ready();
        for name in ["eu1", "us1"] {
            let found = http_get(server.http, &format!("/v1/clusters/{name}"));
            assert!(found.is_some_and(|(status, _)| status == 200), "{way}: {name}");
        }
        let (is_done, output_text) = run(&server, &["store", "verify"]);
        assert!(is_done, "{output_text}");
    }
}
