//! Counts test results in the output of `cargo test -- --show-output`.

use std::collections::VecDeque;
use std::fmt;

/// Prefix of the line by which a test reports that it could not run here, and why.
pub(crate) const SKIPPED: &str = "SKIPPED:";

/// Passed, failed and skipped tests of one run or of several together.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Tests that passed.
    pub(crate) passed: usize,
    /// Tests that failed, and test programs that crashed.
    pub(crate) failed: usize,
    /// Tests that could not run here, with the reasons.
    pub(crate) skipped: Vec<String>,
    failures: Vec<Failure>,
    /// Emulated machines that were lost through their emulator.
    pub(crate) lost_machines: usize,
    /// Test program that is running.
    program: Option<String>,
    section: Section,
}

/// Lines of a failed test's output that are repeated at the end.
const TOLD_AGAIN: usize = 20;

/// A failure, with the last lines of its output.
#[derive(Debug)]
struct Failure {
    name: String,
    last: VecDeque<String>,
}

impl Failure {
    fn tell(&self) {
        println!("FAILED: {}", self.name);
        self.last.iter().for_each(|line| println!("    {line}"));
    }
}

#[derive(Debug, Default)]
enum Section {
    #[default]
    Tests,
    /// Output of passed tests; the test whose output this is, until it is known to be skipped.
    Successes(Option<String>),
    /// Output of failed tests.
    Failures,
}

impl Tally {
    /// Processes one line; returns false for a line of no interest: the output of tests that passed.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        if let Some(program) = started(line) {
            self.end_program();
            self.program = Some(program.to_owned());
            return true;
        }
        if let Some(numbers) = line.strip_prefix("test result: ") {
            self.result(numbers);
            return true;
        }
        match line {
            "successes:" => self.section = Section::Successes(None),
            // It appears twice: before the output of failed tests, and before the list of their names.
            "failures:" if matches!(self.section, Section::Failures) => self.section = Section::Tests,
            "failures:" => self.section = Section::Failures,
            _ => {}
        }
        match &mut self.section {
            Section::Tests => true,
            Section::Failures => {
                self.failure_line(line);
                true
            }
            Section::Successes(test) => match (heading(line), line.strip_prefix(SKIPPED)) {
                (Some(name), _) => {
                    *test = Some(name.to_owned());
                    false
                }
                (None, Some(why)) => test.take().is_some_and(|name| self.skip(&name, why)),
                (None, None) => false,
            },
        }
    }

    /// Creates a tally for a program that starts now.
    pub(crate) fn program(name: &str) -> Self {
        Self { program: Some(name.to_owned()), ..Self::default() }
    }

    /// Returns true if the program has not reported its result.
    pub(crate) fn is_open(&self) -> bool {
        self.program.is_some()
    }

    /// Adds the counts of another tally, whose last program has ended or will not.
    pub(crate) fn take(&mut self, mut other: Self) {
        other.end_program();
        self.passed = self.passed.wrapping_add(other.passed);
        self.failed += other.failed;
        self.skipped.append(&mut other.skipped);
        self.failures.append(&mut other.failures);
        self.lost_machines += other.lost_machines;
    }

    /// Ends a stage: a program without a result has crashed, and a failed stage counts as at least one failure.
    pub(crate) fn end_stage(&mut self, name: &str, well: bool, failed_before: usize) {
        self.end_program();
        if !well && self.failed == failed_before {
            self.fail(name, []);
        }
    }

    /// Counts a failure that no test program reports, with its output.
    pub(crate) fn fail<'a>(&mut self, name: &str, printed: impl IntoIterator<Item = &'a str>) {
        self.failed += 1;
        self.failures.push(Failure { name: name.to_owned(), last: VecDeque::new() });
        printed.into_iter().for_each(|line| self.failure_line(line));
    }

    /// Prints skipped tests, failures, and the summary line.
    pub(crate) fn tell(&self) {
        println!();
        self.failures.iter().for_each(Failure::tell);
        for skipped in &self.skipped {
            println!("{SKIPPED} {skipped}");
        }
        if self.lost_machines > 0 {
            println!("lost machines: {}", self.lost_machines);
        }
        println!("{self}");
    }

    fn failure_line(&mut self, line: &str) {
        if let Some(name) = heading(line) {
            self.failures.push(Failure { name: name.to_owned(), last: VecDeque::new() });
        } else if let Some(Failure { last, .. }) = self.failures.last_mut()
            && !line.is_empty()
        {
            if last.len() == TOLD_AGAIN {
                last.pop_front();
            }
            last.push_back(line.to_owned());
        }
    }

    fn end_program(&mut self) {
        self.section = Section::Tests;
        if let Some(program) = self.program.take() {
            self.fail(&format!("{program}: ended without a result"), []);
        }
    }

    fn skip(&mut self, name: &str, why: &str) -> bool {
        self.skipped.push(format!("{name}: {}", why.trim()));
        // The test harness will count the skipped test as passed.
        self.passed = self.passed.wrapping_sub(1);
        true
    }

    fn result(&mut self, numbers: &str) {
        self.program = None;
        self.section = Section::Tests;
        self.passed = self.passed.wrapping_add(number_before(numbers, " passed"));
        self.failed += number_before(numbers, " failed");
        for n in 0..number_before(numbers, " ignored") {
            self.skipped.push(format!("ignored test {}", n + 1));
        }
    }
}

/// Returns the test program that cargo announces.
fn started(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let running = line.strip_prefix("Running ").filter(|program| program.ends_with(')'));
    running.or_else(|| line.starts_with("Doc-tests ").then_some(line))
}

/// Returns the test whose output follows.
fn heading(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

fn number_before(text: &str, word: &str) -> usize {
    let Some((before, _)) = text.split_once(word) else { return 0 };
    before.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped.len())
    }
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
