//! Memory limit of a server under test: a control group that the test makes where it can, else the limit of data of `prlimit`.
//!
//! A control group counts what a container counts, page cache included, and the kernel ends a process that exceeds it. `prlimit --data` counts
//! private writable memory, and an allocation over it fails. Only the first one is a limit that the server can read.

use std::{
    ffi::OsStr,
    fmt, fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Files of a version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    number: u8,
    mount: &'static str,
    /// Limit of memory.
    limit: &'static str,
    /// Limits of swap, as file and value: without them a process that exceeds its memory swaps. Kernels without swap have none.
    swap: (&'static str, Option<u64>),
    /// Most memory so far.
    peak: &'static str,
    /// Statistics with the line `oom_kill`, the number of processes that the kernel ended.
    events: &'static str,
}

/// Version 2 at its usual mount point (cgroups(7)), where the server looks too.
const VERSION_2: Version = Version {
    number: 2,
    mount: "sys/fs/cgroup",
    limit: "memory.max",
    swap: ("memory.swap.max", Some(0)),
    peak: "memory.peak",
    events: "memory.events",
};
/// Version 1. Its limit of memory and swap together is that of memory.
const VERSION_1: Version = Version {
    number: 1,
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    swap: ("memory.memsw.limit_in_bytes", None),
    peak: "memory.max_usage_in_bytes",
    events: "memory.oom_control",
};

/// A memory limit for a program.
#[derive(Debug)]
pub struct MemoryLimit {
    bytes: u64,
    group: Option<Group>,
}

impl MemoryLimit {
    /// Makes a control group with this limit below the one of this process, or below one of those above it; without the right to do that,
    /// returns a limit of `prlimit`.
    pub fn new(bytes: u64) -> Self {
        Self { bytes, group: Group::make(Path::new("/"), bytes) }
    }

    /// True if the server can read the limit: its default of `limits.memory` is then a quarter of it.
    pub const fn is_readable(&self) -> bool {
        self.group.is_some()
    }

    /// Returns a command that runs a program under the limit, with the process id of the command.
    pub fn command(&self, program: &Path) -> Command {
        match &self.group {
            Some(group) => {
                // The shell joins the group before it becomes the program, so that all memory of the program counts.
                let mut command = Command::new("sh");
                command.args(["-c", "echo $$ >\"$1\" && shift && exec \"$@\"", "sh"]);
                command.arg(group.folder.join("cgroup.procs")).arg(program);
                command
            }
            None => {
                let mut command = Command::new("prlimit");
                command.arg(format!("--data={}", self.bytes)).arg(program);
                command
            }
        }
    }

    /// Returns the most memory of the group in bytes, and the number of processes that the kernel ended in it; `None` without a group, and
    /// for what the kernel does not count.
    pub fn usage(&self) -> Option<(u64, u64)> {
        let group = self.group.as_ref()?;
        let peak = group.read(group.version.peak)?.trim().parse().ok()?;
        let events = group.read(group.version.events)?;
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()?;
        Some((peak, kills))
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = self.bytes >> 20;
        match &self.group {
            Some(Group { version, .. }) => {
                write!(f, "{mebibytes} MiB, by a control group (version {})", version.number)
            }
            None => write!(f, "{mebibytes} MiB, by prlimit --data: no control group can be made here"),
        }
    }
}

/// A control group without processes of others. It is removed when this is dropped, after its processes have ended.
#[derive(Debug)]
struct Group {
    version: Version,
    folder: PathBuf,
}

impl Group {
    fn make(root: &Path, bytes: u64) -> Option<Self> {
        let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        parents(root, &own).into_iter().find_map(|(version, parent)| Self::make_in(version, &parent, bytes).ok())
    }

    fn make_in(version: Version, parent: &Path, bytes: u64) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let folder = parent.join(format!("fairway-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed)));
        fs::create_dir(&folder)?;
        // From here on it is removed, also if it has no controller for memory.
        let group = Self { version, folder };
        group.write(version.limit, bytes)?;
        let (file, value) = version.swap;
        let _ = group.write(file, value.unwrap_or(bytes));
        group.admits_processes()?;
        Ok(group)
    }

    /// Writes a number to a file that exists; the kernel creates them with the group.
    fn write(&self, file: &str, value: u64) -> io::Result<()> {
        io::Write::write_all(
            &mut fs::OpenOptions::new().write(true).open(self.folder.join(file))?,
            value.to_string().as_bytes(),
        )
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(file)).ok()
    }

    /// Tries it with a process: a user who may make a group need not be allowed to move processes into it (cgroups(7), delegation).
    fn admits_processes(&self) -> io::Result<()> {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ >\"$1\"", "sh"]).arg(self.folder.join("cgroup.procs"));
        let output = shell.output()?;
        if output.status.success() { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel lets the folder be removed only once it has finished with the processes, shortly after they were waited for.
        let end = Instant::now() + REMOVAL_MAX;
        while let Err(error) = fs::remove_dir(&self.folder) {
            if Instant::now() > end {
                eprintln!("{} cannot be removed: {error}", self.folder.display());
                return;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }
}

/// Longest wait for the end of the processes of a group.
const REMOVAL_MAX: Duration = Duration::from_secs(5);

/// Returns the control groups that this process is in, by its `/proc/self/cgroup`, and those above each, as parents of a new one. The
/// nearest comes first: there every limit above applies too. Version 2 has no group with processes and a controller for the groups below
/// it, so there the parent is usually one above.
///
/// Folders that are not below the mount point are left out, as in a container without a namespace of control groups: the server would not
/// find its limit there either.
fn parents(root: &Path, own: &str) -> Vec<(Version, PathBuf)> {
    let mut found = Vec::new();
    for line in own.lines() {
        // NUMBER:CONTROLLERS:PATH; version 2 has no controllers.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let version = match controllers {
            "" => VERSION_2,
            list if list.split(',').any(|one| one == "memory") => VERSION_1,
            _ => continue,
        };
        let mount = root.join(version.mount);
        let path = Path::new(path.trim_start_matches('/'));
        if path.components().any(|part| part.as_os_str() == OsStr::new("..")) || !mount.join(path).is_dir() {
            continue;
        }
        found.extend(path.ancestors().map(|group| (version, mount.join(group))));
    }
    found
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn tree(folders: &[&str]) -> TempDir {
        let root = TempDir::new().unwrap();
        for folder in folders {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        root
    }

    fn names(root: &TempDir, own: &str) -> Vec<(u8, String)> {
        let found = parents(root.path(), own);
        let name = |path: PathBuf| path.strip_prefix(root.path()).unwrap().display().to_string();
        found.into_iter().map(|(version, path)| (version.number, name(path).trim_end_matches('/').to_owned())).collect()
    }

    #[test]
    fn nearest_group_of_each_version_is_first() {
        let root = tree(&["sys/fs/cgroup/user/app"]);
        let expected = ["sys/fs/cgroup/user/app", "sys/fs/cgroup/user", "sys/fs/cgroup"];
        assert_eq!(names(&root, "0::/user/app\n"), expected.map(|path| (2, path.to_owned())));
        let root = tree(&["sys/fs/cgroup/memory/a"]);
        let expected = [(1, "sys/fs/cgroup/memory/a"), (1, "sys/fs/cgroup/memory"), (2, "sys/fs/cgroup")];
        let own = "3:cpu:/b\n2:hugetlb,memory:/a\n0::/\n";
        assert_eq!(names(&root, own), expected.map(|(version, path)| (version, path.to_owned())));
    }

    #[test]
    fn groups_outside_of_the_mount_are_left_out() {
        let root = tree(&["sys/fs/cgroup/memory", "sys/fs/other"]);
        assert_eq!(names(&root, "2:memory:/docker/a\n0::/../other\n"), []);
        assert_eq!(names(&tree(&[]), "0::/\n"), []);
        assert_eq!(names(&root, "not a group\n"), []);
    }

    #[test]
    fn folder_without_a_controller_is_removed() {
        let root = tree(&["sys/fs/cgroup", "proc/self"]);
        fs::write(root.path().join("proc/self/cgroup"), "0::/\n").unwrap();
        assert!(Group::make(root.path(), 1 << 30).is_none());
        assert_eq!(fs::read_dir(root.path().join("sys/fs/cgroup")).unwrap().count(), 0);
    }

    #[test]
    fn program_runs_under_the_limit() {
        let limit = MemoryLimit::new(64 << 20);
        let shown = limit.command(Path::new("sh")).args(["-c", "cat /proc/self/cgroup /proc/self/limits"]).output();
        let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
        match &limit.group {
            Some(group) => {
                let name = group.folder.file_name().unwrap().to_str().unwrap();
                assert!(shown.contains(name), "{shown}");
                let own = group.read(group.version.limit).unwrap();
                assert_eq!(own.trim(), (64 << 20).to_string());
                assert!(limit.usage().is_some_and(|(peak, kills)| peak > 0 && kills == 0), "{:?}", limit.usage());
                let folder = group.folder.clone();
                drop(limit);
                assert!(!folder.exists(), "{} is removed", folder.display());
            }
            None => {
                let data = shown.lines().find(|line| line.starts_with("Max data size")).unwrap();
                assert!(data.contains(&(64 << 20).to_string()), "{data}");
            }
        }
    }
}
