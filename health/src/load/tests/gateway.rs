//! Tests of collecting the metrics of one gateway.

use std::time::Duration;

use fairway_model::LoadMetric;

use crate::load::{
    exposition::{Exposition, TEXT_MAX},
    gateway::{GatewayCollector, GatewayError, GatewayMetrics, GatewayWarning, SERIES_MAX},
};

/// Returns the metrics of a text.
fn metrics(text: &str) -> Result<GatewayMetrics, GatewayError> {
    collect(text, None)
}

fn collect(text: &str, metric: Option<&LoadMetric>) -> Result<GatewayMetrics, GatewayError> {
    let (mut exposition, mut collector) = (Exposition::new(TEXT_MAX), GatewayCollector::new(metric, 95));
    exposition.feed(text.as_bytes(), &mut |sample| collector.add_sample(sample)).expect("the text is valid");
    exposition.finish().expect("the text is complete");
    collector.finish()
}

fn in_flight(text: &str) -> Option<f64> {
    metrics(&format!("envoy_server_total_connections{{}} 1\n{text}\n")).unwrap().in_flight
}

#[test]
fn in_flight_is_found_under_all_names() {
    for name in [
        "envoy_http_outbound_0_0_0_0_8080_downstream_rq_active{}",
        "envoy_http_outbound_0_0_0_0_8080__downstream_rq_active{}",
        "envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix=\"ingress\"}",
        "envoy_http_0_0_0_8080_downstream_rq_active{envoy_http_conn_manager_prefix=\"outbound_0\"}",
        "envoy_http_downstream_rq_active",
    ] {
        assert_eq!(in_flight(&format!("{name} 200")), Some(200.0), "{name}");
    }
}

#[test]
fn listeners_are_added_without_those_of_statistics() {
    let text = "# TYPE envoy_http_downstream_rq_active gauge
envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix=\"a\"} 3
envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix=\"b\"} 4
envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix=\"admin\"} 1
envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix=\"stats\"} 1
envoy_http_admin_downstream_rq_active{} 1
envoy_http_agent_downstream_rq_active{} 1
envoy_http_stats__downstream_rq_active{} 1
envoy_http_statsd_downstream_rq_active{} 10
envoy_http_x_downstream_rq_active_total{} 50
envoy_http_xdownstream_rq_active{} 50
envoy_cluster_upstream_rq_active{} 50";
    assert_eq!(in_flight(text), Some(17.0));
}

