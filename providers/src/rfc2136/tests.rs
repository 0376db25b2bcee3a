//! Signed transfers against a server that signs as each test needs it.

use domain::{base::name::ParsedName, rdata::Tsig};
use fairway_model::Secret;
use ring::hmac;
use tokio::net::TcpListener;

use super::*;

/// The record SOA of `x.`.
const SOA: &[u8] = b"\x01x\0\0\x06\0\x01\0\0\0\x3c\0\x16\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01";
/// A record A of `x.`.
const A: &[u8] = b"\x01x\0\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01";
/// `k. TSIG ANY 0`, and the name of the algorithm.
const TSIG: &[u8] = b"\x01k\0\0\xfa\0\xff\0\0\0\0";
const ALGORITHM: &[u8] = b"\x0bhmac-sha256\0";
const SECRET: &str = "Zm9vYmFyZm9vYmFy";
const NOTAUTH: u8 = 9;

/// The signature of one response.
#[derive(Clone, Copy)]
struct Signature {
    /// Seconds that the time of signing is in the past.
    age: u64,
    fudge: u16,
    mac_bytes: usize,
    /// TSIG error and "other data".
    error: u16,
    other: &'static [u8],
}

const PLAIN: Signature = Signature { age: 0, fudge: 300, mac_bytes: 32, error: 0, other: &[] };

/// One response: its records, its RCODE and its signature, if it has one.
type Response<'a> = (&'a [&'a [u8]], u8, Option<Signature>);

/// The signing side (RFC 8945 section 5.3). Every signature covers the one before.
struct Signer {
    key: hmac::Key,
    digest: Vec<u8>,
    is_first: bool,
}

impl Signer {
    fn sign(&mut self, message: &mut Vec<u8>, signature: Signature) {
        let time = &(u64::from(Time48::now()) - signature.age).to_be_bytes()[2..];
        let timers = [time, &signature.fudge.to_be_bytes()].concat();
        let error = [&signature.error.to_be_bytes()[..], &(signature.other.len() as u16).to_be_bytes()].concat();
        self.digest.extend_from_slice(message);
        if self.is_first {
            self.digest.extend([b"\x01k\0\0\xff\0\0\0\0", ALGORITHM, &timers, &error, signature.other].concat());
        } else {
            self.digest.extend_from_slice(&timers);
        }
        let mac = hmac::sign(&self.key, &self.digest);
        let mac = &mac.as_ref()[..signature.mac_bytes];
        let length = (mac.len() as u16).to_be_bytes();
        let rdata = [ALGORITHM, &timers, &length, mac, &message[..2], &error, signature.other].concat();
        message.extend([TSIG, &(rdata.len() as u16).to_be_bytes(), &rdata].concat());
        message[11] = 1;
        self.digest = [&length[..], mac].concat();
        self.is_first = false;
    }
}

/// Returns the result of a transfer from a server that gives these responses.
async fn transfer(responses: &[Response<'_>]) -> Result<usize, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let key = TsigKey { name: "k.".parse().unwrap(), algorithm: TsigAlgorithm::Sha256, secret: Secret::new(SECRET) };
    let provider = Rfc2136 {
        server: listener.local_addr().unwrap(),
        zones: vec!["x.".parse().unwrap()],
        key: Some(key),
        timeout: Duration::from_secs(5),
    };
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut exchange = Exchange { stream, id: 0, signatures: None };
        let request = Message::from_octets(exchange.frame().await.unwrap()).unwrap();
        let tsig = request.get_last_additional::<Tsig<_, ParsedName<_>>>().expect("the request is signed");
        let mac = tsig.data().mac();
        let mut signer = Signer {
            key: hmac::Key::new(hmac::HMAC_SHA256, b"foobarfoobar"),
            digest: [&(mac.len() as u16).to_be_bytes()[..], mac].concat(),
            is_first: true,
        };
        for (records, rcode, signature) in responses {
            let mut message = vec![0; 12];
            message[..2].copy_from_slice(&request.header().id().to_be_bytes());
            message[2..4].copy_from_slice(&[0x84, *rcode]);
            message[7] = records.len() as u8;
            message.extend(records.concat());
            match signature {
                Some(signature) => signer.sign(&mut message, *signature),
                None => signer.digest.extend_from_slice(&message),
            }
            let framed = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
            exchange.stream.write_all(&framed).await.unwrap();
        }
    };
    let (result, ()) = tokio::join!(provider.read(), serve);
    result.map(|sets| sets.len()).map_err(|error| error.to_string())
}

async fn error(responses: &[Response<'_>]) -> String {
    transfer(responses).await.expect_err("the transfer succeeded")
}

#[tokio::test]
async fn unsigned_messages_between_signed_ones_are_accepted() {
    let responses: &[Response<'_>] = &[
        (&[SOA], 0, Some(PLAIN)),
        (&[A], 0, None),
        (&[A], 0, None),
        (&[A], 0, Some(PLAIN)),
        (&[A], 0, None),
        (&[SOA], 0, Some(PLAIN)),
    ];
    assert_eq!(transfer(responses).await, Ok(2));
}

#[tokio::test]
async fn unsigned_first_or_last_message_is_rejected() {
    let text = error(&[(&[SOA, A, SOA], 0, None)]).await;
    assert!(text.contains("not signed"), "{text}");
    let text = error(&[(&[SOA, A], 0, Some(PLAIN)), (&[SOA], 0, None)]).await;
    assert!(text.contains("not signed"), "{text}");
}

#[tokio::test]
async fn more_than_99_unsigned_messages_in_a_row_are_rejected() {
    let mut responses: Vec<Response<'_>> = vec![(&[SOA], 0, Some(PLAIN))];
    responses.extend([(&[A][..], 0, None); 99]);
    responses.push((&[SOA], 0, Some(PLAIN)));
    assert_eq!(transfer(&responses).await, Ok(2));
    responses.insert(1, (&[A], 0, None));
    let text = error(&responses).await;
    assert!(text.contains("not signed"), "{text}");
}

#[tokio::test]
async fn badkey_and_badtime_are_explained() {
    let badkey = Signature { mac_bytes: 0, error: 17, ..PLAIN };
    let text = error(&[(&[], NOTAUTH, Some(badkey))]).await;
    assert!(text.contains("BADKEY") && text.contains("NOTAUTH"), "{text}");
    // The server's time is in "other data"; 7 seconds after 1970 is long ago.
    let badtime = Signature { error: 18, other: &[0, 0, 0, 0, 0, 7], ..PLAIN };
    let text = error(&[(&[], NOTAUTH, Some(badtime))]).await;
    assert!(text.contains("BADTIME") && text.contains("s behind"), "{text}");
}

#[tokio::test]
async fn truncated_mac_is_rejected() {
    let truncated = Signature { mac_bytes: 16, ..PLAIN };
    let text = error(&[(&[SOA, A, SOA], 0, Some(truncated))]).await;
    assert!(text.contains("truncated"), "{text}");
}

#[tokio::test]
async fn fudge_of_the_response_decides_how_old_it_may_be() {
    let old = |fudge| Signature { age: 500, fudge, ..PLAIN };
    assert_eq!(transfer(&[(&[SOA, A, SOA], 0, Some(old(600)))]).await, Ok(2));
    let text = error(&[(&[SOA, A, SOA], 0, Some(old(300)))]).await;
    assert!(text.contains("synchronize the clocks"), "{text}");
}
