//! Any provider that speaks the webhook of ExternalDNS, with Fairway as its client.
//!
//! ```text
//! GET  /                  media type, exactly, and the domains that it takes     200   at each read
//! GET  /records           all that it holds                                      200
//! POST /adjustendpoints   what is wanted, as it will keep it                     200   before each plan
//! POST /records           changes                                                204
//! ```
//! A status of 500 and more, 401, 403, 404, 408 and 429 may pass, and a call that is cut off or late may: they are tried again. Any other is
//! about what was sent: then the batch is halved until the name at fault stands alone. No status ends anything.
//!
//! Source: `provider/webhook/webhook.go` of ExternalDNS 0.21. Left out: its cache and its retries at start (each sync negotiates anew), and
//! filters by regular expressions, which are Go's: such a provider is asked what it will keep all the same, and drops the rest itself.

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
    /// Where it is; its secret goes as `Authorization`.
    pub api: Api,
    /// Its zones that are published to: what it shows of others is not looked at.
    pub zones: Vec<Name>,
    /// How it is told weights; none if it knows no set identifiers.
    pub weights: Option<Weights>,
    /// Longest time of a call.
    pub timeout: Duration,
}

#[async_trait]
impl Provider for Webhook {
    fn limits(&self) -> Limits {
        Limits { batch_max: BATCH_MAX, types: Some(endpoint::TYPES), weights: self.weights, timeout: self.timeout }
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
        // What it cannot be told in is refused by the plan, for its own reason.
        let (mut wanted, other): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|set| endpoint::TYPES.contains(&set.set.rtype));
        wanted.retain(|set| takes(&filter, &set.set.name));
        let asked: Vec<_> = wanted.iter().map(endpoint::endpoint).collect();
        let answer = self.ask(Method::POST, "/adjustendpoints", &[CONTENT, ACCEPT], asked.to_json()).await?;
        let adjusted: Option<Vec<Endpoint>> = body(&answer, "/adjustendpoints")?;
        let mut sets = endpoint::sets(adjusted.unwrap_or_default());
        // One without records would hold its name.
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
    /// The domains that it takes; an error where it is no webhook of this version.
    async fn negotiate(&self) -> Result<DomainFilter, ProviderError> {
        let answer = self.ask(Method::GET, "/", &[ACCEPT], Vec::new()).await?;
        if answer.content_type() != Some(MEDIA_TYPE) {
            let said = answer.content_type().unwrap_or("none");
            let what = format!("/: its media type is {said:.100}, and has to be {MEDIA_TYPE}");
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
        // Nothing can be left out of what is asked here: no status is about one record.
        if answer.status() == 200 { Ok(answer) } else { Err(unexpected(path, &answer, "200")) }
    }
}

fn unexpected(path: &str, answer: &Answer, wanted: &str) -> ProviderError {
    ProviderError::Unavailable(format!("{path}: not status {wanted}: {}", answer.excerpt()))
}

fn body<T: Json>(answer: &Answer, path: &str) -> Result<T, ProviderError> {
    T::from_json(answer.body())
        .map_err(|error| ProviderError::Unavailable(format!("{path}: the answer is not understood: {error}")))
}

/// Whether a filter's lists take a name.
fn takes(filter: &DomainFilter, name: &Name) -> bool {
    let name = plain_name(&name.to_string());
    let is_in = |domain: &String| {
        let domain = plain_name(domain);
        match domain.strip_prefix('.') {
            Some(above) => name.strip_suffix(above).is_some_and(|rest| rest.ends_with('.')),
            None => name.strip_suffix(&domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
        }
    };
    let said = |domains: &[String]| domains.iter().any(|domain| !domain.is_empty());
    (!said(&filter.include) || filter.include.iter().any(is_in))
        && !filter.exclude.iter().any(|d| !d.is_empty() && is_in(d))
}

/// Sets of a call.
const BATCH_MAX: usize = 1_000;
const ACCEPT: (&str, &str) = ("accept", MEDIA_TYPE);
const CONTENT: (&str, &str) = ("content-type", MEDIA_TYPE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_read_as_external_dns_reads_them() {
        let list = |domains: &[&str]| domains.iter().map(|domain| (*domain).to_owned()).collect();
        let filter = DomainFilter {
            include: list(&["a.example", ".B.example."]),
            exclude: list(&["no.a.example"]),
            ..DomainFilter::default()
        };
        for (name, taken) in [
            ("a.example.", true),
            ("x.A.example.", true),
            ("xa.example.", false),
            ("b.example.", false),
            ("x.b.example.", true),
            ("x.no.a.example.", false),
            ("c.example.", false),
        ] {
            assert_eq!(takes(&filter, &name.parse().unwrap()), taken, "{name}");
        }
        assert!(takes(&DomainFilter::default(), &"a.example.".parse().unwrap()));
        assert!(takes(
            &DomainFilter { include: list(&[""]), ..DomainFilter::default() },
            &"a.example.".parse().unwrap()
        ));
    }
}
