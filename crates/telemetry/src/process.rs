//! Metrics of this process, from `/proc`.
//!
//! The feature `process` of the metrics library (0.14) gives the same names, but CPU time in whole seconds only: too coarse for a rate
//! over a minute.

use std::fs;

use super::Sheet;

impl Sheet {
    /// Writes the metrics of this process, with the names of Prometheus' client libraries.
    pub fn process(&mut self) {
        let process = Process::now();
        let integer = |value: Option<u64>| value.map(|value| value as f64);
        if let Some(seconds) = process.cpu_seconds {
            self.seconds("process_cpu_seconds_total", seconds);
        }
        for (name, value) in [
            ("process_resident_memory_bytes", integer(process.resident_bytes)),
            ("process_virtual_memory_bytes", integer(process.virtual_bytes)),
            ("process_open_fds", integer(process.open_fds)),
            ("process_max_fds", integer(process.max_fds)),
            ("process_threads", integer(process.threads)),
            ("process_start_time_seconds", process.start_seconds),
        ] {
            if let Some(value) = value {
                self.gauge(name, value);
            }
        }
    }
}

/// Resources that this process uses. Values that cannot be read are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Process {
    /// CPU time, user and system, in seconds.
    cpu_seconds: Option<f64>,
    /// Resident memory in bytes.
    resident_bytes: Option<u64>,
    /// Address space in bytes.
    virtual_bytes: Option<u64>,
    /// Open file descriptors.
    open_fds: Option<u64>,
    /// Limit of open file descriptors.
    max_fds: Option<u64>,
    /// Threads.
    threads: Option<u64>,
    /// Start of the process, in seconds since 1970.
    start_seconds: Option<f64>,
}

impl Process {
    /// Reads the current values.
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

/// Returns the start of the machine, in seconds since 1970, from `/proc/stat`.
fn boot_time(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime ")).and_then(|text| text.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_with_parentheses_shifts_no_field() {
        let numbers = (4..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let process = Process::parse(&format!("7 (a) b (c)) S {numbers}"), Some(1_000));
        assert_eq!((process.threads, process.virtual_bytes), (Some(20), Some(23)));
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(process.cpu_seconds, Some(29.0 / ticks));
        assert_eq!(process.start_seconds, Some(1_000.0 + 22.0 / ticks));
    }

    #[test]
    fn values_of_this_process_are_read() {
        let process = Process::now();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(process.open_fds.is_some_and(|count| count >= 3) && process.max_fds >= process.open_fds);
        assert!(process.start_seconds.is_some_and(|at| at > 1.6e9));
    }

    #[test]
    fn unreadable_values_are_absent() {
        assert_eq!(Process::parse("", None), Process::default());
    }
}
