//! Output of a run on standard output: a table or a JSON object each second.

use std::os::fd::BorrowedFd;

use api::Counters;
use config::Plan;

use crate::output::{Output, OutputError};
use crate::table::{Interval, MemberStates, Screen};

/// The display of a run.
pub(crate) struct Display {
    json: bool,
    screen: Screen,
    stdout: Output,
    /// Counters of the last output, or the time at which counting began.
    last: Result<Counters, u64>,
    /// States of members as they were reported last.
    members: MemberStates,
}

impl Display {
    /// Creates a display on `stdout`.
    pub(crate) fn new(json: bool, stdout: Output) -> Self {
        Self { json, screen: Screen::of_stdout(), stdout, last: Err(0), members: MemberStates::new() }
    }

    /// Returns true if it shows the states of members, which are no counters.
    pub(crate) fn shows_members(&self) -> bool {
        !self.json
    }

    /// Notes the states of members, for the next table.
    pub(crate) fn note_members(&mut self, members: MemberStates) {
        self.members = members;
    }

    /// Restarts all counting from zero at `at_ns`.
    pub(crate) fn reset(&mut self, at_ns: u64) {
        self.last = Err(at_ns);
        self.members.clear();
    }

    /// Shows what happened since the last call. Returns, once, the reason why it cannot be written.
    pub(crate) fn show(&mut self, counters: Counters, plan: &Plan) -> Option<String> {
        let interval = match &self.last {
            Ok(last) => Interval::between(last, &counters),
            Err(began) => Interval::since(*began, &counters),
        };
        self.last = Ok(counters);
        let text = if self.json {
            interval.json() + "\n"
        } else {
            self.screen.draw(&interval.table(plan, &self.members))
        };
        let trouble = self.stdout.write(&text)?;
        Some(self.explain(trouble))
    }

    fn explain(&self, trouble: OutputError) -> String {
        let what = match trouble {
            OutputError::Refused(why) => format!("standard output cannot be written: {why}"),
            OutputError::Slow => "nobody reads standard output".to_owned(),
        };
        format!("{what}; what it misses is lost, and the run goes on")
    }

    /// Notes that something else was printed on the terminal, so that the table is not drawn over it.
    pub(crate) fn leave(&mut self) {
        self.screen.leave();
    }

    /// Descriptor to poll for writing, if output is pending.
    pub(crate) fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.stdout.waiting()
    }

    /// Writes pending output.
    pub(crate) fn flush(&mut self) -> Option<String> {
        let trouble = self.stdout.flush()?;
        Some(self.explain(trouble))
    }
}
