use std::sync::Mutex;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::Instant,
};

use crate::daemon::announce::*;

/// A receiver that takes messages from its `takes_from`th try on, and notes when each came, in seconds.
struct Receiver {
    takes_from: usize,
    begun: Instant,
    seen: Mutex<Vec<(bool, u64, u64)>>,
}

impl Receiver {
    fn new(takes_from: usize) -> Arc<Self> {
        Arc::new(Self { takes_from, begun: Instant::now(), seen: Mutex::default() })
    }

    fn attempt(self: &Arc<Self>) -> impl Fn(bool, Duration) -> std::future::Ready<Result<(), Failure>> + use<> {
        let receiver = Arc::clone(self);
        move |ready, limit| {
            let mut seen = receiver.seen.lock().unwrap();
            seen.push((ready, receiver.begun.elapsed().as_secs(), limit.as_secs()));
            std::future::ready(if seen.len() >= receiver.takes_from { Ok(()) } else { Err(failure()) })
        }
    }

    fn seen(&self) -> Vec<(bool, u64, u64)> {
        self.seen.lock().unwrap().clone()
    }
}

fn failure() -> Failure {
    Failure { to: "lb.example".to_owned(), error: "no answer within 5s".to_owned() }
}

/// Tells `receiver` of a daemon that is ready now and stops at `second`.
async fn stopped_at(second: u64, receiver: &Arc<Receiver>) {
    let (readiness, said) = watch::channel(Readiness::Ready);
    let telling = tokio::spawn(tell(said, LAST_TRY_MAX, receiver.attempt()));
    tokio::time::sleep(Duration::from_secs(second)).await;
    readiness.send_replace(Readiness::Draining);
    telling.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_state_is_told_once_to_a_receiver_that_takes_it() {
    let receiver = Receiver::new(1);
    stopped_at(100, &receiver).await;
    assert_eq!(receiver.seen(), [(true, 0, 5), (false, 100, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_message_is_tried_again_until_it_is_taken() {
    let receiver = Receiver::new(4);
    stopped_at(100, &receiver).await;
    assert_eq!(receiver.seen(), [(true, 0, 5), (true, 1, 5), (true, 3, 5), (true, 7, 5), (false, 100, 1)]);
}

#[tokio::test(start_paused = true)]
async fn after_six_tries_it_is_left_at_that() {
    let receiver = Receiver::new(usize::MAX);
    stopped_at(1_000, &receiver).await;
    let at: Vec<_> = receiver.seen().into_iter().map(|(ready, at, _)| (ready, at)).collect();
    assert_eq!(at, [(true, 0), (true, 1), (true, 3), (true, 7), (true, 15), (true, 31), (false, 1_000)]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_amid_pauses_ends_the_tries_at_once() {
    let receiver = Receiver::new(usize::MAX);
    stopped_at(2, &receiver).await;
    assert_eq!(receiver.seen(), [(true, 0, 5), (true, 1, 5), (false, 2, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_amid_a_try_cuts_it_off() {
    let begun = Instant::now();
    let (readiness, said) = watch::channel(Readiness::Ready);
    let telling = tokio::spawn(tell(said, LAST_TRY_MAX, |_, limit| async move {
        tokio::time::sleep(limit).await;
        Err(failure())
    }));
    tokio::time::sleep(Duration::from_secs(2)).await;
    readiness.send_replace(Readiness::Draining);
    telling.await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 2 + 1);
}

#[test]
fn a_message_says_who_is_ready_since_when() {
    let message: serde_json::Value = serde_json::from_str(&message(true, "ns\"1", "2026-01-31T23:59:58Z")).unwrap();
    let expected = serde_json::json!({
        "ready": true, "instance": "ns\"1", "version": env!("CARGO_PKG_VERSION"), "time": "2026-01-31T23:59:58Z",
    });
    assert_eq!(message, expected);
    assert!(!host_name().is_empty());
}

/// Delivers a message to a receiver that answers with these bytes; the result, and the request that arrived.
async fn delivered(answer: &'static str) -> (Result<(), String>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/hook?by=dns", listener.local_addr().unwrap())).unwrap();
    let receiving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            request.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    });
    let outcome = deliver(&Client::new(Options::new(TRY_MAX, 0)), url, "{\"ready\":true}".to_owned()).await;
    (outcome, receiving.await.unwrap())
}

#[tokio::test]
async fn deliver_posts_the_message_as_json() {
    let (outcome, request) = delivered("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nnot read").await;
    assert_eq!(outcome, Ok(()));
    assert!(request.starts_with("POST /hook?by=dns HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("content-type: application/json\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"ready\":true}"), "{request}");
}

#[tokio::test]
async fn deliver_fails_unless_the_status_is_2xx() {
    let (outcome, _) = delivered("HTTP/1.1 307 Temporary Redirect\r\nlocation: /\r\n\r\n").await;
    assert_eq!(outcome, Err("status 307 Temporary Redirect, expected 2xx".to_owned()));
    let (outcome, _) = delivered("220 mail.example\r\n").await;
    let error = outcome.unwrap_err();
    assert!(error.contains("no complete HTTP answer") && !error.contains("hook"), "{error}");
}
