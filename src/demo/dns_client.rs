//! A small DNS client: queries the server over UDP for A records, as many different client networks (ECS, RFC 7871).
//!
//! It checks length, ID and question of every response.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use domain::{
    base::{Message, ToName, iana::Rcode},
    rdata::A,
};
use fairway_model::Name;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::{self, Instant},
};

/// Time until a query is sent again. On loopback an answer takes about 50 µs.
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// Number of times that a query is sent before it fails.
const TRIES: u32 = 8;
/// Number of queries at once: 128 of 80 bytes fit into the smallest socket buffers.
const WINDOW: usize = 128;

/// First address of an answer.
pub(super) type Answer = Option<Ipv4Addr>;

/// A client of the name server.
#[derive(Debug)]
pub(super) struct DnsClient {
    socket: UdpSocket,
    next_id: u16,
    /// True once it has come over TCP.
    is_proven: bool,
}

/// Returns the address of a client network: 20.0.0.0/24, 20.0.1.0/24, … 20.255.255.0/24. These are public addresses, since private ones
/// have no location.
pub(super) fn client_network(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(20, high, low, 0)
}

impl DnsClient {
    /// Returns a client of the server at an address.
    pub(super) async fn new(server: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        socket.connect(server).await?;
        Ok(Self { socket, next_id: 1, is_proven: false })
    }

    /// Queries a name as a client network. Fails if the server does not answer, or with an error.
    pub(super) async fn ask(&mut self, name: &Name, client: Ipv4Addr) -> io::Result<Answer> {
        self.prove_source(name).await;
        for _ in 0..TRIES {
            self.next_id = self.next_id.wrapping_add(1);
            let id = self.next_id;
            // Sending fails after an ICMP error for an earlier packet. The query is then sent again.
            let _ = self.socket.send(&query(id, name, client)).await;
            if let Some(answer) = self.receive(name, |got| got == id).await {
                return answer.1;
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer for {name} within {:?}", RETRY_AFTER * TRIES)))
    }

    /// Queries a name as each of the first client networks, many at once. Returns the answers by number of the network.
    pub(super) async fn ask_as_networks(&mut self, name: &Name, networks: u16) -> io::Result<Vec<Answer>> {
        self.prove_source(name).await;
        let mut answers = vec![None; usize::from(networks)];
        let mut waiting: Vec<u16> = (0..networks).rev().collect();
        for _ in 0..TRIES {
            let mut lost = Vec::new();
            while !waiting.is_empty() {
                let batch = waiting.split_off(waiting.len().saturating_sub(WINDOW));
                lost.extend(self.batch(name, batch, &mut answers).await?);
            }
            if lost.is_empty() {
                return Ok(answers);
            }
            waiting = lost;
        }
        let left = waiting.len();
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("{left} of {networks} networks got no answer for {name}")))
    }

    /// Queries a name over TCP once, as resolvers do now and then. Load balancing then counts the clients; nothing else depends on it, so
    /// an error is ignored.
    async fn prove_source(&mut self, name: &Name) {
        if !std::mem::replace(&mut self.is_proven, true)
            && let Ok(server) = self.socket.peer_addr()
        {
            let _ = time::timeout(RETRY_AFTER, query_over_tcp(server, name)).await;
        }
    }

    /// Queries as a batch of networks. Returns those without an answer in time. The ID of a query is the number of its network.
    async fn batch(&self, name: &Name, mut batch: Vec<u16>, answers: &mut [Answer]) -> io::Result<Vec<u16>> {
        for number in &batch {
            self.socket.send(&query(*number, name, client_network(*number))).await?;
        }
        while !batch.is_empty() {
            let Some((id, answer)) = self.receive(name, |id| batch.contains(&id)).await else { break };
            answers[usize::from(id)] = answer?;
            batch.retain(|number| *number != id);
        }
        Ok(batch)
    }

    /// Waits for an answer for the name with an expected ID; `None` if none arrives in time. Others are ignored.
    async fn receive(&self, name: &Name, is_expected: impl Fn(u16) -> bool) -> Option<(u16, io::Result<Answer>)> {
        let deadline = Instant::now() + RETRY_AFTER;
        let mut buffer = [0; 1_500];
        loop {
            let Ok(Ok(length)) = time::timeout_at(deadline, self.socket.recv(&mut buffer)).await else { return None };
            let Some((id, answer)) = parse(&buffer[..length], name) else { continue };
            if is_expected(id) {
                return Some((id, answer));
            }
        }
    }
}

/// Sends a query over TCP, and waits for the answer.
async fn query_over_tcp(server: SocketAddr, name: &Name) -> io::Result<()> {
    let packet = query(0, name, client_network(0));
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(&[&(packet.len() as u16).to_be_bytes(), &packet[..]].concat()).await?;
    stream.read_u16().await.map(drop)
}

