//! Verbs of the command that run to their end, and what they say.

use std::process::Command;
use std::time::Duration;

use support::{Finished, Stage, run};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Longest run of a verb, also on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a verb.
pub(crate) fn ringroad(words: &[&str]) -> Finished {
    run(Command::new(RINGROAD).args(words), PATIENCE).expect("it ends")
}

/// Runs a verb that must succeed; returns its output.
#[track_caller]
pub(crate) fn said(words: &[&str]) -> String {
    let done = ringroad(words);
    assert!(done.status.success(), "{words:?}: {}", done.stderr);
    done.stdout
}

/// Runs a verb that must succeed where a run is, in its namespace and its folder; returns its output.
#[track_caller]
pub(crate) fn said_at(stage: &Stage, words: &[&str]) -> String {
    let mut command = stage.home().command(RINGROAD);
    let done = run(command.current_dir(stage.path("")).args(words), PATIENCE).expect("it ends");
    assert!(done.status.success(), "{words:?}: {}", done.stderr);
    done.stdout
}

/// Runs a verb that must be refused; returns the one line that says why.
#[track_caller]
pub(crate) fn refused(words: &[&str]) -> String {
    let done = ringroad(words);
    assert!(!done.status.success(), "{words:?}: {}", done.stdout);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    done.stderr
}
