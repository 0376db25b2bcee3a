//! Batches of the webhook through its real routes and ledger: parsed, checked, committed to a store, and read back.

use axum::{
    Router,
    body::Body,
    http::{Request, header::CONTENT_TYPE},
};
use fairway_providers::{Endpoint, Json, MEDIA_TYPE};
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use crate::{Target, mix, mutate, rng::Rng, server::Server};

/// The webhook target. Inputs are bodies of `POST /records`; the length of an input chooses the client and the call.
pub struct Batches {
    server: Server,
}

/// Words of batches.
const WORDS: &[&str] = &[
    "{\"create\":[",
    "\"updateOld\":[",
    "\"updateNew\":[",
    "\"delete\":[",
    "{\"dnsName\":\"a.gslb.test\",\"targets\":[\"192.0.2.1\"],\"recordType\":\"A\",\"recordTTL\":60}",
    "{\"dnsName\":\"b.gslb.test\",\"targets\":[\"2001:db8::1\"],\"recordType\":\"AAAA\"}",
    "{\"dnsName\":\"c.gslb.test\",\"targets\":[\"a.gslb.test\"],\"recordType\":\"CNAME\"}",
    "{\"dnsName\":\"*.gslb.test\",\"targets\":[\"x\"],\"recordType\":\"TXT\"}",
    "\"dnsName\":\"a\\\\000b.gslb.test\"",
    "\"dnsName\":\"gslb.test\"",
    "\"dnsName\":\"elsewhere.example\"",
    "\"setIdentifier\":\"eu\"",
    "\"labels\":{\"owner\":\"o\",\"resource\":\"service/d/x\"}",
    "\"providerSpecific\":[{\"name\":\"webhook/gslb-weight\",\"value\":\"5\"}]",
    "\"webhook/gslb-policy\"",
    "\"webhook/gslb-health-port\"",
    "\"webhook/gslb-tier\"",
    "\"recordTTL\":-1",
    "\"recordType\":\"SRV\"",
    "\"recordType\":\"NS\"",
    "\"0 50 80 a.gslb.test\"",
    "\"heritage=external-dns,external-dns/owner=o\"",
    "null",
    "1e999",
    "\"\\ud800\"",
    "[[[[[[[[",
    "}",
    "]",
    ",",
];

impl Batches {
    /// Starts a server for the target.
    pub fn new() -> Result<Self, String> {
        Self::with(|routes| routes)
    }

    /// Returns the target with other routes: those with a planted bug.
    pub fn with(change: fn(Router) -> Router) -> Result<Self, String> {
        let mut server = Server::start()?;
        server.webhook = change(server.webhook);
        Ok(Self { server })
    }

    /// Sends a call; returns its status and the body of the response.
    async fn call(&self, method: &str, path: &str, body: Vec<u8>) -> Result<(u16, Vec<u8>), String> {
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, MEDIA_TYPE);
        let request = request.body(Body::from(body)).map_err(|error| error.to_string())?;
        let service = TowerToHyperService::new(self.server.webhook.clone());
        let response = service.call(request).await.unwrap_or_else(|never| match never {});
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(|error| error.to_string())?;
        Ok((parts.status.as_u16(), body.to_bytes().to_vec()))
    }

    async fn send(&self, input: &[u8]) -> Result<Vec<u64>, String> {
        let client = CLIENTS[input.len() % CLIENTS.len()];
        let call = if input.len().is_multiple_of(7) { "/adjustendpoints" } else { "/records" };
        let (status, body) = self.call("POST", &format!("{client}{call}"), input.to_vec()).await?;
        match status {
            200 if call != "/records" => {
                let again = self.call("POST", &format!("{client}{call}"), body.clone()).await?;
                if again.0 != status || again.1 != body {
                    return Err("what was adjusted is adjusted again".to_owned());
                }
            }
            204 => {
                let (status, body) = self.call("GET", &format!("{client}/records"), Vec::new()).await?;
                let listed: Result<Vec<Endpoint>, _> = Json::from_json(&body);
                if status != 200 || listed.is_err() {
                    return Err(format!("the records cannot be read any more: {status} {listed:?}"));
                }
            }
            400 | 413 | 503 | 507 => {}
            _ => return Err(format!("status {status}: {}", String::from_utf8_lossy(&body))),
        }
        Ok(vec![mix(u64::from(status) ^ crate::kind(&String::from_utf8_lossy(&body)))])
    }
}

impl Target for Batches {
    fn run(&mut self, input: &[u8]) -> Result<Vec<u64>, String> {
        self.server.runtime.block_on(self.send(input))
    }

    fn mutate(&self, rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
        mutate::text(rng, input, other, WORDS)
    }
}

/// Base paths of the clients.
const CLIENTS: [&str; 3] = ["", "/owners/a", "/owners/b"];
