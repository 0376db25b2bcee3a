//! Servers that accept DNS UPDATE (RFC 2136). The zone is read by a transfer (RFC 5936); both go over TCP and are signed with TSIG.
//!
//! The crate `domain` encodes, decodes and signs. hickory-proto (0.26) cannot be used: its verifier requires a signature on every message of
//! a transfer, where up to 99 messages may be unsigned (RFC 8945 section 5.3.1), and a record with RDATA that it cannot parse fails the
//! whole transfer, although that record may belong to another owner.

mod message;
#[cfg(test)]
mod tests;
mod tsig;

use std::{fmt::Display, io, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use domain::{
    base::{Message, iana::Rcode},
    rdata::tsig::Time48,
    tsig::{ClientSequence, Key},
};
use fairway_model::{Changes, Name, ProviderRecordSet, Rtype};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use self::message::Request;
pub use self::tsig::{TsigAlgorithm, TsigKey};
use crate::{
    publish::{Limits, Provider, ProviderError},
    sets::part,
};

/// A server that accepts DNS UPDATE.
#[derive(Clone, Debug)]
pub struct Rfc2136 {
    /// Its address and port.
    pub server: SocketAddr,
    /// Its zones that are published to.
    pub zones: Vec<Name>,
    /// Key that signs messages; `None` for a server that authorizes by client address.
    pub key: Option<TsigKey>,
    /// Longest time of a call.
    pub timeout: Duration,
}

#[async_trait]
impl Provider for Rfc2136 {
    fn limits(&self) -> Limits {
        Limits { batch_max: BATCH_MAX, is_conditional: true, types: None, weights: None, timeout: self.timeout }
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
            let of_zone = part(&self.zones, zone, changes);
            if !of_zone.is_empty() {
                self.update(zone, &of_zone).await?;
            }
        }
        Ok(())
    }
}

impl Rfc2136 {
    async fn update(&self, zone: &Name, changes: &Changes) -> Result<(), ProviderError> {
        let too_large = |_| ProviderError::Refused("the update is over 65,535 bytes".to_owned());
        let mut exchange = Exchange::start(self, message::update(id(), zone, changes).map_err(too_large)?).await?;
        let response = exchange.next().await?;
        exchange.finish()?;
        match response.header().rcode() {
            Rcode::NOERROR => Ok(()),
            rcode => Err(update_error(rcode, zone)),
        }
    }

    async fn transfer(&self, zone: &Name) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        let request = message::transfer(id(), zone).map_err(|error| ProviderError::Unavailable(error.to_string()))?;
        let mut exchange = Exchange::start(self, request).await?;
        let mut records: Vec<message::Record> = Vec::new();
        let mut bytes = 0;
        loop {
            let response = exchange.next().await?;
            let rcode = response.header().rcode();
            if rcode != Rcode::NOERROR {
                return Err(ProviderError::Unavailable(format!(
                    "the server refused the transfer of {zone} ({}); allow it for this key or address",
                    describe(rcode)
                )));
            }
            let more = message::answers(&response).map_err(malformed)?;
            bytes += more.iter().map(message::Record::size).sum::<usize>();
            records.extend(more);
            if records.first().is_none_or(|first| first.rtype != Rtype::SOA || first.name != *zone) {
                return Err(ProviderError::Unavailable(format!("the transfer of {zone} does not begin with its SOA")));
            }
            // The SOA at the end marks the end and is not a record of its own (RFC 5936 section 2.2).
            if records.len() > 1 && records.last().is_some_and(|last| last.rtype == Rtype::SOA) {
                exchange.finish()?;
                records.pop();
                return Ok(message::sets(records));
            }
            if bytes > TRANSFER_MAX {
                return Err(ProviderError::Unavailable(format!("the transfer of {zone} is over {TRANSFER_MAX} bytes")));
            }
        }
    }
}

/// One request and its responses, on a connection of their own.
struct Exchange {
    stream: TcpStream,
    id: u16,
    /// Verifies the responses; `None` without a key.
    signatures: Option<ClientSequence<Arc<Key>>>,
}

