//! A job: a process that runs one test or many, and its output.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::step::Step;
use crate::tally::Tally;

use super::private;

/// Time limit of a test program, even if other programs take both CPUs most of the time.
const LIMIT: Duration = Duration::from_secs(1200);

/// Process to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// Name shown: the test or the program.
    pub(super) name: String,
    /// The program and its arguments.
    pub(super) words: Vec<String>,
    /// Working folder.
    pub(super) folder: PathBuf,
    /// True if nothing else may run meanwhile, and it runs in the host's own namespaces.
    pub(super) alone: bool,
    /// Time limit.
    pub(super) limit: Duration,
    /// Cases of each property test, if different from those for a commit.
    pub(super) cases: Option<u32>,
    /// Folder that all jobs of a run have in common, for what is made once for several of them.
    pub(super) common: Option<PathBuf>,
}

/// Result of a job.
#[derive(Debug)]
pub(super) struct Done {
    /// Its name.
    pub(super) name: String,
    /// Results of its tests.
    pub(super) tally: Tally,
    /// Duration.
    pub(super) took: Duration,
    /// All its output.
    pub(super) printed: Vec<String>,
}

impl Job {
    /// Creates the job of a test program, with these arguments.
    pub(super) fn of(name: String, program: &str, folder: PathBuf, arguments: Vec<String>) -> Self {
        let mut words = vec![program.to_owned(), "--show-output".to_owned()];
        words.extend(arguments);
        Self { name, words, folder, alone: false, limit: LIMIT, cases: None, common: None }
    }

    /// Creates the job for the documentation examples of all crates, which cargo compiles itself.
    pub(super) fn documentation() -> Self {
        let words = ["cargo", "test", "--quiet", "--doc", "--workspace", "--", "--show-output"];
        let words = words.map(str::to_owned).to_vec();
        let name = "examples in the documentation".to_owned();
        let folder = crate::step::root();
        Self { name, words, folder, alone: true, limit: LIMIT, cases: None, common: None }
    }

    /// Runs it to completion, in namespaces of its own if that is possible and it is not to run alone.
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
        let step = match &self.common {
            Some(folder) => step.env(support::COMMON_FOLDER, folder),
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
    /// Prints one line; for a failed job, preceded by its whole output.
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
