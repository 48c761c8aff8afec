//! A job: a process that runs one test or many, and what it said.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::step::Step;
use crate::tally::Tally;

use super::private;

/// No test program takes so long, even where others take both CPUs most of the time.
const LIMIT: Duration = Duration::from_secs(1200);

/// A process to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// What is shown: the test or the program.
    pub(super) name: String,
    /// The program and its arguments.
    pub(super) words: Vec<String>,
    /// Where it runs.
    pub(super) folder: PathBuf,
    /// Nothing else runs meanwhile, and it sees the host as it is.
    pub(super) alone: bool,
    /// How long it may take.
    pub(super) limit: Duration,
    /// Cases of each property test, if not as many as for a commit.
    pub(super) cases: Option<u32>,
}

/// What became of a job.
#[derive(Debug)]
pub(super) struct Done {
    /// Its name.
    pub(super) name: String,
    /// What its tests were.
    pub(super) tally: Tally,
    /// How long it took.
    pub(super) took: Duration,
    /// All that it printed.
    pub(super) printed: Vec<String>,
}

impl Job {
    /// A test program, with these arguments.
    pub(super) fn of(name: String, program: &str, folder: PathBuf, arguments: Vec<String>) -> Self {
        let mut words = vec![program.to_owned(), "--show-output".to_owned()];
        words.extend(arguments);
        Self { name, words, folder, alone: false, limit: LIMIT, cases: None }
    }

    /// The examples in the documentation of all crates, which cargo compiles itself.
    pub(super) fn documentation() -> Self {
        let words = ["cargo", "test", "--quiet", "--doc", "--workspace", "--", "--show-output"];
        let words = words.map(str::to_owned).to_vec();
        let name = "examples in the documentation".to_owned();
        Self { name, words, folder: crate::step::root(), alone: true, limit: LIMIT, cases: None }
    }

    /// Runs it to its end, in namespaces of its own where that is possible and it is not alone.
    pub(super) fn run(&self, privately: bool) -> Done {
        let start = Instant::now();
        let mut words = if privately && !self.alone { private::words() } else { Vec::new() };
        words.extend(self.words.iter().cloned());
        let step = Step::of(words).folder(&self.folder).limit(self.limit).env("CARGO_TERM_COLOR", "never");
        let step = step.env("CARGO_MANIFEST_DIR", &self.folder).env("RUST_BACKTRACE", "0");
        let step = match self.cases {
            Some(cases) => step.env("PROPTEST_CASES", cases.to_string()),
            None => step,
        };
        let mut tally = Tally::program(&self.name);
        let mut printed = Vec::new();
        let outcome = step.quietly(&mut |line| {
            tally.line(line);
            printed.push(line.to_owned());
        });
        if let Err(why) = &outcome {
            printed.push(format!("{why:#}"));
        }
        tally.end_stage(&self.name, outcome.is_ok_and(|well| well), 0);
        Done { name: self.name.clone(), tally, took: start.elapsed(), printed }
    }
}

impl Done {
    /// One line; of a job that failed, all that it printed before that.
    pub(super) fn tell(&self) {
        let well = self.tally.failed == 0;
        if !well {
            println!("\n---- {}", self.name);
            self.printed.iter().for_each(|line| println!("{line}"));
        }
        let tests = self.tally.passed + self.tally.failed;
        let count = if tests == 1 { String::new() } else { format!("  ({tests} tests)") };
        let verdict = match () {
            () if !well => "FAILED",
            () if tests == 0 && !self.tally.skipped.is_empty() => "skip",
            () => "ok",
        };
        println!("{verdict:6} {:6.1} s  {}{count}", self.took.as_secs_f64(), self.name);
    }
}
