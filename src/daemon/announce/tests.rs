use std::sync::Mutex;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::Instant,
};

use crate::daemon::announce::*;

/// A receiver that accepts messages from a certain try on.
struct Receiver {
    accepts_from: usize,
    start: Instant,
    /// Readiness, time in seconds and time limit in seconds of each try.
    tries: Mutex<Vec<(bool, u64, u64)>>,
}

impl Receiver {
    fn new(accepts_from: usize) -> Arc<Self> {
        Arc::new(Self { accepts_from, start: Instant::now(), tries: Mutex::default() })
    }

    fn attempt(self: &Arc<Self>) -> impl AsyncFn(bool, Duration) -> Result<(), String> + use<> {
        let receiver = Arc::clone(self);
        async move |ready, limit| {
            let mut tries = receiver.tries.lock().unwrap();
            tries.push((ready, receiver.start.elapsed().as_secs(), limit.as_secs()));
            if tries.len() >= receiver.accepts_from { Ok(()) } else { Err(failure()) }
        }
    }

    fn tries(&self) -> Vec<(bool, u64, u64)> {
        self.tries.lock().unwrap().clone()
    }
}

fn failure() -> String {
    "no answer within 5s".to_owned()
}

/// Announces a daemon that is ready now and stops after some seconds.
async fn announce_and_stop_after(second: u64, receiver: &Arc<Receiver>) {
    let (readiness, receiver_end) = watch::channel(Readiness::Ready);
    let announced = announce(receiver_end, "lb.example".to_owned(), LAST_TRY_MAX, receiver.attempt());
    let stopped = async {
        tokio::time::sleep(Duration::from_secs(second)).await;
        readiness.send_replace(Readiness::Draining);
    };
    tokio::join!(announced, stopped);
}

#[tokio::test(start_paused = true)]
async fn accepted_messages_are_sent_once() {
    let receiver = Receiver::new(1);
    announce_and_stop_after(100, &receiver).await;
    assert_eq!(receiver.tries(), [(true, 0, 5), (false, 100, 1)]);
}

#[tokio::test(start_paused = true)]
async fn failed_message_is_retried_until_it_is_accepted() {
    let receiver = Receiver::new(4);
    announce_and_stop_after(100, &receiver).await;
    assert_eq!(receiver.tries(), [(true, 0, 5), (true, 1, 5), (true, 3, 5), (true, 7, 5), (false, 100, 1)]);
}

#[tokio::test(start_paused = true)]
async fn message_is_given_up_after_six_tries() {
    let receiver = Receiver::new(usize::MAX);
    announce_and_stop_after(1_000, &receiver).await;
    let at: Vec<_> = receiver.tries().into_iter().map(|(ready, at, _)| (ready, at)).collect();
    assert_eq!(at, [(true, 0), (true, 1), (true, 3), (true, 7), (true, 15), (true, 31), (false, 1_000)]);
}

#[tokio::test(start_paused = true)]
async fn stop_during_a_pause_ends_the_retries() {
    let receiver = Receiver::new(usize::MAX);
    announce_and_stop_after(2, &receiver).await;
    assert_eq!(receiver.tries(), [(true, 0, 5), (true, 1, 5), (false, 2, 1)]);
}

#[tokio::test(start_paused = true)]
async fn stop_during_a_try_aborts_it() {
    let start = Instant::now();
    let (readiness, receiver_end) = watch::channel(Readiness::Ready);
    let task = tokio::spawn(announce(receiver_end, "lb.example".to_owned(), LAST_TRY_MAX, |_, limit| async move {
        tokio::time::sleep(limit).await;
        Err(failure())
    }));
    tokio::time::sleep(Duration::from_secs(2)).await;
    readiness.send_replace(Readiness::Draining);
    task.await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 2 + 1);
}

#[test]
fn message_has_readiness_instance_version_and_time() {
    let message: serde_json::Value = serde_json::from_str(&message(true, "ns\"1", "2026-01-31T23:59:58Z")).unwrap();
    let expected = serde_json::json!({
        "ready": true, "instance": "ns\"1", "version": env!("CARGO_PKG_VERSION"), "time": "2026-01-31T23:59:58Z",
    });
    assert_eq!(message, expected);
    assert!(!host_name().is_empty());
}

/// Delivers a message to a receiver that responds with these bytes. Returns the result, and the request that arrived.
async fn delivered(response: &'static str) -> (Result<(), String>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/hook?by=dns", listener.local_addr().unwrap())).unwrap();
    let receiving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            request.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(response.as_bytes()).await.unwrap();
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
