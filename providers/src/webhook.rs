//! Client of ExternalDNS' webhook: publishes through any webhook provider.
//!
//! ```text
//! GET  /                  media type and domain filter                200   at each read
//! GET  /records           all record sets                             200
//! POST /adjustendpoints   wanted sets in the provider's form          200   before each plan
//! POST /records           changes                                     204
//! ```
//! Status 401, 403, 404, 408, 429 and 500 or more are retried, as are broken and late calls. Any other status is about the request: then the
//! batch is halved until the rejected name is alone. No status ends the publisher.
//!
//! Source: `provider/webhook/webhook.go` of ExternalDNS 0.21. Not implemented: its cache, its retries at the start (each sync negotiates
//! again), and filters by Go's regular expressions: such a provider omits names from `/adjustendpoints` itself.

use std::time::Duration;

use async_trait::async_trait;
use fairway_http::Method;
use fairway_model::{Changes, Name, ProviderRecordSet};

use crate::{
    DomainFilter, Endpoint, Json, MEDIA_TYPE, endpoint,
    http::{Answer, Api},
    plain_name,
    publish::{Limits, Provider, ProviderError, Weights},
};

/// A provider behind a webhook.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// The API; its secret is sent as `Authorization`.
    pub api: Api,
    /// Zones that are published to; records of other zones are ignored.
    pub zones: Vec<Name>,
    /// Field for weights; `None` if it supports no set identifiers.
    pub weights: Option<Weights>,
    /// Longest time of a call.
    pub timeout: Duration,
}

#[async_trait]
impl Provider for Webhook {
    fn limits(&self) -> Limits {
        Limits {
            batch_max: BATCH_MAX,
            is_conditional: false,
            types: Some(endpoint::TYPES),
            weights: self.weights,
            timeout: self.timeout,
        }
    }

    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        self.negotiate().await?;
        let answer = self.ask(Method::GET, "/records", &[ACCEPT], Vec::new()).await?;
        let read: Option<Vec<Endpoint>> = body(&answer, "/records")?;
        let mut sets = endpoint::sets(read.unwrap_or_default());
        sets.retain(|set| self.zones.iter().any(|zone| set.set.name.is_within(zone)));
        Ok(sets)
    }

    async fn adjust(&self, wanted: Vec<ProviderRecordSet>) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        if wanted.is_empty() {
            return Ok(wanted);
        }
        let filter = self.negotiate().await?;
        // The plan rejects sets of other types, with its own reason.
        let (mut wanted, other): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|set| endpoint::TYPES.contains(&set.set.rtype));
        wanted.retain(|set| accepts(&filter, &set.set.name));
        let asked: Vec<_> = wanted.iter().map(endpoint::endpoint).collect();
        let answer = self.ask(Method::POST, "/adjustendpoints", &[CONTENT, ACCEPT], asked.to_json()).await?;
        let adjusted: Option<Vec<Endpoint>> = body(&answer, "/adjustendpoints")?;
        let mut sets = endpoint::sets(adjusted.unwrap_or_default());
        // A set without records would hold its name.
        sets.retain(|set| !set.set.rdatas.is_empty());
        sets.extend(other);
        Ok(sets)
    }

    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError> {
        let asked = endpoint::changes(changes).to_json();
        let answer = self.api.send(Method::POST, "/records", &[CONTENT], asked).await?;
        match answer.status() {
            204 => Ok(()),
            200..300 => Err(unexpected("/records", &answer, "204")),
            _ => Err(answer.failure()),
        }
    }
}

impl Webhook {
    /// Returns the domain filter, or an error if the server is not a webhook of this version.
    async fn negotiate(&self) -> Result<DomainFilter, ProviderError> {
        let answer = self.ask(Method::GET, "/", &[ACCEPT], Vec::new()).await?;
        if answer.content_type() != Some(MEDIA_TYPE) {
            let found = answer.content_type().unwrap_or("none");
            let what = format!("/: the media type is {found:.100}, expected {MEDIA_TYPE}");
            return Err(ProviderError::Unavailable(what));
        }
        body(&answer, "/")
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Vec<u8>,
    ) -> Result<Answer, ProviderError> {
        let answer = self.api.send(method, path, headers, body).await?;
        // These calls are not about single records, so no status is a rejection of one.
        if answer.status() == 200 { Ok(answer) } else { Err(unexpected(path, &answer, "200")) }
    }
}

fn unexpected(path: &str, answer: &Answer, wanted: &str) -> ProviderError {
    ProviderError::Unavailable(format!("{path}: expected status {wanted}, got {}", answer.excerpt()))
}

fn body<T: Json>(answer: &Answer, path: &str) -> Result<T, ProviderError> {
    T::from_json(answer.body())
        .map_err(|error| ProviderError::Unavailable(format!("{path}: the response is malformed: {error}")))
}

/// Returns true if the lists of a filter accept a name.
fn accepts(filter: &DomainFilter, name: &Name) -> bool {
    let name = name.to_plain();
    let is_in = |domain: &String| {
        let domain = plain_name(domain);
        match domain.strip_prefix('.') {
            Some(above) => name.strip_suffix(above).is_some_and(|rest| rest.ends_with('.')),
            None => name.strip_suffix(&domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
        }
    };
    let is_given = |domains: &[String]| domains.iter().any(|domain| !domain.is_empty());
    (!is_given(&filter.include) || filter.include.iter().any(is_in))
        && !filter.exclude.iter().any(|d| !d.is_empty() && is_in(d))
}

/// Maximum number of sets of a call.
const BATCH_MAX: usize = 1_000;
const ACCEPT: (&str, &str) = ("accept", MEDIA_TYPE);
const CONTENT: (&str, &str) = ("content-type", MEDIA_TYPE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domain_filter_matches_as_in_external_dns() {
        let list = |domains: &[&str]| domains.iter().map(|domain| (*domain).to_owned()).collect();
        let filter = DomainFilter { include: list(&["a.example", ".B.example."]), exclude: list(&["no.a.example"]) };
        for (name, taken) in [
            ("a.example.", true),
            ("x.A.example.", true),
            ("xa.example.", false),
            ("b.example.", false),
            ("x.b.example.", true),
            ("x.no.a.example.", false),
            ("c.example.", false),
        ] {
            assert_eq!(accepts(&filter, &name.parse().unwrap()), taken, "{name}");
        }
        assert!(accepts(&DomainFilter::default(), &"a.example.".parse().unwrap()));
        assert!(accepts(
            &DomainFilter { include: list(&[""]), ..DomainFilter::default() },
            &"a.example.".parse().unwrap()
        ));
    }
}
