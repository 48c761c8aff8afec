//! Waits until no frame is in flight in a run.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Result, ensure};
use api::{Answer, Client, Request};

use crate::Counters;
use crate::process::{all_sleep, children_of};

/// Folder of root's runs.
const RUNS: &str = "/run/ringroad/runs";
/// Timeout of a run's answer.
const ANSWER: Duration = Duration::from_secs(60);
/// Interval between two readings.
const LOOK: Duration = Duration::from_millis(25);
/// Unchanged readings after which a ledger that adds up is accepted, of those before which all threads slept: frames in a TAP's
/// queue are in no ledger yet, but the thread that reads them has been woken, and runs or waits for a CPU.
const QUIET_LOOKS: u32 = 4;
/// Unchanged readings after which any ledger is accepted: a hostile router need not maintain its part of it, and a thread that
/// polls never sleeps.
const MANY_QUIET_LOOKS: u32 = 40;
/// Readings after which the wait is over: 10 s on a host with free CPUs, longer on one that makes everybody wait. If frames keep
/// being sent, the caller has its reasons.
const MOST_LOOKS: u32 = 400;
/// Time after which no further reading is begun, however few there were: an answer may take long.
const MOST_TIME: Duration = Duration::from_secs(120);
/// How a run ends a line about its data plane that does not answer: it comes up, is down, or died of the question.
const ASK_AGAIN: &str = "ask again in a second";
/// Timeout for a run to answer, or to count what is awaited.
const LONG: Duration = Duration::from_secs(60);

/// Waits until the ledgers of all routers of a run add up and do not change; `supervisor` is the run's process.
///
/// It returns at once if the run does not answer, and soon if only its data plane does not, unless an answer is `demanded`. If
/// frames never rest, it says so in the test's output, and returns false, as it does if there is no answer that is demanded.
pub(crate) fn wait(supervisor: u32, demanded: bool) -> bool {
    let Some(mut client) = client(supervisor) else { return !demanded };
    let (mut looks, end) = (Looks { demanded, ..Looks::default() }, Instant::now() + MOST_TIME);
    for _ in 0..MOST_LOOKS {
        if Instant::now() > end {
            break;
        }
        let asleep = all_sleep(children_of(supervisor).iter().map(|child| child.id));
        let counters = match Counters::running(&mut client) {
            Ok(counters) => Some(counters),
            Err(error) if is_to_be_asked_again(&error) => None,
            Err(_) => return !demanded,
        };
        looks.add(counters.as_ref().map(Counters::frames), asleep);
        if looks.are_enough(counters.is_some_and(|counters| adds_up(&counters))) {
            return true;
        }
        thread::sleep(LOOK);
    }
    eprintln!("frames of the run with process {supervisor} do not rest: {looks:?}");
    false
}

/// Readings so far.
#[derive(Debug, Default)]
struct Looks {
    /// True if the data plane must have answered.
    demanded: bool,
    /// The last one: the number of frames; `None` if the data plane did not answer.
    last: Option<Option<u64>>,
    /// Number of readings since then that were the same.
    unchanged: u32,
    /// Number of those before which all threads slept.
    asleep: u32,
}

impl Looks {
    fn add(&mut self, frames: Option<u64>, asleep: bool) {
        if self.last.replace(frames) == Some(frames) {
            self.unchanged += 1;
            self.asleep += u32::from(asleep);
        } else {
            (self.unchanged, self.asleep) = (0, 0);
        }
    }

    fn are_enough(&self, adds_up: bool) -> bool {
        let suffices = !self.demanded || self.last.flatten().is_some();
        (suffices && self.unchanged >= MANY_QUIET_LOOKS) || (adds_up && self.asleep >= QUIET_LOOKS)
    }
}

fn adds_up(counters: &Counters) -> bool {
    counters.routers().iter().all(|router| counters.faults(router).is_empty())
}

fn is_to_be_asked_again(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains(ASK_AGAIN)
}

/// Waits until a run's counters satisfy `wanted`; `supervisor` is its process.
pub(crate) fn counters(supervisor: u32, wanted: impl Fn(&Counters) -> bool) -> Result<Counters> {
    let mut client = answering(supervisor)?;
    let end = Instant::now() + LONG;
    loop {
        let counters = match Counters::running(&mut client) {
            Ok(counters) if wanted(&counters) => return Ok(counters),
            // A run answers before its data plane does, and while that is started again.
            Err(error) if !is_to_be_asked_again(&error) => return Err(error),
            other => other,
        };
        ensure!(Instant::now() < end, "not so within {LONG:?}: {counters:?}");
        thread::sleep(LOOK);
    }
}

/// Counters of a run so far; `supervisor` is its process.
pub(crate) fn now(supervisor: u32) -> Option<Counters> {
    Counters::running(&mut client(supervisor)?).ok()
}

/// Connects to the run with this process as soon as it answers: its links are made earlier.
pub(crate) fn answering(supervisor: u32) -> Result<Client> {
    let end = Instant::now() + LONG;
    loop {
        if let Some(client) = client(supervisor) {
            return Ok(client);
        }
        ensure!(Instant::now() < end, "no run answers within {LONG:?}");
        thread::sleep(LOOK);
    }
}

/// Connects to the run with this process, if it answers.
pub(crate) fn client(supervisor: u32) -> Option<Client> {
    let folders = fs::read_dir(RUNS).ok()?.filter_map(Result::ok);
    let sockets = folders.map(|folder| folder.path().join("control"));
    sockets.filter_map(|socket: PathBuf| Client::connect(&socket, ANSWER).ok()).find_map(|mut client| {
        let Ok(Answer::Ps(status)) = client.ask(&Request::Ps {}) else { return None };
        (status.pid == supervisor).then_some(client)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of equal readings until they are enough; the threads sleep before every `nth` one.
    fn needed(adds_up: bool, nth: u32) -> u32 {
        let mut looks = Looks::default();
        looks.add(Some(1), true);
        let enough = |look: &u32| {
            looks.add(Some(2), look.is_multiple_of(nth));
            looks.are_enough(adds_up)
        };
        (0..MOST_LOOKS).find(enough).expect("some are enough")
    }

    #[test]
    fn a_reading_counts_only_if_no_thread_is_about_to_move_a_frame() {
        assert_eq!(needed(true, 1), QUIET_LOOKS);
        assert_eq!(needed(true, 3), QUIET_LOOKS * 3);
        assert_eq!(needed(true, 1000), MANY_QUIET_LOOKS);
        assert_eq!(needed(false, 1), MANY_QUIET_LOOKS);
    }

    #[test]
    fn a_data_plane_that_does_not_answer_is_at_rest_only_for_who_does_not_ask_for_more() {
        let is_enough = |demanded: bool| {
            let mut looks = Looks { demanded, ..Looks::default() };
            (0..=MANY_QUIET_LOOKS).for_each(|_| looks.add(None, true));
            looks.are_enough(false)
        };
        assert_eq!([false, true].map(is_enough), [true, false]);
    }
}
