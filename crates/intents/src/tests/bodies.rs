//! Bodies: what is taken in all its forms, what is refused and why.

use fairway_model::intent::{Inbound, Intent};

use crate::{
    body::{read, to_keep, to_show},
    fault::Refused,
};
use fairway_store::objects::Kind;

/// Appendix A's body, with what only stands for certificates.
pub(super) const CANONICAL: &str = include_str!("canonical.json");

/// The seed's own body, its commas mended, its comments and placeholders (`<>`) filled in.
pub(super) const SEED: &str = include_str!("seed.json");

fn inbound(body: &str) -> Inbound {
    match read(Kind::Inbound, body.as_bytes(), None) {
        Ok(Intent::Inbound(inbound)) => inbound,
        other => panic!("{other:?}"),
    }
}

fn refused(body: &str) -> Vec<(String, String)> {
    let Err(Refused { faults, .. }) = read(Kind::Inbound, body.as_bytes(), None) else { panic!("{body} is taken") };
    faults.into_iter().map(|fault| (fault.pointer, fault.detail)).collect()
}

/// An inbound body whose `spec` has this beside what it must have.
fn with(spec: &str) -> String {
    format!(r#"{{"metadata":{{"name":"n"}},"spec":{{"app":"a","serviceName":"s",{spec}}}}}"#)
}

/// The canonical text that anybody may be shown.
fn shown(intent: &Intent) -> String {
    String::from_utf8(to_show(intent).to_text()).unwrap()
}

#[test]
fn the_canonical_body_survives_being_written_and_read() {
    let intent = read(Kind::Inbound, CANONICAL.as_bytes(), None).unwrap();
    let kept = to_keep(&intent);
    assert_eq!(read(Kind::Inbound, &kept, None).unwrap(), intent);
    let short = to_keep(&Intent::Inbound(inbound(&with(r#""appLabel":"""#))));
    let says = r#"{"metadata":{"name":"n"},"spec":{"app":"a","serviceName":"s","headless":false,"#;
    assert!(String::from_utf8(short).unwrap().starts_with(says), "what says nothing is not kept");
    assert_eq!(to_keep(&read(Kind::Inbound, &kept, None).unwrap()), kept);
}

#[test]
fn the_seeds_own_body_means_what_it_says() {
    let seed = inbound(SEED);
    let text = shown(&Intent::Inbound(seed));
    for part in [
        r#""app":"app1","serviceName":"httpbin","appLabel":"","externalName":"httpbin.k8s.com""#,
        r#""port":80,"protocol":"HTTP","headless":false,"externalSupport":false,"trafficWeight":null"#,
        r#""sidecarProxy":true,"tlsMode":"MUTUAL""#,
        r#""lbType":"consistentHash","lbMode":"httpCookie","httpCookie":"user1""#,
        r#""baseEjectionTime":"15s","sweepInterval":"5m""#,
        r#""serviceAccounts":[{"name":"SaDetails","rules":[{"method":"ACTION","path":"URI"}]}]"#,
        r#""userData1":"a","userData2":"b""#,
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn each_rule_between_fields_has_its_fault() {
    for (spec, pointer, part) in [
        (r#""traffic":{"maxConnections":1}"#, "/spec/sidecarProxy", "needs a sidecar proxy"),
        (r#""tlsMode":"MUTUAL""#, "/spec/certificates/ca", "held against a CA's"),
        (
            r#""sidecarProxy":true,"traffic":{"lbType":"consistentHash","lbMode":"httpCookie"}"#,
            "/spec/traffic/httpCookie",
            "is missing",
        ),
        (r#""sidecarProxy":true,"traffic":{"lbMode":"httpHeader"}"#, "/spec/traffic/httpHeader", "is missing"),
        (
            r#""sidecarProxy":true,"traffic":{"lbMode":"minimumRingSize"}"#,
            "/spec/traffic/minimumRingSize",
            "is missing",
        ),
        (r#""sidecarProxy":true,"traffic":{"lbType":"consistentHash"}"#, "/spec/traffic/lbMode", "a type needs a mode"),
        (
            r#""sidecarProxy":true,"traffic":{"lbType":"Simple","lbMode":"useSourceIP"}"#,
            "/spec/traffic/lbMode",
            "is no mode of Simple",
        ),
        (
            r#""sidecarProxy":true,"traffic":{"lbType":"ConsistenHash","lbMode":"RANDOM"}"#,
            "/spec/traffic/lbMode",
            "is no mode of consistentHash",
        ),
        (
            r#""sidecarProxy":true,"traffic":{"lbMode":"RANDOM","httpCookie":"x"}"#,
            "/spec/traffic/httpCookie",
            "says nothing unless",
        ),
        (r#""protocol":"UDP","tlsMode":"ISTIO_MUTUAL""#, "/spec/tlsMode", "UDP carries no TLS"),
        (r#""trafficWeight":101"#, "/spec/trafficWeight", "101 is not within 0 to 100"),
        (r#""gslb":{"probe":{"period":"1s","timeout":"2s"}}"#, "/spec/gslb/probe/timeout", "is over the period"),
        (
            r#""gslb":{"downResponse":{"type":"all","fallback":"192.0.2.1"}}"#,
            "/spec/gslb/downResponse",
            "says nothing unless",
        ),
    ] {
        let faults = refused(&with(spec));
        let [(at, detail)] = &faults[..] else { panic!("{spec}: {faults:?}") };
        assert!(at == pointer && detail.contains(part), "{spec}: {faults:?}");
    }
}

#[test]
fn every_fault_is_told_at_once_with_its_pointer() {
    let faults = refused(
        r#"{"metadata":{"name":"-n"},"spec":{"servicename":"s","port":"http","headless":"maybe","protocol":"SCTP",
            "trafic-weight":1,"Weight":"20","traffic_weight":30,"istio":7,"gslb":{"ttl":"x","members":[{"cluster":"c","tier":0},{}]}},
            "extra":{}}"#,
    );
    let pointers: Vec<&str> = faults.iter().map(|(pointer, _)| pointer.as_str()).collect();
    for pointer in ["/metadata/name", "/spec/trafic-weight", "/spec/istio", "/extra"] {
        assert!(pointers.contains(&pointer), "{pointer} is not in {faults:?}");
    }
    let detail = |pointer: &str| faults.iter().find(|(at, _)| at == pointer).map(|(_, detail)| detail.as_str());
    assert_eq!(detail("/spec/trafic-weight"), Some("no field has this name; is trafficWeight meant?"));
    let named = refused(&with(
        r#""port":"http","headless":"maybe","protocol":"SCTP","Weight":"20","traffic_weight":30,"gslb":{"members":[{"cluster":"c","tier":0},{}]}"#,
    ));
    let pointers: Vec<&str> = named.iter().map(|(pointer, _)| pointer.as_str()).collect();
    let expected = [
        "/spec/port",
        "/spec/protocol",
        "/spec/headless",
        "/spec/traffic_weight",
        "/spec/gslb/members/0/tier",
        "/spec/gslb/members/1",
    ];
    assert_eq!(pointers, expected, "{named:?}");
    assert!(named[3].1.contains("says otherwise than /spec/Weight"), "{named:?}");
}

#[test]
fn what_is_missing_is_told_with_an_example() {
    let faults = refused(r#"{"metadata":{"name":"n"}}"#);
    let expected =
        [("/spec/app", "is missing; give it, as \"shop\""), ("/spec/serviceName", "is missing; give it, as \"shop\"")];
    assert_eq!(faults, expected.map(|(pointer, detail)| (pointer.to_owned(), detail.to_owned())));
}

#[test]
fn values_come_in_all_their_forms() {
    for (spec, field, value) in [
        (r#""port":"80""#, "port", "80"),
        (r#""port":80"#, "port", "80"),
        (r#""traffic-weeight":"20""#, "trafficWeight", "20"),
        (r#""traffic-weight":"""#, "trafficWeight", "null"),
        (r#""headless":"Yes""#, "headless", "true"),
        (r#""mutualTLS":"disable""#, "tlsMode", "\"NONE\""),
        (r#""management":{"tlsType":"istio_mutual"}"#, "tlsMode", "\"ISTIO_MUTUAL\""),
        (r#""serviceMesh":"SIMPLE""#, "serviceMesh", "\"none\""),
        (r#""external-support":true"#, "externalSupport", "true"),
    ] {
        let text = shown(&Intent::Inbound(inbound(&with(spec))));
        assert!(text.contains(&format!("\"{field}\":{value}")), "{spec}: {text}");
    }
    for (given, written) in [("15", "15s"), ("\"15\"", "15s"), ("\"5m\"", "5m"), ("\"1h30m\"", "1h30m")] {
        let spec = format!(r#""istio-proxy":"yes","istio":{{"circuitBreaking":{{"baseEjectionTime":{given}}}}}"#);
        let text = shown(&Intent::Inbound(inbound(&with(&spec))));
        assert!(text.contains(&format!("\"baseEjectionTime\":\"{written}\"")), "{given}: {text}");
    }
}

#[test]
fn service_accounts_are_read_in_each_of_their_forms() {
    let expected =
        inbound(&with(r#""access":{"serviceAccounts":[{"name":"sa1","rules":[{"method":"GET","path":"/s"}]}]}"#));
    for form in [
        r#"[{"name":"sa1","rules":[{"GET":"/s"}]}]"#,
        r#"[{"sa1":[{"GET":"/s"}]}]"#,
        r#"[{"sa1":{"get":"/s"}}]"#,
        r#"{"sa1":[{"GET":"/s"}]}"#,
    ] {
        assert_eq!(inbound(&with(&format!(r#""serviceAccountAccess":{form}"#))), expected, "{form}");
    }
}

#[test]
fn faults_of_one_body_are_bounded() {
    let many: Vec<String> = (0..1_000).map(|at| format!("\"zzzzzzz{at}\":1")).collect();
    assert_eq!(refused(&with(&many.join(","))).len(), 100);
}

#[test]
fn bodies_of_the_other_kinds_survive_being_written_and_read() {
    for (kind, body) in [
        (
            Kind::TrafficSet,
            r#"{"name":"grp1","description":"","set":[{"inbound":"shop-in"},{"outbound":"db-out"},{"compound":"shop"}]}"#,
        ),
        (
            Kind::Compound,
            r#"{"metadata":{"name":"shop"},"spec":{"externalName":"shop.gslb.example","ttl":30,"policy":"weighted"}}"#,
        ),
        (
            Kind::Client,
            r#"{"metadata":{"name":"c1"},"spec":{"app":"front","appLabel":"app=front","serviceName":"front","namespaces":["foo"],"cidrs":["198.51.100.0/24"]}}"#,
        ),
        (
            Kind::Client,
            r#"{"metadata":{"name":"c1"},"externalAuthenticationissuer":"https://i","externalAuthenticationjwksURI":"https://i/k","userAccess":[{"user":"ann","path":"/x","methods":["GET"]}]}"#,
        ),
        (
            Kind::AccessPoint,
            r#"{"metadata":{"name":"a1"},"spec":{"action":"ALLOW","url":["/status/*"],"access":["GET"]}}"#,
        ),
        (
            Kind::Outbound,
            r#"{"metadata":{"name":"db-out"},"spec":{"app":"mysql","serviceName":"mysql","appLabel":"app=mysql"}}"#,
        ),
        (
            Kind::OutboundServer,
            r#"{"metadata":{"name":"db-srv"},"spec":{"externalServiceName":"db.example","port":3306,"protocol":"TCP","dnsResolution":"STATIC","endPointAddress":"192.0.2.9","external":{"externalCerts":{}}}}"#,
        ),
        (
            Kind::OutboundServer,
            r#"{"metadata":{"name":"db-srv"},"spec":{"externalServiceName":"db.example","external":{"externalCerts":{"clientCertificate":"Q0VSVA==","clientPrivateKey":"S0VZ","caCertificate":"Q0E="}}}}"#,
        ),
        (
            Kind::DnsUpdateRecord,
            r#"{"metadata":{"name":"coredns-lab"},"spec":{"provider":"coredns","external-dns-parameters":{"coredns-prefix":"/skydns/","etcd-urls":"http://127.0.0.1:2379","domain-filter":"example.com"},"bind":[{"cluster":"p1+c1"},{"logicalCloud":"lc1"}]}}"#,
        ),
        (
            Kind::Controller,
            r#"{"metadata":{"name":"its"},"spec":{"host":"127.0.0.1","port":9040,"type":"action","priority":1}}"#,
        ),
        (Kind::Project, r#"{"metadata":{"name":"p","userData1":"u"}}"#),
        (Kind::CompositeApp, r#"{"metadata":{"name":"blue-app"},"spec":{"compositeAppVersion":"v1"}}"#),
        (
            Kind::DeploymentGroup,
            r#"{"metadata":{"name":"d"},"spec":{"compositeProfile":"cp","version":"r1","logicalCloud":"lc1"}}"#,
        ),
        (Kind::TrafficGroup, r#"{"metadata":{"name":"t"}}"#),
    ] {
        let intent = read(kind, body.as_bytes(), None).unwrap_or_else(|refused| panic!("{body}: {refused}"));
        let kept = to_keep(&intent);
        assert_eq!(read(kind, &kept, None).as_ref(), Ok(&intent), "{}", String::from_utf8_lossy(&kept));
    }
    let record =
        br#"{"metadata":{"name":"r"},"spec":{"provider":"pdns","parameters":{"pdns-server":"http://127.0.0.1:8081",
        "pdns-api-key":"hush","domain-filter":"example.com"}}}"#;
    let record = read(Kind::DnsUpdateRecord, record, None).unwrap();
    assert!(String::from_utf8(to_keep(&record)).unwrap().contains("\"provider\":\"powerdns\""));
}
