//! Memory that this process may use: the limit of its control group, version 1 or 2, or the memory of the machine.

use std::{fs, path::Path};

/// Returns the memory that this process may use, in bytes: the smallest limit of the control groups that it is in, and of the machine. `None` if
/// nothing can be read.
pub fn usable_memory() -> Option<u64> {
    usable_below(Path::new("/"))
}

fn usable_below(root: &Path) -> Option<u64> {
    let read = |path: &Path| fs::read_to_string(root.join(path)).ok();
    let groups = read(Path::new("proc/self/cgroup")).unwrap_or_default();
    let mut limits = Vec::new();
    for line in groups.lines() {
        // NUMBER:CONTROLLERS:PATH; version 2 has no controllers.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|one| one == "memory") => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        // A group is also within the limits of the groups above it. In a container, the upper ones are at the mount itself.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            limits.extend(
                read(&Path::new(mount).join(group).join(file)).and_then(|text| text.trim().parse::<u64>().ok()),
            );
        }
    }
    let machine = read(Path::new("proc/meminfo")).unwrap_or_default();
    let total =
        machine.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    limits.extend(total.map(|kibibytes: u64| kibibytes << 10));
    limits.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usable(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        usable_below(root.path())
    }

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:       8000000 kB\nMemFree: 5 kB\n");

    #[test]
    fn smallest_limit_of_the_groups_is_used() {
        let group = ("proc/self/cgroup", "0::/pods/fairway\n");
        assert_eq!(usable(&[]), None);
        assert_eq!(usable(&[MACHINE]), Some(8_000_000 << 10));
        assert_eq!(
            usable(&[MACHINE, group, ("sys/fs/cgroup/pods/fairway/memory.max", "max\n")]),
            Some(8_000_000 << 10)
        );
        let limited = ("sys/fs/cgroup/pods/memory.max", "1073741824\n");
        assert_eq!(
            usable(&[MACHINE, group, limited, ("sys/fs/cgroup/pods/fairway/memory.max", "max\n")]),
            Some(1 << 30)
        );
    }

    #[test]
    fn limit_of_version_1_is_read_at_the_mount_of_a_container() {
        let group = ("proc/self/cgroup", "12:cpu,cpuacct:/docker/a\n3:memory:/docker/a\n0::/\n");
        let limit = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
        assert_eq!(usable(&[MACHINE, group, limit]), Some(512 << 20));
        let unlimited = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(usable(&[MACHINE, group, unlimited]), Some(8_000_000 << 10));
    }
}
