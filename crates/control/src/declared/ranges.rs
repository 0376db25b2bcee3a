//! Bounds of ranges of keys.
//!
//! Names in keys consist of the printable ASCII characters without `/`, so `!` is before every longer name, and a run of `~` after every name
//! that is in use.

use fairway_store::objects::{Key, Kind};

/// Returns a key that is not after any key of a kind whose first names are these.
pub(super) fn before_all(kind: Kind, names: &[&str]) -> Key {
    padded(kind, names, "!")
}

/// Returns a key that is not before any key of a kind whose first names are these.
pub(super) fn after_all(kind: Kind, names: &[&str]) -> Key {
    padded(kind, names, "~~~~")
}

fn padded(kind: Kind, names: &[&str], with: &str) -> Key {
    let names: Vec<&str> = (0..kind.names()).map(|at| names.get(at).copied().unwrap_or(with)).collect();
    Key::new(kind, &names).expect("names of keys, as many as the kind has")
}
