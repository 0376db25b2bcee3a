//! Keys of the objects that hold webhook contributions.

use fairway_access::Tenant;
use fairway_model::fnv1a_32;
use fairway_providers::webhook_server::Scope;
use fairway_store::objects::{Key, Kind};

/// Returns the key of the object with a client's rows of a name. `plain` is the name as [`fairway_providers::plain_name`] returns it.
pub fn part_key(scope: &Scope, plain: &str) -> Key {
    // Stored rows are found by this number, so it must not change.
    let hash = fnv1a_32(plain.bytes());
    let part = format!("{:03x}", (hash ^ hash >> 16) % PARTS);
    Key::new(Kind::Contribution, &[scope_name(scope), &part]).expect("scopes and digits are names")
}

/// Returns the key of the object with the time of a client's last call.
pub fn seen_key(scope: &Scope) -> Key {
    Key::new(Kind::Contributor, &[scope_name(scope)]).expect("scopes are names")
}

/// Returns the name of a client in keys.
pub fn scope_name(scope: &Scope) -> &str {
    match scope {
        Scope::Root => ROOT,
        Scope::Owner(name) => name,
    }
}

/// Returns the tenant that a client is.
pub fn tenant_of(scope: &Scope) -> Tenant {
    Tenant::Owner(match scope {
        Scope::Root => Tenant::ROOT.to_owned(),
        Scope::Owner(name) => name.to_string(),
    })
}

/// Returns the client whose rows are at a key.
pub fn scope_of(key: &Key) -> Option<Scope> {
    match key.names().next()? {
        ROOT => Some(Scope::Root),
        name => Scope::owner(name),
    }
}

/// Name of the client without a base path. Owners consist of letters, digits, `-`, `_` and `.`.
const ROOT: &str = "@";
/// Objects that the rows of a client are divided into. A change writes few of them, and a part of the largest client, 50,000 rows, stays
/// far below the limit of an object, 1 MiB.
pub(super) const PARTS: u32 = 1_024;
