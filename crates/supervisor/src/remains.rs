//! What a killed run leaves for a while after it has released its locks: its supervisor and data plane while the kernel ends them, which
//! may hold TAPs and sockets until then, and a cleaner at work.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time that is waited in any case for what a killed run still holds: usually some milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time that is waited as long as remains are seen. The end of a process that has VMs and TAPs waits for grace periods of the kernel: 12 s
/// were seen on a host whose CPUs had three times the work they could do.
const LONG_PATIENCE: Duration = Duration::from_secs(30);
/// Time between two attempts, at first and at most; it grows with the time waited.
const LOOK: Duration = Duration::from_millis(2);
const LONGEST_LOOK: Duration = Duration::from_millis(50);

/// Beginning of the names of a supervisor and a data plane.
const OURS: &str = "ringroad";
/// Flag of a task that has begun to exit (`PF_EXITING`).
const EXITING: u64 = 4;

/// Returns a function that sleeps briefly at each call, and returns false once it is useless to wait any longer.
pub(crate) fn patience() -> impl FnMut() -> bool {
    let (start, mut were_there) = (Instant::now(), true);
    move || {
        let waited = start.elapsed();
        let are_there = waited < PATIENCE || are_there();
        // What has gone since the last attempt allows another one.
        let waits = waited < LONG_PATIENCE && (are_there || were_there);
        were_there = are_there;
        if waits {
            sleep((waited / 16).clamp(LOOK, LONGEST_LOOK));
        }
        waits
    }
}

/// Returns true if any process of this host is one of those.
fn are_there() -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    processes.map(|entry| entry.path()).any(|folder| is_remainder(&folder).unwrap_or(false))
}

/// Returns true if the process with this folder in `/proc` is one of those; `None`: it is no process, or has gone.
fn is_remainder(folder: &Path) -> Option<bool> {
    let stat = Stat::read(&fs::read_to_string(folder.join("stat")).ok()?)?;
    let words = || fs::read(folder.join("cmdline")).unwrap_or_default();
    Some(stat.is_exiting() || is_cleaner_of_dead(&words(), stat.parent))
}

/// Returns true if a command line, with NUL-terminated words, is that of a cleaner whose run is not its parent any more.
fn is_cleaner_of_dead(cmdline: &[u8], parent: u64) -> bool {
    let mut words = cmdline.split(|octet| *octet == 0).skip(1);
    words.next() == Some(&b"cleaner"[..])
        && words.next().is_some_and(|run| run != parent.to_string().as_bytes())
}

/// Some fields of `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    is_ours: bool,
    is_zombie: bool,
    parent: u64,
    flags: u64,
    threads: u64,
}

impl Stat {
    fn read(text: &str) -> Option<Self> {
        // The name may contain anything.
        let (name, rest) = text.split_once(" (")?.1.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let (is_ours, is_zombie) = (name.starts_with(OURS), fields.first() == Some(&"Z"));
        Some(Self { is_ours, is_zombie, parent: number(1)?, flags: number(6)?, threads: number(17)? })
    }

    /// Returns true if it is one of ours that has begun to exit, and still holds something. A zombie with no other threads holds nothing.
    fn is_exiting(&self) -> bool {
        self.is_ours && self.flags & EXITING != 0 && !(self.is_zombie && self.threads <= 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, state: char, flags: u64, threads: u64) -> Stat {
        let rest = "0 0 0 0 0 0 0 0 20 0";
        let text = format!("42 ({name}) {state} 7 42 42 0 -1 {flags} {rest} {threads} 0 99 0 0 1\n");
        Stat::read(&text).expect("it is one")
    }

    #[test]
    fn a_process_that_ends_is_seen_until_it_has_ended() {
        let other = Stat { is_ours: false, is_zombie: false, parent: 7, flags: 68, threads: 3 };
        assert_eq!(stat("a) Z (b", 'S', 68, 3), other);
        assert!(!other.is_exiting());
        for (state, flags, threads, is_exiting) in
            [('S', 64, 3, false), ('D', 68, 1, true), ('Z', 68, 2, true), ('Z', 68, 1, false)]
        {
            let seen = stat("ringroad/plane", state, flags, threads);
            assert_eq!(seen.is_exiting(), is_exiting, "{seen:?}");
        }
        assert_eq!(Stat::read("42 (sleep) S 7"), None);
        let own = fs::read_to_string("/proc/self/stat").expect("there is one");
        assert!(!Stat::read(&own).expect("it can be read").is_exiting());
    }

    #[test]
    fn a_cleaner_is_at_work_when_its_run_is_not_its_parent_any_more() {
        for (cmdline, is_one) in [
            ("/proc/self/exe\0cleaner\x0042\0", true),
            ("/proc/self/exe\0cleaner\x007\0", false),
            ("/proc/self/exe\0cleaner", false),
            ("cleaner\x0042\0", false),
            ("", false),
        ] {
            assert_eq!(is_cleaner_of_dead(cmdline.as_bytes(), 7), is_one, "{cmdline:?}");
        }
    }

    #[test]
    fn nobody_waits_for_ever() {
        let mut waits = patience();
        let start = Instant::now();
        while waits() {
            assert!(start.elapsed() < 2 * LONG_PATIENCE, "it waits on");
        }
    }
}
