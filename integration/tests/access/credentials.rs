//! Tokens, JSON Web Tokens and certificates: valid ones, and those that are forged, expired or for others.

use std::{fs, process::Command};

use data_encoding::HEXLOWER;
use fairway_integration::real::{fairway_binary, free_port};
use serde_json::{Value, json};

use super::{CLUSTER, JSON, Server, TLS, base64, now};

#[test]
fn missing_or_forged_credentials_are_rejected() {
    let mut server = Server::folder();
    server.issuer();
    let (ci, ended) = (server.token("ci"), server.token("ended"));
    let ended = ended.replace(" }", ", expires: 2020-01-01T00:00:00Z }");
    let gone = free_port();
    server.start(&format!(
        "access:
  {TLS}
  tokens: [ {ci}, {ended} ]
  issuers:
    - {{ name: corp, issuer: \"https://id.example\", audiences: [fairway], keysFile: keys.json }}
    - {{ name: gone, issuer: \"https://gone.example\", audiences: [fairway], keysUrl: \"http://127.0.0.1:{gone}/keys\" }}
  limits: {{ failuresPerMinute: 1000 }}
  grants:
    - {{ role: editor, to: [\"token:ci\", \"token:ended\"], projects: [shop] }}
    - {{ role: viewer, to: [\"token:ci\", \"group:corp:sre\"] }}
    - {{ role: operator, to: [\"certificate:spiffe://corp/ops\"] }}"
    ));
    tokens(&server);
    let mut secrets = web_tokens(&server);
    certificates_of_clients(&server);
    secrets.extend(["ci", "ended"].map(|name| server.shown(name)));
    every_write_is_logged_without_secrets(&server, &secrets);
}

/// Tries tokens that are valid, unknown, truncated, and removed.
fn tokens(server: &Server) {
    let nothing = server.curl("/v1/state", &[]).expect(401);
    assert_eq!(nothing.header("www-authenticate"), Some("Bearer realm=\"fairway\""));
    assert!(nothing.header("strict-transport-security").is_some());
    for path in ["/v1/pools", "/metrics", "/version", "/v2/projects", "/v1/watch", "/elsewhere"] {
        server.curl(path, &[]).expect(401);
    }
    server.curl("/healthz", &[]).expect(200);
    server.curl("/page/app.js", &[]).expect(200);
    let (good, ended) = (server.shown("ci"), server.shown("ended"));
    server.curl_as(&good, "/v1/state", &[]).expect(200);
    for token in [&ended, &good[..good.len() - 1], &good.to_uppercase(), "fairway_", "a.b.c", "..", "x"] {
        let refused = server.curl_as(token, "/v1/state", &[]).expect(401);
        assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"fairway\", error=\"invalid_token\""));
    }
    let two = format!("Authorization: Bearer {good}");
    server.curl_as(&good, "/v1/state", &["-H", &two]).expect(401);
    let denied =
        server.curl_as(&good, "/v1/clusters/ap1", &[&["-X", "PUT", "-d", CLUSTER], &JSON[..]].concat()).expect(403);
    assert!(denied.body.contains("token:ci lacks the verb write outside of projects"), "{}", denied.body);
    let project = |name: &str| {
        let body = format!("{{\"metadata\": {{\"name\": \"{name}\"}}}}");
        server.curl_as(&good, &format!("/v2/projects/{name}"), &[&["-X", "PUT", "-d", &body], &JSON[..]].concat())
    };
    project("shop").expect(201);
    project("pay").expect(403);
}

/// Tries valid and forged JSON Web Tokens; returns all that were sent.
fn web_tokens(server: &Server) -> Vec<String> {
    let header = json!({"alg": "RS256", "kid": "k"});
    let claims =
        json!({"iss": "https://id.example", "aud": "fairway", "sub": "alice", "exp": now() + 300, "groups": ["sre"]});
    let with = |key: &str, value: Value| {
        let mut claims = claims.clone();
        claims[key] = value;
        claims
    };
    let alice = server.signed(&header, &claims);
    server.curl_as(&alice, "/v1/state", &[]).expect(200);
    let denied = server.curl_as(&alice, "/v1/reload", &["-X", "POST"]).expect(403);
    assert!(denied.body.contains("jwt:corp:alice lacks the verb operate"), "{}", denied.body);
    let unsigned = |alg: &str| {
        let header = json!({"alg": alg, "kid": "k"});
        format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()))
    };
    // The public key, which everybody has, used as the secret of an HMAC.
    let text = unsigned("HS256");
    fs::write(server.path("text"), &text).expect("a file");
    let public = fs::read(server.path("issuer.pub")).expect("a key");
    let hex = HEXLOWER.encode(&public);
    let mac =
        server.openssl(&["dgst", "-sha256", "-mac", "HMAC", "-macopt", &format!("hexkey:{hex}"), "-binary", "text"]);
    let forged = [
        ("expired", server.signed(&header, &with("exp", json!(now() - 60)))),
        ("early", server.signed(&header, &with("nbf", json!(now() + 120)))),
        ("of another issuer", server.signed(&header, &with("iss", json!("https://evil.example")))),
        ("for another audience", server.signed(&header, &with("aud", json!("other")))),
        ("of an unknown key", server.signed(&json!({"alg": "RS256", "kid": "x"}), &claims)),
        ("of another algorithm", server.signed(&json!({"alg": "RS512", "kid": "k"}), &claims)),
        ("not signed", format!("{}.", unsigned("none"))),
        ("signed by all", format!("{text}.{}", base64(&mac.stdout))),
        (
            "changed",
            alice.replacen(
                &base64(claims.to_string().as_bytes()),
                &base64(with("sub", json!("root")).to_string().as_bytes()),
                1,
            ),
        ),
    ];
    for (what, token) in &forged {
        let refused = server.curl_as(token, "/v1/state", &[]);
        assert_eq!(refused.status, 401, "{what}: {}", refused.body);
    }
    let later = server
        .curl_as(&server.signed(&header, &with("iss", json!("https://gone.example"))), "/v1/state", &[])
        .expect(503);
    assert!(later.header("retry-after").is_some() && later.body.contains("keys of gone"), "{}", later.body);
    forged.into_iter().map(|(_, token)| token).chain([alice]).collect()
}

fn certificates_of_clients(server: &Server) {
    let client = ["--cert", "client.pem", "--key", "client.key"];
    server.curl("/v1/reload", &[&["-X", "POST"], &client[..]].concat()).expect(200);
    let denied = server.curl("/v1/clusters/ap1", &[&["-X", "DELETE"], &client[..]].concat()).expect(403);
    assert!(denied.body.contains("certificate:spiffe://corp/ops lacks the verb delete"), "{}", denied.body);
    let stranger = server.curl("/v1/state", &["--cert", "stranger.pem", "--key", "stranger.key"]);
    assert_eq!(stranger.status, 0, "one of another authority has no connection: {}", stranger.head);
}

fn every_write_is_logged_without_secrets(server: &Server, secrets: &[String]) {
    let log = server.log();
    for secret in secrets {
        assert!(!log.contains(&**secret), "a token is in the log");
    }
    let audit = server.audit();
    let line = audit.iter().find(|line| line["action"] == "PUT /v2/projects/pay").expect("a line");
    assert_eq!(
        (&line["identity"], &line["remote"], &line["outcome"]),
        (&json!("token:ci"), &json!("127.0.0.1"), &json!("denied"))
    );
    let line = audit.iter().find(|line| line["action"] == "PUT /v2/projects/shop").expect("a line");
    assert_eq!((&line["project"], &line["outcome"], &line["status"]), (&json!("shop"), &json!("done"), &json!(201)));
    let history = Command::new(fairway_binary())
        .args(["store", "history", "project/shop", "--data-dir"])
        .arg(server.path("data"))
        .output();
    let history = String::from_utf8_lossy(&history.expect("it runs").stdout).into_owned();
    assert!(history.contains("token:ci"), "{history}");
}
