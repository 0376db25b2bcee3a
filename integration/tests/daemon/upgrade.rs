//! The data folder of an earlier version, in `data-0.1.0`: version 0.1.0 wrote it (commit ab87d62c) with objects of the API, an override,
//! endpoints of the webhook and load control. The end of the override was set to a later year, and the store is a backup, compressed.

use std::{
    fs::{self, File, Permissions},
    io::copy,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
};

use fairway_integration::{
    load::wait_answer,
    real::{Fairway, free_port, head, root},
};
use tempfile::TempDir;

use super::{LIMIT, said};

/// The configuration that version 0.1.0 ran with, with a port for the webhook.
fn config(webhook: u16) -> String {
    format!(
        "webhook: {{ listen: \"127.0.0.1:{webhook}\" }}
health: {{ networks: {{ allow: [127.0.9.0/24] }}, firstRound: 1s }}
zones: [{{ name: gslb.example, ns: [{{ name: ns1.gslb.example, addresses: [192.0.2.53] }}] }}]
clusters: [{{ name: eu1, addresses: [127.0.9.1], capacity: 1000 }}, {{ name: us1, addresses: [127.0.9.2], capacity: 1000 }}]
monitors: [{{ name: tcp, type: tcp, port: 9399, period: 300ms, timeout: 200ms }}]
pools:
  - {{ name: shop, policy: weighted, monitor: tcp, members: [{{ cluster: eu1, weight: 70 }}, {{ cluster: us1, weight: 30 }}] }}
  - {{ name: bal, policy: load, monitor: tcp, members: [{{ cluster: eu1 }}, {{ cluster: us1 }}] }}
names: [{{ name: bal.gslb.example, pool: bal }}, {{ name: shop.gslb.example, pool: shop }}]
"
    )
}

/// Returns a folder with the data folder and the configuration.
fn folder_of_0_1_0(dns: SocketAddr, http: SocketAddr) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    let (from, data) = (root().join("integration/tests/daemon/data-0.1.0"), folder.path().join("data"));
    fs::create_dir(&data).and_then(|()| fs::set_permissions(&data, Permissions::from_mode(0o700))).expect("it is ours");
    for file in ["health.json", "names.json", "overrides.json", "balance.json"] {
        fs::copy(from.join(file), data.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
    let packed = File::open(from.join("objects.redb.gz")).expect("it is in the tree");
    let mut store = File::create(data.join("objects.redb")).expect("the folder can be written");
    copy(&mut flate2::read::GzDecoder::new(packed), &mut store).expect("it can be unpacked");
    fs::write(folder.path().join("fairway.yaml"), head(dns, http) + &config(free_port())).expect("it can be written");
    folder
}

#[test]
fn data_folder_of_version_0_1_0_is_served() {
    let [dns, http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let server = Fairway::start_in(folder_of_0_1_0(dns, http), dns, http);
    // An object of the API, and one of the files whose other member the override drains.
    for (name, address) in [("cart.gslb.example", "127.0.9.3"), ("shop.gslb.example", "127.0.9.1")] {
        wait_answer(dns, name, &[address], LIMIT);
    }
    for (command, expected) in [
        (&["override", "list"][..], &["us1", "drain", "local user 0", "work"][..]),
        (&["contributions", "--members"], &["127.0.9.4", "127.0.9.5"]),
        (&["get", "pools", "cart"], &["cart", "served", "first"]),
        (&["get", "records"], &["txt.gslb.example", "served"]),
        (&["store", "history", "pools/cart"], &["local user 0", "first"]),
        (&["store", "verify"], &["all rows are valid"]),
    ] {
        let printed = said(&server.command(command));
        let missing: Vec<_> = expected.iter().filter(|word| !printed.contains(**word)).collect();
        assert!(missing.is_empty(), "{command:?} lacks {missing:?}: {printed}");
    }
    // Only load control begins anew: the file has no weights of clusters.
    let data = fs::read_dir(server.folder.path().join("data")).expect("it can be listed");
    let names = data.map(|entry| entry.expect("it is there").file_name().into_string().expect("UTF-8"));
    let aside: Vec<_> = names.filter(|name| name.ends_with(".unreadable")).collect();
    assert_eq!(aside, ["balance.json.unreadable"], "{}", server.process.output());
}
