//! Default location of the data folder.

use std::path::PathBuf;

/// Returns the data folder by environment and user: FAIRWAY_DATA_DIR, the first of STATE_DIRECTORY (systemd,
/// `StateDirectory=`), /var/lib/fairway for root, otherwise `fairway` in the XDG state folder. `None` if there is not
/// even a home folder.
///
/// The command line takes precedence over it, and `dataDir` of a configuration over all but FAIRWAY_DATA_DIR.
pub fn data_dir(env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    by(env, nix::unistd::geteuid().is_root())
}

fn by(env: &dyn Fn(&str) -> Option<String>, root: bool) -> Option<PathBuf> {
    let folder = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // systemd joins several state folders by colons; the first one is used.
    let state = || env("STATE_DIRECTORY").and_then(|all| Some(PathBuf::from(all.split(':').next()?)));
    let of_user = || {
        // The XDG specification requires relative paths to be ignored.
        let state_home = folder("XDG_STATE_HOME").filter(|path| path.is_absolute());
        state_home.or_else(|| Some(folder("HOME")?.join(".local/state"))).map(|path| path.join("fairway"))
    };
    let given = folder("FAIRWAY_DATA_DIR").or_else(|| state().filter(|path| !path.as_os_str().is_empty()));
    given.or_else(|| if root { Some(PathBuf::from("/var/lib/fairway")) } else { of_user() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)], root: bool) -> Option<PathBuf> {
        let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        by(&get, root)
    }

    #[test]
    fn first_variable_that_is_set_decides() {
        let all = [("FAIRWAY_DATA_DIR", "/a"), ("STATE_DIRECTORY", "/b:/c"), ("XDG_STATE_HOME", "/d"), ("HOME", "/e")];
        assert_eq!(of(&all, true), Some("/a".into()));
        assert_eq!(of(&all[1..], true), Some("/b".into()));
        assert_eq!(of(&all[2..], true), Some("/var/lib/fairway".into()));
        assert_eq!(of(&all[2..], false), Some("/d/fairway".into()));
        assert_eq!(of(&all[3..], false), Some("/e/.local/state/fairway".into()));
        assert_eq!(of(&[], false), None);
    }

    #[test]
    fn empty_variables_and_relative_state_folder_are_ignored() {
        let empty = [("FAIRWAY_DATA_DIR", ""), ("STATE_DIRECTORY", ""), ("XDG_STATE_HOME", "here"), ("HOME", "/e")];
        assert_eq!(of(&empty, false), Some("/e/.local/state/fairway".into()));
    }
}
