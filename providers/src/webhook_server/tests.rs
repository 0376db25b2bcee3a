//! Each call of the webhook, and plans of its client.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    http::{Request, Response, StatusCode, header},
};
use http_body_util::BodyExt;
use hyper::body::Frame;
use proptest::prelude::*;
use tower::Service;

use super::*;
use crate::{Json, MEDIA_TYPE, Property, RowKey};

type Kept = BTreeMap<(Scope, RowKey), Endpoint>;

/// An endpoint store in memory that can be busy.
#[derive(Default)]
struct Memory {
    kept: Mutex<Kept>,
    is_busy: Mutex<bool>,
}

impl Memory {
    fn ask(&self) -> Result<MutexGuard<'_, Kept>, WebhookError> {
        match *self.is_busy.lock().unwrap_or_else(PoisonError::into_inner) {
            true => Err(WebhookError::Busy("it is starting".to_owned())),
            false => Ok(self.kept.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

#[async_trait]
impl EndpointStore for Memory {
    fn domains(&self, _: &Scope) -> Result<Vec<String>, WebhookError> {
        self.ask().map(|_| vec!["gslb.example".to_owned()])
    }

    async fn endpoints(&self, scope: &Scope) -> Result<Vec<Endpoint>, WebhookError> {
        let kept = self.ask()?;
        Ok(kept.iter().filter(|((of, _), _)| of == scope).map(|(_, endpoint)| endpoint.clone()).collect())
    }

    async fn apply(&self, scope: &Scope, changes: Changes) -> Result<(), WebhookError> {
        let mut kept = self.ask()?;
        for (key, endpoint) in edits(changes) {
            match endpoint {
                Some(endpoint) => kept.insert((scope.clone(), key), endpoint),
                None => kept.remove(&(scope.clone(), key)),
            };
        }
        Ok(())
    }
}

struct Fixture {
    memory: Arc<Memory>,
    calls: Arc<Calls>,
    router: Router,
}

fn fixture() -> Fixture {
    let (memory, calls) = (Arc::<Memory>::default(), Arc::<Calls>::default());
    let router =
        router(Arc::clone(&memory) as Arc<dyn EndpointStore>, Arc::clone(&calls), Arc::new(|_, _| Ok(true)), true);
    Fixture { memory, calls, router }
}

impl Fixture {
    async fn send(&self, request: Request<Body>) -> (StatusCode, Vec<u8>, Response<()>) {
        let response = self.router.clone().call(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        (head.status, body, Response::from_parts(head, ()))
    }

    async fn call(&self, method: &str, path: &str, body: impl Into<Body>) -> (StatusCode, Vec<u8>) {
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, MEDIA_TYPE);
        let (status, body, _) = self.send(request.body(body.into()).unwrap()).await;
        (status, body)
    }

    async fn status(&self, method: &str, path: &str, body: impl Into<Body>) -> u16 {
        self.call(method, path, body).await.0.as_u16()
    }
}

fn endpoint(name: &str, rtype: &str, targets: &[&str]) -> Endpoint {
    Endpoint {
        dns_name: name.to_owned(),
        record_type: rtype.to_owned(),
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        ..Endpoint::default()
    }
}

const CREATE: &str = r#"{"create":[{"dnsName":"a.gslb.example","recordType":"A","targets":["192.0.2.1"]}]}"#;

#[tokio::test]
async fn each_call_has_its_status() {
    let fixture = fixture();
    for (method, path, body, code) in [
        ("GET", "/", "", 200),
        ("GET", "/records", "", 200),
        ("POST", "/adjustendpoints", "[]", 200),
        ("POST", "/adjustendpoints", "null", 200),
        ("POST", "/records", "{}", 204),
        ("POST", "/records", CREATE, 204),
        ("POST", "/records", CREATE, 204),
        ("POST", "/records", r#"{"create":null,"other":[1]}"#, 204),
        ("POST", "/records", r#"{"create":["#, 400),
        ("POST", "/records", "", 400),
        ("POST", "/adjustendpoints", "{}", 400),
        ("POST", "/", "", 400),
        ("PUT", "/records", CREATE, 400),
        ("GET", "/adjustendpoints", "", 400),
        ("GET", "/elsewhere", "", 404),
        ("GET", "/owners/a", "", 200),
        ("GET", "/owners/a/records", "", 200),
        ("POST", "/owners/a/records", CREATE, 204),
        ("GET", "/owners/a%20b/records", "", 404),
        ("GET", "/owners/", "", 404),
    ] {
        assert_eq!(fixture.status(method, path, body).await, code, "{method} {path} {body}");
    }
    let ended: u64 = fixture.calls.counts().ended.values().map(|totals| totals.count).sum();
    assert_eq!(ended, 20);
    assert_eq!(fixture.calls.counts().changed, 3);
}

#[tokio::test]
async fn media_type_is_exact() {
    let request = Request::builder().uri("/").body(Body::empty()).unwrap();
    let (status, body, head) = fixture().send(request).await;
    assert_eq!((status.as_u16(), head.headers()[header::CONTENT_TYPE].as_bytes()), (200, MEDIA_TYPE.as_bytes()));
    assert_eq!(MEDIA_TYPE, "application/external.dns.webhook+json;version=1");
    assert_eq!(body, br#"{"include":["gslb.example"]}"#);
}

#[tokio::test]
async fn temporary_error_is_503_with_a_reason() {
    let fixture = fixture();
    *fixture.memory.is_busy.lock().unwrap() = true;
    for (method, path, body) in [("GET", "/", ""), ("GET", "/records", ""), ("POST", "/records", CREATE)] {
        let (status, body) = fixture.call(method, path, body).await;
        assert_eq!((status.as_u16(), &body[..]), (503, &b"it is starting; try again\n"[..]));
    }
}

/// A body that never sends a byte.
struct Endless;

impl HttpBody for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn endless_body_is_503_within_five_seconds() {
    let body = Body::new(Endless);
    let begun = tokio::time::Instant::now();
    assert_eq!(fixture().status("POST", "/records", body).await, 503);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn half_sent_bodies_delay_no_other_call() {
    let fixture = Arc::new(fixture());
    let stopped: Vec<_> = (0..8)
        .map(|_| {
            let fixture = Arc::clone(&fixture);
            tokio::spawn(async move { fixture.status("POST", "/records", Body::new(Endless)).await })
        })
        .collect();
    tokio::task::yield_now().await;
    let begun = tokio::time::Instant::now();
    assert_eq!(fixture.status("GET", "/records", "").await, 200);
    assert_eq!(fixture.status("POST", "/records", CREATE).await, 204);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    for call in stopped {
        assert_eq!(call.await.unwrap(), 503);
    }
}

#[tokio::test]
async fn body_over_the_limit_is_413() {
    let fixture = fixture();
    let padded = |octets: usize| [CREATE.as_bytes(), &vec![b' '; octets - CREATE.len()]].concat();
    assert_eq!(fixture.status("POST", "/records", padded(BODY_MAX)).await, 204);
    assert_eq!(fixture.status("POST", "/records", padded(BODY_MAX + 1)).await, 413);
    assert_eq!(fixture.status("POST", "/records", padded(BODY_MAX + (1 << 20))).await, 413);
}

#[tokio::test]
async fn truncated_body_changes_nothing() {
    let fixture = fixture();
    for end in 0..CREATE.len() {
        assert_eq!(fixture.status("POST", "/records", &CREATE[..end]).await, 400, "{}", &CREATE[..end]);
    }
    assert_eq!(fixture.call("GET", "/records", "").await.1, b"[]");
}

#[tokio::test]
async fn too_large_endpoint_is_omitted_by_adjust_and_rejected_by_apply() {
    let fixture = fixture();
    let large = endpoint("a.gslb.example", "TXT", &[&"x".repeat(ENDPOINT_MAX)]);
    let small = endpoint("b.gslb.example", "TXT", &["x"]);
    let (status, body) = fixture.call("POST", "/adjustendpoints", vec![large.clone(), small.clone()].to_json()).await;
    assert_eq!((status.as_u16(), Vec::from_json(&body)), (200, Ok(vec![small])));
    let changes = Changes { create: vec![large], ..Changes::default() };
    assert_eq!(fixture.status("POST", "/records", changes.to_json()).await, 413);
}

#[tokio::test]
async fn ten_thousand_targets_round_trip() {
    let fixture = fixture();
    let targets: Vec<String> = (0..10_000u32).map(|n| std::net::Ipv4Addr::from(n).to_string()).collect();
    let row = Endpoint { targets, ..endpoint("a.gslb.example", "A", &[]) };
    let changes = Changes { create: vec![row.clone()], ..Changes::default() };
    assert_eq!(fixture.status("POST", "/records", changes.to_json()).await, 204);
    assert_eq!(Vec::from_json(&fixture.call("GET", "/records", "").await.1), Ok(vec![row]));
}

#[tokio::test]
async fn browser_page_under_another_host_or_type_is_rejected() {
    let fixture = fixture();
    for (host, code) in [("evil.example:8888", 403), ("127.0.0.1:8888", 200), ("localhost", 200), ("[::1]:8888", 200)] {
        let request = Request::builder().uri("/records").header(header::HOST, host).body(Body::empty()).unwrap();
        assert_eq!(fixture.send(request).await.0.as_u16(), code, "{host}");
    }
    let request = Request::builder().method("POST").uri("/records").header(header::CONTENT_TYPE, "text/plain");
    assert_eq!(fixture.send(request.body(CREATE.into()).unwrap()).await.0.as_u16(), 415);
}

#[tokio::test]
async fn each_call_needs_the_token() {
    let check: CallCheck = Arc::new(|_, request| Ok(token_of(request.headers()).as_deref() == Some("right")));
    let router = router(Arc::<Memory>::default(), Arc::default(), check, false);
    let fixture = Fixture { router, ..fixture() };
    for (shown, code) in [
        (None, 401),
        (Some("Bearer wrong"), 401),
        (Some("Basic right"), 401),
        (Some("bearer right"), 200),
        // `x:right` and `right:x`, as Go's clients send them from a URL.
        (Some("Basic eDpyaWdodA=="), 200),
        (Some("Basic cmlnaHQ6eA=="), 401),
    ] {
        let request = Request::builder().uri("/");
        let request = shown.into_iter().fold(request, |request, shown| request.header(header::AUTHORIZATION, shown));
        assert_eq!(fixture.send(request.body(Body::empty()).unwrap()).await.0.as_u16(), code, "{shown:?}");
    }
}

#[tokio::test]
async fn client_sees_only_its_own_endpoints() {
    let fixture = fixture();
    assert_eq!(fixture.status("POST", "/owners/a/records", CREATE).await, 204);
    assert_eq!(fixture.call("GET", "/owners/b/records", "").await.1, b"[]");
    assert_eq!(fixture.call("GET", "/records", "").await.1, b"[]");
    assert_ne!(fixture.call("GET", "/owners/a/records", "").await.1, b"[]");
}

/// Returns the plan of the client, as in `plan/plan.go`: sets are matched by name and set identifier, and compared by targets in any case and
/// order, by a given TTL, and by provider-specific fields.
fn plan(current: &[Endpoint], desired: &[Endpoint]) -> Changes {
    let mut changes = Changes::default();
    let of = |list: &[Endpoint]| list.iter().map(|row| (row.key(), row.clone())).collect::<BTreeMap<_, _>>();
    let (current, desired) = (of(current), of(desired));
    for (key, wanted) in &desired {
        match current.get(key) {
            None => changes.create.push(wanted.clone()),
            Some(there) if differs(there, wanted) => {
                changes.update_old.push(there.clone());
                changes.update_new.push(wanted.clone());
            }
            Some(_) => {}
        }
    }
    changes.delete =
        current.iter().filter(|(key, _)| !desired.contains_key(*key)).map(|(_, row)| row.clone()).collect();
    changes
}

fn differs(there: &Endpoint, wanted: &Endpoint) -> bool {
    let sorted = |row: &Endpoint| {
        let mut targets: Vec<_> = row.targets.iter().map(|target| target.to_ascii_lowercase()).collect();
        targets.sort();
        targets
    };
    let pairs = |row: &Endpoint| {
        let pairs = row.provider_specific.iter().cloned();
        pairs.collect::<std::collections::BTreeSet<Property>>()
    };
    sorted(there) != sorted(wanted)
        || wanted.record_ttl != 0 && there.record_ttl != wanted.record_ttl
        || pairs(there) != pairs(wanted)
}

fn any_endpoint() -> impl Strategy<Value = Endpoint> {
    let name = proptest::sample::select(vec!["a.gslb.example", "A.gslb.example", "*.gslb.example", "elsewhere.test"]);
    let rtype = proptest::sample::select(vec!["A", "AAAA", "TXT", "CNAME", "ODD", ""]);
    let target = proptest::sample::select(vec!["192.0.2.1", "\"x\\\"y\"", "2001:DB8::1", "no address", ""]);
    let set = proptest::sample::select(vec!["", "eu", "us"]);
    let words = proptest::sample::select(vec!["", "webhook/gslb-weight", "webhook/gslb-tier", "aws/x"]);
    let property = (words, "[0-9]{0,3}").prop_map(|(name, value)| Property { name: name.to_owned(), value });
    let list = (proptest::collection::vec(target, 0..3), proptest::collection::vec(property, 0..4));
    (name, rtype, set, list, 0..3i64).prop_map(|(name, rtype, set, (targets, provider_specific), ttl)| Endpoint {
        set_identifier: set.to_owned(),
        record_ttl: ttl * 60,
        provider_specific,
        ..endpoint(name, rtype, &targets)
    })
}

/// Runs one reconciliation of the client, and returns the number of its changes.
async fn reconcile(fixture: &Fixture, path: &str, source: &[Endpoint]) -> usize {
    let current = Vec::from_json(&fixture.call("GET", &format!("{path}/records"), "").await.1).unwrap();
    let adjusted = fixture.call("POST", &format!("{path}/adjustendpoints"), source.to_vec().to_json()).await.1;
    let changes = plan(&current, &Vec::from_json(&adjusted).unwrap());
    assert_eq!(fixture.status("POST", &format!("{path}/records"), changes.to_json()).await, 204);
    changes.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn second_reconciliation_changes_nothing(
        mine in proptest::collection::vec(any_endpoint(), 0..8),
        theirs in proptest::collection::vec(any_endpoint(), 0..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let fixture = fixture();
            reconcile(&fixture, "/owners/a", &mine).await;
            reconcile(&fixture, "/owners/b", &theirs).await;
            assert_eq!(reconcile(&fixture, "/owners/a", &mine).await, 0);
            assert_eq!(reconcile(&fixture, "/owners/b", &theirs).await, 0);
            reconcile(&fixture, "/owners/a", &[]).await;
            assert_eq!(reconcile(&fixture, "/owners/b", &theirs).await, 0);
            assert_eq!(fixture.call("GET", "/owners/a/records", "").await.1, b"[]");
        });
    }

    #[test]
    fn adjusting_is_idempotent(rows in proptest::collection::vec(any_endpoint(), 0..8)) {
        let once = adjusted(rows);
        prop_assert_eq!(adjusted(once.clone()), once);
    }
}
