//! Publishing DNSEndpoint objects to a real Kubernetes API: with the printed rights, next to objects of others, and by one of two servers; Events about refused names.
#![cfg(feature = "real")]

use std::path::Path;

use fairway_integration::{
    cluster::{Cluster, LIMIT, dig},
    real::{Fairway, http_get, wait_until},
};
use serde_json::Value;

/// The object of a publisher `corporate` with few names.
const OBJECT: &str = "fairway-corporate-all";
const LEASE: &str = "fairway-corporate";

/// Starts a Kubernetes API with the kind DNSEndpoint and the namespace `dns`.
fn cluster() -> Cluster {
    let cluster = Cluster::start("eu1");
    cluster.apply_kinds("external-dns-dnsendpoints.yaml");
    cluster.kubectl(&["create", "namespace", "dns"]);
    cluster
}

/// Grants the user of [`Cluster::token_kubeconfig`] exactly the rights that `fairway rbac` prints.
fn grant(cluster: &Cluster, server: &Fairway) {
    cluster.apply(&server.rbac("eu1"));
}

/// Returns the lines of `kubectl auth can-i --list` of that user in a namespace with a verb other than reading, sorted, but for those that every
/// user has.
fn writing_rights(cluster: &Cluster, namespace: &str) -> Vec<String> {
    let user = ["--as=system:serviceaccount:fairway:fairway", "auth", "can-i", "--list", "-n", namespace];
    let listed = cluster.kubectl(&user);
    let rights = listed.lines().skip(1).filter(|line| !line.starts_with("selfsubject"));
    let is_read = |line: &&str| ["[list watch]", "[get]"].iter().any(|verbs| line.trim_end().ends_with(verbs));
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rights: Vec<_> = rights.filter(|line| !is_read(line)).map(words).collect();
    rights.sort();
    rights
}

