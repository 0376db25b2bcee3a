//! Latency tables that are pushed over the API.

use std::fs;

use super::{daemon::start, *};
use fairway_api_types::client::{Client, ClientError, ExplainQuery, Reach};

const FIRST: &str = "network,eu1,us1\n192.0.2.0/24,90,10\n";

/// Returns a configuration with a pool that ranks by latency, a table to push, and one that is read from a file.
fn pushed() -> String {
    config("type: always").replace("policy: failover", "policy: [latency, failover]")
        + "latencies: [ { name: rtt }, { name: fixed, file: fixed.csv } ]\n"
}

fn scene() -> Scene {
    let scene = Scene::new(
        &pushed().replace("monitor: gateway, members", "latency: { table: rtt }, monitor: gateway, members"),
    );
    fs::write(scene.0.path().join("fixed.csv"), FIRST).unwrap();
    scene
}

fn control_socket(scene: &Scene) -> Client {
    Client::new(Reach::of_data_dir(&scene.data()))
}

/// Returns the address in the answer to clients of 192.0.2.0/24.
async fn answer_for_client(client: &Client) -> String {
    let query = ExplainQuery {
        name: "shop.gslb.example".to_owned(),
        client: Some("192.0.2.0/24".to_owned()),
        ..Default::default()
    };
    let explained = client.explain(&query).await.unwrap();
    explained.answer[0].data.clone()
}

/// Pushes an invalid table. Returns status and detail of the error.
async fn push_error(client: &Client, table: &str, text: &str) -> (u16, String) {
    match client.push_latency(table, text).await {
        Err(ClientError::Refused { status, problem, .. }) => (status, problem.detail),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pushed_table_is_used_at_once_and_survives_reload_and_restart() {
    let scene = scene();
    let daemon = start(&scene).await;
    let client = control_socket(&scene);
    assert_eq!(answer_for_client(&client).await, "127.0.0.1", "without a table all members rank equal");
    let state = client.push_latency("rtt", FIRST).await.unwrap();
    assert_eq!((state.table.as_str(), state.networks, state.clusters), ("rtt", 1, 2));
    assert_eq!(answer_for_client(&client).await, "127.0.0.2");
    assert!(client.reload(false).await.unwrap().accepted);
    assert_eq!(answer_for_client(&client).await, "127.0.0.2");
    assert_eq!(fs::read_to_string(scene.data().join("latency-rtt.csv")).unwrap(), FIRST);
    daemon.stop().await;
    let daemon = start(&scene).await;
    assert_eq!(answer_for_client(&control_socket(&scene)).await, "127.0.0.2");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_table_is_rejected_and_the_previous_one_stays_in_use() {
    let scene = scene();
    let daemon = start(&scene).await;
    let client = control_socket(&scene);
    client.push_latency("rtt", FIRST).await.unwrap();
    let cut = &FIRST[..FIRST.len() - 1];
    for (table, text, status, part) in [
        ("rtt", "", 400, "the table has no network"),
        ("rtt", cut, 400, "the table does not end with a line break"),
        ("rtt", "network,eu1\n192.0.2.0/24,-1\n", 400, "table:2: \"-1\" is not a latency"),
        ("other", FIRST, 404, "there is no latency table other"),
        ("no name", FIRST, 404, "there is no latency table no name"),
        ("fixed", FIRST, 409, "table fixed is read from its file"),
    ] {
        let (found, detail) = push_error(&client, table, text).await;
        assert!(found == status && detail.contains(part), "{found} {detail}");
    }
    // A valid table with an invalid configuration: both are rejected.
    scene.write("version: 1\nzones: 7\n");
    let (status, detail) = push_error(&client, "rtt", "network,eu1,us1\n192.0.2.0/24,10,90\n").await;
    assert!(status == 409 && detail.contains("fairway.yaml:2"), "{status} {detail}");
    assert_eq!(fs::read_to_string(scene.data().join("latency-rtt.csv")).unwrap(), FIRST);
    assert_eq!(answer_for_client(&client).await, "127.0.0.2");
    let http = Client::new(Reach::Http(daemon.http_address().unwrap()));
    assert_eq!(push_error(&http, "rtt", FIRST).await.0, 409, "status over HTTP");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn table_over_the_size_limit_is_rejected() {
    let scene = scene();
    let daemon = start(&scene).await;
    let client = control_socket(&scene);
    let (status, detail) = push_error(&client, "rtt", &"x".repeat((64 << 20) + 1)).await;
    assert!(status == 413 && detail.contains("the limit is 64 MiB"), "{status} {detail}");
    // Larger than the limit of all other bodies.
    let many: String = (0..2_000).map(|n| format!("10.{}.{}.0/24,1,2\n", n / 250, n % 250)).collect();
    let state = client.push_latency("rtt", &format!("network,eu1,us1\n{many}")).await.unwrap();
    assert_eq!(state.networks, 2_000);
    daemon.stop().await;
}
