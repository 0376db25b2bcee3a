//! The API against its own document: schemathesis (PyPI) reads `/openapi.json` of the real binary and requests every route in it, with
//! valid and invalid requests.
#![cfg(feature = "real")]

use std::process::Command;

use fairway_integration::real::{Fairway, program, root};

const SCENE: &str = "zones: [{ name: page.test, ns: [ns1.example.net] }]
clusters:
  - { name: eu1, addresses: [192.0.2.1], capacity: 1000 }
  - { name: us1, addresses: [192.0.2.2] }
monitors: [{ name: unchecked, type: always }]
pools: [{ name: shop, policy: weighted, monitor: unchecked, members: [{ cluster: eu1 }, { cluster: us1 }] }]
names: [{ name: shop.page.test, pool: shop }]
";

/// No 5xx, no undocumented status, header, media type or body, and 405 for other methods.
#[test]
fn every_route_answers_as_the_openapi_document_says() {
    let server = Fairway::start(SCENE, &[]);
    let url = format!("http://{}", server.http);
    let mut command = Command::new(program("schemathesis", "schemathesis"));
    command.args(["run", &format!("{url}/openapi.json"), "--checks", CHECKS]);
    // Streams do not end; for the page's files the document has only the form of the path.
    command.args(["--exclude-path", "/v1/watch", "--exclude-path", "/page/{file}"]);
    command.args(["--max-time", "50", "--max-examples", "10", "--request-timeout", "15", "--continue-on-failure"]);
    command.args(["--no-shrink", "--warnings", "off", "--seed", "1"]);
    command.env("SERVER", &url).env("SCHEMATHESIS_HOOKS", "hooks").env("NO_COLOR", "1");
    command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(root().join("integration/tests/api"));
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", said.lines().filter(|line| line.contains("passed")).collect::<Vec<_>>().join("\n"));
}

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,\
    response_headers_conformance,unsupported_method";
