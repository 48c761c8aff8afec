//! Time accounting of a run.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::grace::GracePeriods;

/// Number of slowest jobs listed in the table.
const SLOWEST: usize = 12;

/// Durations of stages and jobs.
#[derive(Debug, Default)]
pub(super) struct Times {
    stages: Vec<(String, Duration)>,
    jobs: Vec<(String, Duration)>,
    grace: Option<GracePeriods>,
}

impl Times {
    /// Runs a stage under a name; its time counts even if it fails.
    pub(super) fn stage<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let done = work();
        self.add(name, start.elapsed());
        done
    }

    /// Records the duration of a stage.
    pub(super) fn add(&mut self, name: &str, took: Duration) {
        self.stages.push((name.to_owned(), took));
    }

    /// Records the duration of a job.
    pub(super) fn job(&mut self, name: &str, took: Duration) {
        self.jobs.push((name.to_owned(), took));
    }

    /// Durations of the jobs so far.
    pub(super) fn jobs(&self) -> &[(String, Duration)] {
        &self.jobs
    }

    /// Records the grace periods during the jobs; `None` if they were not watched.
    pub(super) fn grace(&mut self, seen: Option<GracePeriods>) {
        self.grace = seen;
    }

    /// Formats the table: stages in order, then the slowest jobs.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |(name, took): &(String, Duration)| format!("{:8.1} s  {name}", took.as_secs_f64());
        let all: Duration = self.stages.iter().map(|(_, took)| *took).sum();
        let mut lines = vec!["time".to_owned()];
        lines.extend(self.stages.iter().map(line));
        lines.push(line(&("together".to_owned(), all)));
        lines.extend(self.grace.map(GracePeriods::line));
        let mut jobs: Vec<&(String, Duration)> = self.jobs.iter().collect();
        jobs.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        if !jobs.is_empty() {
            lines.push(format!("the slowest of {} jobs", jobs.len()));
        }
        lines.extend(jobs.into_iter().take(SLOWEST).map(line));
        lines
    }

    /// Prints the table.
    pub(super) fn tell(&self) {
        println!();
        self.lines().iter().for_each(|line| println!("{line}"));
    }
}
