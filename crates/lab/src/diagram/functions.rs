//! Functions of the kernel that one frame passes, from a trace of the host's tracepoints. Pure functions of the trace's text.

use std::collections::{BTreeMap, BTreeSet};

use super::{Space, Station};

/// System calls that read frames, by number on x86-64: read(2), readv(2), recvmmsg(2).
const READS: [i64; 3] = [0, 19, 299];
/// System calls that write frames: write(2), writev(2), sendmmsg(2).
const WRITES: [i64; 3] = [WRITE, 20, 307];
const WRITE: i64 = 1;

/// Octets of the value of an event descriptor, by which threads wake each other: fewer than any frame has.
const EVENT: i64 = 8;

/// Line of a trace: `THREAD-NUMBER [CPU] FLAGS TIME: POINT: FIELDS`. Threads are known by name, because the numbers are those of the
/// host's first PID namespace, whatever the lab's own is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event<'t> {
    thread: &'t str,
    point: &'t str,
    fields: &'t str,
}

impl<'t> Event<'t> {
    /// Parses a line; `None` for comments, and lines of another format.
    fn parse(line: &'t str) -> Option<Self> {
        let (task, rest) = line.split_once(" [")?;
        let (thread, number) = task.trim().rsplit_once('-')?;
        number.parse::<u32>().ok()?;
        let (_, rest) = rest.split_once("] ")?;
        let (head, rest) = rest.split_once(": ")?;
        // The head ends with the time.
        head.split_whitespace().last()?.parse::<f64>().ok()?;
        let (point, fields) = rest.split_once(':')?;
        Some(Self { thread, point: point.trim(), fields: fields.trim() })
    }

    /// Returns the interface that it is about.
    fn interface(&self) -> Option<&'t str> {
        let word = |before: &str| self.fields.split_once(before)?.1.split_whitespace().next();
        word("dev=").or_else(|| word("for device "))
    }

    /// Returns true if this is the end of a system call that has read a frame: `NR 19 = 60`.
    fn has_read(&self) -> Option<bool> {
        let (number, result) = self.fields.strip_prefix("NR ")?.split_once(" = ")?;
        let (number, result): (i64, i64) = (number.trim().parse().ok()?, result.trim().parse().ok()?);
        Some(READS.contains(&number) && result > EVENT)
    }

    /// Returns true if this is the beginning of a system call that writes a frame: `NR 1 (7, 7f0c, 3c, 0, 0, 0)`. At its end the
    /// kernel has already passed the frame on.
    fn writes(&self) -> Option<bool> {
        let (number, arguments) = self.fields.strip_prefix("NR ")?.split_once(" (")?;
        let number: i64 = number.trim().parse().ok()?;
        let octets = || i64::from_str_radix(arguments.split(", ").nth(2)?, 16).ok();
        Some(WRITES.contains(&number) && (number != WRITE || octets()? > EVENT))
    }

    /// Returns what a system call does with a frame.
    fn moves(&self) -> Option<&'static str> {
        match self.point {
            "sys_exit" => self.has_read()?.then_some("reads"),
            "sys_enter" => self.writes()?.then_some("writes"),
            _ => None,
        }
    }
}

/// Returns the functions that frames pass at these interfaces and in these threads (roles by thread name), in the order of the
/// trace. What passes the same place several times in a row is one station.
pub fn functions(
    trace: &str,
    interfaces: &BTreeSet<String>,
    threads: &BTreeMap<String, String>,
) -> Vec<Station> {
    let mut stations: Vec<Station> = Vec::new();
    for event in trace.lines().filter_map(Event::parse) {
        let found = station(&event, interfaces, threads);
        stations.extend(found.filter(|found| stations.last() != Some(found)));
    }
    stations
}

fn station(
    event: &Event<'_>,
    interfaces: &BTreeSet<String>,
    threads: &BTreeMap<String, String>,
) -> Option<Station> {
    if let Some(interface) = event.interface() {
        let (name, what) = (event.point.to_owned(), interface.to_owned());
        let found = Station { name, what, space: Space::Kernel, part: None };
        return interfaces.contains(interface).then_some(found);
    }
    let thread = threads.get(event.thread)?;
    let part = Some("router".to_owned());
    match event.point {
        "sys_enter" | "sys_exit" => {
            let (name, what) = (thread.clone(), event.moves()?.to_owned());
            Some(Station { name, what, space: Space::User, part })
        }
        point if point.starts_with("kvm_") => {
            Some(Station { name: point.to_owned(), what: thread.clone(), space: Space::Kernel, part })
        }
        _ => None,
    }
}
