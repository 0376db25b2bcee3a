//! PowerDNS over its HTTP API (`/api/v1/servers/localhost/zones`).

use std::time::Duration;

use async_trait::async_trait;
use fairway_http::Method;
use fairway_model::{Changes, Name, ProviderRecordSet, RecordSet, Rtype, Ttl};
use fairway_zonefile::{rdata_from_text, rdata_text};
use serde::{Deserialize, Serialize};

use crate::{
    http::Api,
    publish::{Limits, Provider, ProviderError},
    sets::part,
};

/// A PowerDNS server.
#[derive(Clone, Debug)]
pub struct PowerDns {
    /// The API; its secret is sent as `X-API-Key`.
    pub api: Api,
    /// Its zones that are published to.
    pub zones: Vec<Name>,
    /// Longest time of a call.
    pub timeout: Duration,
}

#[derive(Deserialize)]
struct Zone {
    #[serde(default)]
    rrsets: Vec<RrSet>,
}

#[derive(Serialize, Deserialize)]
struct RrSet {
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    #[serde(default)]
    ttl: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changetype: Option<String>,
    #[serde(default)]
    records: Vec<Content>,
}

#[derive(Serialize, Deserialize)]
struct Content {
    content: String,
    #[serde(default)]
    disabled: bool,
}

#[derive(Serialize)]
struct Patch {
    rrsets: Vec<RrSet>,
}

#[async_trait]
impl Provider for PowerDns {
    fn limits(&self) -> Limits {
        Limits { batch_max: 1_000, is_conditional: false, types: None, weights: None, timeout: self.timeout }
    }

    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        let mut sets = Vec::new();
        for zone in &self.zones {
            let answer = self.api.send(Method::GET, &path(zone), &[], Vec::new()).await?;
            if answer.status() != 200 {
                return Err(ProviderError::Unavailable(format!("{zone}: {}", answer.excerpt())));
            }
            let read: Zone = serde_json::from_slice(answer.body())
                .map_err(|error| ProviderError::Unavailable(format!("{zone}: the response is malformed: {error}")))?;
            for set in read.rrsets {
                let what = format!("{zone}: {} {} is not a record set", set.name, set.rtype);
                sets.push(ProviderRecordSet::plain(read_set(set).ok_or(ProviderError::Unavailable(what))?));
            }
        }
        Ok(sets)
    }

    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError> {
        for zone in &self.zones {
            let changes = part(&self.zones, zone, changes);
            // Deletions first, so that a CNAME can replace addresses.
            let mut rrsets: Vec<_> = changes.delete.iter().map(deletion).collect();
            rrsets.extend(changes.puts().map(replacement));
            if rrsets.is_empty() {
                continue;
            }
            let body =
                serde_json::to_vec(&Patch { rrsets }).map_err(|error| ProviderError::Refused(error.to_string()))?;
            let answer =
                self.api.send(Method::PATCH, &path(zone), &[("content-type", "application/json")], body).await?;
            if answer.status() != 204 {
                return Err(answer.failure());
            }
        }
        Ok(())
    }
}

/// Returns the path of a zone. Special characters are written as `=XX`, PowerDNS' own escape.
fn path(zone: &Name) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let escaped = zone.to_string().chars().fold(String::new(), |mut escaped, c| {
        if plain(c) {
            escaped.push(c);
        } else {
            escaped.push_str(&format!("={:02X}", u32::from(c)));
        }
        escaped
    });
    format!("/api/v1/servers/localhost/zones/{escaped}")
}

/// Returns a set. If one of its records cannot be parsed, the set has no records, but still exists.
fn read_set(set: RrSet) -> Option<RecordSet> {
    let (name, rtype): (Name, Rtype) = (set.name.parse().ok()?, set.rtype.parse().ok()?);
    let rdatas = set.records.iter().map(|record| rdata_from_text(rtype, record.content.as_bytes(), &Name::root()).ok());
    let rdatas = rdatas.collect::<Option<Vec<_>>>().unwrap_or_default();
    Some(RecordSet::new(name, rtype, Ttl::from_secs(set.ttl).ok()?, rdatas))
}

fn deletion(set: &ProviderRecordSet) -> RrSet {
    let (name, rtype) = (set.set.name.to_string(), set.set.rtype.to_string());
    RrSet { name, rtype, ttl: 0, changetype: Some("DELETE".to_owned()), records: Vec::new() }
}

fn replacement(set: &ProviderRecordSet) -> RrSet {
    let content = |rdata: &[u8]| Content { content: rdata_text(set.set.rtype, rdata), disabled: false };
    RrSet {
        ttl: set.set.ttl.secs(),
        changetype: Some("REPLACE".to_owned()),
        records: set.set.rdatas.iter().map(|rdata| content(rdata)).collect(),
        ..deletion(set)
    }
}

#[cfg(test)]
mod tests {
    use fairway_http::{Tls, Url, test_util::BlackHole};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn black_holed_ipv6_address_costs_less_than_a_second() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_buf(&mut Vec::with_capacity(1_024)).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
        });
        let hole = BlackHole::new(port).await;
        let (url, timeout) = (Url::parse(&format!("http://localhost:{port}")).unwrap(), Duration::from_secs(10));
        let api = Api::new(url, Tls::default(), None, timeout);
        let server = PowerDns { api, zones: vec!["x.".parse().unwrap()], timeout };
        assert!(hole.costs_less_than_a_second(server.read()).await.unwrap().is_empty());
    }

    #[test]
    fn zone_is_escaped_in_the_path() {
        let path = |zone: &str| path(&zone.parse().unwrap());
        assert_eq!(path("example.com"), "/api/v1/servers/localhost/zones/example.com.");
        assert_eq!(path("0/26.2.0.192.in-addr.arpa"), "/api/v1/servers/localhost/zones/0=2F26.2.0.192.in-addr.arpa.");
    }

    #[test]
    fn unparsable_set_has_no_records() {
        let set = |rtype: &str, content: &str| RrSet {
            name: "a.x.".to_owned(),
            rtype: rtype.to_owned(),
            ttl: 60,
            changetype: None,
            records: vec![Content { content: content.to_owned(), disabled: false }],
        };
        assert!(read_set(set("CAA", "unknown")).unwrap().rdatas.is_empty());
        assert_eq!(read_set(set("MX", "10 mail.y.")).unwrap().rdatas.len(), 1);
        assert!(read_set(set("NOTYPE", "")).is_none());
    }
}
