//! Protections of the process: checked after the privileges are dropped, logged once, and shown as metrics.

use fairway_config::Settings;
use fairway_control::lifecycle::Protection;
use fairway_transport::{has_given_up_new_privileges, is_root};

/// Returns the protections of this process, of which `landlock` is missing for the given reason, and logs which ones are missing and why.
pub(super) fn protections(settings: &Settings, landlock: Option<String>) -> Vec<Protection> {
    let protection = |name, why: Option<&str>| Protection { name, missing: why.map(str::to_owned) };
    let all = vec![
        protection("unprivileged", is_root().then_some(ROOT)),
        protection("noNewPrivileges", (!has_given_up_new_privileges()).then_some(NEW)),
        protection("landlock", landlock.as_deref()),
        protection("storeEncryption", settings.store.keys.is_empty().then_some(CLEAR)),
    ];
    if is_root() {
        tracing::warn!(hint = ROOT_HINT, "running as root");
    }
    let active: Vec<_> = all.iter().filter(|one| one.missing.is_none()).map(|one| one.name).collect();
    let missing = all.iter().filter_map(|one| Some(format!("{}: {}", one.name, one.missing.as_ref()?)));
    let (active, missing) = (active.join(" "), missing.collect::<Vec<_>>().join("; "));
    tracing::info!(active, missing, "protections checked");
    all
}

const ROOT: &str = "the process runs as root";
const ROOT_HINT: &str = "set `user`, or start fairway as another user (docs/operations/privileges.md)";
const CLEAR: &str = "store.keys is not set";
const NEW: &str = "the system refused it";
