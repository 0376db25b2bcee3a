//! Drops privileges after the sockets are bound, gives up new ones, and raises the limit of open files.

use std::{os::unix::fs::MetadataExt, path::Path};

use nix::{
    errno::Errno,
    sys::{
        prctl,
        resource::{Resource, getrlimit, setrlimit},
    },
    unistd::{Gid, Uid, User, geteuid, setgid, setgroups, setuid},
};

/// Reason why the process cannot switch to a user.
#[derive(Debug, thiserror::Error)]
#[error("cannot switch to user \"{user}\": {reason}")]
pub struct PrivilegeError {
    /// The user.
    pub user: String,
    /// Cause and hint.
    pub reason: String,
}

/// Switches the whole process, with all its threads, to `user` and the primary group of that user, permanently.
///
/// Call it after everything that needs privileges: ports bound, files of root read. Capabilities are lost with the user id; sockets stay
/// open. Does nothing if the process already runs as `user`.
pub fn drop_to(user: &str) -> Result<(), PrivilegeError> {
    switch(user).map_err(|reason| PrivilegeError { user: user.to_owned(), reason })
}

/// Switches root to the owner of a folder, permanently; does nothing for other users, and if root owns it.
///
/// For commands that work in the folder: its owner could have put a link there that leads root elsewhere, and files of root there would
/// keep the server from starting.
pub fn become_owner(folder: &Path) -> Result<(), PrivilegeError> {
    let Ok(found) = std::fs::metadata(folder) else { return Ok(()) };
    if !geteuid().is_root() || found.uid() == 0 {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(found.uid()), Gid::from_raw(found.gid()));
    change(user, group).map_err(|reason| PrivilegeError { user: user.to_string(), reason })
}

fn switch(user: &str) -> Result<(), String> {
    let found = User::from_name(user).map_err(|source| format!("the user database cannot be read: {source}"))?;
    let Some(found) = found else {
        return Err(format!("no such user; create it (`useradd --system {user}`) or remove `user`"));
    };
    if found.uid.is_root() {
        return Err("it has user id 0 and keeps every privilege; use an unprivileged user".to_owned());
    }
    if geteuid() == found.uid {
        return Ok(());
    }
    if !geteuid().is_root() {
        return Err("only root can switch users; start as root, or remove `user`".to_owned());
    }
    change(found.uid, found.gid)
}

fn change(user: Uid, group: Gid) -> Result<(), String> {
    let refused = |step, source| format!("{step}: {source}; the process lacks CAP_SETUID or CAP_SETGID");
    // The groups first, because only root can change them.
    setgroups(&[group]).map_err(|e| refused("setgroups", e))?;
    setgid(group).map_err(|e| refused("setgid", e))?;
    setuid(user).map_err(|e| refused("setuid", e))?;
    // A saved user id or a remaining capability would let this succeed.
    if setuid(Uid::from_raw(0)).is_ok() {
        return Err("root can be regained after setuid; refusing to start (check the user namespace)".to_owned());
    }
    Ok(())
}

/// Gives up new privileges for good: a program that this process executes gains none by its mode (setuid) or file capabilities
/// (`PR_SET_NO_NEW_PRIVS`, prctl(2)).
///
/// It holds for the calling thread and the threads that it starts later: call it before any other thread exists.
pub fn give_up_new_privileges() -> Result<(), Errno> {
    prctl::set_no_new_privs()
}

/// True if the calling thread gains no new privileges.
pub fn has_given_up_new_privileges() -> bool {
    prctl::get_no_new_privs().unwrap_or(false)
}

/// True if the process runs as root.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Raises the limit of open files to the hard limit, and returns it. Each TCP connection and each probe needs one, and the usual soft
/// limit of 1,024 is below the default bounds of both.
pub fn raise_open_files() -> Result<u64, Errno> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}
