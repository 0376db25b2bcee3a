//! Requests to the API of a cluster that objects are written to, and their errors in one line with a hint.

use std::{sync::Arc, time::Duration};

use fairway_model::{ClusterName, KubernetesApi};
use fairway_providers::publish::ProviderError;
use kube::{Client, Error, core::Status};
use tokio::{sync::Mutex, time::timeout};

use crate::connect::{connect, shown};

/// A connection that is made when it is needed, and again after its credentials were rejected.
pub(crate) struct Connection {
    pub(crate) cluster: ClusterName,
    api: Arc<KubernetesApi>,
    client: Mutex<Option<Client>>,
}

/// A kind of request: the right that it needs, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Right<'a> {
    pub(crate) verb: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) group: &'static str,
    pub(crate) namespace: &'a str,
}

/// A failed request.
#[derive(Debug)]
pub(crate) struct Failure {
    /// HTTP status of the answer; 0 if there is none.
    pub(crate) code: u16,
    /// Cluster, error and hint.
    pub(crate) text: String,
}

impl Connection {
    pub(crate) fn new(cluster: ClusterName, api: Arc<KubernetesApi>) -> Self {
        Self { cluster, api, client: Mutex::default() }
    }

    /// Returns a client with the credentials that were read last.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        let mut client = self.client.lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let connected = connect(&self.api).await;
        let connected = connected.map_err(|error| self.failure(0, &shown(&error)))?;
        Ok(client.insert(connected).clone())
    }

    /// Waits for the answer to a request, for at most this time.
    pub(crate) async fn answer<T>(
        &self,
        right: Right<'_>,
        limit: Duration,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        let Ok(answer) = timeout(limit, request).await else {
            let what = format!("{} {}: no answer within {} s", right.verb, right.resource, limit.as_secs());
            return Err(self.failure(0, &what));
        };
        match answer {
            Ok(answer) => Ok(answer),
            Err(Error::Api(status)) => {
                if status.code == UNAUTHORIZED {
                    // The credentials are read again for the next request.
                    *self.client.lock().await = None;
                }
                Err(self.failure(status.code, &explained(&status, right)))
            }
            Err(error) => Err(self.failure(0, &shown(&error))),
        }
    }

    pub(crate) fn failure(&self, code: u16, what: &str) -> Failure {
        Failure { code, text: format!("cluster {}: {what}", self.cluster) }
    }
}

impl From<Failure> for ProviderError {
    fn from(Failure { code, text }: Failure) -> Self {
        match code {
            BAD_REQUEST | TOO_LARGE | INVALID => Self::Refused(text),
            _ => Self::Unavailable(text),
        }
    }
}

/// Returns the message of the API server with a hint.
fn explained(status: &Status, right: Right<'_>) -> String {
    let Right { verb, resource, group, namespace } = right;
    let message = status.message.replace(['\n', '\r'], " ");
    let message: String = message.chars().take(MESSAGE_MAX).collect();
    match status.code {
        UNAUTHORIZED => format!("the credentials are not valid: {message}"),
        // There are other reasons, such as a namespace that is being deleted.
        FORBIDDEN if message.contains("cannot") => {
            let hint = format!("add the verb {verb} for {resource} of {group} in the namespace {namespace}");
            format!("the credentials lack a right: {message}; {hint}, as fairway rbac prints it")
        }
        NOT_FOUND if message.starts_with("namespaces") => format!("{message}; create the namespace"),
        NOT_FOUND if verb == "list" || verb == "create" => {
            format!("it has no {resource} of {group}; install their CustomResourceDefinition")
        }
        _ => format!("{verb} {resource}: {message}"),
    }
}

/// Maximum number of characters of a message of the API server.
const MESSAGE_MAX: usize = 300;
const BAD_REQUEST: u16 = 400;
const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;
pub(crate) const NOT_FOUND: u16 = 404;
/// The object exists already, or is not as it was read.
pub(crate) const CONFLICT: u16 = 409;
const TOO_LARGE: u16 = 413;
const INVALID: u16 = 422;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_has_the_missing_right_the_missing_kind_or_the_missing_namespace() {
        let right = |verb| Right { verb, resource: "dnsendpoints", group: "externaldns.k8s.io", namespace: "dns" };
        let status = |code, message: &str| Status { code, message: message.to_owned(), ..Status::default() };
        let table = [
            (
                403,
                "dnsendpoints is forbidden: User \"u\"\ncannot list resource",
                "list",
                "User \"u\" cannot list resource; add the verb list for dnsendpoints of externaldns.k8s.io in the namespace dns, as",
            ),
            (403, "it is being terminated", "create", "create dnsendpoints: it is being terminated"),
            (404, "404 page not found", "list", "it has no dnsendpoints of externaldns.k8s.io; install"),
            (404, "namespaces \"dns\" not found", "create", "namespaces \"dns\" not found; create the namespace"),
            (401, "Unauthorized", "list", "the credentials are not valid"),
        ];
        for (code, message, verb, expected) in table {
            let text = explained(&status(code, message), right(verb));
            assert!(text.contains(expected) && !text.contains('\n'), "{text}");
        }
    }
}
