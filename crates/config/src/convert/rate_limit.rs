//! Response rate limiting.

use std::time::Duration;

use fairway_zones::{RateLimits, ResponseKind};

use super::Converter;
use crate::{bounds_wire::Plain, v1_abuse};

/// Converts the section.
pub(super) fn rate_limits(converter: &mut Converter<'_, '_>, wire: v1_abuse::RateLimit) -> RateLimits {
    let default = RateLimits::default();
    let of_kind = wire.responses_per_second.plain().unwrap_or(RateLimits::PER_SECOND);
    let per_second = ResponseKind::ALL.map(|kind| {
        let (given, default) = match kind {
            ResponseKind::Excess => {
                return wire.excess_bytes_per_second.plain().unwrap_or(RateLimits::EXCESS_PER_SECOND);
            }
            ResponseKind::Answer => (wire.responses_per_second, of_kind),
            ResponseKind::Referral => (wire.referrals_per_second, of_kind),
            ResponseKind::NoData => (wire.nodata_per_second, of_kind),
            ResponseKind::NxDomain => (wire.nxdomains_per_second, of_kind),
            ResponseKind::Error => (wire.errors_per_second, of_kind),
            ResponseKind::All => (wire.all_per_second, RateLimits::ALL_PER_SECOND),
        };
        given.plain().unwrap_or(default)
    });
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let bounds = seconds(1)..=seconds(RateLimits::WINDOW_MAX);
    let window = converter.bounded("/rateLimit/window", wire.window, bounds, seconds(default.window));
    RateLimits {
        per_second,
        window: window.as_secs() as u32,
        slip: wire.slip.plain().unwrap_or(default.slip),
        ipv4_prefix: wire.ipv4_prefix_length.plain().unwrap_or(default.ipv4_prefix),
        ipv6_prefix: wire.ipv6_prefix_length.plain().unwrap_or(default.ipv6_prefix),
        allowlist: wire.allowlist.plain().unwrap_or_default().plain(),
    }
}
