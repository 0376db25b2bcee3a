//! Secrets that would be sent without encryption.

use std::fmt::Display;

use fairway_http::Url;

use super::Converter;

/// Rejects a secret that would be sent over plain HTTP to another machine, where everybody on the way reads it; `allowed` is
/// `allowPlainHttp` of the same section.
pub(super) fn reject_secret_in_clear<'u>(
    converter: &mut Converter<'_, '_>,
    pointer: impl Display,
    allowed: Option<bool>,
    urls: impl IntoIterator<Item = &'u Url>,
) {
    let in_clear = urls.into_iter().find(|url| !url.is_https() && !url.is_loopback());
    if let Some(url) = in_clear.filter(|_| allowed != Some(true)) {
        reject(converter, pointer, url.host());
    }
}

/// Rejects a secret that would be sent over plain HTTP to `host`.
pub(super) fn reject(converter: &mut Converter<'_, '_>, pointer: impl Display, host: &str) {
    let what = format!("it would be sent to {host} without encryption");
    converter.error(pointer, what, "use https, or add allowPlainHttp: true next to it");
}
