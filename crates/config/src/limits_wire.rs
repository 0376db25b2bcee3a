//! Limits of all declared objects together: a section of version 1, and its settings.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, Int, Plain},
    reason::Reason,
    tree::quoted,
    values::TextValue,
};

/// Limits of everything that is declared over the API and the webhook, together.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TotalLimits {
    /// Resident memory, as estimated from the stored objects. Default: a quarter of the memory that this process may
    /// use: the limit of its control group, or the memory of the machine.
    pub(super) memory: Option<As<MemorySize>>,
    /// Number of objects and of endpoints of the webhook.
    #[schemars(extend("default" = 4_000_000))]
    pub(super) objects: Option<Int<u64, 1, 1_000_000_000>>,
    /// Number of webhook owners (base paths) that contribute endpoints.
    #[schemars(extend("default" = 1000))]
    pub(super) owners: Option<Int<u64, 1, 1_000_000>>,
}

/// Limits of everything that is declared over the API and the webhook, together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredLimits {
    /// Bytes of resident memory, as estimated. `None`: a quarter of the memory that this process may use.
    pub memory: Option<u64>,
    /// Number of objects and of endpoints of the webhook. Default 4,000,000: two for each of a million names, and
    /// as many endpoints.
    pub objects: u64,
    /// Number of webhook owners that contribute endpoints. Default 1,000.
    pub owners: u64,
}

impl Default for DeclaredLimits {
    fn default() -> Self {
        Self { memory: None, objects: 4_000_000, owners: 1_000 }
    }
}

impl From<TotalLimits> for DeclaredLimits {
    fn from(wire: TotalLimits) -> Self {
        let default = Self::default();
        Self {
            memory: wire.memory.plain().map(|size| size.0),
            objects: wire.objects.plain().unwrap_or(default.objects),
            owners: wire.owners.plain().unwrap_or(default.owners),
        }
    }
}

/// A number of bytes with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemorySize(pub(super) u64);

impl TextValue for MemorySize {
    const FORMAT: &'static str = "size-with-unit";
    const EXPECTED: &'static str = "a size with its unit (MiB or GiB)";
    const EXAMPLE: &'static str = "512MiB or 2GiB";

    fn parse(text: &str) -> Result<Self, Reason> {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        // `Mi` and `Gi` as in the limits of a Kubernetes container.
        let shift = match unit {
            "MiB" | "Mi" => 20,
            "GiB" | "Gi" => 30,
            _ => return Err(Self::invalid(text)),
        };
        let number: u64 = number.parse().map_err(|_| Self::invalid(text))?;
        let bytes = number.checked_mul(1 << shift).filter(|bytes| SIZES.contains(bytes));
        bytes.map(Self).ok_or_else(|| Reason::new(format!("{} is out of range", quoted(text)), "give 1MiB to 1024GiB"))
    }
}

/// More than any machine has.
const SIZES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::rejection;

    #[test]
    fn size_has_a_unit_and_a_range() {
        for (text, bytes) in [("1MiB", 1 << 20), ("512Mi", 512 << 20), ("2GiB", 2 << 30), ("1024Gi", 1 << 40)] {
            assert_eq!(MemorySize::parse(text), Ok(MemorySize(bytes)), "{text}");
        }
        for text in ["", "512", "MiB", "1.5GiB", "-1MiB", "512 MiB", "512MB", "99999999999999999999GiB"] {
            let expected = format!("{text:?} is not a size with its unit (MiB or GiB); write it like 512MiB or 2GiB");
            assert_eq!(rejection::<MemorySize>(text), expected);
        }
        for text in ["0MiB", "1025GiB", "18446744073709551615GiB"] {
            assert_eq!(rejection::<MemorySize>(text), format!("{text:?} is out of range; give 1MiB to 1024GiB"));
        }
    }
}
