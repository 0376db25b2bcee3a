//! Intents of ONAP and EMCO over the control socket.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    objects::{Server, zone_only},
    until,
};

/// Inbound intents of an app, on the path of the ONAP wiki.
const WIKI: &str = "/v2/projects/p/composite-apps/a/v1/traffic-intent-set/inbound-intents";
/// The same on the path of EMCO.
const EMCO: &str =
    "/v2/projects/p/composite-apps/a/v1/deployment-intent-groups/default/traffic-group-intents/default/inbound-intents";

/// Returns a configuration with a zone and two clusters that are always up. The second runs the service `mail` only.
fn clusters() -> String {
    zone_only()
        + "monitors: [ { name: unchecked, type: always } ]
clusters:
  - { name: eu1, addresses: [192.0.2.1] }
  - { name: us1, addresses: [192.0.2.2], services: [mail] }
"
}

fn inbound(name: &str, spec: &Value) -> Value {
    let mut body = json!({"metadata": {"name": name}, "spec": {"application": "shop", "servicename": "shop",
        "externalName": "shop.gslb.example", "protocol": "HTTP", "port": "80", "externalSupport": true}});
    for (key, value) in spec.as_object().unwrap() {
        body["spec"][key] = value.clone();
    }
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn intent_of_onap_is_answered_and_readable_as_emco() {
    let server = Server::new(&clusters()).await;
    assert_eq!(server.answer("shop.gslb.example"), None);
    server.send("POST", WIKI, "", &inbound("shop", &json!({}))).expect(201);
    until("answer with the cluster that runs the service", async || {
        server.answer("shop.gslb.example") == Some([192, 0, 2, 1])
    })
    .await;
    let read = server.get(&format!("{EMCO}/shop")).expect(200).body;
    assert_eq!(read["spec"]["externalName"], "shop.gslb.example");
    server.send("PUT", &format!("{EMCO}/shop"), "", &inbound("shop", &json!({"servicename": "mail"}))).expect(200);
    // The first cluster runs every service, so both run `mail`.
    let members = async || fairway_api::state(server.daemon.control()).await.unwrap().pools[0].members.len();
    until("pool with both clusters", async || members().await == 2).await;
    server.send("PUT", &format!("{WIKI}/shop"), "", &inbound("shop", &json!({}))).expect(200);
    until("pool with one cluster", async || members().await == 1).await;
    let server = server.restart().await;
    assert_eq!(server.answer("shop.gslb.example"), Some([192, 0, 2, 1]), "answer after a restart");
    server.send("DELETE", &format!("{WIKI}/shop"), "", &Value::Null).expect(204);
    until("no answer", async || server.answer("shop.gslb.example").is_none()).await;
    server.daemon.stop().await;
}

/// Returns a port of loopback that refuses connections.
fn closed_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn state_shows_what_is_probed_for_an_intent_and_why_it_is_down() {
    let (port, other) = (closed_port(), closed_port());
    let config = zone_only()
        + &format!(
            "monitors: [ {{ name: mesh, type: tcp, port: {other}, period: 50ms, timeout: 50ms }} ]\n\
         clusters: [ {{ name: eu1, addresses: [127.0.0.1] }}, {{ name: us1, addresses: [127.0.0.2], monitor: mesh }} ]\n"
        );
    let server = Server::new(&config).await;
    server.send("POST", WIKI, "", &inbound("shop", &json!({"port": port.to_string()}))).expect(201);
    let state = async || fairway_api::state(server.daemon.control()).await.unwrap();
    until("both are down", async || {
        let state = state().await;
        state.pools.first().is_some_and(|pool| pool.members.iter().all(|member| member.eligibility == "down"))
    })
    .await;
    let state = state().await;
    let members = &state.pools[0].members;
    assert_eq!((members[0].weight_factors.from.as_str(), members[0].weight_factors.base), ("intent", 1));
    let address = |number: usize| &members[number].addresses[0];
    let probe = address(0).probe.as_ref().unwrap();
    assert_eq!((probe.from.as_str(), probe.port), ("intent port", Some(port)));
    assert_eq!(probe.check, format!("http 127.0.0.1:{port}/"));
    let reason = &address(0).reason;
    assert!(reason.ends_with(&format!(": intent port {port}: connection refused")), "{reason}");
    let of_cluster = address(1).probe.as_ref().unwrap();
    assert_eq!((of_cluster.monitor.as_str(), of_cluster.from.as_str()), ("mesh", "cluster"));
    assert_eq!(of_cluster.check, format!("tcp 127.0.0.2:{other}"));
    let read = server.get(&format!("{WIKI}/shop")).expect(200).body;
    let conditions = read["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    let expected =
        format!("eu1 is down (intent port {port}), us1 is down (monitor mesh of the cluster, tcp 127.0.0.2:{other})");
    assert_eq!((&ready["reason"], ready["message"].as_str()), (&json!("NoMemberUp"), Some(expected.as_str())));
    server.daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_intent_does_not_affect_others() {
    let server = Server::new(&clusters()).await;
    let elsewhere = json!({"externalName": "shop.elsewhere.example"});
    server.send("POST", WIKI, "", &inbound("lost", &elsewhere)).expect(201);
    server.send("POST", WIKI, "", &inbound("shop", &json!({}))).expect(201);
    until("answer of the valid intent", async || server.answer("shop.gslb.example").is_some()).await;
    assert_eq!(server.answer("shop.elsewhere.example"), None);
    let rejected = server.daemon.control().shared().serving.published().configured.not_served.clone();
    let rejected: Vec<_> =
        rejected.iter().map(|(key, errors)| (key.name().to_owned(), errors[0].to_string())).collect();
    let [(name, error)] = &rejected[..] else { panic!("one intent must be rejected: {rejected:?}") };
    assert!(name == "lost" && error.contains("is in no declared zone"), "{rejected:?}");
    server.put("/v1/clusters/ap1", &json!({"name": "ap1", "addresses": ["192.0.2.9"]})).expect(201);
    let on_ap1 = json!({"externalName": "ap.gslb.example", "gslb": {"members": [{"cluster": "ap1"}]}});
    server.send("POST", WIKI, "", &inbound("ap", &on_ap1)).expect(201);
    until("answer with the cluster that the intent names", async || {
        server.answer("ap.gslb.example") == Some([192, 0, 2, 9])
    })
    .await;
    // Intents for the same name merge, also while another intent is rejected.
    let on_us1 = json!({"gslb": {"members": [{"cluster": "us1"}]}});
    server.send("POST", WIKI, "", &inbound("also", &on_us1)).expect(201);
    let members = || {
        let configured = Arc::clone(&server.daemon.control().shared().serving.published().configured);
        let pools = configured.merged.desired.pools.values().filter(|pool| pool.name.as_str().ends_with("+shop"));
        pools.flat_map(|pool| &pool.members).map(|member| member.cluster.to_string()).collect::<Vec<_>>()
    };
    until("members of both intents", async || members() == ["ap1", "eu1", "us1"]).await;
    server.daemon.stop().await;
}
