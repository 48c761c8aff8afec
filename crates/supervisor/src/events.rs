//! Events of a run, written to standard error and kept for clients that ask.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use telemetry::{Event, EventLog, Kind};

use super::rate::Rate;
use crate::output::{Output, OutputError};

/// Format of events on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Every event, a line of text.
    Text,
    /// Every event, a JSON object a line.
    Json,
}

/// Most events accepted from the data plane, or the process of a router, within a second; a healthy one sends a few.
const MOST: u32 = 500;
/// Most events in one answer.
const MOST_ANSWERED: usize = 500;

/// Event log of a run.
#[derive(Debug)]
pub struct Events {
    run: String,
    /// `None`: only what went wrong is written, as text.
    format: Option<Log>,
    log: EventLog,
    stderr: Output,
    /// Rate of the data plane's events.
    rate: Rate,
    /// Rates of the events of processes of isolated routers, by router.
    processes: BTreeMap<String, Rate>,
}

/// Counts an event. Returns whether there is budget left for it, and how many events had none in the last second.
fn spend(rate: &mut Rate, now: Instant) -> (bool, u32) {
    let lost = rate.turn(now).map_or(0, |came| came.saturating_sub(MOST));
    (!rate.exceeds(MOST, now), lost)
}

impl Events {
    /// Creates the log of a run; `stderr` is standard error or its substitute.
    pub fn new(run: &str, format: Option<Log>, stderr: Output, now: Instant) -> Self {
        let (rate, processes) = (Rate::new(now), BTreeMap::new());
        Self { run: run.to_owned(), format, log: EventLog::new(), stderr, rate, processes }
    }

    /// Records an event of the run.
    pub fn record(&mut self, kind: Kind, message: impl Into<String>) {
        self.push(Event::of_run(&self.run, kind, message));
    }

    /// Records an event that the data plane reports. Beyond [`MOST`] a second its events are dropped, so that
    /// it cannot flood the log.
    pub(crate) fn record_from_data_plane(
        &mut self,
        kind: &str,
        router: Option<&str>,
        message: String,
        now: Instant,
    ) {
        let budget = spend(&mut self.rate, now);
        self.record_within(budget, (kind, router), message);
    }

    /// Records an event that the process of an isolated router reports about that router. Its budget is its own:
    /// it hides no event of others.
    pub(crate) fn record_from_process(&mut self, kind: &str, router: &str, message: String, now: Instant) {
        let rate = self.processes.entry(router.to_owned()).or_insert_with(|| Rate::new(now));
        let budget = spend(rate, now);
        self.record_within(budget, (kind, Some(router)), message);
    }

    fn record_within(
        &mut self,
        (is_left, lost): (bool, u32),
        (kind, router): (&str, Option<&str>),
        message: String,
    ) {
        if lost > 0 {
            self.record(Kind::Notice, format!("{lost} events came too fast and were not kept"));
        }
        if !is_left {
            return;
        }
        let kind = Kind::ALL.into_iter().find(|known| known.name() == kind).unwrap_or(Kind::Notice);
        let event = match router {
            Some(router) => Event::of_router(&self.run, router, kind, message),
            None => Event::of_run(&self.run, kind, message),
        };
        self.push(event.cleaned());
    }

    /// Records an event.
    pub fn push(&mut self, event: Event) {
        let line = match self.format {
            Some(Log::Json) => Some(event.json()),
            Some(Log::Text) => Some(event.to_string()),
            None if is_trouble(event.kind) => Some(event.to_string()),
            None => None,
        };
        if let Some(line) = line {
            // Standard error cannot be written, and there is no other place to report that.
            let _: Option<OutputError> = self.stderr.write(&(line + "\n"));
        }
        self.log.push(event);
    }

    /// Writes a line of a data plane's standard error, unchanged, to where events are written.
    pub(super) fn repeat(&mut self, line: &str) {
        let _: Option<OutputError> = self.stderr.write(&format!("{line}\n"));
    }

    /// Number of events so far.
    pub(crate) fn count(&self) -> u64 {
        self.log.next_number()
    }

