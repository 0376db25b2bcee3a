//! How far a cluster is loaded on purpose.

use crate::Permille;

/// The load that balancing aims at, and the most that it gives, as parts of the capacity: 0 < target ≤ limit ≤ 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoadBounds {
    target: Permille,
    limit: Permille,
}

impl LoadBounds {
    /// What holds where nothing is declared: kept under 80 %, and given up to 100 % where all are over their targets.
    pub const DEFAULT: Self = match (Permille::new(800), Permille::new(1000)) {
        (Ok(target), Ok(limit)) => Self { target, limit },
        _ => panic!("both are parts of the whole"),
    };

    /// A target that is nothing, or over the limit, is refused.
    pub fn new(target: Permille, limit: Permille) -> Result<Self, LoadBoundsError> {
        match target.thousandths() {
            0 => Err(LoadBoundsError::Zero),
            _ if target > limit => Err(LoadBoundsError::OverLimit { target, limit }),
            _ => Ok(Self { target, limit }),
        }
    }

    /// Load under which the cluster is kept while others have room.
    pub fn target(self) -> Permille {
        self.target
    }

    /// Load above which it is given nothing as long as there is room elsewhere.
    pub fn limit(self) -> Permille {
        self.limit
    }
}

impl Default for LoadBounds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Why an aim is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadBoundsError {
    /// Nothing would be sent there.
    #[error("a target of 0 would send nothing there; to take a cluster out, drain it")]
    Zero,
    /// The target is above the limit.
    #[error("target {} is over the limit {}; give a target of at most the limit", percent(.target), percent(.limit))]
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
    fn a_target_lies_above_nothing_and_under_its_limit() {
        let part = |thousandths| Permille::new(thousandths).unwrap();
        assert_eq!(LoadBounds::new(part(800), part(1000)), Ok(LoadBounds::default()));
        assert!(LoadBounds::new(part(1), part(1)).is_ok() && LoadBounds::new(part(1000), part(1000)).is_ok());
        assert_eq!(LoadBounds::new(part(0), part(1000)), Err(LoadBoundsError::Zero));
        let over = LoadBounds::new(part(905), part(900)).unwrap_err().to_string();
        assert_eq!(over, "target 90.5% is over the limit 90%; give a target of at most the limit");
    }
}
