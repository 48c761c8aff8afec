//! Pings, by `busybox`.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::run;

/// Timeout of an answer in seconds, generous for a busy host.
const ANSWER: &str = "60";
/// Timeout of the ping command.
const LIMIT: Duration = Duration::from_secs(70);
/// Timeout of a ping command that waits a second for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pings `count` times with `busybox` and these options, the last of which is the address; returns the output. Each ping
/// is sent when the previous one has been answered: with several at a time, ping would wait for the last no longer than
/// twice the time of the previous ones, or a second, which is less than a busy host keeps a virtual CPU waiting.
///
/// # Errors
///
/// One is not answered within a minute.
pub fn ping(mut busybox: Command, count: usize, options: &[&str]) -> Result<String> {
    busybox.args(["ping", "-c", "1", "-W", ANSWER]).args(options);
    let mut said = String::new();
    for number in 0..count {
        let done = run(&mut busybox, LIMIT)?;
        said += &done.stdout;
        ensure!(done.status.success(), "{options:?}: ping {number}: {} {}", done.stdout, done.stderr);
    }
    Ok(said)
}

/// Sends one ping with `busybox` and these options, the last of which is the address; returns true if it is answered within a second.
///
/// # Panics
///
/// The command does not end by itself.
pub fn answers(mut busybox: Command, options: &[&str]) -> bool {
    busybox.args(["ping", "-c", "1", "-W", "1"]).args(options);
    run(&mut busybox, PATIENCE).expect("ping ends").status.success()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_answered_or_it_is_an_error() {
        crate::needs!(Root, Program("busybox"));
        let busybox = || Command::new("busybox");
        let said = ping(busybox(), 3, &["-s", "100", "127.0.0.1"]).expect("answered");
        assert_eq!(said.matches("108 bytes from 127.0.0.1").count(), 3, "{said}");
        assert!(ping(busybox(), 1, &["256.0.0.1"]).is_err());
    }
}
