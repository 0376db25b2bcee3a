//! The error of a batch that would bring all objects together over a limit.

use std::fmt;

/// A limit that a batch would exceed. Displays as the operator reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimit {
    /// Key of the configuration: `limits.memory`, `limits.objects` or `limits.owners`.
    pub key: &'static str,
    /// Limit, in bytes for `limits.memory`.
    pub limit: u64,
    /// Present use, including batches that are being committed.
    pub used: u64,
    /// Additional use by the batch.
    pub needed: u64,
}

impl OverLimit {
    /// Key of the limit of memory.
    pub const MEMORY: &str = "limits.memory";
    /// Key of the limit of objects.
    pub const OBJECTS: &str = "limits.objects";
    /// Key of the limit of webhook owners.
    pub const OWNERS: &str = "limits.owners";

    fn amount(&self, amount: u64) -> String {
        match self.key {
            // Tenths, rounded up: a small need must not be shown as none.
            Self::MEMORY => {
                let tenths = amount.saturating_mul(10).div_ceil(1 << 20);
                format!("{}.{} MiB", tenths / 10, tenths % 10)
            }
            _ => amount.to_string(),
        }
    }
}

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [limit, used, needed] = [self.limit, self.used, self.needed].map(|amount| self.amount(amount));
        let key = self.key;
        write!(
            f,
            "{key} is {limit}: all declared objects use {used}, and this write needs {needed} more; nothing was changed; \
             delete objects or endpoints, or raise {key} (docs/operations/limits.md)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::OverLimit;

    #[test]
    fn message_has_limit_use_need_and_key() {
        let memory = OverLimit { key: OverLimit::MEMORY, limit: 64 << 20, used: 63 << 20, needed: (3 << 19) + 1 };
        let text = memory.to_string();
        let start = "limits.memory is 64.0 MiB: all declared objects use 63.0 MiB, and this write needs 1.6 MiB more";
        assert!(text.starts_with(start) && text.contains("raise limits.memory"), "{text}");
        let owners = OverLimit { key: OverLimit::OWNERS, limit: 2, used: 2, needed: 1 }.to_string();
        assert!(owners.starts_with("limits.owners is 2: all declared objects use 2, and this write needs 1 more"));
    }
}
