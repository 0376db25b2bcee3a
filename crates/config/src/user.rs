//! The user that a server switches to, for `fairway check`.

use fairway_model::{Diagnostic, FileLocation};
use nix::unistd::User;

use super::{Loaded, Source, attempt::locate, environment};

/// Returns a warning if this machine lacks the user that a server would switch to.
///
/// Not part of a load: only a start switches, and reports it as an error. The configuration may be checked on another machine.
pub fn missing_user(source: &Source, loaded: &Loaded, env: &dyn Fn(&str) -> Option<String>) -> Option<Diagnostic> {
    let user = loaded.settings.user.as_deref()?;
    // Without a readable database of users, nothing is known about the user.
    if !matches!(User::from_name(user), Ok(None)) {
        return None;
    }
    let is_from_environment = env(environment::USER).is_some_and(|value| !value.is_empty());
    let location = match source {
        Source::Path(path) if !is_from_environment => locate(path, "/user"),
        _ => FileLocation::file("environment"),
    };
    let what = format!("user: there is no user {user} on this machine, so the server would not start here");
    Some(Diagnostic::warning(location, what, format!("create it (`useradd --system {user}`), or remove `user`")))
}
