//! Traces: the section, OpenTelemetry's variables, and their precedence.

use std::time::Duration;

use fairway_http::Url;

use super::{sources::CERTIFICATE, *};
use crate::{TraceProtocol, TraceSettings};

/// Returns the trace settings of a section and of variables, and the warnings.
fn read(section: &str, env: &[(&str, &str)]) -> (Option<TraceSettings>, Vec<String>) {
    let text = format!("version: 1\n{section}\n");
    let folder = Folder::new(&[("f.yaml", &text), ("word", "Basic YTpi\n"), ("ca.pem", CERTIFICATE)]);
    let loaded = folder.load_with("f.yaml", env).unwrap();
    (loaded.settings.traces, folder.lines(&loaded.warnings))
}

fn none(section: &str, env: &[(&str, &str)]) -> Vec<String> {
    let (traces, warnings) = read(section, env);
    assert_eq!(traces, None, "{section} {env:?}");
    warnings
}

const FILE: &str = "traces: { endpoint: \"http://otel.example:4318\", allowPlainHttp: true, timeout: 2s, ratio: 25%, service: dns, \
    resource: { deployment.environment.name: live, zone: a }, headers: [ { name: Authorization, value: { file: word } } ] }";

fn web_url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[test]
fn traces_are_off_without_collector() {
    assert_eq!(none("", &[]), [""; 0]);
    assert_eq!(none("", &[("OTEL_SERVICE_NAME", "dns"), ("OTEL_TRACES_SAMPLER", "parentbased_always_on")]), [""; 0]);
    let traces = read("traces: { endpoint: \"https://otel.example\" }", &[]).0.unwrap();
    assert_eq!(traces, TraceSettings::to(web_url("https://otel.example/v1/traces")));
    assert_eq!((traces.timeout, traces.per_million, &*traces.service), (Duration::from_secs(10), 1_000_000, "fairway"));
    let own_path = read("traces: { endpoint: \"http://otel.example/otlp?tenant=1\" }", &[]).0.unwrap();
    assert_eq!(own_path.endpoint, web_url("http://otel.example/otlp?tenant=1"));
}

#[test]
fn traces_section_is_converted() {
    let (traces, warnings) = read(FILE, &[]);
    let traces = traces.unwrap();
    assert_eq!((traces.timeout, traces.per_million, &*traces.service), (Duration::from_secs(2), 250_000, "dns"));
    assert_eq!(traces.resource["deployment.environment.name"], "live");
    let (name, value) = &traces.headers[0];
    assert_eq!((name.as_str(), value.expose().trim()), ("authorization", "Basic YTpi"));
    assert_eq!(warnings, [""; 0]);
    let tls = "traces: { endpoint: \"https://otel.example\", tls: { ca: { file: ca.pem } } }";
    assert_eq!(read(tls, &[]).0.unwrap().tls.ca.unwrap().expose(), CERTIFICATE);
}

#[test]
fn headers_over_plain_http_are_rejected_unless_the_section_allows_it() {
    let text = |endpoint: &str, more: &str| {
        let headers = "headers: [{ name: a, value: { env: HOME } }]";
        format!("version: 1\ntraces: {{ endpoint: \"{endpoint}\", {headers}{more} }}\n")
    };
    let errors = errors_of(&text("http://otel.example", ""));
    let what = "traces.headers: it would be sent to otel.example without encryption; use https, or add allowPlainHttp";
    assert!(errors.len() == 1 && errors[0].contains(what), "{errors:?}");
    for (endpoint, more) in
        [("http://otel.example", ", allowPlainHttp: true"), ("https://otel.example", ""), ("http://127.0.0.1:4318", "")]
    {
        loaded(&text(endpoint, more));
    }
}

