//! Methods and paths that both the server and the client use. The path of other routes is only in their row of the table.

use std::borrow::Cow;

use fairway_http::{Method, encode};

/// A method and a path; parameters are names in braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The method.
    pub method: Method,
    /// The path.
    pub path: Cow<'static, str>,
}

impl Endpoint {
    /// Returns `GET` on a path.
    pub const fn get(path: &'static str) -> Self {
        Self { method: Method::GET, path: Cow::Borrowed(path) }
    }

    /// Returns `POST` on a path.
    pub const fn post(path: &'static str) -> Self {
        Self { method: Method::POST, path: Cow::Borrowed(path) }
    }

    /// Returns `PUT` on a path.
    pub const fn put(path: &'static str) -> Self {
        Self { method: Method::PUT, path: Cow::Borrowed(path) }
    }

    /// Returns `DELETE` on a path.
    pub const fn delete(path: &'static str) -> Self {
        Self { method: Method::DELETE, path: Cow::Borrowed(path) }
    }

    /// Returns a method on a path that is made at run time.
    pub fn new(method: Method, path: impl Into<Cow<'static, str>>) -> Self {
        Self { method, path: path.into() }
    }

    /// Returns the path with its parameters replaced, in their order; names are percent-encoded.
    pub fn path_with(&self, names: &[&str]) -> String {
        let mut names = names.iter();
        let step = |step: &str| match step.starts_with('{') {
            true => names.next().map(|name| encode(name)).unwrap_or_default(),
            false => step.to_owned(),
        };
        self.path.split('/').map(step).collect::<Vec<_>>().join("/")
    }
}

/// Returns the path of a collection of declared objects: `/v1/pools`.
pub fn collection(section: &str) -> String {
    format!("/v1/{section}")
}

/// Returns the path of a declared object, or of an intent by its key; the steps of the name are percent-encoded.
pub fn object(section: &str, name: &str) -> String {
    format!("{}/{}", collection(section), name.split('/').map(encode).collect::<Vec<_>>().join("/"))
}

/// Creates an override.
pub const ADD_OVERRIDE: Endpoint = Endpoint::post("/v1/overrides");
/// Creates and replaces many objects.
pub const APPLY: Endpoint = Endpoint::post("/v1/apply");
/// Releases held withdrawals of an owner.
pub const CONFIRM: Endpoint = Endpoint::post("/v1/contributions/confirm");
/// Lists the contributions of the webhook.
pub const CONTRIBUTIONS: Endpoint = Endpoint::get("/v1/contributions");
/// Returns a DNS update record.
pub const DNS_UPDATE_RECORD: Endpoint = Endpoint::get("/v2/projects/{project}/dns-update-records/{dnsUpdateRecord}");
/// Removes what an owner contributed.
pub const EVICT: Endpoint = Endpoint::delete("/v1/contributions");
/// Lists events of the change log.
pub const EVENTS: Endpoint = Endpoint::get("/v1/events");
/// Explains an answer.
pub const EXPLAIN: Endpoint = Endpoint::get("/v1/explain");
/// Returns all declared objects.
pub const EXPORT: Endpoint = Endpoint::get("/v1/objects");
/// Lists the overrides.
pub const LIST_OVERRIDES: Endpoint = Endpoint::get("/v1/overrides");
/// Returns the metrics.
pub const METRICS: Endpoint = Endpoint::get("/metrics");
/// Lists the publishers.
pub const PUBLISHING: Endpoint = Endpoint::get("/v1/publishing");
/// Syncs a provider.
pub const PUBLISH_APPLY: Endpoint = Endpoint::post("/v1/publishing/{provider}/apply");
/// Returns what a sync would change.
pub const PUBLISH_PLAN: Endpoint = Endpoint::get("/v1/publishing/{provider}/plan");
/// Takes record sets over.
pub const PUBLISH_TAKE: Endpoint = Endpoint::post("/v1/publishing/{provider}/take");
/// Replaces a table of latencies.
pub const PUSH_LATENCY: Endpoint = Endpoint::put("/v1/latency/{table}");
/// Reports the load of a cluster.
pub const PUSH_LOAD: Endpoint = Endpoint::put("/v1/load/{cluster}");
/// Reloads the configuration.
pub const RELOAD: Endpoint = Endpoint::post("/v1/reload");
/// Deletes an override.
pub const REMOVE_OVERRIDE: Endpoint = Endpoint::delete("/v1/overrides/{id}");
/// Returns the state of the server.
pub const STATE: Endpoint = Endpoint::get("/v1/state");
/// Stops the server.
pub const STOP: Endpoint = Endpoint::post("/v1/stop");
/// Returns the version of the server.
pub const VERSION: Endpoint = Endpoint::get("/version");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_parameters_are_replaced_and_percent_encoded() {
        assert_eq!(PUBLISH_PLAN.path_with(&["shop/bind"]), "/v1/publishing/shop%2Fbind/plan");
        assert_eq!(DNS_UPDATE_RECORD.path_with(&["a b", "ü"]), "/v2/projects/a%20b/dns-update-records/%C3%BC");
        assert_eq!(object("intents", "inbound/p/a?"), "/v1/intents/inbound/p/a%3F");
    }
}
