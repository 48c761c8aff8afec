//! Runs jobs in the order given: first those that may overlap, several at a time, then those that must run alone, one after the
//! other.

use std::collections::VecDeque;
use std::time::Instant;

use crate::tally::Tally;
use crate::workers;

use super::job::{Done, Job};
use super::private;
use super::times::Times;

/// Simultaneous jobs per CPU: tests wait most of the time.
const JOBS_A_CPU: usize = 2;

/// Jobs to be run, and the destinations of their results.
pub(super) struct Pool<'a> {
    together: VecDeque<Job>,
    alone: Vec<Job>,
    tally: &'a mut Tally,
    times: &'a mut Times,
}

impl<'a> Pool<'a> {
    /// Creates a pool of these jobs.
    pub(super) fn new(jobs: Vec<Job>, tally: &'a mut Tally, times: &'a mut Times) -> Self {
        let (alone, together): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.alone);
        Self { together: together.into(), alone, tally, times }
    }

    /// Runs all jobs.
    pub(super) fn run(mut self) {
        // Without namespaces of their own, tests would see each other's links: then they run one at a time.
        let privately = private::possible();
        let start = Instant::now();
        self.side_by_side(privately);
        self.times.add("tests side by side", start.elapsed());
        let start = Instant::now();
        for job in std::mem::take(&mut self.alone) {
            let done = job.run(false);
            self.take(done);
        }
        self.times.add("tests alone", start.elapsed());
    }

    fn side_by_side(&mut self, privately: bool) {
        let at_once = if privately { workers::cpus() * JOBS_A_CPU } else { 1 };
        println!("\n== {} jobs, {at_once} at a time", self.together.len());
        let jobs = std::mem::take(&mut self.together);
        workers::share(jobs, at_once, |job| job.run(privately), |done| self.take(done));
    }

    fn take(&mut self, done: Done) {
        done.tell();
        self.times.job(&done.name, done.took);
        self.tally.take(done.tally);
    }
}
