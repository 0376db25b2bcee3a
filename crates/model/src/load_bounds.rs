//! Load target and limit of a cluster.

use crate::Permille;

/// The load that steering aims at and the largest it gives, as fractions of the capacity: 0 < target ≤ limit ≤ 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoadBounds {
    target: Permille,
    limit: Permille,
}

impl LoadBounds {
    /// The default: 80 % and 100 %. If one of five equal clusters fails at 80 %, the other four
    /// are at 100 %.
    pub const DEFAULT: Self = match (Permille::new(800), Permille::new(1000)) {
        (Ok(target), Ok(limit)) => Self { target, limit },
        _ => panic!("both are parts of the whole"),
    };

    /// Returns the bounds; a target of 0 or over the limit is rejected.
    pub fn new(target: Permille, limit: Permille) -> Result<Self, LoadBoundsError> {
        match target.thousandths() {
            0 => Err(LoadBoundsError::Zero),
            _ if target > limit => Err(LoadBoundsError::OverLimit { target, limit }),
            _ => Ok(Self { target, limit }),
        }
    }

    /// Returns the load below which the cluster is kept while others have capacity left.
    pub fn target(self) -> Permille {
        self.target
    }

    /// Returns the load above which the cluster gets nothing while others have capacity left.
    pub fn limit(self) -> Permille {
        self.limit
    }
}

impl Default for LoadBounds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Error of invalid load bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadBoundsError {
    /// A target of 0.
    #[error("load target 0 sends no traffic to the cluster; give a target above 0, or drain the cluster")]
    Zero,
    /// The target is above the limit.
    #[error("load target {} is over the limit {}; give a target of at most the limit", percent(.target), percent(.limit))]
    OverLimit {
        /// The target.
        target: Permille,
        /// The limit.
        limit: Permille,
    },
}

fn percent(part: &Permille) -> String {
    let thousandths = part.thousandths();
    match thousandths % 10 {
        0 => format!("{}%", thousandths / 10),
        tenth => format!("{}.{tenth}%", thousandths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_outside_zero_and_limit_is_rejected() {
        let part = |thousandths| Permille::new(thousandths).unwrap();
        assert_eq!(LoadBounds::new(part(800), part(1000)), Ok(LoadBounds::default()));
        assert!(LoadBounds::new(part(1), part(1)).is_ok() && LoadBounds::new(part(1000), part(1000)).is_ok());
        assert_eq!(LoadBounds::new(part(0), part(1000)), Err(LoadBoundsError::Zero));
        let over = LoadBounds::new(part(905), part(900)).unwrap_err().to_string();
        assert_eq!(over, "load target 90.5% is over the limit 90%; give a target of at most the limit");
    }
}