#[test]
fn variables_take_precedence_key_by_key() {
    let env = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all.example:4318/"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%2Cb, x-word=c"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "700"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=no,zone=b,host.name=ns1"),
        ("OTEL_SERVICE_NAME", "gslb"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.00025"),
    ];
    for (section, resources) in [(FILE, 3), ("traces: { allowPlainHttp: true }", 2)] {
        let (traces, warnings) = read(section, &env);
        let traces = traces.unwrap();
        assert_eq!(traces.endpoint, web_url("http://all.example:4318/v1/traces"));
        let headers: Vec<_> = traces.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        assert_eq!(headers, [("x-tenant", "a,b"), ("x-word", "c")]);
        assert_eq!((traces.timeout, traces.per_million, &*traces.service), (Duration::from_millis(700), 250, "gslb"));
        assert_eq!((traces.resource.len(), &*traces.resource["zone"]), (resources, "b"));
        assert_eq!(warnings, [""; 0]);
    }
    let both = [env[0], ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://own.example:4318/as/it/is")];
    assert_eq!(read("", &both).0.unwrap().endpoint, web_url("http://own.example:4318/as/it/is"));
    let left = read(FILE, &[("OTEL_SERVICE_NAME", "gslb")]).0.unwrap();
    assert_eq!((&*left.service, left.per_million), ("gslb", 250_000));
}

#[test]
fn protocol_is_http_unless_section_or_variable_is_grpc() {
    let grpc = "traces: { endpoint: \"http://otel.example:4317\", protocol: grpc }";
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel.example:4317");
    let protocol = |word| ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", word);
    for (section, env, expected) in [
        (FILE, &[][..], TraceProtocol::HttpProtobuf),
        (grpc, &[], TraceProtocol::Grpc),
        (grpc, &[endpoint], TraceProtocol::Grpc),
        ("", &[endpoint, protocol("grpc")], TraceProtocol::Grpc),
        (grpc, &[endpoint, protocol("http/protobuf")], TraceProtocol::HttpProtobuf),
        // Without an endpoint, the variable applies to the port of another program.
        (FILE, &[protocol("grpc")], TraceProtocol::HttpProtobuf),
    ] {
        let (traces, warnings) = read(section, env);
        assert_eq!((traces.unwrap().protocol, warnings.len()), (expected, 0), "{section} {env:?}");
    }
}

#[test]
fn invalid_otel_variable_is_a_warning() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel.example:4317");
    for off in [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")] {
        assert_eq!(none(FILE, &[endpoint, off]), [""; 0]);
    }
    let warnings = none("", &[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]);
    assert_eq!(
        warnings,
        [
            "environment: warning: OTEL_EXPORTER_OTLP_PROTOCOL: http/json is not supported; set it to http/protobuf or grpc; until then there are no traces"
        ]
    );
    assert!(none(FILE, &[("OTEL_TRACES_EXPORTER", "zipkin")])[0].contains("zipkin is not known"));
    let secret = "http://me:secret@otel.example";
    let shown = none("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", secret)]).join("\n");
    assert!(shown.contains("holds a user or a password") && !shown.contains("secret@"), "{shown}");
    let table = [
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "10s is not 100 to 60000"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "secret", "one of its parts is not KEY=VALUE"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a b=secret", "\"a b\" is not a header name with a valid value"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=secret%0a", "\"a\" is not a header name with a valid value"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=secret%f", "one of its parts is not KEY=VALUE"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote", "jaeger_remote is not known"),
    ];
    for (name, value, what) in table {
        let (traces, warnings) = read(FILE, &[(name, value)]);
        let [warning] = &warnings[..] else { panic!("{name}={value}: {warnings:?}") };
        assert!(traces.is_some() && warning.starts_with(&format!("environment: warning: {name}: {what}")), "{warning}");
        assert!(!warning.contains("secret"), "{warning}");
    }
    for ratio in ["2", "-1", "half", "NaN"] {
        let env = [("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", ratio)];
        let (traces, warnings) = read(FILE, &env);
        assert_eq!(traces.unwrap().per_million, 250_000);
        assert!(warnings[0].contains(&format!("{ratio} is not between 0 and 1")), "{warnings:?}");
    }
}

#[test]
fn traces_errors_are_reported_without_secrets() {
    assert_eq!(
        errors_of("version: 1\ntraces: {}\n"),
        [
            "f.yaml:2:9: traces: no collector is configured; add endpoint, set OTEL_EXPORTER_OTLP_ENDPOINT, or remove the section"
        ]
    );
    let shown = errors_of(
        "version: 1
traces:
  endpoint: \"http://otel.example\"
  timeout: 2h
  headers: [ { name: \"a b\", value: { env: HOME } }, { name: a, value: { env: NOWHERE } } ]
  tls: { cert: { env: HOME } }
",
    )
    .join("\n");
    for part in [
        "traces.timeout: 2h is not between 100ms and 1m; the default is 10s",
        "traces.headers[0].name: \"a b\" is not a header name; write it like Authorization",
        "traces.headers[1].value.env: the environment variable \"NOWHERE\" is not set or empty",
        "traces.tls: cert and key must be given together",
        "traces.tls: certificates have no effect on an http URL",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    for (section, part) in [
        ("endpoint: \"grpc://otel.example\"", "http or https URL"),
        ("endpoint: \"http://me:word@otel.example\"", "traces.endpoint: the URL holds a user or a password"),
        ("endpoint: \"http://otel.example\", ratio: 2", "traces.ratio"),
        ("endpoint: \"http://otel.example\", sampling: 1", "sampling: unknown key"),
    ] {
        let shown = errors_of(&format!("version: 1\ntraces: {{ {section} }}\n")).join("\n");
        assert!(shown.contains(part) && !shown.contains("word@"), "{part} in {shown}");
    }
}
