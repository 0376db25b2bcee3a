//! Tests of the statistics of services, and of gateways that were found.

use std::{sync::Arc, time::Duration};

use fairway_model::{
    ClusterName, ExposedServices, LoadEndpoint, LoadQuery, LoadSource, LoadSourceName, ProbeAddress, RuleBackends,
};
use tokio::{io::AsyncWriteExt, net::TcpListener, sync::broadcast, time::timeout};

use crate::{
    load::{
        Gateways, LoadReader,
        exposition::{Exposition, TEXT_MAX},
        gateway::{GatewayCollector, GatewayMetrics, GatewayWarning},
        table::{ClusterLoadSettings, LoadUpdate},
    },
    probe::tests::servers::{answering, request, serve},
};

fn exposed(services: &[&str]) -> ExposedServices {
    services.iter().map(|service| (Arc::from(*service), 1)).collect()
}

fn metrics(text: &str) -> GatewayMetrics {
    metrics_of(text, exposed(&["shop/web", "shop/pay"]))
}

fn metrics_of(text: &str, exposed: ExposedServices) -> GatewayMetrics {
    let mut exposition = Exposition::new(TEXT_MAX);
    let mut collector = GatewayCollector::new(None, 95).with_services(exposed);
    let text = format!("envoy_server_total_connections 1\n{text}\n");
    exposition.feed(text.as_bytes(), &mut |sample| collector.add_sample(sample)).expect("the text is valid");
    collector.finish().expect("it has a signal")
}

/// Returns requests in flight, healthy and known endpoints of each service.
fn shown(metrics: &GatewayMetrics) -> Option<String> {
    let one = |(key, of): (&Arc<str>, &fairway_model::ServiceCounts)| {
        let [active, healthy, total] =
            [of.active, of.healthy, of.total].map(|of| of.map_or_else(|| "-".into(), |of| of.to_string()));
        format!("{key} {active} {healthy}/{total}")
    };
    Some(metrics.services.as_ref()?.iter().map(one).collect::<Vec<_>>().join(", "))
}

