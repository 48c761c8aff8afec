//! Functions of the kernel that one frame passes, from a trace of the host's tracepoints. Pure functions of the trace's text.

use std::collections::{BTreeMap, BTreeSet};

use super::{Space, Station};

/// System calls that move frames, by number on x86-64, and what they do with them.
const MOVES: [(i64, &str); 6] =
    [(0, "reads"), (19, "reads"), (299, "reads"), (1, "writes"), (20, "writes"), (307, "writes")];

/// Octets of the value of an event descriptor, by which threads wake each other: fewer than any frame has.
const EVENT: i64 = 8;

/// Line of a trace: `TASK-TID [CPU] FLAGS TIME: POINT: FIELDS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event<'t> {
    tid: i32,
    point: &'t str,
    fields: &'t str,
}

impl<'t> Event<'t> {
    /// Parses a line; `None` for comments, and lines of another format.
    fn parse(line: &'t str) -> Option<Self> {
        let (task, rest) = line.split_once(" [")?;
        let tid = task.trim().rsplit_once('-')?.1.parse().ok()?;
        let (_, rest) = rest.split_once("] ")?;
        let (head, rest) = rest.split_once(": ")?;
        // The head ends with the time.
        head.split_whitespace().last()?.parse::<f64>().ok()?;
        let (point, fields) = rest.split_once(':')?;
        Some(Self { tid, point: point.trim(), fields: fields.trim() })
    }

    /// Returns the interface that it is about.
    fn interface(&self) -> Option<&'t str> {
        let word = |before: &str| self.fields.split_once(before)?.1.split_whitespace().next();
        word("dev=").or_else(|| word("for device "))
    }

    /// Returns what a system call that has ended did with frames: `NR 19 = 60`.
    fn moves(&self) -> Option<&'static str> {
        let (number, result) = self.fields.strip_prefix("NR ")?.split_once(" = ")?;
        let (number, result): (i64, i64) = (number.trim().parse().ok()?, result.trim().parse().ok()?);
        MOVES.iter().find(|(known, _)| *known == number && result > EVENT).map(|(_, what)| *what)
    }
}

/// Returns the functions that frames pass at these interfaces and in these threads (names by thread number), in the order of the
/// trace. What passes the same place several times in a row is one station.
pub fn functions(
    trace: &str,
    interfaces: &BTreeSet<String>,
    threads: &BTreeMap<i32, String>,
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
    threads: &BTreeMap<i32, String>,
) -> Option<Station> {
    if let Some(interface) = event.interface() {
        let (name, what) = (event.point.to_owned(), interface.to_owned());
        let found = Station { name, what, space: Space::Kernel, part: None };
        return interfaces.contains(interface).then_some(found);
    }
    let thread = threads.get(&event.tid)?;
    let part = Some("router".to_owned());
    match event.point {
        "sys_exit" => {
            let (name, what) = (thread.clone(), event.moves()?.to_owned());
            Some(Station { name, what, space: Space::User, part })
        }
        point if point.starts_with("kvm_") => {
            Some(Station { name: point.to_owned(), what: thread.clone(), space: Space::Kernel, part })
        }
        _ => None,
    }
}
