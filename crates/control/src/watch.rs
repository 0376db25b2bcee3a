//! When files that changed are worth reading: once they have been quiet for one more look.

use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::{
    command::{Command, Trigger},
    configured::What,
};
use fairway_config::watch::Fingerprint;

/// Looks at the files of the last reading every second, and asks for a reload when they have changed. `read` tells what
/// each reading saw; ends with the control task.
pub async fn watch_files(mut read: watch::Receiver<Fingerprint>, commands: mpsc::Sender<Command>) {
    let mut files = Watch::new(read.borrow_and_update().clone());
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        match read.has_changed() {
            Ok(true) => files = Watch::new(read.borrow_and_update().clone()),
            Ok(false) => {}
            Err(_) => return,
        }
        // A file system may hang; the look then waits where it may.
        let looked = tokio::task::spawn_blocking(move || {
            let changed = files.look();
            (files, changed)
        });
        let Ok((watch, changed)) = looked.await else { return };
        files = watch;
        if changed {
            if commands
                .send(Command::Reload { what: What::Files, asked_by: Trigger::Files, reply: None })
                .await
                .is_err()
            {
                return;
            }
            // Until the reading is done, nothing is known that a look could be compared with.
            if read.changed().await.is_err() {
                return;
            }
            files = Watch::new(read.borrow_and_update().clone());
        }
    }
}

/// Watches the files of the last reading, by looking at them now and then.
#[derive(Debug)]
pub struct Watch {
    /// What they looked like when they were last read.
    read: Fingerprint,
    /// What they looked like at the last look, if that was different.
    changed: Option<Fingerprint>,
}

impl Watch {
    /// Begins with what was just read.
    pub const fn new(read: Fingerprint) -> Self {
        Self { read, changed: None }
    }

    /// Looks once. True when the files have changed since they were read and not since the last look: a file that is
    /// still being written, or a folder being copied, is left alone until it rests.
    pub fn look(&mut self) -> bool {
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

/// How often files are looked at; a change is taken at the second look after it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_change_counts_at_the_second_quiet_look() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fairway.yaml");
        fs::write(&file, "1").unwrap();
        let mut watch = Watch::new(Fingerprint::of([&file]));
        assert!(!watch.look());
        fs::write(&file, "12").unwrap();
        assert!(!watch.look(), "it may still be written");
        fs::write(&file, "123").unwrap();
        assert!(!watch.look(), "it was still written");
        assert!(watch.look(), "now it rests");
    }

    #[test]
    fn a_file_that_vanished_is_a_change_and_its_return_unchanged_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let (file, away) = (folder.path().join("fairway.yaml"), folder.path().join("away"));
        fs::write(&file, "1").unwrap();
        let mut watch = Watch::new(Fingerprint::of([&file]));
        fs::rename(&file, &away).unwrap();
        assert_eq!([watch.look(), watch.look()], [false, true]);
        let mut watch = Watch::new(Fingerprint::of([&file]));
        assert!(!watch.look(), "an absent file that stays absent has not changed");
    }
}
