//! Processes of routers, started for the data plane, which may start none.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use anyhow::{Result, ensure};
use rustix::process::{Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_send_signal, waitid};
use signal_hook::low_level::signal_name;
use vmm::{Forker, Spawned};

use super::rate::Rate;

/// Processes that are started within a second at most. The engine's own pauses keep far below that.
const MOST: u32 = 200;

/// The children that are not known to have ended. Dropping it ends them all.
pub(crate) struct Children {
    forker: Option<Forker>,
    rate: Rate,
    /// By router.
    alive: BTreeMap<String, Vec<Child>>,
}

struct Child {
    pidfd: OwnedFd,
    pid: i32,
}

/// How a child ended by itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Its router.
    pub(crate) router: String,
    /// In words: `its process 4711 was killed by SIGSYS`.
    pub(crate) message: String,
}

impl Children {
    /// None yet.
    pub(crate) fn new(now: Instant) -> Self {
        Self { forker: None, rate: Rate::new(now), alive: BTreeMap::new() }
    }

    /// Starts a process for a router; what the data plane is to be given, and its number. It does nothing until `enter` has
    /// been told that number. A process that the router still has is ended: there is never more than one.
    ///
    /// # Errors
    /// One line: what this host refuses.
    pub(crate) fn spawn(
        &mut self,
        router: &str,
        enter: impl FnOnce(u32),
        now: Instant,
    ) -> Result<(Vec<OwnedFd>, u32)> {
        ensure!(!self.rate.exceeds(MOST, now), "more than {MOST} processes a second: try again later");
        self.end(router);
        let forker = match &mut self.forker {
            Some(forker) => forker,
            none => none.insert(Forker::new()?),
        };
        let Spawned { socket, pidfd, pid } = forker.spawn_within(router, enter)?;
        let copy = pidfd.try_clone();
        self.alive.entry(router.to_owned()).or_default().push(Child { pidfd, pid });
        Ok((vec![socket, copy?], pid.unsigned_abs()))
    }

    /// Ends this process of a router, if it still has that one.
    pub(crate) fn kill(&mut self, router: &str, pid: u32) {
        let has = |children: &Vec<Child>| children.iter().any(|child| child.pid.unsigned_abs() == pid);
        if self.alive.get(router).is_some_and(has) {
            self.end(router);
        }
    }

    /// Ends the process of a router, if it has one.
    fn end(&mut self, router: &str) {
        for child in self.alive.remove(router).unwrap_or_default() {
            child.kill();
        }
    }

    /// Ends all.
    pub(crate) fn end_all(&mut self) {
        for child in std::mem::take(&mut self.alive).into_values().flatten() {
            child.kill();
        }
    }

    /// Those that are there: router and process number.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (&str, i32)> {
        self.alive
            .iter()
            .flat_map(|(router, children)| children.iter().map(move |child| (router.as_str(), child.pid)))
    }

    /// Those that have ended since the last time, for a reason that should be told.
    pub(crate) fn ended(&mut self) -> Vec<Ended> {
        let mut all = Vec::new();
        self.alive.retain(|router, children| {
            children.retain(|child| {
                let Some(how) = child.ended() else { return true };
                let message = how.map(|how| format!("its process {} {how}", child.pid));
                all.extend(message.map(|message| Ended { router: router.clone(), message }));
                false
            });
            !children.is_empty()
        });
        all
    }

    /// What to poll for reading.
    pub(crate) fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.alive.values().flatten().map(|child| child.pidfd.as_fd())
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.end_all();
    }
}

impl Child {
    /// Whether it has ended, and how, if that was not in good order or by the engine's own SIGKILL.
    fn ended(&self) -> Option<Option<String>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        match waitid(WaitId::PidFd(self.pidfd.as_fd()), options) {
            Ok(None) => None,
            Ok(Some(status)) => Some(how(&status)),
            // Somebody else has waited for it.
            Err(_) => Some(None),
        }
    }

    fn kill(self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
}

fn how(status: &WaitIdStatus) -> Option<String> {
    match (status.terminating_signal(), status.exit_status()) {
        (Some(signal), _) if signal == Signal::KILL.as_raw() => None,
        (Some(signal), _) => {
            let name = signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned);
            Some(format!("was killed by {name}"))
        }
        (None, Some(0) | None) => None,
        (None, Some(code)) => Some(format!("ended with exit code {code}")),
    }
}