#[test]
fn statistics_are_added_up_over_ports_and_subsets_of_exposed_services() {
    let text = "envoy_cluster_upstream_rq_active{cluster_name=\"outbound|80||web.shop.svc.cluster.local\"} 3
envoy_cluster_upstream_rq_active{cluster_name=\"outbound|80|v1|web.shop.svc.cluster.local\"} 4
envoy_cluster_membership_healthy{cluster_name=\"outbound|80||web.shop.svc.cluster.local\"} 2
envoy_cluster_membership_total{cluster_name=\"outbound|80||web.shop.svc.cluster.local\"} 5
envoy_cluster_membership_healthy{envoy_cluster_name=\"shop_pay_80\"} 0
envoy_cluster_membership_healthy{cluster_name=\"outbound|80||other.shop.svc.cluster.local\"} 9
envoy_cluster_membership_total{cluster_name=\"outbound|80||pay.shop.svc.cluster.local\"} NaN
envoy_cluster_upstream_rq_active{cluster_name=\"xds-grpc\"} 1";
    assert_eq!(shown(&metrics(text)).as_deref(), Some("shop/pay - 0/-, shop/web 7 2/5"));
    assert_eq!(shown(&metrics("envoy_cluster_membership_total{cluster_name=\"xds-grpc\"} 1")), None);
    // A gateway that does not serve yet does not know the endpoints.
    assert_eq!(shown(&metrics(&format!("{text}\nenvoy_server_state 2"))), None);
    assert!(shown(&metrics(&format!("{text}\nenvoy_server_state 0"))).is_some());
}

/// Returns the statistics of `values` (requests in flight, healthy, known endpoints) of upstream clusters.
fn statistics(clusters: &[(&str, [u32; 3])]) -> String {
    let names = ["upstream_rq_active", "membership_healthy", "membership_total"];
    let of_cluster = |(cluster, values): &(&str, [u32; 3])| {
        let line = |(name, value)| format!("envoy_cluster_{name}{{envoy_cluster_name=\"{cluster}\"}} {value}\n");
        names.iter().zip(values).map(line).collect::<String>()
    };
    clusters.iter().map(of_cluster).collect()
}

#[test]
fn endpoints_of_subsets_count_only_without_those_of_the_whole_service() {
    let [whole, v1, v2] = ["", "v1", "v2"].map(|subset| format!("outbound|80|{subset}|web.shop.svc.cluster.local"));
    for (clusters, expected) in [
        (&[(&*whole, [3, 2, 5]), (&*v1, [4, 1, 2]), (&*v2, [1, 1, 3])][..], "shop/web 8 2/5"),
        (&[(&*v1, [4, 1, 2]), (&*v2, [1, 1, 3])], "shop/web 5 2/5"),
        // The whole service has no healthy endpoint: that of a subset is one that was ejected elsewhere.
        (&[(&*v1, [4, 1, 2]), (&*whole, [3, 0, 5])], "shop/web 7 0/5"),
    ] {
        assert_eq!(shown(&metrics(&statistics(clusters))).as_deref(), Some(expected));
    }
}

#[test]
fn statistics_of_a_rule_are_those_of_its_backends() {
    let rule = |name: &str, services: &[&str], is_shared: bool| {
        let service = |of: &&str| Some(Arc::from(*of)).filter(|_| !of.is_empty());
        let backends = RuleBackends { services: services.iter().map(service).collect(), is_shared };
        (Arc::from(format!("httproute/shop/{name}/rule/0")), Arc::new(backends))
    };
    let rules = [
        rule("web", &["shop/web"], false),
        rule("both", &["shop/web", "", "shop/pay"], true),
        rule("twice", &["shop/web", "shop/web"], false),
    ];
    let exposed = ExposedServices { rules: rules.into_iter().collect(), ..exposed(&["shop/web", "shop/pay"]) };
    for (clusters, expected) in [
        (&[("httproute/shop/web/rule/0", [3, 2, 5])][..], "shop/web 3 2/5"),
        (&[("httproute/shop/twice/rule/0", [3, 2, 5]), ("httproute/shop/web/rule/0", [1, 1, 1])], "shop/web 4 3/6"),
        // The endpoints of both together: each may have them, or has none. Nobody knows whose requests are in flight.
        (&[("httproute/shop/both/rule/0", [3, 2, 5])], "shop/pay - 2/5, shop/web - 2/5"),
        (&[("httproute/shop/both/rule/0", [0, 0, 5])], "shop/pay - 0/5, shop/web - 0/5"),
        (
            &[("httproute/shop/both/rule/0", [3, 0, 5]), ("httproute/shop/web/rule/0", [1, 1, 1])],
            "shop/pay - 0/5, shop/web - 1/6",
        ),
        (
            &[("httproute/shop/both/rule/0/backend/0", [3, 2, 5]), ("httproute/shop/both/rule/0/backend/2", [1, 0, 1])],
            "shop/pay 1 0/1, shop/web 3 2/5",
        ),
        (&[("service/shop/web/80", [3, 2, 5])], "shop/web 3 2/5"),
        (&[("httproute/shop/both/rule/0/backend/1", [3, 2, 5]), ("httproute/shop/both/rule/1", [3, 0, 5])], ""),
        (&[("httproute/shop/both/rule/0/backend/3", [3, 0, 5]), ("httproute/shop/web/rule/0-mirror-0", [0, 0, 1])], ""),
    ] {
        assert_eq!(shown(&metrics_of(&statistics(clusters), exposed.clone())).as_deref(), Some(expected));
    }
}

/// Returns the settings of the cluster `eu1`.
fn settings(gateways: Gateways, period: Duration) -> ClusterLoadSettings {
    let endpoint = LoadEndpoint::Gateways { port: 1, path: "/stats/prometheus".into() };
    let query = LoadQuery::Prometheus { endpoint, signal: None, metric: None, overload_at: 95 };
    let source = LoadSource { period, timeout: Duration::from_secs(4).min(period), ..LoadSource::new(query) };
    ClusterLoadSettings {
        cluster: ClusterName::new("eu1").unwrap(),
        capacity: 100.try_into().ok(),
        source: Some((LoadSourceName::new("gw").unwrap(), Arc::new(source))),
        gateways,
    }
}

fn response(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Returns the next load, in permille.
async fn next_load(updates: &mut broadcast::Receiver<LoadUpdate>) -> u32 {
    loop {
        let update = timeout(Duration::from_secs(60), updates.recv()).await.expect("an update in time");
        if let Some(report) = update.expect("the reader runs").report {
            return report.load.0;
        }
    }
}

const PERIOD: Duration = Duration::from_millis(500);

/// Returns the socket addresses as gateways.
fn sockets(all: &[std::net::SocketAddr]) -> Vec<ProbeAddress> {
    all.iter().map(|address| ProbeAddress::Socket(*address)).collect()
}

#[tokio::test]
async fn service_is_without_endpoint_only_if_every_gateway_says_so() {
    let healthy = |service: &str, count: u32| {
        format!(
            "envoy_cluster_membership_healthy{{cluster_name=\"outbound|80||{service}.shop.svc.cluster.local\"}} {count}\n"
        )
    };
    let text = |web, pay| format!("envoy_server_total_connections 1\n{}{}", healthy("web", web), healthy("pay", pay));
    let (a, b) = (answering(response(&text(0, 0))).await, answering(response(&text(1, 0))).await);
    let reader = LoadReader::start(Arc::default());
    let mut services = reader.services();
    reader.set_exposed([(ClusterName::new("eu1").unwrap(), exposed(&["shop/web", "shop/pay"]))]);
    reader.set(vec![settings(sockets(&[a, b]).into(), PERIOD)]);
    let report = timeout(Duration::from_secs(20), services.wait_for(|all| !all.is_empty()));
    let all = report.await.unwrap().unwrap().clone();
    let report = all.values().next().unwrap();
    let without: Vec<_> = report.without_endpoint.iter().map(|key| &**key).collect();
    assert_eq!((without, report.counts["shop/web"].healthy), (vec!["shop/pay"], Some(1)));
    // A source that is removed says nothing any more.
    reader.set(vec![]);
    assert!(services.borrow().is_empty());
}

#[tokio::test]
async fn addresses_are_read_instead_of_gateways_that_cannot_be_reached() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let balancer =
        answering(response("envoy_http_a_downstream_rq_active 10\nistio_requests_total{reporter=\"source\"} 5\n"))
            .await;
    let reader = LoadReader::start(Arc::default());
    let mut updates = reader.updates();
    let gateways = Gateways { all: sockets(&[closed; 3]), instead: sockets(&[balancer]), status_port: None };
    reader.set(vec![settings(gateways, Duration::from_millis(100))]);
    // Three gateways, of which the address leads to one.
    assert_eq!(next_load(&mut updates).await, 300);
    assert_eq!(reader.states().0[0].sources[0].gateways, Some((1, 1)));
}

#[tokio::test]
async fn gateway_that_is_not_ready_is_exhausted() {
    let (address, _) = serve(|mut stream| async move {
        let request = request(&mut stream).await;
        let answer = match request.starts_with("GET /healthz/ready ") {
            true => "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_owned(),
            false => response("envoy_server_total_connections 1\n"),
        };
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await;
    let reader = LoadReader::start(Arc::default());
    let mut updates = reader.updates();
    let gateways = Gateways { all: sockets(&[address]), instead: vec![], status_port: Some(15_021) };
    reader.set(vec![settings(gateways, PERIOD)]);
    let update = timeout(Duration::from_secs(20), updates.recv()).await.unwrap().unwrap();
    assert_eq!(update.is_exhausted, Some(true));
    assert_eq!(reader.states().0[0].warnings, [GatewayWarning::NotReady]);
}

#[tokio::test]
async fn status_port_that_closes_the_connection_says_nothing() {
    let (address, _) = serve(|mut stream| async move {
        if request(&mut stream).await.starts_with("GET /stats/prometheus ") {
            let _ = stream.write_all(response("envoy_server_total_connections 1\n").as_bytes()).await;
        }
    })
    .await;
    let reader = LoadReader::start(Arc::default());
    let mut updates = reader.updates();
    let gateways = Gateways { all: sockets(&[address]), instead: vec![], status_port: Some(15_021) };
    reader.set(vec![settings(gateways, PERIOD)]);
    let update = timeout(Duration::from_secs(20), updates.recv()).await.unwrap().unwrap();
    assert_eq!((update.is_exhausted, reader.states().0[0].warnings.len()), (Some(false), 0));
}

#[tokio::test]
async fn statistics_over_the_limit_are_read_without_services() {
    let long: Arc<String> = Arc::new({
        let line = "envoy_cluster_membership_healthy{cluster_name=\"outbound|80||web.shop.svc.cluster.local\"} 1\n";
        response(&line.repeat(TEXT_MAX / line.len() + 1))
    });
    let (address, _) = serve(move |mut stream| {
        let long = Arc::clone(&long);
        async move {
            let request = request(&mut stream).await;
            let short = response("envoy_server_total_connections 7\n");
            let answer = if request.contains("?filter=") { &short } else { &*long };
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    })
    .await;
    let reader = LoadReader::start(Arc::default());
    let mut updates = reader.updates();
    reader.set_exposed([(ClusterName::new("eu1").unwrap(), exposed(&["shop/web"]))]);
    let settings = settings(sockets(&[address]).into(), Duration::from_secs(3));
    reader.set(vec![settings]);
    assert_eq!(next_load(&mut updates).await, 70);
    assert!(reader.states().0[0].is_reduced);
}