    /// Answer with the events from a number on.
    pub fn answer(&self, since: Option<u64>) -> api::Answer {
        let found = self.log.since(since.unwrap_or(0), MOST_ANSWERED);
        let lost = if since.is_some() { found.lost } else { 0 };
        let events = (found.first..).zip(found.events).map(|(number, event)| api::Event {
            number,
            unix_ms: event.unix_ms.0,
            kind: event.kind.name().to_owned(),
            router: event.router.clone(),
            message: event.message.clone(),
        });
        api::Answer::Events { events: events.collect(), next: found.next, lost }
    }

    /// Descriptor to poll for writing, if a line is pending.
    pub(crate) fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.stderr.waiting()
    }

    /// Writes pending lines.
    pub(crate) fn flush(&mut self) {
        let _ = self.stderr.flush();
    }
}

/// Returns true if an event is written even where no log format was requested.
fn is_trouble(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::Started
            | Kind::Stopped
            | Kind::Restarted
            | Kind::Applied
            | Kind::ClientDropped
            | Kind::Cable
            | Kind::ControlPlane
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn numbers(answer: &api::Answer) -> (Vec<u64>, u64, u64) {
        match answer {
            api::Answer::Events { events, next, lost } => {
                (events.iter().map(|event| event.number).collect(), *next, *lost)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn events_are_numbered_and_told_from_a_number_on() {
        let mut events = Events::new("lab", None, Output::new(None), Instant::now());
        for n in 0..5 {
            events.record(Kind::Started, format!("number {n}"));
        }
        assert_eq!(numbers(&events.answer(None)), (vec![0, 1, 2, 3, 4], 5, 0));
        assert_eq!(numbers(&events.answer(Some(3))), (vec![3, 4], 5, 0));
        assert_eq!(numbers(&events.answer(Some(99))), (vec![], 5, 0));
    }

    #[test]
    fn what_a_data_plane_says_itself_is_written_as_it_is() {
        for format in [None, Some(Log::Text), Some(Log::Json)] {
            let (mut reader, writer) = std::io::pipe().expect("a pipe");
            let mut events = Events::new("lab", format, Output::new(Some(writer.into())), Instant::now());
            events.repeat("ringroad: thread edge/vcpu0 (class vcpu) asked the kernel for socket(0x1)");
            events.record(Kind::DataPlaneDied, "data plane (pid 1) was killed by SIGSYS");
            assert_eq!(events.count(), 1, "it is no event");
            drop(events);
            let mut told = String::new();
            std::io::Read::read_to_string(&mut reader, &mut told).expect("text");
            let lines: Vec<&str> = told.lines().collect();
            let [said, died] = lines.as_slice() else { panic!("{told}") };
            assert_eq!(*said, "ringroad: thread edge/vcpu0 (class vcpu) asked the kernel for socket(0x1)");
            assert_eq!(died.starts_with('{'), format == Some(Log::Json), "{died}");
        }
    }

    #[test]
    fn a_data_plane_that_floods_is_cut_short() {
        let start = Instant::now();
        let mut events = Events::new("lab", None, Output::new(None), start);
        for _ in 0..2 * MOST {
            events.record_from_data_plane("started", Some("edge"), "x".repeat(5000), start);
        }
        assert_eq!(events.count(), u64::from(MOST));
        let later = start + Duration::from_secs(2);
        events.record_from_data_plane("no such kind", None, "a\nb".to_owned(), later);
        let api::Answer::Events { events, .. } = events.answer(Some(u64::from(MOST))) else {
            panic!("not events")
        };
        let messages: Vec<_> = events.iter().map(|e| (e.kind.as_str(), e.message.as_str())).collect();
        assert_eq!(messages, [("notice", "500 events came too fast and were not kept"), ("notice", "a b")]);
    }

    #[test]
    fn a_process_that_floods_hides_nothing_of_others() {
        let now = Instant::now();
        let mut events = Events::new("lab", None, Output::new(None), now);
        for _ in 0..2 * MOST {
            events.record_from_process("notice", "edge", "x".to_owned(), now);
        }
        assert_eq!(events.count(), u64::from(MOST));
        events.record_from_process("failed", "core", "its own trouble".to_owned(), now);
        events.record_from_data_plane("charged", Some("west"), "and another's".to_owned(), now);
        assert_eq!(events.count(), u64::from(MOST) + 2);
    }
}
