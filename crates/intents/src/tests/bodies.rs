//! Tests of bodies: all forms that are accepted, and the errors of those that are not.

use fairway_model::intent::Intent;

use crate::{
    body::{read, to_public, to_stored},
    error::InvalidBody,
};
use fairway_store::objects::Kind;

/// The canonical body, with placeholders for certificates.
pub(super) const CANONICAL: &str = include_str!("canonical.json");

/// The body of the wiki, with commas added, and comments and placeholders (`<>`) replaced.
pub(super) const WIKI: &str = include_str!("seed.json");

fn inbound(body: &str) -> Intent {
    read(Kind::Inbound, body.as_bytes(), None).unwrap_or_else(|invalid| panic!("{body}: {invalid}"))
}

fn rejected(body: &str) -> Vec<(String, String)> {
    let Err(InvalidBody { errors, .. }) = read(Kind::Inbound, body.as_bytes(), None) else {
        panic!("{body} is accepted")
    };
    errors.into_iter().map(|error| (error.pointer, error.detail)).collect()
}

/// Returns an inbound body with these fields in `spec`, besides the required ones.
fn with(spec: &str) -> String {
    format!(r#"{{"metadata":{{"name":"n"}},"spec":{{"app":"a","serviceName":"s",{spec}}}}}"#)
}

/// Returns the canonical text without secrets.
fn shown(intent: &Intent) -> String {
    String::from_utf8(to_public(intent).to_text()).unwrap()
}

#[test]
fn canonical_body_is_parsed_from_its_stored_form() {
    let intent = read(Kind::Inbound, CANONICAL.as_bytes(), None).unwrap();
    let kept = to_stored(&intent);
    assert_eq!(read(Kind::Inbound, &kept, None).unwrap(), intent);
    let short = to_stored(&inbound(&with(r#""appLabel":"""#)));
    let says = r#"{"metadata":{"name":"n"},"spec":{"app":"a","serviceName":"s","headless":false,"#;
    assert!(String::from_utf8(short).unwrap().starts_with(says), "empty fields are not stored");
    assert_eq!(to_stored(&read(Kind::Inbound, &kept, None).unwrap()), kept);
}

#[test]
fn wiki_body_is_parsed() {
    let wiki = inbound(WIKI);
    let text = shown(&wiki);
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
fn each_rule_between_fields_has_an_error() {
    for (spec, pointer, part) in [
        (r#""traffic":{"maxConnections":1}"#, "/spec/sidecarProxy", "needs a sidecar proxy"),
        (r#""tlsMode":"MUTUAL""#, "/spec/certificates/ca", "requires a CA"),
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
        (
            r#""sidecarProxy":true,"traffic":{"lbType":"consistentHash"}"#,
            "/spec/traffic/lbMode",
            "a type requires a mode",
        ),
        (
            r#""sidecarProxy":true,"traffic":{"lbType":"Simple","lbMode":"useSourceIP"}"#,
            "/spec/traffic/lbMode",
            "is not a mode of Simple",
        ),
        (
            r#""sidecarProxy":true,"traffic":{"lbType":"ConsistenHash","lbMode":"RANDOM"}"#,
            "/spec/traffic/lbMode",
            "is not a mode of consistentHash",
        ),
        (
            r#""sidecarProxy":true,"traffic":{"lbMode":"RANDOM","httpCookie":"x"}"#,
            "/spec/traffic/httpCookie",
            "has an effect only",
        ),
        (r#""protocol":"UDP","tlsMode":"ISTIO_MUTUAL""#, "/spec/tlsMode", "UDP has no TLS"),
        (r#""externalName":"a\\016b.example""#, "/spec/externalName", "the control octet \\016, which only zone files"),
        (r#""trafficWeight":101"#, "/spec/trafficWeight", "101 is out of range; write an integer from 0 to 100"),
        (r#""gslb":{"probe":{"period":"1s","timeout":"2s"}}"#, "/spec/gslb/probe/timeout", "is over the period"),
        (
            r#""gslb":{"downResponse":{"type":"all","fallback":"192.0.2.1"}}"#,
            "/spec/gslb/downResponse",
            "has an effect only",
        ),
    ] {
        let errors = rejected(&with(spec));
        let [(at, detail)] = &errors[..] else { panic!("{spec}: {errors:?}") };
        assert!(at == pointer && detail.contains(part), "{spec}: {errors:?}");
    }
}

#[test]
fn all_errors_are_reported_with_pointers() {
    let errors = rejected(
        r#"{"metadata":{"name":"-n"},"spec":{"servicename":"s","port":"http","headless":"maybe","protocol":"SCTP",
            "trafic-weight":1,"Weight":"20","traffic_weight":30,"istio":7,"gslb":{"ttl":"x","members":[{"cluster":"c","tier":0},{}]}},
            "extra":{}}"#,
    );
    let pointers: Vec<&str> = errors.iter().map(|(pointer, _)| pointer.as_str()).collect();
    for pointer in ["/metadata/name", "/spec/trafic-weight", "/spec/istio", "/extra"] {
        assert!(pointers.contains(&pointer), "{pointer} is not in {errors:?}");
    }
    let detail = |pointer: &str| errors.iter().find(|(at, _)| at == pointer).map(|(_, detail)| detail.as_str());
    assert_eq!(detail("/spec/trafic-weight"), Some("unknown field; did you mean trafficWeight?"));
    let named = rejected(&with(
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
    assert!(named[3].1.contains("differs from /spec/Weight"), "{named:?}");
}

#[test]
fn missing_field_is_reported_with_an_example() {
    let errors = rejected(r#"{"metadata":{"name":"n"}}"#);
    let expected = [
        ("/spec/app", "is missing; add it, for example \"shop\""),
        ("/spec/serviceName", "is missing; add it, for example \"shop\""),
    ];
    assert_eq!(errors, expected.map(|(pointer, detail)| (pointer.to_owned(), detail.to_owned())));
}

#[test]
fn values_are_parsed_in_all_forms() {
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
        let text = shown(&inbound(&with(spec)));
        assert!(text.contains(&format!("\"{field}\":{value}")), "{spec}: {text}");
    }
    for (given, written) in [("15", "15s"), ("\"15\"", "15s"), ("\"5m\"", "5m"), ("\"1h30m\"", "1h30m")] {
        let spec = format!(r#""istio-proxy":"yes","istio":{{"circuitBreaking":{{"baseEjectionTime":{given}}}}}"#);
        let text = shown(&inbound(&with(&spec)));
        assert!(text.contains(&format!("\"baseEjectionTime\":\"{written}\"")), "{given}: {text}");
    }
}

#[test]
fn value_of_another_type_is_refused_with_pointer() {
    for (spec, pointer, detail) in [
        (r#""localDomain":7"#, "/spec/localDomain", "7 is a number; write the text \"7\""),
        (r#""namespaces":"foo""#, "/spec/namespaces", "\"foo\" is not a list; write a list"),
        (r#""namespaces":[5]"#, "/spec/namespaces/0", "5 is a number; write the text \"5\""),
        (r#""appLabel":true"#, "/spec/appLabel", "true is not a text; write a text"),
    ] {
        assert_eq!(rejected(&with(spec)), [(pointer.to_owned(), detail.to_owned())], "{spec}");
    }
    let errors = rejected(r#"{"metadata":{"name":7},"spec":{"app":5,"serviceName":"s"}}"#);
    assert_eq!(errors.iter().map(|(at, _)| at.as_str()).collect::<Vec<_>>(), ["/metadata/name", "/spec/app"]);
}

#[test]
fn service_accounts_are_parsed_in_all_forms() {
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
fn errors_of_a_body_are_bounded() {
    let many: Vec<String> = (0..1_000).map(|at| format!("\"zzzzzzz{at}\":1")).collect();
    assert_eq!(rejected(&with(&many.join(","))).len(), 100);
}

#[test]
fn bodies_of_other_kinds_are_parsed_from_their_stored_form() {
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
        let kept = to_stored(&intent);
        assert_eq!(read(kind, &kept, None).as_ref(), Ok(&intent), "{}", String::from_utf8_lossy(&kept));
    }
    let record =
        br#"{"metadata":{"name":"r"},"spec":{"provider":"pdns","parameters":{"pdns-server":"http://127.0.0.1:8081",
        "pdns-api-key":"hush","domain-filter":"example.com"}}}"#;
    let record = read(Kind::DnsUpdateRecord, record, None).unwrap();
    assert!(String::from_utf8(to_stored(&record)).unwrap().contains("\"provider\":\"powerdns\""));
}
