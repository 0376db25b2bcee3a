//! Hostile DNS servers that zones are transferred from for publishing.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

use data_encoding::BASE64;
use domain::{
    base::{
        Message, MessageBuilder, Name, Rtype, Ttl,
        iana::{Class, Rcode},
        name::ToName,
        rdata::UnknownRecordData,
    },
    rdata::tsig::Time48,
    tsig::{Algorithm, Key, ServerSequence},
};
use fairway_integration::real::{Fairway, wait_until};

use crate::{ADDRESS, BYSTANDER, LIMIT, MEBIBYTE, bystander, expect_answers, get, logged, peak};

const SECRET: &str = "c2VjcmV0LW9mLXRoZS10ZXN0cy0zMi1vY3RldHMhIQ==";
/// The records of one transfer take 256 MiB at most (`TRANSFER_MAX` of providers/src/rfc2136), the list of them a third of that again while it
/// grows. A debug build of the server itself has some 60 MiB.
const PEAK_MAX: u64 = 480 * MEBIBYTE;

/// Messages after the first one, which has the SOA, until the client gives up.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// Records without end; 12 bytes on the wire are a name of 255.
    LongNames,
    /// Records without end, each with a name that is 8,000 pointers away.
    Pointers,
    /// A valid signature in the first message, then none.
    Unsigned,
    /// A signature that nobody made.
    BadMac,
}

/// Serves transfers until the process ends: nothing waits for its threads.
fn start(attack: Attack) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let at = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The client closes the connection once it has seen enough.
            thread::spawn(move || _ = transfer(stream, attack));
        }
    });
    at
}

fn transfer(mut stream: TcpStream, attack: Attack) -> std::io::Result<()> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut request = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut request)?;
    let id = [request[0], request[1]];
    let first = match attack {
        Attack::Unsigned => signed(request),
        Attack::BadMac => {
            let mut message = signed(request);
            // The MAC ends 6 bytes before the end: original ID, error, other length.
            let at = message.len() - 7;
            message[at] ^= 1;
            message
        }
        _ => message(id, &[SOA.to_vec()]),
    };
    let more = match attack {
        Attack::LongNames => message(id, &long_names()),
        Attack::Pointers => message(id, &pointers()),
        _ => message(id, &[A.to_vec()]),
    };
    let framed = |message: &[u8]| [&u16::try_from(message.len()).expect("it fits").to_be_bytes()[..], message].concat();
    stream.write_all(&framed(&first))?;
    let more = framed(&more);
    loop {
        stream.write_all(&more)?;
    }
}

/// `pub.example. SOA`, with the root for its names.
const SOA: &[u8] =
    b"\x03pub\x07example\0\0\x06\0\x01\0\0\0\x3c\0\x16\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01";
/// `pub.example. A 192.0.2.9`.
const A: &[u8] = b"\x03pub\x07example\0\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x09";

fn message(id: [u8; 2], records: &[Vec<u8>]) -> Vec<u8> {
    let count = u16::try_from(records.len()).expect("a message has fewer").to_be_bytes();
    [&id[..], &[0x84, 0, 0, 0], &count, &[0; 4], &records.concat()].concat()
}

/// Returns a record of 12 bytes, whose name is at an offset; its type is unknown, its RDATA empty.
fn record_of_name_at(offset: usize) -> Vec<u8> {
    let pointer = (0xc000 | u16::try_from(offset).expect("14 bits")).to_be_bytes();
    [&pointer[..], b"\xff\x00\0\x01\0\0\0\x3c\0\0"].concat()
}

/// Records with one name of 255 bytes, as many as a message holds.
fn long_names() -> Vec<Vec<u8>> {
    let labels = [63, 63, 63, 61].map(|length| [&[length][..], &vec![b'a'; usize::from(length)]].concat()).concat();
    let first = [&labels, &b"\0\xff\x00\0\x01\0\0\0\x3c\0\0"[..]].concat();
    let count = (65_535 - 12 - first.len()) / 12;
    std::iter::once(first).chain((0..count).map(|_| record_of_name_at(12))).collect()
}