impl Exchange {
    async fn start(to: &Rfc2136, mut request: Request) -> Result<Self, ProviderError> {
        let too_large = || ProviderError::Refused("the update is over 65,535 bytes".to_owned());
        let signatures = match &to.key {
            None => None,
            Some(key) => {
                let key = key
                    .to_domain()
                    .ok_or_else(|| ProviderError::Unavailable("the TSIG secret is not base64".to_owned()))?;
                let signed = ClientSequence::request(key, &mut request, Time48::now());
                Some(signed.map_err(|_| too_large())?)
            }
        };
        let id = request.header().id();
        let request = request.finish();
        let length = u16::try_from(request.len()).map_err(|_| too_large())?;
        let mut stream = TcpStream::connect(to.server).await.map_err(|error| unavailable(to.server, &error))?;
        let framed = [&length.to_be_bytes()[..], &request].concat();
        stream.write_all(&framed).await.map_err(|error| unavailable(to.server, &error))?;
        Ok(Self { stream, id, signatures })
    }

    /// Returns the next response. An unsigned one is accepted between signed ones (RFC 8945 section 5.3.1).
    async fn next(&mut self) -> Result<Message<Vec<u8>>, ProviderError> {
        let broken =
            |error: io::Error| ProviderError::Unavailable(format!("the connection broke during the response: {error}"));
        let mut response = Message::from_octets(self.frame().await.map_err(broken)?).map_err(malformed)?;
        let header = response.header();
        if header.id() != self.id || !header.qr() {
            return Err(ProviderError::Unavailable("the response belongs to another request".to_owned()));
        }
        if let Some(signatures) = &mut self.signatures {
            // A server that cannot sign still gives its reason as the RCODE.
            let reason = match header.rcode() {
                Rcode::NOERROR => String::new(),
                rcode => format!(" ({})", describe(rcode)),
            };
            if let Err(error) = signatures.answer(&mut response, Time48::now()) {
                let error = tsig::reported_badtime(&response).unwrap_or(error);
                return Err(ProviderError::Unavailable(tsig::explain(error) + &reason));
            }
        }
        Ok(response)
    }

    /// Checks that the last response was signed.
    fn finish(self) -> Result<(), ProviderError> {
        let Some(signatures) = self.signatures else { return Ok(()) };
        signatures.done().map_err(|error| ProviderError::Unavailable(tsig::explain(error)))
    }

    async fn frame(&mut self) -> io::Result<Vec<u8>> {
        let length = self.stream.read_u16().await?;
        let mut wire = vec![0; usize::from(length)];
        self.stream.read_exact(&mut wire).await?;
        Ok(wire)
    }
}

fn malformed(error: impl Display) -> ProviderError {
    ProviderError::Unavailable(format!("the response is malformed: {error}"))
}

fn unavailable(server: SocketAddr, error: &io::Error) -> ProviderError {
    ProviderError::Unavailable(format!("{server}: {error}"))
}

/// Returns the error of a rejected UPDATE (RFC 2136 section 3). Some codes are about the server as a whole, others about a record.
fn update_error(rcode: Rcode, zone: &Name) -> ProviderError {
    let text = format!("the server rejected the update of {zone}: {}", describe(rcode));
    match rcode {
        Rcode::SERVFAIL | Rcode::NOTIMP | Rcode::NOTAUTH => ProviderError::Unavailable(text),
        _ => ProviderError::Refused(text),
    }
}

fn describe(rcode: Rcode) -> String {
    let meaning = match rcode {
        Rcode::FORMERR => "a record is malformed",
        Rcode::SERVFAIL => "the server failed",
        Rcode::NXDOMAIN => "a name no longer exists",
        Rcode::NOTIMP => "the server does not support updates",
        Rcode::REFUSED => "the policy of the server forbids it",
        Rcode::YXDOMAIN => "a name was created by another client",
        Rcode::YXRRSET => "the record set was created by another client",
        Rcode::NXRRSET => "the record set was changed by another client",
        Rcode::NOTAUTH => "the server does not serve the zone, or rejects the key",
        Rcode::NOTZONE => "a name is not in the zone",
        _ => return rcode.to_string(),
    };
    format!("{rcode}, {meaning}")
}

fn id() -> u16 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish() as u16
}

/// Maximum number of record sets of an update. 200 sets of addresses are far below 65,535 bytes; a batch over the limit is halved like a rejected one.
const BATCH_MAX: usize = 200;
/// Maximum number of bytes of the records of a transfer, in memory: 12 bytes of a message can be a record with a name of 255.
const TRANSFER_MAX: usize = 256 << 20;