/// Returns a configuration that publishes these names, each with one address, to the cluster.
fn config(kubeconfig: &Path, names: &[(&str, &str)]) -> String {
    let of_names = |line: &dyn Fn(&str, &str) -> String| -> String {
        names.iter().map(|(name, address)| line(name, address)).collect()
    };
    let clusters = of_names(&|name, address| format!("  - {{ name: at-{name}, addresses: [{address}] }}\n"));
    let pools = of_names(&|name, _| {
        format!("  - {{ name: {name}, policy: weighted, monitor: none, members: [{{ cluster: at-{name} }}] }}\n")
    });
    let list = of_names(&|name, _| format!("  - {{ name: {name}.gslb.example, pool: {name} }}\n"));
    format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
monitors: [{{ name: none, type: always }}]
clusters:
  - {{ name: eu1, kubernetes: {{ kubeconfig: \"{}\" }} }}
{clusters}pools:
{pools}names:
{list}publish:
  providers: [{{ name: corporate, zones: [gslb.example], dnsendpoint: {{ cluster: eu1, namespace: dns }} }}]
",
        kubeconfig.display()
    )
}

/// Returns an object of the namespace `dns`, if it exists.
fn object(cluster: &Cluster, kind: &str, name: &str) -> Option<Value> {
    let text = cluster.try_kubectl(&["-n", "dns", "get", kind, name, "-o", "json", "--show-managed-fields"]).ok()?;
    Some(serde_json::from_str(&text).expect("kubectl prints JSON"))
}

/// Returns the names and first targets of the published object, joined by spaces; empty if there is no object.
fn published(cluster: &Cluster) -> String {
    let Some(object) = object(cluster, "dnsendpoint", OBJECT) else { return String::new() };
    let endpoints = object["spec"]["endpoints"].as_array().cloned().unwrap_or_default();
    let shown = |endpoint: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!("{}={}", text(&endpoint["dnsName"]), text(&endpoint["targets"][0]))
    };
    endpoints.iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// Returns the holder of the Lease.
fn holder(cluster: &Cluster) -> Option<String> {
    let lease = object(cluster, "lease", LEASE)?;
    lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
}

/// Returns the status of the publisher.
fn status(server: &Fairway) -> Value {
    let (_, body) = http_get(server.http, "/v1/publishing").expect("the status");
    let state: Value = serde_json::from_str(&body).expect("JSON");
    state["providers"][0].clone()
}

fn error(server: &Fairway) -> String {
    status(server)["error"].as_str().unwrap_or_default().to_owned()
}

fn wait_published(cluster: &Cluster, expected: &str) {
    wait_until(&format!("published: {expected:?}"), LIMIT, || published(cluster) == expected);
}

#[test]
fn name_becomes_an_object_with_the_printed_rights() {
    let cluster = cluster();
    let kubeconfig = cluster.token_kubeconfig();
    let names = |names: &[(&str, &str)]| config(&kubeconfig, names);
    let mut server = Fairway::start(&names(&[("shop", "192.0.2.1")]), &[]);
    let hint = "add the verb get for leases of coordination.k8s.io in the namespace dns, as fairway rbac prints it";
    wait_until("the missing right is shown", LIMIT, || error(&server).contains(hint));
    assert!(!error(&server).contains('\n') && error(&server).starts_with("cluster eu1: "), "{}", error(&server));
    assert_eq!(dig(&server, "shop.gslb.example", "A"), ["192.0.2.1"], "the server answers");
    grant(&cluster, &server);
    wait_published(&cluster, "shop.gslb.example=192.0.2.1");
    let expected = [
        "dnsendpoints.externaldns.k8s.io [] [] [list watch create patch delete]",
        "leases.coordination.k8s.io [] [] [create]",
        "leases.coordination.k8s.io [] [fairway-corporate] [get update]",
    ];
    assert_eq!(writing_rights(&cluster, "dns"), expected);
    assert_eq!(writing_rights(&cluster, "default"), <[&str; 0]>::default());
    wait_until("the publisher is well", LIMIT, || status(&server)["status"] == "ok");

    server.write_config(&names(&[("shop", "192.0.2.9"), ("more", "192.0.2.2")]));
    wait_published(&cluster, "more.gslb.example=192.0.2.2 shop.gslb.example=192.0.2.9");
    // Another client changes a field; the next sync restores it.
    let drift = "{\"spec\":{\"endpoints\":[]}}";
    cluster.kubectl(&["-n", "dns", "patch", "dnsendpoint", OBJECT, "--type=merge", "-p", drift]);
    server.command(&["publish", "apply"]);
    wait_published(&cluster, "more.gslb.example=192.0.2.2 shop.gslb.example=192.0.2.9");
    let applied = object(&cluster, "dnsendpoint", OBJECT).expect("it exists");
    let managers = applied["metadata"]["managedFields"].to_string();
    assert!(managers.contains("\"manager\":\"fairway\"") && managers.contains("\"Apply\""), "{managers}");
    // What is published must not become a member.
    assert_eq!(dig(&server, "shop.gslb.example", "A"), ["192.0.2.9"]);

    server.write_config(&names(&[("shop", "192.0.2.9")]));
    wait_published(&cluster, "shop.gslb.example=192.0.2.9");
    server.write_config(&names(&[]).replace("pools:\n", "").replace("names:\n", ""));
    wait_until("the object is deleted", LIMIT, || object(&cluster, "dnsendpoint", OBJECT).is_none());

    assert!(holder(&cluster).is_some());
    server.process.signal("TERM");
    server.process.ended(LIMIT);
    assert_eq!(holder(&cluster), None, "the Lease is released");
}

#[test]
fn object_of_others_stays_as_it_is_and_is_an_error() {
    let cluster = cluster();
    cluster.apply(&format!(
        "apiVersion: externaldns.k8s.io/v1alpha1\nkind: DNSEndpoint\nmetadata: {{ name: {OBJECT}, namespace: dns, labels: {{ \
         app.kubernetes.io/managed-by: fairway, app.kubernetes.io/instance: another }} }}\nspec: {{ endpoints: [ {{ dnsName: \
         a.example, recordType: A, targets: [192.0.2.77] }} ] }}\n"
    ));
    let before = object(&cluster, "dnsendpoint", OBJECT);
    let server = Fairway::start(&config(&cluster.token_kubeconfig(), &[("shop", "192.0.2.1")]), &[]);
    grant(&cluster, &server);
    let what = format!("DNSEndpoint dns/{OBJECT}: an object of others has this name");
    wait_until("the error is shown", LIMIT, || error(&server).contains(&what));
    let failures = || status(&server)["failures"].as_u64();
    let known = failures();
    wait_until("it is tried again", LIMIT, || failures() > known && error(&server).contains(&what));
    assert_eq!(object(&cluster, "dnsendpoint", OBJECT), before);
    cluster.kubectl(&["-n", "dns", "delete", "dnsendpoint", OBJECT]);
    wait_published(&cluster, "shop.gslb.example=192.0.2.1");
}

#[test]
fn dead_holder_of_two_servers_is_replaced_and_never_do_both_write() {
    let cluster = cluster();
    let kubeconfig = cluster.token_kubeconfig();
    let mut first = Fairway::start(&config(&kubeconfig, &[("shop", "192.0.2.1")]), &[]);
    grant(&cluster, &first);
    wait_published(&cluster, "shop.gslb.example=192.0.2.1");
    let holder_before = holder(&cluster).expect("a holder");
    // The second server wants another address, so its writes can be recognised.
    let second = Fairway::start(&config(&kubeconfig, &[("shop", "192.0.2.2")]), &[]);
    wait_until("the second server waits", LIMIT, || status(&second)["status"] == "standby");
    let standby = status(&second)["standby"].to_string();
    assert!(
        standby.contains(&format!("{holder_before} publishes: it holds the Lease dns/{LEASE} of cluster eu1")),
        "{standby}"
    );
    // It follows its own changes, and an operator's order is refused.
    let planned = status(&second)["records"][0]["status"].clone();
    assert_eq!(planned, "waiting", "{}", status(&second));
    let refused = second.command(&["publish", "apply"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains(&holder_before), "{said}");
    // The first server still writes.
    first.write_config(&config(&kubeconfig, &[("shop", "192.0.2.3")]));
    wait_published(&cluster, "shop.gslb.example=192.0.2.3");

    first.process.signal("KILL");
    first.process.ended(LIMIT);
    let killed = std::time::Instant::now();
    wait_until("the second server publishes", LIMIT, || {
        // Read in this order: a write before the Lease changed would be seen.
        let (written, holder) = (published(&cluster), holder(&cluster));
        let is_of_second = written == "shop.gslb.example=192.0.2.2";
        assert!(
            !is_of_second || holder.as_ref() != Some(&holder_before),
            "it wrote while {holder_before} held the Lease"
        );
        is_of_second
    });
    let waited = killed.elapsed();
    println!("taken over {waited:?} after the holder was killed");
    assert!((10..30).contains(&waited.as_secs()), "{waited:?}");
    wait_until("the second server leads", LIMIT, || status(&second)["status"] == "ok");
    let lease = object(&cluster, "lease", LEASE).expect("the Lease");
    assert_eq!(lease["spec"]["leaseTransitions"], 1, "{lease:#}");
    let object = object(&cluster, "dnsendpoint", OBJECT).expect("the object");
    // Three contents: two of the first server, one of the second.
    assert_eq!(object["metadata"]["generation"], 3, "{object:#}");
}

/// Returns the Events of a namespace.
fn events(cluster: &Cluster, namespace: &str) -> Vec<Value> {
    let text = cluster.kubectl(&["-n", namespace, "get", "events.events.k8s.io", "-o", "json"]);
    let list: Value = serde_json::from_str(&text).expect("kubectl prints JSON");
    let is_own = |event: &&Value| event["reportingController"] == "fairway";
    // The kube-apiserver may write one about a Service whose address its allocator does not know yet.
    list["items"].as_array().into_iter().flatten().filter(is_own).cloned().collect()
}

/// Returns the problems of the cluster in the state of a server.
fn problems(server: &Fairway) -> String {
    let (_, body) = http_get(server.http, "/v1/state").expect("the state");
    let state: Value = serde_json::from_str(&body).expect("JSON");
    let clusters = state["clusters"].as_array().expect("clusters");
    clusters.iter().find(|of| of["name"] == "eu1").expect("the cluster")["kubernetes"]["problems"].to_string()
}

/// Returns the addresses of the members of the only pool.
fn answered(server: &Fairway) -> String {
    let (_, body) = http_get(server.http, "/v1/state").expect("the state");
    let state: Value = serde_json::from_str(&body).expect("JSON");
    let members = state["pools"][0]["members"].as_array().cloned().unwrap_or_default();
    let addresses = members.iter().flat_map(|member| member["addresses"].as_array().cloned().unwrap_or_default());
    addresses.map(|of| of["address"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>().join(" ")
}

#[test]
fn refused_claim_becomes_one_event_of_its_object_and_the_winner_is_shown_on_both_sides() {
    let cluster = Cluster::start("eu1");
    for (namespace, name, address) in
        [("shop", "shop", "192.0.2.1"), ("young", "shop", "192.0.2.2"), ("evil", "bank", "192.0.2.66")]
    {
        cluster.kubectl(&["create", "namespace", namespace]);
        cluster.expose_in(namespace, "web", address, &[("hostname", &format!("{name}.gslb.example"))]);
    }
    let config = format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
access: {{ names: [ {{ to: [\"namespace:eu1/shop\", \"namespace:eu1/young\"], domains: [shop.gslb.example] }} ] }}
clusters: [ {{ name: eu1, kubernetes: {{ kubeconfig: \"{}\", events: true }} }} ]
",
        cluster.token_kubeconfig().display()
    );
    let server = Fairway::start(&config, &[]);
    cluster.apply(&server.rbac("eu1").replace("events.k8s.io", "none.example"));
    let hint = "add the verb create for events of events.k8s.io in the namespace";
    wait_until("the missing right is shown", LIMIT, || problems(&server).contains(hint));
    let shown = problems(&server);
    for problem in [
        "{\"message\":\"bank.gslb.example: namespace:eu1/evil may not claim bank.gslb.example. A; to allow it, ",
        "contributed shop.gslb.example. first; remove one of them",
        "younger contributions of kubernetes:eu1/young to shop.gslb.example. are rejected\",\"object\":\"Service shop/web\"",
    ] {
        assert!(shown.contains(problem), "{problem}: {shown}");
    }
    cluster.apply(&server.rbac("eu1"));
    wait_until("both Events are there", LIMIT, || {
        ["evil", "young"].iter().all(|namespace| events(&cluster, namespace).len() == 1)
    });
    wait_until("the right is there", LIMIT, || !problems(&server).contains(hint));
    assert_eq!(events(&cluster, "shop").len(), 0, "the older one is answered");
    assert_eq!(answered(&server), "192.0.2.1", "and with its address only");
    let (_, body) = http_get(server.http, "/v1/names/shop.gslb.example").expect("the name");
    let name: Value = serde_json::from_str(&body).expect("JSON");
    let source = serde_json::json!({"kind": "kubernetes", "from": ["kubernetes:eu1/shop"]});
    assert_eq!(name["metadata"]["source"], source, "{name}");
    let [event] = &events(&cluster, "evil")[..] else { panic!("one Event") };
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    assert_eq!((text("/type"), text("/reason"), text("/reportingController")), ("Warning", "NameRefused", "fairway"));
    assert!(text("/note").contains("namespace:eu1/evil may not claim bank.gslb.example"), "{event:#}");
    let described = cluster.kubectl(&["-n", "evil", "describe", "service", "web"]);
    assert!(described.contains("NameRefused"), "{described}");
    let note = events(&cluster, "young")[0]["note"].to_string();
    assert!(note.contains("kubernetes:eu1/shop contributed shop.gslb.example. first"), "{note}");

    // Another server writes the same Event.
    cluster.kubectl(&["-n", "evil", "delete", "events.events.k8s.io", "--all"]);
    let second = Fairway::start(&config, &[]);
    wait_until("the Event is there again", LIMIT, || events(&cluster, "evil").len() == 1);
    assert_eq!(events(&cluster, "evil")[0]["metadata"]["name"], event["metadata"]["name"]);
    wait_until("the second server has read everything", LIMIT, || problems(&second).contains("younger contributions"));
    assert_eq!(events(&cluster, "young").len(), 1);
}
