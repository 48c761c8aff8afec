//! Durations of jobs in earlier runs: the longest jobs start first, so that none of them runs on by itself at the end.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::step::target_dir;

use super::job::Job;

/// Jobs that take longest, the longest first, for a build folder in which no test has run yet.
const LONGEST: [&str; 16] = [
    "engine instance",
    "lab",
    "vmm firmware",
    "fib",
    "supervisor",
    "lab guests",
    "ring wake_loom",
    "uplink devices",
    "t45_control::two_routers_and_a_plain_one_find_their_way_by_ospf",
    "ring",
    "station stations",
    "t25_capture::both_ways_by_count_by_time_and_until_the_client_leaves",
    "t19_e1000::by_the_status_block_under_kvm",
    "t03_demo::the_whole_tour",
    "t39_kernel::six::both_families_are_forwarded_and_changed",
    "kernel-router kernel",
];

/// Milliseconds that each job took when it last ran, kept in a file.
#[derive(Debug)]
pub(super) struct Durations {
    file: PathBuf,
    milliseconds: BTreeMap<String, u64>,
}

impl Durations {
    /// Reads those of the build folder. A file that is missing or cannot be read has none.
    pub(super) fn of_the_build_folder() -> Self {
        Self::read(target_dir().join("test-durations.json"))
    }

    fn read(file: PathBuf) -> Self {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let milliseconds = serde_json::from_str(&text).unwrap_or_default();
        Self { file, milliseconds }
    }

    /// Sorts jobs: first those of [`LONGEST`] that have not run here, then the others, the longest first.
    pub(super) fn longest_first(&self, jobs: &mut [Job]) {
        jobs.sort_by_key(|job| Reverse(self.expected(&job.name)));
    }

    /// Milliseconds that a job is expected to take; the second number orders those of [`LONGEST`] among themselves.
    fn expected(&self, job: &str) -> (u64, usize) {
        match (self.milliseconds.get(job), LONGEST.iter().rev().position(|long| *long == job)) {
            (Some(took), _) => (*took, 0),
            (None, Some(place)) => (u64::MAX, place),
            (None, None) => (0, 0),
        }
    }

    /// Keeps the durations of jobs that have run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn keep(mut self, ran: &[(String, Duration)]) -> Result<()> {
        let milliseconds = |took: &Duration| u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.milliseconds.extend(ran.iter().map(|(job, took)| (job.clone(), milliseconds(took))));
        let text = serde_json::to_string_pretty(&self.milliseconds)?;
        write(&self.file, &text)
    }
}

/// Replaces a file at once: other runs may read it meanwhile.
fn write(file: &Path, text: &str) -> Result<()> {
    let part = file.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&part, text)
        .and_then(|()| std::fs::rename(&part, file))
        .with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(durations: &Durations, names: &[&str]) -> Vec<String> {
        let job = |name: &&str| Job::of((*name).to_owned(), "/x/t", "/x".into(), Vec::new());
        let mut jobs: Vec<Job> = names.iter().map(job).collect();
        durations.longest_first(&mut jobs);
        jobs.into_iter().map(|job| job.name).collect()
    }

    #[test]
    fn the_longest_of_the_last_run_start_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = || Durations::read(folder.path().join("durations.json"));
        let names = ["a", "fib", "b", "engine instance", "c"];
        assert_eq!(order(&read(), &names), ["engine instance", "fib", "a", "b", "c"]);
        let ran = |job: &str, seconds| (job.to_owned(), Duration::from_secs(seconds));
        read().keep(&[ran("a", 5), ran("b", 9), ran("fib", 7)]).expect("written");
        assert_eq!(order(&read(), &names), ["engine instance", "b", "fib", "a", "c"]);
        // A run of some of them leaves what is known about the others.
        read().keep(&[ran("a", 8)]).expect("written");
        assert_eq!(order(&read(), &names), ["engine instance", "b", "a", "fib", "c"]);
    }

    #[test]
    fn the_end_to_end_tests_that_take_longest_exist() {
        let folder = crate::step::root().join("tests/e2e");
        for (modules, test) in LONGEST.iter().filter_map(|name| name.rsplit_once("::")) {
            let file = folder.join(modules.replace("::", "/") + ".rs");
            let text = std::fs::read_to_string(&file).expect("a file of tests");
            assert!(text.contains(&format!("fn {test}()")), "{test} is not in {}", file.display());
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_has_no_durations() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("durations.json");
        std::fs::write(&file, "{\"a\": ").expect("written");
        assert_eq!(order(&Durations::read(file), &["a", "fib"]), ["fib", "a"]);
    }
}
