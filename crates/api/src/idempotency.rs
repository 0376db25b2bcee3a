//! The header `Idempotency-Key`: a repeated write gets the response of the first one, and changes nothing.

use axum::http::HeaderMap;

use crate::{
    outcome_wire::WriteOutcome,
    problem::{ApiError, bad_request},
};
use fairway_store::objects::{
    Change, Object, ObjectStore,
    idempotency::{self, IdempotencyError, IdempotentRequest, RequestInProgress, RequestsInProgress},
};

/// Next step of a write.
pub(crate) enum Begun {
    /// It was handled before: its outcome, and the object that records it.
    Done(WriteOutcome, Box<Object>),
    /// It has to be handled; with an idempotency key its outcome has to be recorded.
    New(Option<RequestInProgress>),
}

/// Returns the request that the headers identify; none without the header. `parts` is everything that makes two requests equal.
pub(crate) fn identify(
    headers: &HeaderMap,
    caller: &str,
    parts: &[&[u8]],
) -> Result<Option<IdempotentRequest>, ApiError> {
    let mut values = headers.get_all(HEADER).iter();
    let Some(first) = values.next() else { return Ok(None) };
    let is_alone = values.next().is_none();
    match first.to_str().ok().filter(|_| is_alone).map(str::trim).and_then(unquoted) {
        Some(key) => Ok(Some(IdempotentRequest::new(caller, key, parts))),
        None => Err(bad_request(format!(
            "{HEADER}: give one text of 1 to {KEY_MAX} printable characters, like \"8e03978e-40d5\""
        ))),
    }
}

/// Begins to handle a write.
pub(crate) async fn begin(
    requests: &RequestsInProgress,
    request: Option<&IdempotentRequest>,
    store: &dyn ObjectStore,
) -> Result<Begun, ApiError> {
    let Some(request) = request else { return Ok(Begun::New(None)) };
    match requests.begin(request, store).await? {
        idempotency::Begun::New(begun) => Ok(Begun::New(Some(begun))),
        idempotency::Begun::Done(outcome, record) => {
            let outcome = serde_json::from_value(outcome).map_err(|_| IdempotencyError::Unreadable)?;
            Ok(Begun::Done(outcome, record))
        }
    }
}

/// Returns the change that records the outcome of a write; it belongs into the batch of the write.
pub(crate) fn record(request: &RequestInProgress, outcome: &WriteOutcome) -> Result<Change, ApiError> {
    let outcome = serde_json::to_value(outcome).expect("texts and numbers have a JSON form");
    Ok(request.record(outcome)?)
}

/// Returns the key in a header's value: a string in quotes (RFC 9651), or the text without quotes that many clients send.
fn unquoted(value: &str) -> Option<&str> {
    let text = value.strip_prefix('"').map_or(Some(value), |rest| rest.strip_suffix('"'))?;
    let is_plain = text.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\');
    (is_plain && (1..=KEY_MAX).contains(&text.len())).then_some(text)
}

const HEADER: &str = "Idempotency-Key";
/// Longest key, in characters.
const KEY_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(caller: &str, values: &[&str]) -> Option<String> {
        let headers = values.iter().map(|value| (HEADER.parse().unwrap(), value.parse().unwrap())).collect();
        identify(&headers, caller, &[]).ok()?.map(|request| request.id())
    }

    #[test]
    fn key_is_one_plain_text_with_or_without_quotes() {
        assert_eq!(id("a", &["k"]), id("a", &["\"k\""]), "quotes are not part of the key");
        assert_ne!(id("a", &["k"]), id("b", &["k"]), "each caller has its own keys");
        assert!(identify(&HeaderMap::new(), "a", &[]).unwrap().is_none());
        let long = "k".repeat(KEY_MAX + 1);
        for bad in [&[""][..], &["\"\""], &["\"k"], &["a b"], &["k\"k"], &["a", "b"], &[&long]] {
            assert_eq!(id("a", bad), None, "{bad:?} is no key");
        }
        assert!(id("a", &[&long[1..]]).is_some(), "255 characters are a key");
    }
}