/// Returns a query for A records, with an ECS option of /24 (RFC 1035 section 4.1, RFC 6891 section 6.1.2, RFC 7871 section 6).
fn query(id: u16, name: &Name, client: Ipv4Addr) -> Vec<u8> {
    let mut packet = id.to_be_bytes().to_vec();
    packet.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 1]); // a query; one question, one additional record
    packet.extend(name.as_wire());
    packet.extend([0, 1, 0, 1]); // A, IN
    packet.extend([0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 11]); // root, OPT, 1,232 bytes, no flags, 11 octets of options
    packet.extend([0, 8, 0, 7, 0, 1, 24, 0]); // ECS, 7 octets: IPv4, source 24, scope 0
    packet.extend(&client.octets()[..3]);
    packet
}

/// Parses an answer to a query for the name. Returns its ID and first A record; `None` if it is no such answer.
fn parse(packet: &[u8], name: &Name) -> Option<(u16, io::Result<Answer>)> {
    let message = Message::from_slice(packet).ok()?;
    let (header, question) = (message.header(), message.sole_question().ok()?);
    if !header.qr() || !question.qname().name_eq(&domain::base::Name::from_slice(name.as_wire()).ok()?) {
        return None;
    }
    let code = header.rcode();
    if code != Rcode::NOERROR {
        return Some((header.id(), Err(io::Error::other(format!("the server answered {name} with RCODE {code}")))));
    }
    let first = message.answer().ok()?.limit_to::<A>().next().transpose().ok()?;
    Some((header.id(), Ok(first.map(|record| record.data().addr()))))
}

#[cfg(test)]
mod tests {
    use hickory_proto::{
        op::Message,
        rr::rdata::opt::{EdnsCode, EdnsOption},
    };

    use super::*;

    fn shop() -> Name {
        Name::from_text(b"shop.demo.example.", None).unwrap()
    }

    /// Returns an answer to a query with one A record.
    fn answer(query: &[u8], address: [u8; 4]) -> Vec<u8> {
        let mut packet = query[..query.len() - 22].to_vec();
        (packet[2], packet[7], packet[11]) = (0x84, 1, 0);
        packet.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4]);
        packet.extend(address);
        packet
    }

    #[test]
    fn query_is_valid_for_another_decoder() {
        let packet = query(7, &shop(), Ipv4Addr::new(20, 1, 2, 0));
        let message = Message::from_vec(&packet).unwrap();
        assert_eq!(message.queries[0].name().to_string(), "shop.demo.example.");
        let edns = message.edns.unwrap();
        let Some(EdnsOption::Subnet(subnet)) = edns.option(EdnsCode::Subnet) else { panic!("no ECS option") };
        assert_eq!((subnet.addr().to_string().as_str(), subnet.source_prefix()), ("20.1.2.0", 24));
    }

    #[test]
    fn first_address_is_read_after_a_compressed_name() {
        let packet = answer(&query(7, &shop(), client_network(1)), [127, 0, 1, 1]);
        let (id, answer) = parse(&packet, &shop()).unwrap();
        assert_eq!((id, answer.unwrap()), (7, Some(Ipv4Addr::new(127, 0, 1, 1))));
    }

    #[test]
    fn truncated_answer_is_rejected() {
        let packet = answer(&query(7, &shop(), client_network(1)), [127, 0, 1, 1]);
        for end in 0..packet.len() {
            assert!(parse(&packet[..end], &shop()).is_none(), "cut at {end}");
        }
    }

    #[test]
    fn answer_to_another_name_and_query_are_rejected() {
        let other = Name::from_text(b"pay.demo.example.", None).unwrap();
        let packet = answer(&query(7, &shop(), client_network(1)), [127, 0, 1, 1]);
        assert!(parse(&packet, &other).is_none());
        assert!(parse(&query(7, &shop(), client_network(1)), &shop()).is_none());
    }

    #[tokio::test]
    async fn lost_and_duplicate_answers_are_tolerated() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut client = DnsClient::new(server.local_addr().unwrap()).await.unwrap();
        let serving = tokio::spawn(async move {
            let mut buffer = [0; 512];
            let mut received = 0;
            loop {
                let (length, from) = server.recv_from(&mut buffer).await.unwrap();
                received += 1;
                let low = buffer[length - 1];
                let packet = answer(&buffer[..length], [127, 0, 1, low]);
                for _ in 0..[1, 1, 2, 0][received % 4] {
                    server.send_to(&packet, from).await.unwrap();
                }
            }
        });
        let answers = client.ask_as_networks(&shop(), 200).await.unwrap();
        serving.abort();
        let wrong = (0..200u8).filter(|n| answers[usize::from(*n)] != Some(Ipv4Addr::new(127, 0, 1, *n))).count();
        assert_eq!(wrong, 0);
    }
}