#[test]
fn default_metrics_of_istio_have_connections_and_requests() {
    let text = "envoy_server_total_connections{} 7
envoy_server_uptime{} 12
istio_requests_total{reporter=\"source\",response_code=\"200\"} 40
istio_requests_total{reporter=\"source\",response_code=\"503\"} 2
istio_requests_total{reporter=\"destination\",response_code=\"200\"} 1000
istio_request_duration_milliseconds_bucket{reporter=\"source\",le=\"+Inf\"} 40
istio_request_duration_milliseconds_sum{reporter=\"source\"} NaN
";
    let found = metrics(text).unwrap();
    assert_eq!(
        (found.connections, found.requests, found.uptime),
        (Some(7.0), Some(42.0), Some(Duration::from_secs(12)))
    );
    assert_eq!((found.in_flight, found.warnings), (None, vec![]));
}

#[test]
fn declared_metric_replaces_the_known_ones() {
    let labels = vec![("zone".to_owned(), "a".to_owned())];
    let metric = LoadMetric { name: "work".to_owned(), labels, is_rate: false };
    let text = "envoy_server_total_connections 7\nwork{zone=\"a\",cpu=\"0\"} 2\nwork{zone=\"a\",cpu=\"1\"} 3\nwork{zone=\"b\"} 90\n";
    let found = collect(text, Some(&metric)).unwrap();
    assert_eq!((found.declared, found.connections), (Some(5.0), None));
    assert_eq!(collect("work{zone=\"b\"} 1\n", Some(&metric)), Err(GatewayError::NoSignal));
}

#[test]
fn invalid_amount_or_duplicate_series_fails() {
    for value in ["NaN", "-1", "1e16", "+Inf", "-Inf"] {
        let text = format!("envoy_http_a_downstream_rq_active 1\nenvoy_server_total_connections {value}\n");
        let refused = metrics(&text).unwrap_err();
        assert!(matches!(&refused, GatewayError::Amount { metric, .. } if metric == "envoy_server_total_connections"));
    }
    let twice =
        "istio_requests_total{reporter=\"source\",a=\"1\"} 1\nistio_requests_total{a=\"1\",reporter=\"source\"} 2\n";
    assert_eq!(metrics(twice), Err(GatewayError::Twice("istio_requests_total".to_owned())));
    assert_eq!(metrics("up 1\n"), Err(GatewayError::NoSignal));
    assert_eq!(metrics(""), Err(GatewayError::NoSignal));
    assert_eq!(metrics("envoy_server_live{} 0\n").unwrap().warnings, [GatewayWarning::Draining]);
}

#[test]
fn series_over_the_limit_are_rejected() {
    let row = |n: usize| format!("envoy_http_{n}_downstream_rq_active 1\n");
    let most: String = (0..SERIES_MAX).map(row).collect();
    assert_eq!(metrics(&most).unwrap().in_flight, Some(SERIES_MAX as f64));
    assert_eq!(metrics(&(most + &row(SERIES_MAX))), Err(GatewayError::TooMany));
}

#[test]
fn draining_and_overload_exhaust_and_ejections_only_warn() {
    let text = "envoy_server_total_connections 1
envoy_server_live{} 0
envoy_server_days_until_first_cert_expiring{} 3
envoy_overload_envoy_resource_monitors_fixed_heap_pressure{} 97
envoy_overload_envoy_resource_monitors_cpu_pressure{} 94
envoy_overload_envoy_overload_actions_stop_accepting_requests_active{} 1
envoy_overload_envoy_overload_actions_shrink_heap_scale_percent{} 100
envoy_cluster_outlier_detection_ejections_active{cluster_name=\"a\"} 2
envoy_cluster_b_outlier_detection_ejections_active{} 1
";
    let warnings = metrics(text).unwrap().warnings;
    let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    let expected = [
        "a certificate expires in 3 days",
        "draining",
        "3 upstream hosts ejected",
        "overloaded: envoy_overload_actions_stop_accepting_requests_active is 1",
        "overloaded: envoy_resource_monitors_fixed_heap_pressure is 97",
    ];
    assert_eq!(texts, expected);
    assert_eq!(warnings.iter().filter(|warning| warning.exhausts()).count(), 3);
}

#[test]
fn version_is_that_of_the_proxy() {
    let text = "envoy_server_total_connections 1
istio_build{component=\"agent\",tag=\"1.27.0\"} 1
istio_build{component=\"proxy\",tag=\"1.27.1-distroless\"} 1
";
    assert_eq!(metrics(text).unwrap().version.as_deref(), Some("1.27.1-distroless"));
    let long = format!(
        "envoy_server_total_connections 1\nistio_build{{component=\"proxy\",tag=\"{}\"}} 1\n",
        "é1 ".repeat(100)
    );
    assert_eq!(metrics(&long).unwrap().version, Some("1".repeat(64)));
    assert_eq!(metrics("envoy_server_total_connections 1\n").unwrap().version, None);
}

#[test]
fn missing_or_valid_certificate_gives_no_warning() {
    for days in ["4294967295", "15", "NaN"] {
        let text = format!(
            "envoy_server_total_connections 1\nenvoy_server_live 1\nenvoy_server_days_until_first_cert_expiring {days}\n"
        );
        assert_eq!(metrics(&text).unwrap().warnings, [], "{days}");
    }
    let ended = "envoy_server_total_connections 1\nenvoy_server_days_until_first_cert_expiring 0\n";
    assert_eq!(metrics(ended).unwrap().warnings, [GatewayWarning::CertificateEnds(0)]);
}
