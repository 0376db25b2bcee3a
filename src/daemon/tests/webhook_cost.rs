//! What many endpoints cost. It measures, and says nothing of right and wrong: `cargo test --release -p fairway --lib webhook_cost --
//! --ignored --nocapture`.

use std::time::Instant;

use fairway_providers::{Changes, Endpoint, Json};

use super::{
    objects::Server,
    webhook::{hooked, service},
    *,
};

/// Names of an owner; each has an endpoint of the registry beside its own.
const NAMES: usize = 5_000;
const OWNERS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn endpoints(owner: &str, address: &str) -> Vec<Endpoint> {
    let pair = |number: usize| {
        let name = format!("n{number}.gslb.example");
        let heritage = format!(
            "\"heritage=external-dns,external-dns/owner={owner},external-dns/resource=service/default/n{number}\""
        );
        let own = service(&name, address, owner, "1");
        let registry = Endpoint {
            dns_name: format!("a-{name}"),
            record_type: "TXT".to_owned(),
            targets: vec![heritage],
            ..own.clone()
        };
        [own, registry]
    };
    (0..NAMES).flat_map(pair).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures, and says nothing of right and wrong"]
async fn fifty_thousand_endpoints_of_five_owners() {
    let server = Server::new(&hooked("")).await;
    for (number, owner) in OWNERS.iter().enumerate() {
        let create = endpoints(owner, &format!("192.0.2.{}", number + 1));
        let begun = Instant::now();
        server.change(&format!("/owners/{owner}"), Changes { create, ..Changes::default() });
        println!("{} endpoints of {owner} created: {:?}", 2 * NAMES, begun.elapsed());
    }
    for _ in 0..3 {
        let begun = Instant::now();
        let (_, body) = server.call("GET", "/owners/a/records", b"");
        println!("GET of {} octets: {:?}", body.len(), begun.elapsed());
    }
    for round in 0..5u8 {
        let (old, new) = (endpoints("a", "192.0.2.1"), endpoints("a", &format!("198.51.100.{round}")));
        let body = Changes { update_old: old, update_new: new, ..Changes::default() }.to_json();
        let begun = Instant::now();
        let (status, _) = server.call("POST", "/owners/a/records", &body);
        let durable = begun.elapsed();
        let revision = server.daemon.control().objects().unwrap().declared().revision;
        assert!(server.daemon.control().served(revision, PATIENCE).await && status == 204);
        println!("{} changes: acknowledged after {durable:?}, in the answers after {:?}", 2 * NAMES, begun.elapsed());
    }
    for round in 0..5u8 {
        let update_new = vec![service("n7.gslb.example", &format!("192.0.2.{}", 100 + round), "a", "1")];
        let body = Changes { update_new, ..Changes::default() }.to_json();
        let begun = Instant::now();
        assert_eq!(server.call("POST", "/owners/a/records", &body).0, 204);
        println!("1 change: in the answers after {:?}", begun.elapsed());
    }
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    println!("resident: {} MiB", statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4 / 1024);
    server.daemon.stop().await;
}
