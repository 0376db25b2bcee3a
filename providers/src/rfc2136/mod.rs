//! DNS servers that take updates: UPDATE (RFC 2136) to write, a transfer (RFC 5936) to read, both over TCP and signed with TSIG.
//!
//! The messages are put together and read here, not by hickory-proto (0.26): its verifier wants every message of a transfer signed,
//! where up to 99 need not be (RFC 8945 section 5.3.1), and a record whose data it cannot read fails the whole transfer, where records of
//! others are none of ours to judge.

mod message;
mod tsig;

use std::{io, net::SocketAddr, time::Duration};

use async_trait::async_trait;
use fairway_model::{Changes, Name, ProviderRecordSet, Rtype};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

pub use self::tsig::{TsigAlgorithm, TsigKey};
use self::{message::Message, tsig::Session};
use crate::publish::{Limits, Provider, ProviderError, Scope};

/// A server that takes updates.
#[derive(Clone, Debug)]
pub struct Rfc2136 {
    /// Where it listens.
    pub server: SocketAddr,
    /// Its zones that are published to.
    pub zones: Vec<Name>,
    /// With what messages are signed; none for a server that goes by addresses.
    pub key: Option<TsigKey>,
    /// Longest time of a call.
    pub timeout: Duration,
}

#[async_trait]
impl Provider for Rfc2136 {
    fn limits(&self) -> Limits {
        Limits { batch_max: BATCH_MAX, types: None, weights: None, timeout: self.timeout }
    }

    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        let mut sets = Vec::new();
        for zone in &self.zones {
            sets.extend(self.transfer(zone).await?);
        }
        Ok(sets)
    }

    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError> {
        for zone in &self.zones {
            let of_zone = self.part(zone, changes);
            if !of_zone.is_empty() {
                self.update(zone, &of_zone).await?;
            }
        }
        Ok(())
    }
}

impl Rfc2136 {
    /// The changes that belong to a zone.
    fn part(&self, zone: &Name, changes: &Changes) -> Changes {
        let scope = Scope { zones: &self.zones, types: None, set_identifiers: false };
        let is_there = |set: &&ProviderRecordSet| scope.zone_of(&set.set.name) == Some(zone);
        Changes {
            create: changes.create.iter().filter(is_there).cloned().collect(),
            update: changes.update.iter().filter(|update| is_there(&&update.to)).cloned().collect(),
            delete: changes.delete.iter().filter(is_there).cloned().collect(),
        }
    }

    async fn update(&self, zone: &Name, changes: &Changes) -> Result<(), ProviderError> {
        let mut call = Call::start(self, message::update(id(), zone, changes)).await?;
        let answer = call.next(|_| true).await?;
        match answer.rcode {
            0 => Ok(()),
            rcode => Err(refusal(rcode, zone)),
        }
    }

    async fn transfer(&self, zone: &Name) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        let mut call = Call::start(self, message::transfer(id(), zone)).await?;
        let mut records: Vec<message::Record> = Vec::new();
        let mut octets = 0;
        loop {
            let begun = !records.is_empty();
            let answer = call.next(|answer| answer.rcode != 0 || is_end(begun, answer)).await?;
            if answer.rcode != 0 {
                return Err(ProviderError::Unavailable(format!(
                    "the transfer of {zone} is refused ({}); allow it to this key or address",
                    rcode_name(answer.rcode)
                )));
            }
            let is_end = is_end(begun, &answer);
            octets += call.read_last;
            records.extend(answer.answers);
            if records.first().is_none_or(|first| first.rtype != Rtype::SOA || first.name != *zone) {
                return Err(ProviderError::Unavailable(format!("the transfer of {zone} does not begin with its SOA")));
            }
            if is_end {
                records.pop();
                return Ok(message::sets(records));
            }
            if octets > TRANSFER_MAX {
                return Err(ProviderError::Unavailable(format!(
                    "the transfer of {zone} is over {TRANSFER_MAX} octets"
                )));
            }
        }
    }
}

/// Whether a message ends a transfer: its last record is the SOA again.
fn is_end(begun: bool, answer: &Message) -> bool {
    let last_is_soa = answer.answers.last().is_some_and(|record| record.rtype == Rtype::SOA);
    last_is_soa && (begun || answer.answers.len() > 1)
}