/// Records whose names begin at the end of a chain of pointers, which is the RDATA of the first record.
fn pointers() -> Vec<Vec<u8>> {
    const CHAIN: usize = 8_000;
    let head = b"\0\xff\x00\0\x01\0\0\0\x3c";
    let start = 12 + head.len() + 2;
    // The first link leads to the root label at 12, every other one to the link before.
    let link = |number: usize| if number == 0 { 12 } else { start + 2 * (number - 1) };
    let links = (0..CHAIN).flat_map(|number| (0xc000 | u16::try_from(link(number)).expect("14 bits")).to_be_bytes());
    let length = u16::try_from(2 * CHAIN).expect("it fits").to_be_bytes();
    let first = [&head[..], &length, &links.collect::<Vec<_>>()].concat();
    let count = (65_535 - 12 - first.len()) / 12;
    std::iter::once(first).chain((0..count).map(|_| record_of_name_at(start + 2 * (CHAIN - 1)))).collect()
}

/// Returns the first message of a transfer, signed.
fn signed(request: Vec<u8>) -> Vec<u8> {
    let secret = BASE64.decode(SECRET.as_bytes()).expect("base64");
    let name = "fairway.".parse::<Name<Vec<u8>>>().expect("a name").try_to_name().expect("it is short");
    let owner = "pub.example.".parse::<Name<Vec<u8>>>().expect("a name");
    let key = Key::new(Algorithm::Sha256, &secret, name, None, None).expect("32 bytes");
    let mut request = Message::from_octets(request).expect("a message");
    let mut sequence =
        ServerSequence::request(&key, &mut request, Time48::now()).expect("it is valid").expect("it is signed");
    let mut answer = MessageBuilder::new_vec().start_answer(&request, Rcode::NOERROR).expect("room");
    let soa = UnknownRecordData::from_octets(Rtype::SOA, &SOA[SOA.len() - 22..]).expect("it is short");
    answer.push((owner, Class::IN, Ttl::from_secs(60), soa)).expect("room");
    let mut answer = answer.additional();
    sequence.answer(&mut answer, Time48::now()).expect("room");
    answer.finish()
}

#[test]
fn hostile_transfers_are_one_error_each_and_answers_go_on() {
    let attacks = [
        (Attack::LongNames, "over 268435456 bytes", ""),
        (Attack::Pointers, "the response is malformed", ""),
        (Attack::Unsigned, "not signed", TSIG),
        (Attack::BadMac, "signature", TSIG),
    ];
    for (attack, error, tsig) in attacks {
        let at = start(attack);
        let publisher = format!(
            "publish:
  owner: us
  providers:
    - name: hostile
      zones: [pub.example]
      rfc2136: {{ server: \"{at}\"{tsig} }}
      aliases: [{{ name: a.pub.example, of: {BYSTANDER}, as: addresses }}]
    - name: good
      zones: [pub.example]
      file: pub.zone
      aliases: [{{ name: a.pub.example, of: {BYSTANDER}, as: addresses }}]
"
        );
        let zone = "$ORIGIN pub.example.\n$TTL 60\n@ SOA ns admin 1 2 3 4 5\n@ NS ns\n";
        let server = Fairway::start(&(bystander() + &publisher), &[("pub.zone", zone), ("tsig.secret", SECRET)]);
        let status = |number: usize| get(&server, "/v1/publishing")["providers"][number].clone();
        wait_until(&format!("{attack:?} fails"), LIMIT, || {
            expect_answers(&server, &[BYSTANDER]);
            status(0)["status"] == "failing"
        });
        let said = status(0)["error"].as_str().unwrap_or_default().to_owned();
        // A slow machine may reach the time limit of the call first.
        assert!(said.contains(error) || said.contains("30 s"), "{attack:?}: {said}");
        wait_until("the other provider is written", LIMIT, || {
            std::fs::read_to_string(server.folder.path().join("pub.zone")).is_ok_and(|zone| zone.contains(ADDRESS))
        });
        println!("{attack:?}: {said}; peak {} MiB", peak(&server) / MEBIBYTE);
        assert!(peak(&server) < PEAK_MAX, "{attack:?}: {} MiB", peak(&server) / MEBIBYTE);
        assert_eq!(logged(&server, "publishing failed"), 1, "{attack:?}: {}", server.process.output());
    }
}

const TSIG: &str = ", tsig: { name: fairway, secret: { file: tsig.secret } }";
