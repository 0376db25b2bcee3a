use std::{collections::BTreeSet, sync::Arc};

use axum::{Router, body::Body, middleware, routing::any};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use super::*;
use crate::routes;

/// Returns a router with every route of the table. Its responses have the permission that the request requires, in a header.
fn router() -> Router {
    let table = routes::table();
    let served = table.iter().filter(|route| route.handler().is_some()).map(|route| route.path.to_string());
    let paths: BTreeSet<String> = served.chain([INTENT_PATHS.to_owned(), INTENT_KEYS.to_owned()]).collect();
    let table = Arc::new(table);
    let answer = middleware::from_fn(move |request: Request, _: middleware::Next| {
        let text = text_of(required_permission(&table, &request));
        // In a header, since a response to HEAD has no body.
        async move { [("required", text)] }
    });
    let router = paths.iter().fold(Router::new(), |router, path| router.route(path, any(|| async {})));
    router.fallback(|| async {}).layer(answer)
}

fn text_of(required: Option<RequiredPermission>) -> String {
    let Some(RequiredPermission { verbs, project }) = required else { return "open".to_owned() };
    let verbs = if verbs == Verbs::ALL { "all".to_owned() } else { verbs.to_string() };
    match project {
        Some(project) => format!("{verbs} in {project}"),
        None => verbs,
    }
}

async fn required(router: &Router, method: &str, path: &str) -> String {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let response = TowerToHyperService::new(router.clone()).call(request).await.unwrap();
    response.headers()["required"].to_str().unwrap().to_owned()
}

async fn check(cases: &[(&str, &str)]) {
    let router = router();
    for (request, expected) in cases {
        let (method, path) = request.split_once(' ').unwrap();
        assert_eq!(required(&router, method, path).await, *expected, "{request}");
    }
}

#[tokio::test]
async fn each_route_requires_its_verbs() {
    check(&[
        ("GET /healthz", "open"),
        ("HEAD /readyz", "open"),
        ("GET /", "open"),
        ("GET /page/app.js", "open"),
        ("GET /openapi.json", "open"),
        ("GET /metrics", "observe"),
        ("HEAD /metrics", "observe"),
        ("GET /version", "observe"),
        ("GET /v1/state", "observe"),
        ("GET /v1/overrides", "observe"),
        ("GET /v1/explain?name=a", "observe"),
        ("GET /v1/watch", "observe"),
        ("GET /v1/publishing", "observe"),
        ("GET /v1/publishing/bind/plan", "observe"),
        ("POST /v1/publishing/bind/apply", "operate"),
        ("POST /v1/publishing/bind/take", "operate"),
        ("POST /v1/reload", "operate"),
        ("POST /v1/overrides", "override"),
        ("POST /v1/overrides?dryRun=true", "override"),
        ("DELETE /v1/overrides/1a2b", "override"),
        ("PUT /v1/load/eu1", "report"),
        ("PUT /v1/latency/rtt", "report"),
        ("POST /v1/apply", "write"),
        ("POST /v1/apply?prune=false&dryRun=true", "write"),
        ("POST /v1/apply?dryRun=false&prune=true", "delete, write"),
        ("POST /v1/apply?%70rune=true", "delete, write"),
        ("POST /v1/apply?prune=%74rue", "delete, write"),
        ("GET /v1/pools", "read"),
        ("GET /v1/pools/shop/history", "read"),
        ("POST /v1/pools", "write"),
        ("PUT /v1/names/a.example", "write"),
        ("DELETE /v1/clusters/eu1", "delete"),
        ("GET /v1/contributions", "read"),
        ("DELETE /v1/contributions?owner=a", "delete"),
    ])
    .await;
}

#[tokio::test]
async fn request_that_matches_no_route_requires_every_verb() {
    check(&[
        ("POST /healthz", "all"),
        ("POST /v1/publishing/bind/plan", "all"),
        ("PATCH /v1/names/a.example", "all"),
        ("GET /v1/objects", "all"),
        ("POST /v1/stop", "all"),
        ("GET /v1/../metrics", "all"),
        ("GET /elsewhere", "all"),
    ])
    .await;
}

#[tokio::test]
async fn intents_require_their_verb_in_the_project_of_the_path() {
    check(&[
        ("GET /v2/projects", "read"),
        ("POST /v2/projects", "write"),
        ("GET /v2/projects/shop", "read in shop"),
        ("DELETE /v2/projects/shop/", "delete in shop"),
        ("PUT /v2/projects/shop/composite-apps/a/v1", "write in shop"),
        ("GET /v2/project/shop/dns-update-records", "read in shop"),
        ("POST /v2/project/shop/dns-update-records", "operate, write in shop"),
        ("PUT /v2/projects/shop/dns-update-records/bind/?dryRun=true", "operate, write in shop"),
        ("DELETE /v2/projects/shop/dns-update-records/bind", "delete, operate in shop"),
        ("POST /v2/projects/shop/composite-apps/a/v1/traffic-intent-sets/s/dnsproviders", "operate, write in shop"),
        ("PUT /v2/dtc-controllers/its", "write"),
        ("PUT /v2/projects/shop/../pay", "write"),
        ("PUT /v2/projects/%73hop", "write"),
        ("PUT /v2//projects/shop", "write"),
        ("GET /v1/intents", "read"),
        ("GET /v1/intents?project=shop&after=a%2Fb", "read in shop"),
        ("GET /v1/intents?project=", "read"),
        ("GET /v1/intents?project=sh%6fp", "read"),
        ("GET /v1/intents?project=shop&project=pay", "read"),
        ("GET /v1/intents?%70roject=pay&project=shop", "read"),
        ("POST /v1/intents", "write"),
        ("POST /v1/intents?project=shop", "write"),
        ("GET /v1/intents/inbound/shop/a/v1/d/t/n", "read in shop"),
        ("GET /v1/intents/inbound/shop/a/v1/d/t/n/history", "read in shop"),
        ("GET /v1/intents/compound-inbound/shop/a/v1/d/t/c/n/history", "read in shop"),
        ("GET /v1/intents/inbound/shop/a/v1/d/t/n/m/history", "read"),
        ("PUT /v1/intents/compound/shop/a/v1/d/t/n?dryRun=true", "write in shop"),
        ("DELETE /v1/intents/inbound/shop/a/v1/d/t/n", "delete in shop"),
        ("PUT /v1/intents/inbound/%73hop/a/v1/d/t/n", "write"),
    ])
    .await;
}

/// The router has two wildcards for intents, but OpenAPI has the permission of each path.
#[tokio::test]
async fn paths_of_intents_require_what_their_rows_say() {
    let router = router();
    for route in routes::table().iter().filter(|route| route.path.starts_with("/v2/")) {
        let step = |step: &str| if step.starts_with('{') { "x".to_owned() } else { step.to_owned() };
        let path = route.path.split('/').map(step).collect::<Vec<_>>().join("/");
        let verbs = route.permission.verbs().unwrap().to_string();
        let found = required(&router, route.method.as_str(), &path).await;
        assert_eq!(found.split(" in ").next(), Some(verbs.as_str()), "{} {path}", route.method);
    }
}
