//! Processes of routers that the supervisor starts on behalf of the data plane, which may start none.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use anyhow::{Result, ensure};
use vmm::{Firmware, Forker, Spawned};

use super::killed_processes::KilledProcesses;
use super::plane::Process;
use super::rate::Rate;
use super::reaper::reap;

/// Most processes started within a second. The engine's own pauses keep the rate far below that.
const MOST: u32 = 200;
/// Description of an orderly end.
const ENDED: &str = "ended with exit code 0";
/// Description of an end by SIGKILL.
const KILLED: &str = "was killed by SIGKILL";

/// Children not known to have ended. Dropping this kills them all.
pub(crate) struct Children {
    forker: Option<Forker>,
    rate: Rate,
    /// By router.
    alive: BTreeMap<String, Vec<Box<dyn Process>>>,
    /// Children that were killed and have not ended yet.
    pub(super) killed: KilledProcesses,
}

struct Child {
    pidfd: OwnedFd,
    pid: i32,
}

/// End of a child that was not ordered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Name of its router.
    pub(crate) router: String,
    /// Description, as in `its process 4711 was killed by SIGSYS`.
    pub(crate) message: String,
}

impl Children {
    /// Creates an empty set.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            forker: None,
            rate: Rate::new(now),
            alive: BTreeMap::new(),
            killed: KilledProcesses::default(),
        }
    }

    /// Starts a process for a router. Returns the descriptors to hand to the data plane, and the process
    /// number. The process does nothing until `enter` has been called with that number. A process that the
    /// router still has is killed, so that at most one runs.
    ///
    /// # Errors
    /// In one line, what this host refuses.
    pub(crate) fn spawn(
        &mut self,
        (router, firmware): (&str, Firmware),
        enter: impl FnOnce(u32),
        now: Instant,
    ) -> Result<(Vec<OwnedFd>, u32)> {
        ensure!(!self.rate.exceeds(MOST, now), "more than {MOST} processes a second: try again later");
        let what = described(router);
        ensure!(!self.killed.are_many(&what), "too many processes of it were killed and have not ended");
        self.end(router, now);
        let forker = match &mut self.forker {
            Some(forker) => forker,
            none => none.insert(Forker::new()?),
        };
        let Spawned { socket, pidfd, pid } = forker.spawn_within((router, firmware), enter)?;
        let copy = pidfd.try_clone();
        self.add(router, Box::new(Child { pidfd, pid }));
        Ok((vec![socket, copy?], pid.unsigned_abs()))
    }

    /// Watches a process of a router from now on.
    pub(super) fn add(&mut self, router: &str, child: Box<dyn Process>) {
        self.alive.entry(router.to_owned()).or_default().push(child);
    }

    /// Kills this process of a router, if the router still has it.
    pub(crate) fn kill(&mut self, router: &str, pid: u32, now: Instant) {
        let has = |children: &Vec<Box<dyn Process>>| children.iter().any(|child| child.pid() == pid);
        if self.alive.get(router).is_some_and(has) {
            self.end(router, now);
        }
    }

    /// Kills all processes of a router.
    fn end(&mut self, router: &str, now: Instant) {
        for child in self.alive.remove(router).unwrap_or_default() {
            self.killed.kill(&described(router), child, now);
        }
    }

    /// Kills all children.
    pub(crate) fn end_all(&mut self, now: Instant) {
        let routers: Vec<String> = self.alive.keys().cloned().collect();
        routers.iter().for_each(|router| self.end(router, now));
    }

    /// Router and process number of each living child.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (&str, i32)> {
        self.alive.iter().flat_map(|(router, children)| {
            children.iter().map(move |child| (router.as_str(), child.pid().cast_signed()))
        })
    }

    /// Returns the children that have ended since the last call for a reason worth reporting.
    pub(crate) fn ended(&mut self) -> Vec<Ended> {
        let mut all = Vec::new();
        self.alive.retain(|router, children| {
            children.retain_mut(|child| {
                let Some(how) = child.end() else { return true };
                if !is_in_order(&how) {
                    let message = format!("its process {} {how}", child.pid());
                    all.push(Ended { router: router.clone(), message });
                }
                false
            });
            !children.is_empty()
        });
        all
    }

    /// Descriptors to poll for reading.
    pub(crate) fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.alive.values().flatten().map(|child| child.pidfd()).chain(self.killed.watched())
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.alive.values_mut().flatten().for_each(|child| child.kill());
    }
}

impl Process for Child {
    fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        reap(&self.pidfd);
    }
}

/// Description of a killed child.
fn described(router: &str) -> String {
    format!("the process of router {router}")
}

/// Returns true if this end was orderly, or by the engine's own SIGKILL.
fn is_in_order(how: &str) -> bool {
    [ENDED, KILLED].contains(&how)
}
