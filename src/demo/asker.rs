//! The demo's own DNS client: asks the running server over UDP, as many different client networks (ECS, RFC 7871).
//!
//! It knows A records and nothing else of DNS; resolvers do more. What comes in is checked, never trusted: lengths, ID, question.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use fairway_model::{Name, Rtype};
use tokio::{
    net::UdpSocket,
    time::{self, Instant},
};

/// How long an answer may take before the question is sent again. On loopback one takes some 50 µs.
const PATIENCE: Duration = Duration::from_millis(250);
/// How often a question is sent before it counts as unanswered.
const TRIES: u32 = 8;
/// Questions under way at once in a census: 128 of 80 octets fit into the smallest socket buffers.
const WINDOW: usize = 128;

/// What a client network was answered: the first address, or none.
pub(super) type Answer = Option<Ipv4Addr>;

/// A client of the demo's name server.
#[derive(Debug)]
pub(super) struct Asker {
    socket: UdpSocket,
    next_id: u16,
}

/// The client network with this number: 20.0.0.0/24, 20.0.1.0/24, … 20.255.255.0/24. Public addresses, since private ones
/// choose no place; the networks differ in their third octet first, as neighbours in the real world do.
pub(super) fn network(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(20, high, low, 0)
}

impl Asker {
    /// A client of the server at this address.
    pub(super) async fn new(server: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        socket.connect(server).await?;
        Ok(Self { socket, next_id: 1 })
    }

    /// What the network is answered for the name; an error if the server does not answer or answers an error.
    pub(super) async fn ask(&mut self, name: &Name, client: Ipv4Addr) -> io::Result<Answer> {
        for _ in 0..TRIES {
            self.next_id = self.next_id.wrapping_add(1);
            let id = self.next_id;
            // A gateway's death can also reset this socket's queue (ICMP); that is a reason to ask again, not to stop.
            let _ = self.socket.send(&question(id, name, client)).await;
            if let Some(answer) = self.receive(name, |got| got == id).await {
                return answer.1;
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer for {name} within {:?}", PATIENCE * TRIES)))
    }

    /// What each of the first so many networks is answered, many questions under way at once.
    pub(super) async fn census(&mut self, name: &Name, networks: u16) -> io::Result<Vec<Answer>> {
        let mut answers = vec![None; usize::from(networks)];
        let mut waiting: Vec<u16> = (0..networks).rev().collect();
        for _ in 0..TRIES {
            let mut unanswered = Vec::new();
            while !waiting.is_empty() {
                let batch = waiting.split_off(waiting.len().saturating_sub(WINDOW));
                unanswered.extend(self.batch(name, batch, &mut answers).await?);
            }
            if unanswered.is_empty() {
                return Ok(answers);
            }
            waiting = unanswered;
        }
        let left = waiting.len();
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("{left} of {networks} networks got no answer for {name}")))
    }

    /// Asks for one batch of networks; returns those without an answer in time. The ID is the network's number.
    async fn batch(&self, name: &Name, mut batch: Vec<u16>, answers: &mut [Answer]) -> io::Result<Vec<u16>> {
        for number in &batch {
            self.socket.send(&question(*number, name, network(*number))).await?;
        }
        while !batch.is_empty() {
            let Some((id, answer)) = self.receive(name, |id| batch.contains(&id)).await else { break };
            answers[usize::from(id)] = answer?;
            batch.retain(|number| *number != id);
        }
        Ok(batch)
    }

    /// The next answer for the name with a wanted ID; none if there is none in time. Others are passed over.
    async fn receive(&self, name: &Name, wanted: impl Fn(u16) -> bool) -> Option<(u16, io::Result<Answer>)> {
        let deadline = Instant::now() + PATIENCE;
        let mut buffer = [0; 1_500];
        loop {
            let Ok(Ok(length)) = time::timeout_at(deadline, self.socket.recv(&mut buffer)).await else { return None };
            let Some((id, answer)) = read(&buffer[..length], name) else { continue };
            if wanted(id) {
                return Some((id, answer));
            }
        }
    }
}

