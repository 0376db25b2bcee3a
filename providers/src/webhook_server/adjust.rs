//! Endpoints in the form that is stored. The client plans with them, so the conversion must be idempotent.

use crate::Endpoint;

/// Returns endpoints in the form that is stored, in their order: fields sorted by name, each once, none without a name. An endpoint over
/// [`ENDPOINT_MAX`], or without a DNS name, is omitted, so that the others are not rejected with it.
pub fn adjusted(endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
    endpoints
        .into_iter()
        .filter(|endpoint| size_of(endpoint) <= ENDPOINT_MAX && !endpoint.dns_name.is_empty())
        .map(canonical)
        .collect()
}

fn canonical(mut endpoint: Endpoint) -> Endpoint {
    let properties = &mut endpoint.provider_specific;
    properties.retain(|property| !property.name.is_empty());
    // Of two fields with one name the later one is used, as in a map.
    properties.reverse();
    properties.sort_by(|a, b| a.name.cmp(&b.name));
    properties.dedup_by(|later, first| later.name == first.name);
    endpoint
}

/// Returns the approximate size of an endpoint in JSON.
pub(super) fn size_of(endpoint: &Endpoint) -> usize {
    let pairs = endpoint.labels.iter().map(|(name, value)| name.len() + value.len());
    let properties = endpoint.provider_specific.iter().map(|property| property.name.len() + property.value.len());
    let texts = endpoint.targets.iter().map(String::len).chain(pairs).chain(properties);
    texts.map(|length| length + 8).sum::<usize>() + endpoint.dns_name.len() + endpoint.set_identifier.len() + 128
}

/// Maximum number of bytes of one endpoint, enough for 10,000 addresses.
pub const ENDPOINT_MAX: usize = 256 << 10;
