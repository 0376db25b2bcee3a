//! Watches the configuration files. A change is reloaded once the files did not change between two checks.

use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::{
    command::Command,
    reloads::{ReloadScope, Trigger},
};
use fairway_config::watch::Fingerprint;

/// Checks the files of the last reload every second, and requests a reload if they have changed. `read` has the files of each reload. Ends
/// with the control task.
pub async fn watch_files(mut read: watch::Receiver<Fingerprint>, commands: mpsc::Sender<Command>) {
    let mut files = FileWatch::new(read.borrow_and_update().clone());
    loop {
        tokio::time::sleep(CHECK_PERIOD).await;
        match read.has_changed() {
            Ok(true) => files = FileWatch::new(read.borrow_and_update().clone()),
            Ok(false) => {}
            Err(_) => return,
        }
        // A file system may hang, so the check runs on a thread that may block.
        let checked = tokio::task::spawn_blocking(move || {
            let changed = files.check();
            (files, changed)
        });
        let Ok((watch, changed)) = checked.await else { return };
        files = watch;
        if changed {
            let (scope, trigger) = (ReloadScope::Files, Trigger::Files);
            let reload = Command::Reload { scope, trigger, allow_removals: false, reply: None };
            if commands.send(reload).await.is_err() {
                return;
            }
            // Until the reload has read the files, there is nothing to compare them with.
            if read.changed().await.is_err() {
                return;
            }
            files = FileWatch::new(read.borrow_and_update().clone());
        }
    }
}

/// Watches the files of the last reload.
#[derive(Debug)]
struct FileWatch {
    /// The files as they were last read.
    read: Fingerprint,
    /// The files at the last check, if they differed.
    changed: Option<Fingerprint>,
}

impl FileWatch {
    /// Begins with files that were just read.
    const fn new(read: Fingerprint) -> Self {
        Self { read, changed: None }
    }

    /// Checks the files. Returns true if they have changed since they were read, but not since the last check: a file that is being written,
    /// or a folder that is being copied, is not read yet.
    fn check(&mut self) -> bool {
        let now = Fingerprint::of(self.read.files());
        if now == self.read {
            self.changed = None;
            return false;
        }
        if self.changed.as_ref() == Some(&now) {
            self.changed = None;
            return true;
        }
        self.changed = Some(now);
        false
    }
}

/// Period of checks. A change is reloaded at the second check after it.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn change_is_reported_at_the_second_equal_check() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fairway.yaml");
        fs::write(&file, "1").unwrap();
        let mut watch = FileWatch::new(Fingerprint::of([&file]));
        assert!(!watch.check());
        fs::write(&file, "12").unwrap();
        assert!(!watch.check(), "the file may still be written");
        fs::write(&file, "123").unwrap();
        assert!(!watch.check(), "the file changed again");
        assert!(watch.check(), "the file did not change since the last check");
    }

    #[test]
    fn removed_file_is_a_change_and_its_absence_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let (file, away) = (folder.path().join("fairway.yaml"), folder.path().join("away"));
        fs::write(&file, "1").unwrap();
        let mut watch = FileWatch::new(Fingerprint::of([&file]));
        fs::rename(&file, &away).unwrap();
        assert_eq!([watch.check(), watch.check()], [false, true]);
        let mut watch = FileWatch::new(Fingerprint::of([&file]));
        assert!(!watch.check(), "a file that stays absent has not changed");
    }
}
