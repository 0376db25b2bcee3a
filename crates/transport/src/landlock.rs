//! Restriction of the process to the files that it needs (Landlock, landlock(7)), where the kernel has it.

use std::{collections::BTreeSet, path::PathBuf};

use landlock::{
    ABI, Access, AccessFs, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, path_beneath_rules,
};

/// Files and folders that a thread may use. A folder includes everything below it.
///
/// A rule belongs to the folder as it is at the time of the restriction, and so also to files that are created or renamed in it later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileAccess {
    /// May be read.
    pub read: BTreeSet<PathBuf>,
    /// May be read and executed. Empty by default: then nothing can be executed.
    pub execute: BTreeSet<PathBuf>,
    /// May be read and written, with new files, folders, sockets and links. Devices cannot be created.
    pub write: BTreeSet<PathBuf>,
}

/// A restriction in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRestriction {
    /// Version of the kernel's interface.
    pub abi: i32,
    /// False if the kernel is too old for a part: version 1 (5.13) lets nobody rename between folders, 2 (5.19) does not restrict
    /// truncation, 4 (6.7) not the ioctls of devices.
    pub is_complete: bool,
}

impl FileAccess {
    /// Restricts the calling thread, and the threads that it starts later, for good: call it before any other thread exists.
    /// Programs outside of `execute` cannot be executed any more. Open files, sockets and the network are not affected.
    ///
    /// Paths that do not exist are skipped. Returns the reason if the kernel restricts nothing.
    pub fn restrict_thread(&self) -> Result<FileRestriction, String> {
        let RestrictionStatus { ruleset, landlock, .. } = self.enforce().map_err(|error| error.to_string())?;
        match landlock {
            LandlockStatus::NotImplemented => Err("this kernel has no Landlock (Linux 5.13 has it)".to_owned()),
            LandlockStatus::NotEnabled => Err("Landlock is off: the kernel's parameter lsm= lacks it".to_owned()),
            LandlockStatus::Available { effective_abi, kernel_abi } if ruleset != RulesetStatus::NotEnforced => {
                let abi = kernel_abi.unwrap_or(effective_abi as i32);
                Ok(FileRestriction { abi, is_complete: ruleset == RulesetStatus::FullyEnforced })
            }
            LandlockStatus::Available { .. } => Err("the kernel enforced nothing".to_owned()),
        }
    }

    fn enforce(&self) -> Result<RestrictionStatus, RulesetError> {
        let all = AccessFs::from_all(RULES);
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let write = all & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
        let rules = Ruleset::default().handle_access(all)?.create()?;
        let rules = rules.add_rules(path_beneath_rules(&self.read, read))?;
        let rules = rules.add_rules(path_beneath_rules(&self.execute, read | AccessFs::Execute))?;
        rules.add_rules(path_beneath_rules(&self.write, write))?.restrict_self()
    }
}

/// Version whose rights are restricted: the first with all rights to files. Later ones restrict sockets and signals. An older kernel
/// restricts those that it knows.
const RULES: ABI = ABI::V5;
