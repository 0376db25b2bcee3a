//! The API against its own document, by programs of others: a validator reads `/openapi.json` of the real binary, schemathesis (PyPI) requests
//! every route in it with valid and invalid requests, and clients that generators make from it create, read, update and delete objects.
#![cfg(feature = "real")]

use std::{fs, path::Path, process::Command};

use fairway_integration::real::{Fairway, http_get, parts, program, root};
use tempfile::TempDir;

const SCENE: &str = "zones: [{ name: page.test, ns: [ns1.example.net] }]
clusters:
  - { name: eu1, addresses: [192.0.2.1], capacity: 1000 }
  - { name: us1, addresses: [192.0.2.2] }
monitors: [{ name: unchecked, type: always }]
pools: [{ name: shop, policy: weighted, monitor: unchecked, members: [{ cluster: eu1 }, { cluster: us1 }] }]
names: [{ name: shop.page.test, pool: shop }]
";

/// All checks of the command in `docs/api.md`, for a shorter time.
#[test]
fn every_route_answers_as_the_openapi_document_says() {
    let server = Fairway::start(SCENE, &[]);
    let url = format!("http://{}", server.http);
    let mut command = Command::new(program("schemathesis", "schemathesis"));
    command.arg("--config-file").arg(root().join("docs/schemathesis.toml"));
    command.args(["run", &format!("{url}/openapi.json")]);
    // For the page's files the document has only the form of the path.
    command.args(["--exclude-path", "/page/{file}"]);
    command.args(["--max-time", "50", "--max-examples", "10", "--no-shrink", "--seed", "1"]);
    command.env("SERVER", &url).env("SCHEMATHESIS_HOOKS", "hooks").env("NO_COLOR", "1");
    command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(root().join("integration/tests/api"));
    let said = output_of(&mut command);
    println!("{}", said.lines().filter(|line| line.contains("passed")).collect::<Vec<_>>().join("\n"));
}

#[test]
fn document_passes_a_validator() {
    let server = Fairway::start(SCENE, &[]);
    let folder = TempDir::new().expect("a temporary folder");
    let document = save_document(&server, folder.path());
    let said = output_of(Command::new(program("openapi-spec-validator", "openapi-spec-validator")).arg(&document));
    assert!(said.trim_end().ends_with(": OK"), "{said}");
}

#[test]
fn generated_go_client_manages_objects() {
    let server = Fairway::start(SCENE, &[]);
    let folder = TempDir::new().expect("a temporary folder");
    let document = save_document(&server, folder.path());
    let mut generator = Command::new(program("openapi-generator-cli", "openapi-generator-cli"));
    generator.args(["generate", "-g", "go", "--additional-properties=packageName=fairway", "-i"]).arg(&document);
    // The whole client, without tests and Markdown.
    generator.args(["--global-property", GO_PARTS, "-o"]).arg(folder.path().join("client"));
    output_of(&mut generator);
    // One module, so that nothing is fetched: the client uses the standard library only.
    fs::remove_file(folder.path().join("client/go.mod")).expect("the generator writes one");
    fs::write(folder.path().join("go.mod"), "module fairway\n\ngo 1.23\n").expect("the folder can be written");
    fs::copy(root().join("integration/tests/api/client.go"), folder.path().join("main.go")).expect("it is there");
    let mut go = Command::new("go");
    let path = std::env::var("PATH").unwrap_or_default();
    // `build.sh` gets Go there if the machine has none.
    go.env("PATH", format!("{path}:{}", parts().join("go-venv/bin").display()));
    go.args(["build", "-o", "program", "."]).envs([
        ("CGO_ENABLED", "0"),
        ("GOTOOLCHAIN", "local"),
        ("GOFLAGS", "-buildvcs=false"),
    ]);
    output_of(go.current_dir(folder.path()));
    let said = output_of(Command::new(folder.path().join("program")).arg(format!("http://{}", server.http)));
    assert_eq!(said, "all done\n");
}

#[test]
fn generated_python_client_manages_objects() {
    let server = Fairway::start(SCENE, &[]);
    let folder = TempDir::new().expect("a temporary folder");
    let document = save_document(&server, folder.path());
    let mut generator = Command::new(program("openapi-python-client", "openapi-python-client"));
    generator.args(["generate", "--meta", "none", "--path"]).arg(&document);
    output_of(generator.arg("--output-path").arg(folder.path().join("fairway_client")));
    let mut python = Command::new(program("openapi-python-client", "api-client-python"));
    python.arg(root().join("integration/tests/api/client.py")).arg(format!("http://{}", server.http));
    python.env("PYTHONPATH", folder.path()).env("PYTHONDONTWRITEBYTECODE", "1");
    assert_eq!(output_of(&mut python), "all done\n");
}

/// Writes the server's document to a folder. Returns its path.
fn save_document(server: &Fairway, folder: &Path) -> std::path::PathBuf {
    let (status, text) = http_get(server.http, "/openapi.json").expect("it answers");
    assert_eq!(status, 200, "{text}");
    let document = folder.join("openapi.json");
    fs::write(&document, text).expect("the folder can be written");
    document
}

/// Returns the output of a program that must succeed.
fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {said}\n{}", String::from_utf8_lossy(&output.stderr));
    said
}

const GO_PARTS: &str = "apis,models,supportingFiles,apiDocs=false,modelDocs=false,apiTests=false,modelTests=false";
