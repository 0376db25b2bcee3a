//! Drops privileges after the sockets are bound, and raises the limit of open files.

use nix::{
    errno::Errno,
    sys::resource::{Resource, getrlimit, setrlimit},
    unistd::{Gid, Uid, User, geteuid, setgid, setgroups, setuid},
};

/// Why the process cannot switch to a user.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// There is no such user.
    #[error("cannot switch to user \"{user}\": no such user; create it (`useradd --system {user}`) or remove `user`")]
    Unknown {
        /// The user.
        user: String,
    },
    /// The user has user id 0.
    #[error("cannot switch to user \"{user}\": it has user id 0 and keeps every privilege; use an unprivileged user")]
    Root {
        /// The user.
        user: String,
    },
    /// Only root can switch users.
    #[error("cannot switch to user \"{user}\": only root can switch users; start as root, or remove `user`")]
    NotRoot {
        /// The user.
        user: String,
    },
    /// The kernel refused one of the steps.
    #[error("cannot switch to user \"{user}\": {step}: {source}; the process lacks CAP_SETUID or CAP_SETGID")]
    Refused {
        /// The user.
        user: String,
        /// The system call.
        step: &'static str,
        /// Its error.
        source: Errno,
    },
    /// The user database cannot be read.
    #[error("cannot switch to user \"{user}\": the user database cannot be read: {source}")]
    Unreadable {
        /// The user.
        user: String,
        /// Error of the system.
        source: Errno,
    },
    /// The process could become root again.
    #[error(
        "cannot switch to user \"{user}\": root can be regained after setuid; refusing to start (check the user namespace)"
    )]
    Kept {
        /// The user.
        user: String,
    },
}

/// Switches the whole process, with all its threads, to `user` and the primary group of that user, permanently.
///
/// Call it after everything that needs privileges: ports bound, files of root read. Capabilities are lost with the user id; sockets stay
/// open. Does nothing if the process already runs as `user`.
pub fn drop_to(user: &str) -> Result<(), PrivilegeError> {
    let name = || user.to_owned();
    let found = User::from_name(user).map_err(|source| PrivilegeError::Unreadable { user: name(), source })?;
    let found = found.ok_or_else(|| PrivilegeError::Unknown { user: name() })?;
    if found.uid.is_root() {
        return Err(PrivilegeError::Root { user: name() });
    }
    if geteuid() == found.uid {
        return Ok(());
    }
    if !geteuid().is_root() {
        return Err(PrivilegeError::NotRoot { user: name() });
    }
    let refused = |step| move |source| PrivilegeError::Refused { user: name(), step, source };
    become_user(found.uid, found.gid).map_err(|(step, source)| refused(step)(source))?;
    // A saved user id or a remaining capability would let this succeed.
    if setuid(Uid::from_raw(0)).is_ok() {
        return Err(PrivilegeError::Kept { user: name() });
    }
    Ok(())
}

/// Sets the groups first, because only root can change them.
fn become_user(uid: Uid, gid: Gid) -> Result<(), (&'static str, Errno)> {
    setgroups(&[gid]).map_err(|e| ("setgroups", e))?;
    setgid(gid).map_err(|e| ("setgid", e))?;
    setuid(uid).map_err(|e| ("setuid", e))
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
