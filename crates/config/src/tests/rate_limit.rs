//! Response rate limiting.

use fairway_zones::{RateLimits, ResponseKind};

use super::*;

fn rate_limits(section: &str) -> Result<Option<RateLimits>, Vec<String>> {
    let folder = Folder::new(&[("f.yaml", &format!("version: 1\n{section}\n"))]);
    let loaded = folder.load("f.yaml").map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    Ok(loaded.settings.rate_limits)
}

#[test]
fn rate_limit_is_off_by_default_and_braces_are_a_start() {
    assert_eq!(rate_limits(""), Ok(None));
    assert_eq!(rate_limits("rateLimit: {}"), Ok(Some(RateLimits::default())));
}

#[test]
fn keys_of_rate_limit_are_converted() {
    let section = "rateLimit: { responsesPerSecond: 10, nxdomainsPerSecond: 5, errorsPerSecond: 0, allPerSecond: 200, \
                   excessBytesPerSecond: 5000000, window: 1m, slip: 0, ipv4PrefixLength: 32, ipv6PrefixLength: 48, allowlist: [192.0.2.0/24] }";
    let limits = rate_limits(section).unwrap().unwrap();
    let of = |kind: ResponseKind| limits.per_second[kind as usize];
    assert_eq!(ResponseKind::ALL.map(of), [10, 10, 10, 5, 0, 200, 5_000_000]);
    assert_eq!((limits.window, limits.slip, limits.ipv4_prefix, limits.ipv6_prefix), (60, 0, 32, 48));
    assert_eq!(limits.allowlist, ["192.0.2.0/24".parse().unwrap()]);
}

#[test]
fn values_out_of_range_are_rejected() {
    for (key, expected) in [
        ("responsesPerSecond: 1000001", "1000000"),
        ("window: 16m", "between 1s and 15m"),
        ("ipv6PrefixLength: 65", "64"),
        ("slip: 11", "10"),
        ("responses: 5", "responses"),
    ] {
        let errors = rate_limits(&format!("rateLimit: {{ {key} }}")).unwrap_err();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{key}: {errors:?}");
    }
}