/// One request and its answer, over a connection of their own.
struct Call {
    stream: TcpStream,
    id: u16,
    session: Option<Session>,
    read_last: usize,
}

impl Call {
    async fn start(to: &Rfc2136, mut request: Vec<u8>) -> Result<Self, ProviderError> {
        let session = match &to.key {
            None => None,
            Some(key) => {
                let octets = key
                    .octets()
                    .ok_or_else(|| ProviderError::Unavailable("the TSIG secret is no base64".to_owned()))?;
                Some(Session::sign(key, &octets, &mut request, now()))
            }
        };
        let length = u16::try_from(request.len())
            .map_err(|_| ProviderError::Refused("the update is over 65,535 octets".to_owned()))?;
        let id = u16::from_be_bytes([request[0], request[1]]);
        let mut stream = TcpStream::connect(to.server).await.map_err(|error| unavailable(to.server, &error))?;
        let framed = [&length.to_be_bytes()[..], &request].concat();
        stream.write_all(&framed).await.map_err(|error| unavailable(to.server, &error))?;
        Ok(Self { stream, id, session, read_last: 0 })
    }

    /// The next message of the answer, its signature checked.
    async fn next(&mut self, is_last: impl Fn(&Message) -> bool) -> Result<Message, ProviderError> {
        let wire =
            self.frame().await.map_err(|error| ProviderError::Unavailable(format!("the answer broke off: {error}")))?;
        self.read_last = wire.len();
        let message = Message::read(&wire).map_err(|error| ProviderError::Unavailable(error.to_string()))?;
        if message.id != self.id || !message.is_response {
            return Err(ProviderError::Unavailable("the answer belongs to another question".to_owned()));
        }
        if let Some(session) = &mut self.session {
            let checked = session.check(&wire, &message, is_last(&message), now());
            // A server that cannot sign says why it refuses all the same.
            let unsigned = |why: &str| match message.rcode {
                0 => ProviderError::Unavailable(why.to_owned()),
                rcode => ProviderError::Unavailable(format!("{why} ({})", rcode_name(rcode))),
            };
            checked.map_err(unsigned)?;
        }
        Ok(message)
    }

    async fn frame(&mut self) -> io::Result<Vec<u8>> {
        let length = self.stream.read_u16().await?;
        let mut wire = vec![0; usize::from(length)];
        self.stream.read_exact(&mut wire).await?;
        Ok(wire)
    }
}

fn unavailable(server: SocketAddr, error: &io::Error) -> ProviderError {
    ProviderError::Unavailable(format!("{server}: {error}"))
}

/// What an UPDATE's answer means (RFC 2136 section 3): of the records, or of the server as a whole.
fn refusal(rcode: u8, zone: &Name) -> ProviderError {
    let what = format!("the update of {zone} is refused: {}", rcode_name(rcode));
    match rcode {
        2 | 4 | 9 => ProviderError::Unavailable(what),
        _ => ProviderError::Refused(what),
    }
}

fn rcode_name(rcode: u8) -> String {
    let (name, meaning) = match rcode {
        1 => ("FORMERR", "a record is malformed for it"),
        2 => ("SERVFAIL", "it failed itself"),
        3 => ("NXDOMAIN", "a name is gone"),
        4 => ("NOTIMP", "it takes no updates"),
        5 => ("REFUSED", "its policy forbids it"),
        6 => ("YXDOMAIN", "a name is there meanwhile"),
        7 => ("YXRRSET", "somebody else created the record set meanwhile"),
        8 => ("NXRRSET", "somebody else changed the record set meanwhile"),
        9 => ("NOTAUTH", "it does not serve the zone, or does not take the key"),
        10 => ("NOTZONE", "a name is not in the zone"),
        _ => return format!("code {rcode}"),
    };
    format!("{name}, {meaning}")
}

fn id() -> u16 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish() as u16
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Most sets of an update: far below 65,535 octets for addresses; a batch that is over is halved as a refused one is.
const BATCH_MAX: usize = 200;
/// Most octets of a transfer.
const TRANSFER_MAX: usize = 256 << 20;
