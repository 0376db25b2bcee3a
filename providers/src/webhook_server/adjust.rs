//! Endpoints as they will be kept. The client plans with them, so what comes out must come out the same again.

use crate::Endpoint;

/// Endpoints in the form in which they are kept, in their order: properties by name, each once, none without a name. One that is too
/// large to be kept is left out, so that the others are not refused with it.
pub fn adjusted(endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
    endpoints.into_iter().filter(|endpoint| octets(endpoint) <= ENDPOINT_MAX).map(canonical).collect()
}

fn canonical(mut endpoint: Endpoint) -> Endpoint {
    let properties = &mut endpoint.provider_specific;
    properties.retain(|property| !property.name.is_empty());
    // Of two that say the same thing differently, the later holds, as in a map.
    properties.reverse();
    properties.sort_by(|a, b| a.name.cmp(&b.name));
    properties.dedup_by(|later, first| later.name == first.name);
    endpoint
}

/// About how long an endpoint is in JSON.
pub(super) fn octets(endpoint: &Endpoint) -> usize {
    let pairs = endpoint.labels.iter().map(|(name, value)| name.len() + value.len());
    let properties = endpoint.provider_specific.iter().map(|property| property.name.len() + property.value.len());
    let texts = endpoint.targets.iter().map(String::len).chain(pairs).chain(properties);
    texts.map(|length| length + 8).sum::<usize>() + endpoint.dns_name.len() + endpoint.set_identifier.len() + 128
}

/// Most octets of one endpoint: 10,000 addresses.
pub const ENDPOINT_MAX: usize = 256 << 10;
