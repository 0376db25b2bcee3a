//! Load sources and their clusters.

use std::time::Duration;

use fairway_model::{
    ClusterName, LoadEndpoint, LoadMetric, LoadQuery, LoadSignal, LoadSource, LoadSourceName, LoadUnit, LoadUrl,
    ProbeAddress,
};

use super::*;

const SOURCES: &str = "version: 1
load:
  - { name: gw, type: prometheus }
  - { name: tuned, type: prometheus, port: 15020, path: /metrics, signal: inFlight, overloadAt: 80, interval: 5s, timeout: 1s }
  - { name: own, type: prometheus, metric: { name: work_total, labels: { kind: a }, type: rate } }
  - { name: feed, type: json, url: \"https://feeds.example/load?of={cluster}\", pointer: /load, unit: permille, period: 2s }
  - { name: pods, type: json, port: 9000, pointer: \"/{cluster}/used\", tls: { verify: false } }
  - { name: prom, type: promql, url: \"http://[2001:db8::9]:9090/p\", query: \"sum by (dc) (x)\", label: dc }
clusters:
  - { name: eu1, addresses: [192.0.2.1], capacity: 800, load: gw }
  - { name: us1, addresses: [192.0.2.2], load: feed }
  - { name: jp1, addresses: [192.0.2.3], capacity: 5, load: gw, scrape: [\"10.0.0.1:15090\", \"pod.example:15090\"] }
";

fn source(name: &str) -> LoadSource {
    let loaded = loaded(SOURCES);
    (*loaded.desired.load_sources[&LoadSourceName::new(name).unwrap()]).clone()
}

fn url(text: &str, https: bool, path: &str) -> LoadUrl {
    LoadUrl { https, address: text.parse().unwrap(), path: path.to_owned() }
}

#[test]
fn load_sources_have_defaults() {
    let at = |port, path: &str| LoadEndpoint::Gateways { port, path: path.to_owned() };
    let metrics = |at, signal, metric, overload_at| LoadQuery::Prometheus { endpoint: at, signal, metric, overload_at };
    let stats = at(15090, "/stats/prometheus");
    assert_eq!(source("gw"), LoadSource::new(metrics(stats.clone(), None, None, 95)));
    let tuned = LoadSource::new(metrics(at(15020, "/metrics"), Some(LoadSignal::InFlight), None, 80));
    let (period, timeout) = (Duration::from_secs(5), Duration::from_secs(1));
    assert_eq!(source("tuned"), LoadSource { period, timeout, ..tuned });
    let labels = vec![("kind".to_owned(), "a".to_owned())];
    let metric = LoadMetric { name: "work_total".to_owned(), labels, is_rate: true };
    assert_eq!(source("own").query, metrics(stats, None, Some(metric), 95));
    let feed = source("feed");
    let endpoint = LoadEndpoint::Url(url("feeds.example:443", true, "/load?of={cluster}"));
    assert_eq!(feed.query, LoadQuery::Json { endpoint, pointer: "/load".to_owned() });
    assert_eq!((feed.unit, feed.timeout), (LoadUnit::Permille, Duration::from_secs(2)));
    let pods = source("pods");
    assert!(pods.tls.is_some_and(|tls| !tls.verify) && pods.unit == LoadUnit::Capacity);
    let (query, label) = ("sum by (dc) (x)".to_owned(), "dc".to_owned());
    let promql = LoadQuery::Promql { url: url("[2001:db8::9]:9090", false, "/p"), query, label };
    assert_eq!(source("prom").query, promql);
}

#[test]
fn cluster_has_load_source_and_gateways() {
    let feeds = loaded(SOURCES).desired.cluster_load_sources;
    let jp1 = &feeds[&ClusterName::new("jp1").unwrap()];
    assert_eq!((jp1.source.as_str(), feeds.len()), ("gw", 3));
    let gateways: Vec<_> = jp1.gateways.iter().map(ProbeAddress::to_string).collect();
    assert_eq!(gateways, ["10.0.0.1:15090", "pod.example:15090"]);
}

#[test]
fn invalid_token_is_rejected_without_showing_it() {
    let text = "version: 1\nload: [{ name: gw, type: prometheus, tls: {}, token: { env: TOKEN } }]\n";
    let folder = Folder::new(&[("f.yaml", text)]);
    let read = folder.load_with("f.yaml", &[("TOKEN", "s3cret")]).unwrap();
    let source = read.desired.load_sources.values().next().unwrap();
    assert_eq!(source.token.as_ref().map(|token| token.expose()), Some("s3cret"));
    let errors = folder.load_with("f.yaml", &[("TOKEN", "two\nlines")]).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("the token cannot be sent") && !errors[0].contains("lines\n"), "{errors:?}");
}

#[test]
fn token_over_plain_http_is_rejected_unless_the_source_allows_it() {
    let load = |source: &str| {
        let text = format!("version: 1\nload: [{{ name: gw, token: {{ env: TOKEN }}, {source} }}]\n");
        Folder::new(&[("f.yaml", &text)]).load_with("f.yaml", &[("TOKEN", "s3cret")]).map(|_| ())
    };
    let json = |url: &str| format!("type: json, pointer: \"\", url: \"{url}\"");
    for (source, host) in [("type: prometheus", "gateways"), (&json("http://x.example/"), "x.example:80")] {
        let errors = load(source).unwrap_err();
        let what = format!("load[0].token: it would be sent to {host} without encryption; use https");
        assert!(errors.len() == 1 && errors[0].contains(&what), "{errors:?}");
        assert_eq!(load(&format!("{source}, allowPlainHttp: true")), Ok(()));
    }
    for source in [&json("https://x.example/"), &json("http://127.0.0.1:9/"), "type: prometheus, tls: {}"] {
        assert_eq!(load(source), Ok(()), "{source}");
    }
}

#[test]
fn load_errors_are_reported_together() {
    let errors = errors_of(
        "version: 1
load:
  - { name: a, type: prometheus, query: x, unit: permille }
  - { name: b, type: json, port: 1, path: nowhere, pointer: load }
  - { name: c, type: promql }
  - { name: d, type: prometheus, signal: inFlight, metric: { name: \"a{}\", labels: { \"1\": x } } }
  - { name: e, type: json, url: \"http://x.example/\", port: 9, pointer: \"\", period: 1ms }
  - { name: e, type: prometheus }
clusters:
  - { name: eu1, addresses: [192.0.2.1], load: gw }
  - { name: us1, addresses: [192.0.2.2], load: a2 }
  - { name: jp1, addresses: [192.0.2.3], scrape: [\"10.0.0.1:1\"] }
",
    );
    for part in [
        "load[0].query: query is not valid for type prometheus; remove it; it belongs to type promql",
        "load[0].unit: the signals of a gateway are not in permille",
        "load[1].path: path \"nowhere\" is not a request target",
        "load[1].pointer: \"load\" is not a JSON pointer; write it like /load",
        "load[2]: key query is missing; add query",
        "load[2]: key url is missing; add url",
        "load[3].signal: signal has no effect",
        "load[3].metric.name: \"a{}\" is not a metric name",
        "load[3].metric.labels.1: \"1\" is not a label name",
        "load[4].port: port applies to gateways",
        "load[4].period: 1ms is not between 50ms and 1d",
        "load[5].name: load source e is already declared in f.yaml:7:5",
        "load source gw is not declared; declare it, or use one of: a, b, c, d, e",
        "load source a2 is not declared",
        "clusters[2].scrape: scrape has no effect without a load source",
    ] {
        assert!(errors.iter().any(|error| error.contains(part)), "{part:?} is missing in {errors:#?}");
    }
    let foreign = errors_of("version: 1\nload: [{ name: a, type: promql, url: \"ftp://x\", query: x }]\n");
    assert!(
        foreign[0].contains("\"ftp://x\" is not an http or https URL; write it like http://prometheus"),
        "{foreign:?}"
    );
    let secret = errors_of("version: 1\nload: [{ name: a, type: promql, url: \"http://u:p@x\", query: x }]\n");
    assert!(secret[0].contains("holds a user or a password") && !secret[0].contains("u:p"), "{secret:?}");
}

#[test]
fn cluster_has_load_target_and_limit() {
    let text = "version: 1
clusters:
  - { name: a, addresses: [192.0.2.1], capacity: 800, target: 70%, limit: 0.9 }
  - { name: b, addresses: [192.0.2.2], capacity: 800, limit: 60% }
  - { name: c, addresses: [192.0.2.3], capacity: 800, target: 95% }
  - { name: d, addresses: [192.0.2.4], capacity: 800 }
";
    let aims = loaded(text).desired.load_bounds;
    let shown = |name: &str| {
        let aim = aims.get(&ClusterName::new(name).unwrap())?;
        Some((aim.target().thousandths(), aim.limit().thousandths()))
    };
    // A limit below the default target is also the target.
    let expected = [Some((700, 900)), Some((600, 600)), Some((950, 1000)), None];
    assert_eq!(["a", "b", "c", "d"].map(shown), expected);
}

#[test]
fn load_target_of_zero_or_above_limit_is_rejected() {
    let errors = errors_of(
        "version: 1
clusters:
  - { name: a, addresses: [192.0.2.1], capacity: 8, target: 0 }
  - { name: b, addresses: [192.0.2.2], capacity: 8, target: 90%, limit: 80% }
  - { name: c, addresses: [192.0.2.3], capacity: 8, limit: 0% }
  - { name: d, addresses: [192.0.2.4], capacity: 8, limit: 101% }
",
    );
    for part in [
        "clusters[0].target: load target 0 sends no traffic to the cluster; give a target above 0, or drain the cluster",
        "clusters[3].limit: \"101%\" is over 100%; give at most 100%",
    ] {
        assert!(errors.iter().any(|error| error.contains(part)), "{part:?} is missing in {errors:#?}");
    }
    let over = errors_of(
        "version: 1
clusters:
  - { name: b, addresses: [192.0.2.2], capacity: 8, target: 90%, limit: 80% }
  - { name: c, addresses: [192.0.2.3], capacity: 8, limit: 0% }
",
    );
    for part in [
        "clusters[0].target: load target 90% is over the limit 80%",
        "clusters[1].limit: load target 0 sends no traffic to the cluster",
    ] {
        assert!(over.iter().any(|error| error.contains(part)), "{part:?} is missing in {over:#?}");
    }
}

#[test]
fn adaptive_ttl_has_bounds_around_the_ttl() {
    let pool = |keys: &str| {
        format!(
            "version: 1
clusters: [{{ name: c, addresses: [192.0.2.1] }}]
pools: [{{ name: p, policy: weighted, {keys}, members: [{{ cluster: c }}] }}]
"
        )
    };
    let bounds = |keys: &str| {
        let desired = loaded(&pool(keys)).desired;
        let pool = desired.pools.values().next().unwrap().clone();
        (pool.ttl.secs(), pool.ttl_bounds.map(|bounds| (bounds.short.secs(), bounds.long.secs())))
    };
    assert_eq!(bounds("ttl: 30s"), (30, None));
    assert_eq!(bounds("ttlMin: 15s, ttlMax: 2m"), (30, Some((15, 120))));
    assert_eq!(bounds("ttl: 1m, ttlMin: 15s"), (60, Some((15, 60))));
    for (keys, part) in [
        ("ttl: 10s, ttlMin: 11s", "pools[0].ttlMin: ttlMin 11 s is over the TTL 10 s; give at most the TTL"),
        ("ttl: 1m, ttlMax: 30s", "pools[0].ttlMax: ttlMax 30 s is under the TTL 60 s; give at least the TTL"),
        ("ttlMax: 2d", "pools[0].ttlMax: ttlMax 172800 s is over a day"),
    ] {
        let errors = errors_of(&pool(keys));
        assert!(errors.iter().any(|error| error.contains(part)), "{part:?} is missing in {errors:#?}");
    }
}
