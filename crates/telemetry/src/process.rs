//! What the kernel says of this process, from `/proc`.

use std::fs;

use super::Sheet;

impl Sheet {
    /// What the kernel says of this process, by the names that Prometheus' own client libraries give.
    pub fn process(&mut self) {
        let process = Process::now();
        if let Some(seconds) = process.cpu_seconds {
            self.seconds("process_cpu_seconds_total", "Processor time used, user and system.", seconds);
        }
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Resident memory.", process.resident_bytes),
            ("process_virtual_memory_bytes", "Address space.", process.virtual_bytes),
            ("process_open_fds", "Open file descriptors.", process.open_fds),
            ("process_max_fds", "Most file descriptors that may be open.", process.max_fds),
            ("process_threads", "Threads.", process.threads),
        ] {
            if let Some(value) = value {
                self.gauge(name, help, value as f64);
            }
        }
        if let Some(seconds) = process.start_seconds {
            self.gauge("process_start_time_seconds", "When the process started, since 1970.", seconds);
        }
    }
}

/// Use of the machine by this process. What cannot be read is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Process {
    /// Processor time used, user and system, in seconds.
    cpu_seconds: Option<f64>,
    /// Resident memory in octets.
    resident_bytes: Option<u64>,
    /// Address space in octets.
    virtual_bytes: Option<u64>,
    /// Open file descriptors.
    open_fds: Option<u64>,
    /// Most file descriptors that may be open.
    max_fds: Option<u64>,
    /// Threads.
    threads: Option<u64>,
    /// When the process started, in seconds since 1970.
    start_seconds: Option<f64>,
}

impl Process {
    /// How things stand now.
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
        let open_fds = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64);
        let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE);
        Self { open_fds, max_fds: limit.ok().map(|(soft, _)| soft), ..Self::parse(&stat, boot_time(&boot)) }
    }

    /// Reads `/proc/[pid]/stat` (proc(5)).
    fn parse(stat: &str, boot: Option<u64>) -> Self {
        // The second field is the program's name in parentheses, and may hold anything; the third field follows the last.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let seconds = |field: u64| field as f64 / ticks;
        Self {
            cpu_seconds: field(14).zip(field(15)).map(|(user, system)| seconds(user + system)),
            threads: field(20),
            start_seconds: field(22).zip(boot).map(|(after_boot, boot)| boot as f64 + seconds(after_boot)),
            virtual_bytes: field(23),
            resident_bytes: field(24).map(|pages| pages * rustix::param::page_size() as u64),
            open_fds: None,
            max_fds: None,
        }
    }
}

/// When the machine started, in seconds since 1970, from `/proc/stat`.
fn boot_time(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime ")).and_then(|text| text.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_spaces_and_parentheses_shifts_no_field() {
        let numbers = (4..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let process = Process::parse(&format!("7 (a) b (c)) S {numbers}"), Some(1_000));
        assert_eq!((process.threads, process.virtual_bytes), (Some(20), Some(23)));
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(process.cpu_seconds, Some(29.0 / ticks));
        assert_eq!(process.start_seconds, Some(1_000.0 + 22.0 / ticks));
    }

    #[test]
    fn this_process_can_be_read() {
        let process = Process::now();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(process.open_fds.is_some_and(|count| count >= 3) && process.max_fds >= process.open_fds);
        assert!(process.start_seconds.is_some_and(|at| at > 1.6e9));
    }

    #[test]
    fn nothing_to_read_leaves_everything_out() {
        assert_eq!(Process::parse("", None), Process::default());
    }
}
