//! Calls of etcd's HTTP gateway: keys and values in base64, numbers as texts.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use fairway_model::Secret;
use hyper::Method;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{http::Api, publish::ProviderError};

/// A server that answered, and the token that it gave.
pub(super) struct Session<'a> {
    api: &'a Api,
    token: Option<String>,
}

/// A key with its value, as texts; what is no text has a value that nobody understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kv {
    pub(super) key: String,
    pub(super) value: String,
}

#[derive(Serialize)]
struct Range {
    key: String,
    range_end: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Ranged {
    header: Header,
    kvs: Vec<WireKv>,
    more: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Header {
    revision: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireKv {
    key: String,
    value: String,
}

/// What is to be done if nobody was faster.
#[derive(Default, Serialize)]
pub(super) struct Transaction {
    compare: Vec<Compare>,
    success: Vec<Operation>,
}

#[derive(Serialize)]
struct Compare {
    key: String,
    range_end: String,
    target: &'static str,
    result: &'static str,
    mod_revision: String,
}

#[derive(Serialize)]
enum Operation {
    #[serde(rename = "request_put")]
    Put { key: String, value: String },
    #[serde(rename = "request_delete_range")]
    Delete { key: String },
    #[serde(rename = "request_range")]
    Range(Range),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Committed {
    header: Header,
    succeeded: bool,
    responses: Vec<Response>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response {
    response_range: Ranged,
}

#[derive(Serialize)]
struct Authenticate<'a> {
    name: &'a str,
    password: &'a str,
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

impl<'a> Session<'a> {
    /// Asks for a token where there is a user; else whether anybody answers.
    pub(super) async fn begin(api: &'a Api, user: Option<&(String, Secret)>) -> Result<Self, ProviderError> {
        let mut session = Self { api, token: None };
        match user {
            Some((name, password)) => {
                let asked = Authenticate { name, password: password.expose() };
                let said: Token = session.call("/v3/auth/authenticate", &asked).await.map_err(|error| match error {
                    // A wrong password is status 400 there.
                    ProviderError::Refused(why) => ProviderError::Unavailable(why),
                    error => error,
                })?;
                session.token = Some(said.token);
            }
            None => drop(session.range(&range_of(PROBE), Some(1), None).await?),
        }
        Ok(session)
    }

    /// All keys that begin with this, as they were at one moment.
    pub(super) async fn all_below(&self, prefix: &str) -> Result<Vec<Kv>, ProviderError> {
        let (mut key, end) = range_of(prefix);
        let (mut revision, mut found) = (None, Vec::new());
        loop {
            let page = self.range(&(key, end.clone()), Some(PAGE), revision.clone()).await?;
            let last = page.kvs.last().map(|kv| kv.key.clone());
            revision.get_or_insert(page.header.revision);
            found.extend(page.kvs.into_iter().filter_map(Kv::read));
            // The next key is the last one with a zero octet behind it.
            match last.filter(|_| page.more).and_then(|last| BASE64.decode(last).ok()) {
                Some(last) => key = BASE64.encode([&last[..], &[0]].concat()),
                None => return Ok(found),
            }
        }
    }

    /// What begins with each of these, and the revision at which it was so.
    pub(super) async fn ranges(&self, prefixes: &[String]) -> Result<(u64, Vec<Vec<Kv>>), ProviderError> {
        let range = |prefix: &String| {
            let (key, range_end) = range_of(prefix);
            Operation::Range(Range { key, range_end, limit: None, revision: None })
        };
        let asked = Transaction { compare: Vec::new(), success: prefixes.iter().map(range).collect() };
        let said: Committed = self.call("/v3/kv/txn", &asked).await?;
        let revision = said.header.revision.parse().map_err(|_| misunderstood("it has no revision"))?;
        if said.responses.len() != prefixes.len() {
            return Err(misunderstood("it has not all answers"));
        }
        let kvs = |response: Response| response.response_range.kvs.into_iter().filter_map(Kv::read).collect();
        Ok((revision, said.responses.into_iter().map(kvs).collect()))
    }

    /// Carries a transaction out; whether nobody was faster.
    pub(super) async fn commit(&self, transaction: Transaction) -> Result<bool, ProviderError> {
        let said: Committed = self.call("/v3/kv/txn", &transaction).await?;
        Ok(said.succeeded)
    }

    async fn range(
        &self,
        (key, range_end): &(String, String),
        limit: Option<u64>,
        revision: Option<String>,
    ) -> Result<Ranged, ProviderError> {
        let asked = Range { key: key.clone(), range_end: range_end.clone(), limit, revision };
        self.call("/v3/kv/range", &asked).await
    }

    async fn call<T: DeserializeOwned>(&self, path: &str, asked: &impl Serialize) -> Result<T, ProviderError> {
        let body = serde_json::to_vec(asked).map_err(|error| ProviderError::Refused(error.to_string()))?;
        let token = self.token.as_deref().map(|token| ("authorization", token));
        let headers: Vec<_> = [("content-type", "application/json")].into_iter().chain(token).collect();
        let answer = self.api.send(Method::POST, path, &headers, body).await?;
        if answer.status != 200 {
            return Err(answer.failure());
        }
        serde_json::from_slice(&answer.body).map_err(|error| misunderstood(&error.to_string()))
    }
}

impl Kv {
    fn read(wire: WireKv) -> Option<Self> {
        let text = |base64: &str| String::from_utf8(BASE64.decode(base64).ok()?).ok();
        Some(Self { key: text(&wire.key)?, value: text(&wire.value).unwrap_or_default() })
    }
}

impl Transaction {
    /// Only if no key that begins with this was created or changed after a revision.
    pub(super) fn unchanged_since(&mut self, prefix: &str, revision: u64) {
        let (key, range_end) = range_of(prefix);
        let mod_revision = revision.saturating_add(1).to_string();
        self.compare.push(Compare { key, range_end, target: "MOD", result: "LESS", mod_revision });
    }

    pub(super) fn put(&mut self, key: &str, value: &str) {
        self.success.push(Operation::Put { key: BASE64.encode(key), value: BASE64.encode(value) });
    }

    pub(super) fn delete(&mut self, key: &str) {
        self.success.push(Operation::Delete { key: BASE64.encode(key) });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.success.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.success.len()
    }
}

/// The range of all keys that begin with this.
fn range_of(prefix: &str) -> (String, String) {
    let mut end = prefix.as_bytes().to_vec();
    // Keys are ASCII, so that the next octet is there.
    end.last_mut().into_iter().for_each(|last| *last += 1);
    (BASE64.encode(prefix), BASE64.encode(end))
}

fn misunderstood(what: &str) -> ProviderError {
    ProviderError::Unavailable(format!("the answer is not understood: {what}"))
}

/// A key that nobody has.
const PROBE: &str = "fairway";
/// Keys of a page: a few MB with values as they are here.
const PAGE: u64 = 5_000;
