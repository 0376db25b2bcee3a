//! What a process may do, once its sockets are bound: as little as possible.

use nix::{
    errno::Errno,
    sys::resource::{Resource, getrlimit, setrlimit},
    unistd::{Gid, Uid, User, geteuid, setgid, setgroups, setuid},
};

/// Why the process cannot become the user.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// There is no such user.
    #[error("user {user}: there is no such user; create it (`useradd --system {user}`) or leave `user` out")]
    Unknown {
        /// The user.
        user: String,
    },
    /// The user has user id 0.
    #[error("user {user}: is root, which keeps every privilege; name an unprivileged user")]
    Root {
        /// The user.
        user: String,
    },
    /// Only root becomes somebody else.
    #[error("user {user}: only root can become another user; start as root, or leave `user` out")]
    NotRoot {
        /// The user.
        user: String,
    },
    /// The kernel refused one of the steps.
    #[error("user {user}: {step}: {source}; the process has no CAP_SETUID or CAP_SETGID")]
    Refused {
        /// The user.
        user: String,
        /// The system call.
        step: &'static str,
        /// What it said.
        source: Errno,
    },
    /// The user database cannot be read.
    #[error("user {user}: the user database cannot be read: {source}")]
    Unreadable {
        /// The user.
        user: String,
        /// What the system said.
        source: Errno,
    },
    /// Root could be had back.
    #[error("user {user}: privileges could be had back, so nothing is won; is the process in an odd user namespace?")]
    Kept {
        /// The user.
        user: String,
    },
}

/// Makes the whole process, with all its threads, run as `user` with that user's primary group alone, for good.
///
/// To be called after everything privileged is done: ports bound, files of root read. Capabilities go with the user id;
/// sockets stay. A process that runs as `user` already is left as it is.
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
    // The test of the pudding: a saved user id or a capability that was kept would let this pass.
    if setuid(Uid::from_raw(0)).is_ok() {
        return Err(PrivilegeError::Kept { user: name() });
    }
    Ok(())
}

/// Groups first: without root they could not be changed any more.
fn become_user(uid: Uid, gid: Gid) -> Result<(), (&'static str, Errno)> {
    setgroups(&[gid]).map_err(|e| ("setgroups", e))?;
    setgid(gid).map_err(|e| ("setgid", e))?;
    setuid(uid).map_err(|e| ("setuid", e))
}

/// Raises the number of open files to what the system allows, and tells it: every TCP connection and probe takes one, and the
/// usual 1,024 are fewer than the default bounds of both.
pub fn raise_open_files() -> Result<u64, Errno> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}
