//! Load reports in the daemon: read from gateways, and pushed over the API.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{daemon::start, *};
use fairway_api_types::{
    client::{Client, ClientError, Reach},
    load_wire::{LoadState, NewLoad},
    state_wire::ClusterState,
};

/// Starts a gateway that reports this many requests in flight. Returns the port of its statistics.
async fn statistics(requests: u32) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let body = format!("envoy_http_in_downstream_rq_active{{}} {requests}\nenvoy_server_live{{}} 0\n");
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    port
}

/// Returns a configuration in which eu1 has a capacity and a load source, and us1 neither.
fn config_with_load(port: u16) -> String {
    let load = format!("load: [ {{ name: gw, type: prometheus, port: {port}, period: 50ms }} ]\n");
    let eu1 = "addresses: [127.0.0.1]";
    config("type: always").replace(eu1, &format!("{eu1}, capacity: 100, load: gw")) + &load
}

async fn cluster(client: &Client, name: &str) -> ClusterState {
    client.state().await.unwrap().clusters.into_iter().find(|cluster| cluster.name == name).unwrap()
}

fn control_socket(scene: &Scene) -> Client {
    Client::new(Reach::of_data_dir(&scene.data()))
}

/// Pushes an invalid report. Returns status and detail of the error.
async fn push_error(client: &Client, cluster: &str, new: &NewLoad) -> (u16, String) {
    match client.push_load(cluster, new).await {
        Err(ClientError::Refused { status, problem, .. }) => (status, problem.detail),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn load_is_in_state_and_metrics_until_its_source_is_removed() {
    let scene = Scene::new(&config_with_load(statistics(73).await));
    let daemon = start(&scene).await;
    let client = control_socket(&scene);
    let is_expected = |load: &LoadState| load.permille == Some(730) && load.status == "used";
    until("load of eu1", async || cluster(&client, "eu1").await.load.first().is_some_and(is_expected)).await;
    let eu1 = cluster(&client, "eu1").await;
    let load = &eu1.load[0];
    assert_eq!((load.source.as_deref(), load.signal.as_deref()), (Some("gw"), Some("inFlight")));
    assert_eq!((eu1.capacity, eu1.exhausted, eu1.warnings), (Some(100), true, vec!["draining".to_owned()]));
    assert_eq!(cluster(&client, "us1").await.load, []);
    let metrics = client.metrics().await.unwrap();
    for line in [
        "fairway_cluster_load_ratio{cluster=\"eu1\",source=\"gw\",signal=\"inFlight\"} 0.73",
        "fairway_cluster_exhausted{cluster=\"eu1\"} 1",
        "fairway_cluster_warning{cluster=\"eu1\",warning=\"draining\"} 1",
        "fairway_load_reads_total{source=\"gw\",outcome=\"timeout\"} 0",
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line} is not in\n{metrics}");
    }
    scene.write(&config("type: always"));
    let report = client.reload(false).await.unwrap();
    assert!(report.changes.contains(&"load sources: 0 added, 0 changed, 1 removed".to_owned()), "{report:?}");
    assert_eq!(cluster(&client, "eu1").await.load, []);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pushed_load_is_used_at_once_and_an_invalid_one_changes_nothing() {
    let scene = Scene::new(&config_with_load(statistics(10).await));
    let daemon = start(&scene).await;
    let client = control_socket(&scene);
    let new = NewLoad { used: Some(95), sequence: Some(7), valid_for: Some("1m".to_owned()), ..NewLoad::default() };
    let state = client.push_load("eu1", &new).await.unwrap();
    assert_eq!((state.source, state.permille, state.status.as_str()), (None, Some(950), "used"));
    let changed = |change: fn(&mut NewLoad)| {
        let mut changed = NewLoad { sequence: Some(8), ..new.clone() };
        change(&mut changed);
        changed
    };
    for (name, pushed, status, part) in [
        ("eu1", changed(|new| new.sequence = Some(7)), 409, "sequence 7 is not above 7"),
        ("eu1", changed(|new| new.load = Some(1)), 400, "load and used are both given"),
        ("eu1", changed(|new| new.used = None), 400, "neither load nor used"),
        ("eu1", changed(|new| (new.used, new.load) = (None, Some(100_001))), 400, "load: over 100000"),
        ("eu1", changed(|new| new.valid_for = Some("2h".to_owned())), 400, "validFor: 7200s is not between"),
        ("eu1", changed(|new| new.valid_for = Some("30".to_owned())), 400, "validFor: \"30\" has no unit"),
        ("eu2", new.clone(), 404, "cluster eu2 is not declared; did you mean eu1?"),
        ("us1", new.clone(), 409, "cluster us1 has no capacity"),
    ] {
        let (found, detail) = push_error(&client, name, &pushed).await;
        assert!(found == status && detail.contains(part), "{found} {detail}");
    }
    let eu1 = cluster(&client, "eu1").await;
    assert_eq!((eu1.load[0].permille, eu1.load[0].status.as_str()), (Some(950), "used"));
    assert_eq!(cluster(&client, "us1").await.load, []);
    let http = Client::new(Reach::Http(daemon.http_address().unwrap()));
    assert_eq!(push_error(&http, "us1", &new).await.0, 409, "status over HTTP");
    daemon.stop().await;
}
