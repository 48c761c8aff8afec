//! What a run shows on standard output: a table or a JSON object a second.

use std::os::fd::BorrowedFd;

use api::Counters;
use config::Plan;

use crate::output::{Output, Trouble};
use crate::table::{Interval, Screen};

/// The display of a run.
pub(crate) struct Display {
    json: bool,
    screen: Screen,
    stdout: Output,
    /// What was shown last, or when everything began to count.
    last: Result<Counters, u64>,
}

impl Display {
    /// On standard output, or what stands for it.
    pub(crate) fn new(json: bool, stdout: Output) -> Self {
        Self { json, screen: Screen::of_stdout(), stdout, last: Err(0) }
    }

    /// Everything counts from zero, since then.
    pub(crate) fn reset(&mut self, at_ns: u64) {
        self.last = Err(at_ns);
    }

    /// Shows what happened since the last time. Tells what keeps it from being written, once.
    pub(crate) fn show(&mut self, counters: Counters, plan: &Plan) -> Option<String> {
        let interval = match &self.last {
            Ok(last) => Interval::between(last, &counters),
            Err(began) => Interval::since(*began, &counters),
        };
        self.last = Ok(counters);
        let text = if self.json { interval.json() + "\n" } else { self.screen.draw(&interval.table(plan)) };
        let trouble = self.stdout.write(&text)?;
        Some(self.explain(trouble))
    }

    fn explain(&self, trouble: Trouble) -> String {
        let what = match trouble {
            Trouble::Refused(why) => format!("standard output cannot be written: {why}"),
            Trouble::Slow => "nobody reads standard output".to_owned(),
        };
        format!("{what}; what it misses is lost, and the run goes on")
    }

    /// Something else was printed on the terminal.
    pub(crate) fn leave(&mut self) {
        self.screen.leave();
    }

    /// What to poll for writing, if something waits.
    pub(crate) fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.stdout.waiting()
    }

    /// Writes what waits.
    pub(crate) fn flush(&mut self) -> Option<String> {
        let trouble = self.stdout.flush()?;
        Some(self.explain(trouble))
    }
}
