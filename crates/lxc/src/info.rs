//! Parser of the output of `lxc-info`, and of LXC's log.

use crate::Error;

/// State of a container, as LXC names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not running.
    Stopped,
    /// Being set up.
    Starting,
    /// Its init runs.
    Running,
    /// Being torn down.
    Stopping,
    /// Its start has failed.
    Aborting,
    /// Its processes are being frozen.
    Freezing,
    /// Its processes are frozen.
    Frozen,
    /// Its processes are running again.
    Thawed,
}

/// State and init of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// State.
    pub state: State,
    /// PID of its init outside the container; `None` if it does not run.
    pub pid: Option<u32>,
}

impl Info {
    /// Parses the lines `State:` and `PID:` of `lxc-info -s -p`, in any order.
    ///
    /// # Errors
    /// There is no state, an unknown state, or an invalid PID.
    pub fn read(text: &str) -> Result<Self, Error> {
        let unknown =
            || Error::Info { found: text.chars().take(80).collect::<String>().escape_debug().to_string() };
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let state = state(value("State:").ok_or_else(unknown)?).ok_or_else(unknown)?;
        let pid = match value("PID:") {
            Some(digits) => Some(digits.parse::<u32>().ok().filter(|pid| *pid > 0).ok_or_else(unknown)?),
            None => None,
        };
        Ok(Self { state, pid })
    }

    /// Returns the PID of the init if the container runs.
    pub fn running(&self) -> Option<u32> {
        self.pid.filter(|_| self.state == State::Running)
    }
}

fn state(word: &str) -> Option<State> {
    Some(match word {
        "STOPPED" => State::Stopped,
        "STARTING" => State::Starting,
        "RUNNING" => State::Running,
        "STOPPING" => State::Stopping,
        "ABORTING" => State::Aborting,
        "FREEZING" => State::Freezing,
        "FROZEN" => State::Frozen,
        "THAWED" => State::Thawed,
        _ => return None,
    })
}

/// Returns the reason of a failure from LXC's log: the first error is the cause, and later ones are consequences. Errors about
/// seccomp are skipped: they appear for every container that is started by root of a container, and are harmless.
pub(crate) fn cause(log: &str) -> Option<String> {
    let told = |line: &str| {
        let (_, rest) = line.split_once(" ERROR ")?;
        let words = rest.split_once(" - ").map_or(rest, |(_, words)| words);
        // `../src/lxc/network.c:netdev_configure_server_phys:1089 - No such device - ...`
        let words = match words.split_once(" - ") {
            Some((place, words)) if place.contains(".c:") => words,
            _ => words,
        };
        let words: String = words.chars().filter(|letter| !letter.is_control()).take(200).collect();
        (!words.trim().is_empty()).then(|| words.trim().to_owned())
    };
    log.lines().filter(|line| !line.contains("seccomp")).find_map(told)
}
