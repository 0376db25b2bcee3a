//! Limits of declared objects.

use super::*;
use crate::DeclaredLimits;

#[test]
fn limits_have_defaults() {
    for text in ["version: 1\n", "version: 1\nlimits: {}\n", "version: 1\nlimits: { objects: 4000000, owners: 1000 }\n"]
    {
        assert_eq!(loaded(text).settings.limits, DeclaredLimits::default());
    }
    let limits = loaded("version: 1\nlimits: { memory: 512MiB, objects: 10, owners: 2 }\n").settings.limits;
    assert_eq!(limits, DeclaredLimits { memory: Some(512 << 20), objects: 10, owners: 2 });
}

#[test]
fn malformed_size_is_rejected_with_an_example() {
    for size in ["512", "512MB", "0MiB", "lots", "9999999GiB", "18446744073709551616MiB"] {
        let errors = errors_of(&format!("version: 1\nlimits: {{ memory: {size} }}\n"));
        assert!(errors.len() == 1 && errors[0].contains("limits.memory"), "{size}: {errors:?}");
        assert!(errors[0].contains("MiB"), "{size}: {errors:?}");
    }
    let errors = errors_of("version: 1\nlimits: { objects: 0, owners: 0 }\n");
    assert_eq!(errors.len(), 2, "{errors:?}");
}