/// A question for A records, with an ECS option of /24 (RFC 1035 section 4.1, RFC 6891 section 6.1.2, RFC 7871 section 6).
fn question(id: u16, name: &Name, client: Ipv4Addr) -> Vec<u8> {
    let mut packet = id.to_be_bytes().to_vec();
    packet.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 1]); // a query; one question, one additional record
    packet.extend(name.as_wire());
    packet.extend([0, 1, 0, 1]); // A, IN
    packet.extend([0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 11]); // root, OPT, 1232 octets, no flags, 11 octets of options
    packet.extend([0, 8, 0, 7, 0, 1, 24, 0]); // ECS, 7 octets: IPv4, source 24, scope 0
    packet.extend(&client.octets()[..3]);
    packet
}

/// ID and first A record of an answer to a question for the name; none if it is no such answer.
fn read(packet: &[u8], name: &Name) -> Option<(u16, io::Result<Answer>)> {
    let number = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    let (id, flags, questions, records) = (number(0)?, number(2)?, number(4)?, number(6)?);
    let wire = name.as_wire();
    let asked = packet.get(12..12 + wire.len())?;
    if flags & 0x8000 == 0 || questions != 1 || !asked.eq_ignore_ascii_case(wire) {
        return None;
    }
    if flags & 0xf != 0 {
        let code = flags & 0xf;
        return Some((id, Err(io::Error::other(format!("the server answered {name} with RCODE {code}")))));
    }
    let mut at = 12 + wire.len() + 4;
    for _ in 0..records {
        at = skip_name(packet, at)?;
        let (rtype, length) = (number(at)?, usize::from(number(at + 8)?));
        let data = packet.get(at + 10..at + 10 + length)?;
        if let (Rtype::A, Ok(octets)) = (Rtype(rtype), <[u8; 4]>::try_from(data)) {
            return Some((id, Ok(Some(Ipv4Addr::from(octets)))));
        }
        at += 10 + length;
    }
    Some((id, Ok(None)))
}

/// The place after a name that may end in a compression pointer (RFC 1035 section 4.1.4).
fn skip_name(packet: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *packet.get(at)? {
            0 => return Some(at + 1),
            length if length >= 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
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

    /// An answer to `question` with one A record, as a server writes it.
    fn answer(question: &[u8], address: [u8; 4]) -> Vec<u8> {
        let mut packet = question[..question.len() - 22].to_vec();
        (packet[2], packet[7], packet[11]) = (0x84, 1, 0);
        packet.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4]);
        packet.extend(address);
        packet
    }

    #[test]
    fn another_decoder_reads_our_question_and_its_client_network() {
        let packet = question(7, &shop(), Ipv4Addr::new(20, 1, 2, 0));
        let message = Message::from_vec(&packet).unwrap();
        assert_eq!(message.queries[0].name().to_string(), "shop.demo.example.");
        let edns = message.edns.unwrap();
        let Some(EdnsOption::Subnet(subnet)) = edns.option(EdnsCode::Subnet) else { panic!("no ECS option") };
        assert_eq!((subnet.addr().to_string().as_str(), subnet.source_prefix()), ("20.1.2.0", 24));
    }

    #[test]
    fn the_first_address_is_read_past_compression() {
        let packet = answer(&question(7, &shop(), network(1)), [127, 0, 1, 1]);
        let (id, answer) = read(&packet, &shop()).unwrap();
        assert_eq!((id, answer.unwrap()), (7, Some(Ipv4Addr::new(127, 0, 1, 1))));
    }

    #[test]
    fn an_answer_cut_anywhere_is_no_answer() {
        let packet = answer(&question(7, &shop(), network(1)), [127, 0, 1, 1]);
        for end in 0..packet.len() {
            assert!(read(&packet[..end], &shop()).is_none(), "cut at {end}");
        }
    }

    #[test]
    fn an_answer_to_another_question_and_a_question_are_no_answers() {
        let other = Name::from_text(b"pay.demo.example.", None).unwrap();
        let packet = answer(&question(7, &shop(), network(1)), [127, 0, 1, 1]);
        assert!(read(&packet, &other).is_none());
        assert!(read(&question(7, &shop(), network(1)), &shop()).is_none());
    }

    #[tokio::test]
    async fn a_census_survives_lost_and_doubled_answers() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut asker = Asker::new(server.local_addr().unwrap()).await.unwrap();
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
        let answers = asker.census(&shop(), 200).await.unwrap();
        serving.abort();
        let wrong = (0..200u8).filter(|n| answers[usize::from(*n)] != Some(Ipv4Addr::new(127, 0, 1, *n))).count();
        assert_eq!(wrong, 0);
    }
}
