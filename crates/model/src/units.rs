//! Numbers that carry their unit and range.

use serde::{Deserialize, Serialize};

use std::fmt;

/// A member's weight relative to the other members, 0 to 65535; default 1.
///
/// 0 means standby: answered only if no member of weight 1 or more is up in any tier. If all weights of a pool are 0, all
/// members have equal shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Weight(pub u16);

impl Default for Weight {
    fn default() -> Self {
        Self(1)
    }
}

/// Order in which groups of members are used, 1 to 255; tier 1 is used first and is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tier(u8);

impl Tier {
    /// The tier that is used first.
    pub const FIRST: Self = Self(1);

    /// Returns the tier with this number; 0 is rejected, because tiers count from 1.
    pub const fn new(number: u8) -> Result<Self, UnitError> {
        if number == 0 { Err(UnitError::TierZero) } else { Ok(Self(number)) }
    }

    /// Returns the number, 1 to 255.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl Default for Tier {
    fn default() -> Self {
        Self::FIRST
    }
}

/// Time to live of a record, in seconds, 0 to 2^31 - 1 (RFC 2181 section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ttl(u32);

impl Ttl {
    /// The largest value a TTL can have.
    pub const MAX: Self = Self(0x7fff_ffff);
    /// The default of a steered name, 30 s: short enough to follow health, long enough for caches to help.
    pub const STEERED: Self = Self(30);

    /// Returns a TTL of this many seconds.
    pub const fn from_secs(secs: u32) -> Result<Self, UnitError> {
        if secs > Self::MAX.0 { Err(UnitError::Ttl(secs)) } else { Ok(Self(secs)) }
    }

    /// Returns the number of seconds.
    pub const fn secs(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0)
    }
}

/// A fraction in thousandths, 0 to 1000. Steering uses integers, so that every server decides the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Permille(u16);

impl Permille {
    /// The whole.
    pub const WHOLE: Self = Self(1000);

    /// Returns this many thousandths; over 1000 is rejected.
    pub const fn new(thousandths: u16) -> Result<Self, UnitError> {
        if thousandths > 1000 { Err(UnitError::Permille(thousandths)) } else { Ok(Self(thousandths)) }
    }

    /// Returns the thousandths, 0 to 1000.
    pub const fn thousandths(self) -> u16 {
        self.0
    }
}

/// A number outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Tiers count from 1.
    #[error("tier 0 does not exist; give 1 to 255 (tier 1 is used first)")]
    TierZero,
    /// RFC 2181 section 8.
    #[error("TTL {0} is over 2147483647 seconds (RFC 2181 section 8); give a shorter one")]
    Ttl(u32),
    /// More than 1000.
    #[error("{0} thousandths is over 1; give a fraction from 0 to 1")]
    Permille(u16),
}
